"""What a comparison with upstream found, file by file, and the sentences that follow from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

#: Names in a list, before the rest is counted; digits of a blob ID in a sentence.
_NAMED = 5
SHORT = 12


class Why(StrEnum):
    """What a file has to do with the result."""

    FAILURE = "failure"
    PATCH = "patch"
    BOTH = "failure and patch"


class Match(StrEnum):
    """How a file of the unpatched arm compares with upstream's.

    ``patched``: upstream has it as the patch leaves it. ``absent``: upstream has no such file.
    ``unknown``: one of the two is not known.
    """

    IDENTICAL = "identical"
    PATCHED = "patched"
    DIFFERS = "differs"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferFile:
    """One file, its path relative to the folder that holds the package.

    ``blob`` is its git blob ID in the unpatched arm, ``upstream_blob`` the one upstream; empty
    where there is no such file or nothing is known. ``added`` and ``removed`` are by how many lines
    upstream's differs (None: not counted); ``against`` says which revision that is.
    """

    path: str
    why: Why
    match: Match
    against: str = ""
    blob: str = ""
    upstream_blob: str = ""
    added: int | None = None
    removed: int | None = None

    @property
    def passed(self) -> bool:
        """Whether a failure passes through it."""
        return self.why is not Why.PATCH

    @property
    def difference(self) -> str:
        """``+3 −1 lines``, or an empty string where lines were not counted."""
        return "" if self.added is None else f"+{self.added} −{self.removed} lines"


def sentence(files: tuple[TransferFile, ...], fixed: bool) -> str:
    """What follows for the reader; empty where nothing is known."""
    if all(file.match is Match.UNKNOWN for file in files):
        return ""
    told = _Names(files)
    sentences = [*_of_failure(files, told), *_of_patch(files, told)]
    if fixed:
        sentences.append("The image has the fix: its files were compared with the patch taken out.")
    return " ".join(sentences)


def _of_failure(files: tuple[TransferFile, ...], told: _Names) -> Iterator[str]:
    """Of the files that the failure passes through."""
    passed = [file for file in files if file.passed]
    differing = [file for file in passed if file.match in (Match.DIFFERS, Match.ABSENT)]
    groups: dict[str, list[TransferFile]] = {}
    for file in passed:
        if file.match is Match.IDENTICAL:
            groups.setdefault(file.against, []).append(file)
    for against, same in groups.items():
        conclusion = ""
        if not differing and against == list(groups)[-1]:
            conclusion = ", so the failure transfers"
            if any(file.match is Match.UNKNOWN for file in passed):
                conclusion += (
                    f" as far as {'this file goes' if len(same) == 1 else 'these files go'}"
                )
        blobs = _listed([file.blob[:SHORT] for file in same])
        word = "git blob" if len(same) == 1 else "git blobs"
        names = _listed([told(file) for file in same])
        yield f"{names}: byte-identical with upstream at {against} ({word} {blobs}){conclusion}."
    for file in differing:
        yield (
            f"{told(file)}, which the failure passes through, {_difference(file)}: "
            "the result may not transfer."
        )


def _of_patch(files: tuple[TransferFile, ...], told: _Names) -> Iterator[str]:
    """Of the files that the patch touches, beside what the failure's sentences say of them."""
    parts = []
    for file in files:
        if file.match is Match.PATCHED:
            parts.append(
                f"{told(file)} is at {file.against} as the patch leaves it: upstream has the fix"
            )
        elif file.why is Why.PATCH and file.match is not Match.UNKNOWN:
            parts.append(f"{told(file)} {_difference(file)}")
    if parts:
        yield f"Patched files: {'; '.join(parts)}."


def _difference(file: TransferFile) -> str:
    if file.match is Match.IDENTICAL and not file.blob:
        return f"is new to upstream at {file.against} too"
    if file.match is Match.IDENTICAL:
        return f"is byte-identical with upstream at {file.against} (git blob {file.blob[:SHORT]})"
    if file.match is Match.ABSENT:
        return f"is not in upstream at {file.against}"
    size = f" by {file.difference}" if file.difference else ""
    return f"differs from upstream at {file.against}{size}"


class _Names:
    """The files' names, as short as they tell one from another."""

    def __init__(self, files: tuple[TransferFile, ...]) -> None:
        self.short = Counter(file.path.rpartition("/")[2] for file in files)

    def __call__(self, file: TransferFile) -> str:
        name = file.path.rpartition("/")[2]
        return name if self.short[name] == 1 and name != "__init__.py" else file.path


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def gaps_of(files: Sequence[TransferFile]) -> Iterator[str]:
    """What differs from upstream, a line each, and what was not compared."""
    for file in files:
        rests = "the failure passes through it" if file.passed else "the patch touches it"
        if file.match is Match.DIFFERS:
            by = f" by {file.difference}" if file.difference else ""
            yield f"{file.path} differs from upstream at {file.against}{by}, and {rests}"
        elif file.match is Match.ABSENT:
            yield f"{file.path} is not in upstream at {file.against}, and {rests}"
    unknown = [file.path for file in files if file.match is Match.UNKNOWN]
    if unknown:
        yield f"not compared with upstream: {_listed(unknown)}"
