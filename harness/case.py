"""The case: a claim about a patch, as written in ``cases/<id>/case.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TypeVar

from harness.errors import BadInput
from harness.schema import parse_toml

FAMILIES = ("cpu", "cuda", "xpu", "rocm")
SCHEMA = 1
#: A week, in seconds.
LONGEST = 7 * 24 * 3600
_PLACE = re.compile(r"[^:\n]+\.py:[1-9][0-9]*")
_EXCEPTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_IMPORT_NAME = re.compile(r"[^\W\d]\w*")
_BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: Of a package, before its version: no set of characters as in a pattern.
_EXTRAS = re.compile(r"\[[\w.,-]+\](?=[=<>~!])")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLUGIN = re.compile(r"[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?==[0-9][\w.+!-]*")
PLATFORM = re.compile(r"(cpu|cuda|xpu|rocm)(-[a-z0-9._]+)?")
#: Of CUDA, HIP, ROCm, Level Zero and SYCL, in this order, and of NVIDIA's container runtime.
_DEVICE_VARIABLES = {
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "ONEAPI_DEVICE_SELECTOR",
    "NVIDIA_VISIBLE_DEVICES",
}
_T = TypeVar("_T")


class Role(StrEnum):
    """What the case claims of a node ID."""

    FLIP = "flip"
    CONTROL = "control"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """How the unpatched arm is declared to fail.

    ``exception`` is a bare or dotted type name, or a signal's name such as
    ``SIGSEGV`` for a crash. ``message`` must be contained in the measured one
    (numbers, addresses and temporary paths are levelled first); ``message_regex``
    is searched in it as it is. ``at`` is ``file.py:line`` of the frame that raised.
    ``while_loading`` declares that the test file itself cannot be loaded, as a
    test of a new symbol cannot.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - pydantic reads it, dataclass ignores it

    exception: str
    message: str = ""
    message_regex: str = ""
    at: str = ""
    while_loading: bool = False

    @property
    def file(self) -> str:
        """The path part of ``at``, or an empty string."""
        return self.at.rpartition(":")[0]

    @property
    def line(self) -> int:
        """The line part of ``at``, 1-based, or 0."""
        return int(self.at.rpartition(":")[2]) if self.at else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node ID, what is claimed of it, and on which platforms that differs."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    id: str
    role: Role
    signature: str = ""
    skip: dict[str, str] = field(default_factory=dict)
    role_on: dict[str, Role] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The test file of the node ID."""
        return self.id.partition("::")[0]

    def expected_skip(self, platform: str) -> str | None:
        """The declared skip reason on ``platform``, or None where it must run."""
        return _lookup(self.skip, platform)

    def role_at(self, platform: str) -> Role:
        """The role that is claimed on ``platform``."""
        return _lookup(self.role_on, platform) or self.role


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedUpstream:
    """What the case says of upstream: git blob IDs of files at ``rev``, by package path."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    rev: str
    blobs: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A whole ``case.toml``; ``id`` is the name of its folder."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    id: str
    schema: int
    title: str
    package: str
    patch: str
    tests: tuple[str, ...]
    nodes: tuple[Node, ...]
    images: tuple[str, ...]
    signatures: dict[str, Signature] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    platforms: tuple[str, ...] = FAMILIES
    source: str | None = None
    time_limit: int = 900
    env: dict[str, str] = field(default_factory=dict)
    owed: tuple[str, ...] = ()
    upstream: StatedUpstream | None = None
    tests_from: str = ""
    plugins: tuple[str, ...] = ()

    def signature_of(self, node: Node) -> Signature | None:
        """The declared failure of a flip node."""
        return self.signatures.get(node.signature)

    def fits(self, image: str) -> bool:
        """Whether the case can run in an image of this name or reference."""
        return image in self.images or any(fnmatchcase(image, p) for p in self.images)

    @property
    def default_image(self) -> str:
        """The first of ``images`` that is a name and no pattern, or an empty string."""
        return next((name for name in self.images if not _is_pattern(name)), "")


def _is_pattern(image: str) -> bool:
    """Whether it names many images; ``pypi:httpx[http2]==0.27.0`` names one."""
    return bool(set(_EXTRAS.sub("", image)) & set("*?["))


def family(platform: str) -> str:
    """The family of a platform key: ``cuda-sm90`` belongs to ``cuda``."""
    return platform.partition("-")[0]


def parse_case(text: str, *, case_id: str, where: str) -> Case:
    """Parse and check the text of a ``case.toml``.

    ``case_id`` is the folder's name and ``where`` the file's name for errors.

    Raises:
        BadInput: names the file, the key and the remedy, a line for each problem.
    """
    case = parse_toml(text, Case, where=where, extra={"id": case_id})
    problems = [f"{where}: {key}: {problem}" for key, problem in _problems(case)]
    if problems:
        raise BadInput("\n".join(problems))
    return case


def unsafe_path(path: str) -> str:
    """Say why a relative POSIX path may not be used, or return an empty string."""
    pure = PurePosixPath(path)
    if not pure.parts:
        return "names the folder itself: name what is in it"
    if "\\" in path or "\0" in path or "\n" in path:
        return "has a backslash, a line break or a NUL byte"
    if pure.is_absolute():
        return "must be relative to the case folder"
    if ".." in pure.parts:
        return "must not contain '..'"
    return ""


def _lookup(table: Mapping[str, _T], platform: str) -> _T | None:
    """Look a platform up by its exact key first, then by its family."""
    return table.get(platform, table.get(family(platform)))


def _problems(case: Case) -> Iterator[tuple[str, str]]:
    if case.schema != SCHEMA:
        yield "schema", f"{case.schema} is not known; this harness reads {SCHEMA}"
    if not _IMPORT_NAME.fullmatch(case.package):
        yield "package", f"{case.package!r} is not an import name (top level, no dots)"
    if not 0 < case.time_limit <= LONGEST:
        yield "time_limit", f"must be a number of seconds above 0, {LONGEST} at most"
    for key, values in (("tests", case.tests), ("nodes", case.nodes), ("images", case.images)):
        if not values:
            yield key, "must not be empty"
    for key, path in (("patch", case.patch), *(("tests", test) for test in case.tests)):
        if reason := unsafe_path(path):
            yield key, f"{path!r} {reason}"
    yield from _variable_problems(case.env)
    yield from _upstream_problems(case)
    for plugin in case.plugins:
        if not PLUGIN.fullmatch(plugin):
            yield "plugins", f"{plugin!r} is not pinned: write it as pytest-asyncio==1.2.0"
    for platform in case.platforms:
        if not PLATFORM.fullmatch(platform):
            yield "platforms", f"{platform!r} is not a platform such as cpu, cuda or cuda-sm90"
    for name, signature in case.signatures.items():
        for key, problem in _signature_problems(signature):
            yield f"signatures.{name}.{key}", problem
    yield from _node_problems(case)


def _variable_problems(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            yield f"env.{name}", "not a variable's name, or a value with a NUL byte"
        if name in _DEVICE_VARIABLES:
            yield f"env.{name}", "it chooses a device: that is for harness ab --device"


def _upstream_problems(case: Case) -> Iterator[tuple[str, str]]:
    if case.upstream is None:
        return
    if not case.upstream.rev.strip() or not case.upstream.rev.isprintable():
        yield "upstream.rev", "must say in one line what the blobs are of, such as 'main (2026-08)'"
    if not case.upstream.blobs:
        yield "upstream.blobs", "must not be empty; remove the table where nothing is known"
    for path, blob in case.upstream.blobs.items():
        top = PurePosixPath(path).parts[:1]
        if unsafe_path(path) or top not in ((case.package,), (f"{case.package}.py",)):
            yield f"upstream.blobs.{path!r}", f"write it as installed: {case.package}/…"
        if not _BLOB.fullmatch(blob):
            yield (
                f"upstream.blobs.{path!r}",
                f"{blob!r} is not a git blob ID (git rev-parse REV:PATH)",
            )


def _signature_problems(signature: Signature) -> Iterator[tuple[str, str]]:
    if not _EXCEPTION.fullmatch(signature.exception):
        yield "exception", f"{signature.exception!r} is not a type or signal name: it cannot match"
    if signature.exception == "SIGKILL":
        yield "exception", "SIGKILL comes from outside (memory, say) and is never a test's failure"
    if signature.message and signature.message_regex:
        yield "message_regex", "give either message or message_regex, not both"
    try:
        re.compile(signature.message_regex)
    except re.error as error:
        yield "message_regex", f"not a regular expression, so it cannot match: {error}"
    if signature.at and not _PLACE.fullmatch(signature.at):
        yield "at", f"{signature.at!r} is not 'path/file.py:LINE': it cannot match"


def _node_problems(case: Case) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    used: set[str] = set()
    for index, node in enumerate(case.nodes):
        key = f"nodes.{index}"
        used.add(node.signature)
        if escaped(node.id) in seen:
            yield f"{key}.id", f"duplicate node ID {node.id!r}; remove one"
        seen.add(escaped(node.id))
        if "::" not in node.id:
            yield f"{key}.id", f"{node.id!r} is not 'file.py::test'"
        elif str(PurePosixPath(node.file)) != node.file or "[" in node.file:
            yield f"{key}.id", f"its file {node.file!r} is not written as pytest does, or has a '['"
        elif not any(_within(node.file, path) for path in case.tests):
            yield f"{key}.id", f"its file {node.file!r} is not under 'tests'; add it there"
        if node.signature and node.signature not in case.signatures:
            yield f"{key}.signature", f"{node.signature!r} is not declared under [signatures]"
        flips = Role.FLIP in (node.role, *node.role_on.values())
        if flips and not node.signature:
            yield f"{key}.signature", "a flip must name the failure it is expected to show"
        if node.signature and not flips:
            yield f"{key}.signature", "a control passes in both arms: remove the signature"
        yield from _platform_problems(node, key)
    for name in case.signatures.keys() - used:
        yield f"signatures.{name}", "no node names it; remove it or set a node's signature"


def _platform_problems(node: Node, key: str) -> Iterator[tuple[str, str]]:
    for platform, reason in node.skip.items():
        if not reason.strip():
            yield f"{key}.skip.{platform}", "says no reason: any skip would fit it"
    for table, platforms in (("skip", node.skip), ("role_on", node.role_on)):
        for platform in platforms:
            if not PLATFORM.fullmatch(platform):
                yield f"{key}.{table}.{platform}", "not a platform such as cuda or cuda-sm90"


def escaped(node_id: str) -> str:
    """The node ID as pytest spells it, which escapes parameters that are not ASCII."""
    head, bracket, tail = node_id.partition("[")
    if tail.isascii():
        return node_id
    return head + bracket + tail.encode("unicode_escape").decode("ascii")


def _within(file: str, tests: str) -> bool:
    pure, root = PurePosixPath(file), PurePosixPath(tests)
    return pure == root or root in pure.parents
