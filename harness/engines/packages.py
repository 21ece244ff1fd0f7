"""Packages as the user's own pip gets them: its settings handed on to uv, and whole locks fetched.

No index and no host is named here. A machine behind a mirror, with a folder of wheels or with its
own certificates is set up once, for pip, and that counts for everything that is installed here.
"""

from __future__ import annotations

import ast
import html
import importlib.metadata
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from harness.engines.base import OnStep
from harness.engines.commands import Ended, plain, run_all
from harness.errors import EngineError

#: pip processes at once, measured with 56 wheels on 2 cores: 1 takes 16 s, 4 take 9, 8 take 17.
CHUNKS = 4
#: glibc minors whose wheels are taken, the preferred ones first: an image is rarely older than
#: 2.28, and a newer wheel is better than none.
_GLIBC = (*range(28, 4, -1), *range(29, 40))
_PIN = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;\\]+)")
_SECTIONS = ("global", "download", "install", ":env:")  # the later one wins
#: Variables that would change which wheels a lock stands for, or where they go.
_UNWANTED = re.compile(
    r"PIP_(REQUIREMENT|NO_BINARY|PLATFORM|PYTHON_VERSION|IMPLEMENTATION|ABI|PRE|QUIET|VERBOSE)"
    r"|UV_(NO_VERIFY_HASHES|REQUIRE_HASHES|CONSTRAINT|OVERRIDE|EXCLUDE\w*|NO_BINARY\w*|NO_BUILD\w*"
    r"|PYTHON|SYSTEM_PYTHON|PROJECT|WORKING_DIR\w*|COMPILE_BYTECODE|TORCH_BACKEND|LINK_MODE)"
    r"|VIRTUAL_ENV"
)
_TRUE = ("1", "true", "yes", "on", "y", "t")
REMEDY = (
    "Check the network and pip's settings (pip config list), or put the missing wheel into a "
    "folder and name that folder in PIP_FIND_LINKS."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipSettings:
    """What the user's pip is configured to install from; addresses may hold credentials."""

    index_url: str = field(default="", repr=False)
    extra_index_urls: tuple[str, ...] = field(default=(), repr=False)
    find_links: tuple[str, ...] = field(default=(), repr=False)
    trusted_hosts: tuple[str, ...] = ()
    cert: str = ""
    proxy: str = field(default="", repr=False)
    no_index: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One requirement of a lock; ``text`` is its line, with the hashes."""

    name: str
    version: str
    text: str


def pip_settings() -> PipSettings:
    """Ask pip for its configuration: its files, and ``PIP_*`` variables over them.

    Raises:
        EngineError: pip does not run.
    """
    argv = [*_pip(), "config", "list"]
    (ended,) = run_all([argv], env=os.environ, time_limit=120)
    if ended.code:
        raise EngineError(
            f"pip does not tell its settings:\n{ended.last_words()}",
            "Install pip beside harness, or correct pip's configuration file.",
        )
    return parse_settings("\n".join(ended.lines))


def parse_settings(text: str) -> PipSettings:
    """Read what ``pip config list`` prints; lines that are no setting are passed over."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        section, _, name = key.strip().rpartition(".")
        if equals and section in found:
            found[section][name.lower().replace("_", "-")] = _literal(value.strip())
    merged: dict[str, str] = {}
    for section in _SECTIONS:
        merged |= {name: value for name, value in found[section].items() if value}
    return PipSettings(
        index_url=merged.get("index-url", ""),
        extra_index_urls=tuple(merged.get("extra-index-url", "").split()),
        find_links=tuple(_absolute(link) for link in merged.get("find-links", "").split()),
        trusted_hosts=tuple(merged.get("trusted-host", "").split()),
        cert=merged.get("cert", ""),
        proxy=merged.get("proxy", ""),
        no_index=merged.get("no-index", "").lower() in _TRUE,
    )


def uv_program() -> str:
    """The path of uv's program, as our dependency brought it.

    Raises:
        EngineError: it is not installed.
    """
    import uv

    try:
        return str(uv.find_uv_bin())
    except FileNotFoundError as error:
        raise EngineError("uv's program is missing", "Install it: pip install uv") from error


def uv_argv(settings: PipSettings) -> list[str]:
    """The flags that make uv install from where pip would.

    Every candidate of every index is looked at, as pip does. What is installed is pinned by hash;
    what is locked (locking.py) is as good as the indexes that the user's pip is told to trust.
    """
    flags = ["--index-strategy", "unsafe-best-match"]
    if settings.no_index:
        flags.append("--no-index")
    else:
        flags += ["--default-index", settings.index_url] if settings.index_url else []
        flags += [part for url in settings.extra_index_urls for part in ("--index", url)]
    for link in settings.find_links:
        if "://" in link or Path(link).exists():  # pip warns of a missing folder, uv would stop
            flags += ["--find-links", link]
    return [*flags, *(f"--allow-insecure-host={host}" for host in settings.trusted_hosts)]


def uv_environment(settings: PipSettings) -> dict[str, str]:
    """The environment for uv: the user's, less what would change what a lock means."""
    env = _wanted(os.environ) | {"NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
    if settings.cert:
        env.setdefault("SSL_CERT_FILE", settings.cert)
    for name in ("HTTPS_PROXY", "HTTP_PROXY") if settings.proxy else ():
        if name.lower() not in env:
            env.setdefault(name, settings.proxy)
    return env


def parse_lock(text: str) -> list[Pin]:
    """The requirements of a lock, each with its hashes.

    Raises:
        EngineError: a line is not a requirement that is pinned with ``==``.
    """
    pins = []
    for line in re.sub(r"\\\r?\n", " ", text).splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        if not line:
            continue
        pin = _PIN.match(line)
        if pin is None:
            raise EngineError(
                f"the lock has a line that pins nothing: {plain(line)[:80]}",
                "Make it again with `uv pip compile --generate-hashes`.",
            )
        pins.append(Pin(name=_normal(pin[1]), version=pin[2], text=line))
    return pins


def download_wheels(
    requirements: Path,
    python: str,
    folder: Path,
    torch_backend: str,
    on_step: OnStep,
    *,
    machine: str = "x86_64",
) -> None:
    """Fetch every wheel of a hashed lock, and uv's own, for Linux on ``machine`` into ``folder``.

    pip itself does it, with the user's configuration, and checks each wheel against the lock.
    ``python`` is the version that the wheels are for. A pin with a local version (torch's
    ``+cpu``) that pip does not find is looked for in the index that uv knows for
    ``torch_backend``.

    Raises:
        EngineError: a wheel cannot be had, with pip's last words and the remedy.
    """
    pins = parse_lock(requirements.read_text(encoding="utf-8"))
    local = [pin for pin in pins if "+" in pin.version]
    public = [pin for pin in pins if "+" not in pin.version]
    fetch = _Fetch(python=python, folder=folder, machine=machine, on_step=on_step, total=len(pins))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="harness-lock-") as scratch:
        fetch.temporary = scratch
        parts = [part for n in range(CHUNKS) if (part := public[n::CHUNKS])]
        lists = [_write(Path(scratch, f"{n}.txt"), part) for n, part in enumerate(parts)]
        lists += [apart := _write(Path(scratch, "local.txt"), local)] if local else []
        ended = fetch.run([[f"uv=={importlib.metadata.version('uv')}"], *map(_hashed, lists)])
        failed = [end for end in ended if end.code != 0]
        if failed == [ended[-1]] and local and torch_backend:
            on_step(f"looking for {local[0].name} {local[0].version} in uv's {torch_backend} index")
            page = _backend_page(apart, python, machine, torch_backend)
            again = [*_hashed(apart), "--find-links", str(page)]
            failed = [end for end in fetch.run([again]) if end.code != 0]
    if failed:
        raise EngineError(f"pip cannot fetch the wheels:\n{failed[0].last_words()}", REMEDY)
    _check_complete(pins, folder)


@dataclass(slots=True, kw_only=True)
class _Fetch:
    """Runs of ``pip download`` into one folder, with the count of wheels begun so far."""

    python: str
    folder: Path
    machine: str
    on_step: OnStep
    total: int
    begun: int = -1  # uv's own wheel is not of the lock
    temporary: str = ""  # pip's own files: it cannot remove them when it is killed

    def run(self, what: Sequence[Sequence[str]]) -> list[Ended]:
        # A constraints file of the user's must not contradict a lock: the hashes decide.
        env = _wanted(os.environ) | {"PIP_CONSTRAINT": os.devnull, "PIP_NO_INPUT": "1"}
        env |= {"TMPDIR": self.temporary} if self.temporary else {}
        commands = [[*self._command(), *arguments] for arguments in what]
        return run_all(commands, env=env, on_line=self._line)

    def _command(self) -> list[str]:
        tags = [f"manylinux_2_{minor}_{self.machine}" for minor in _GLIBC]
        platforms = [*tags, f"manylinux2014_{self.machine}", f"linux_{self.machine}"]
        return [
            *_pip(),
            "download",
            *("--no-deps", "--only-binary", ":all:", "--progress-bar", "off"),
            *("--disable-pip-version-check", "--python-version", self.python),
            *(f"--platform={platform}" for platform in platforms),
            *("--dest", str(self.folder)),
        ]

    def _line(self, line: str) -> None:
        if match := re.match(r"(?:Collecting|Processing) (\S+)", line):
            self.begun += 1
            name = plain(match[1].rpartition("/")[2])
            self.on_step(f"fetching wheel {min(self.begun, self.total)} of {self.total}: {name}")


def _pip() -> list[str]:
    return [sys.executable, "-P", "-m", "pip"]  # -P: not a module of the current folder


def _hashed(requirements: Path) -> list[str]:
    return ["--require-hashes", "-r", str(requirements)]


def _backend_page(requirements: Path, python: str, machine: str, backend: str) -> Path:
    """A page of links to the wheels that uv finds in the index of a torch backend.

    uv knows these indexes but does not download wheels; pip does, and knows no such index.
    """
    settings = pip_settings()
    out, page = requirements.with_name("pylock.toml"), requirements.with_name("links.html")
    argv = [uv_program(), "pip", "compile", str(requirements), "--no-deps", "--quiet"]
    argv += ["--python-version", python, "--python-platform", f"{machine}-manylinux_2_28"]
    argv += ["--torch-backend", backend, "--format", "pylock.toml", "-o", str(out)]
    argv += uv_argv(settings)
    env = uv_environment(settings)
    (ended,) = run_all([argv], env=env, cwd=str(requirements.parent), time_limit=300)
    if ended.code != 0:
        raise EngineError(f"uv cannot find the wheel either:\n{ended.last_words()}", REMEDY)
    found = tomllib.loads(out.read_text(encoding="utf-8"))["packages"]
    links = [
        f'<a href="{html.escape(wheel["url"])}">'  # the lock has the hash
        f"{html.escape(unquote(wheel['url'].rpartition('/')[2]))}</a>"
        for package in found
        for wheel in package.get("wheels", ())
        if "url" in wheel
    ]
    page.write_text("<!doctype html>\n" + "\n".join(links), encoding="utf-8")
    return page


def _check_complete(pins: Sequence[Pin], folder: Path) -> None:
    have = {_normal(wheel.name.partition("-")[0]) for wheel in folder.glob("*.whl")}
    if missing := [pin.name for pin in pins if pin.name not in have]:
        raise EngineError(f"pip left wheels out: {', '.join(missing)}", REMEDY)


def _write(path: Path, pins: Sequence[Pin]) -> Path:
    path.write_text("".join(f"{pin.text}\n" for pin in pins), encoding="utf-8")
    return path


def _wanted(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not _UNWANTED.fullmatch(name)}


def _literal(text: str) -> str:
    """pip prints each value as a Python literal."""
    try:
        return str(ast.literal_eval(text)).strip()
    except (ValueError, SyntaxError):
        return text


def _absolute(link: str) -> str:
    """A folder by its whole path: uv does not run where the user does."""
    is_address = "://" in link or link.startswith("file:")
    return link if is_address else str(Path(link).expanduser().absolute())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
