"""What rows are called: as briefly as tells them apart, and in full where there is the room."""

from __future__ import annotations

from collections.abc import Sequence

from harness.case import family
from harness.record import TargetRecord
from harness.verdict import Row

_FAMILY_NAMES = {"cpu": "CPU", "cuda": "CUDA", "xpu": "XPU", "rocm": "ROCm"}


def labels_and_names(rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A label for each row that no other has, and the same with the row's device."""
    named = list(zip(rows, _suffixes(rows), strict=True))
    labels = (f"{_short_platform(row)} {suffix}".strip() for row, suffix in named)
    return tuple(labels), tuple(full_name(row, suffix) for row, suffix in named)


def _suffixes(rows: Sequence[Row]) -> tuple[str, ...]:
    """What tells rows apart, beside their platforms, as briefly as that can be done.

    Nothing where platforms differ, then the host where any has a name, the engine, the image, and
    at last a number. A row of an unknown platform has nothing but its host, which is always said.
    """
    targets = [row.evidence.target for row in rows]
    engines = [t.engine for t in targets]
    hosts = [f"on {_host_words(t)}" for t in targets]
    images = [t.image for t in targets]
    plain = [host if _lost(row) else "" for host, row in zip(hosts, rows, strict=True)]
    ways = [(engines,), (hosts,), (engines, images), (hosts, images)]
    if any(target.host_name for target in targets):
        ways = [(hosts,), (engines, hosts), (hosts, images), (engines, hosts, images)]
    for parts in ((plain,), *ways):
        suffixes = [" ".join(words) for words in zip(*parts, strict=True)]
        if len({*zip(map(_short_platform, rows), suffixes, strict=True)}) == len(rows):
            return tuple(suffixes)
    last = zip(*ways[0], strict=True)
    return tuple(f"{' '.join(words)} (row {number})" for number, words in enumerate(last, 1))


def _lost(row: Row) -> bool:
    """Whether nothing was measured on a host that has a name."""
    return row.platform == "unknown" and bool(row.evidence.target.host_name)


def full_name(row: Row, suffix: str = "") -> str:
    """The device in front of what the row's label ends with; a named host is always said."""
    target = row.evidence.target
    on_host = f"on {target.host_name}" if target.host_name else ""
    if f" {on_host} " not in f" {suffix} ":
        suffix = f"{suffix} {on_host}".strip()
    return f"{_device_name(row)} {suffix}".strip()


def _device_name(row: Row) -> str:
    short_name = _short_platform(row)
    if not row.device:
        return short_name
    if family(row.platform) == "cpu":
        return f"CPU ({row.device})"
    return f"{row.device} ({short_name})"


def _short_platform(row: Row) -> str:
    name, _, detail = row.platform.partition("-")
    if name in ("cuda", "rocm") and detail:
        return detail
    return _FAMILY_NAMES.get(name, f"{row.platform or 'unknown'} platform")


def _host_words(target: TargetRecord) -> str:
    """The host as harness.toml or --host names it, else its own name; with the device asked for."""
    name = target.host_name or target.host or "an unknown host"
    return f"{name} {target.device}" if target.device else name
