"""A case drafted from one run: what its tests did in both arms becomes what they are to do. Pure.

What a person has to decide is left to them, and said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.case import Role, Signature
from harness.outcome import Outcome
from harness.record import ArmResults, Failure
from harness.touched import name_of

#: Controls and remarks of a draft, at most; those beyond are counted.
LIMIT = 25
OWED = "the expected failure was drafted from a run, not declared beforehand"
_PLACE = re.compile(r"[^:\n]+\.py:[1-9][0-9]*")
_NAME = re.compile(r"[^\W\d]\w*")
#: The folders of an absolute path: another machine, or another engine, has others.
_PATH = re.compile(r"(?:\$ARM|(?<![\w.…/]))/(?:[^\s/'\":,;()<>]+/)+")
_MESSAGE = 160
_RED = (Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED)

#: By test file the names of the tests that the change is about; None means all of them.
About = Mapping[str, frozenset[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftNode:
    """One node ID of a draft; ``note`` becomes a comment above it."""

    id: str
    role: Role
    signature: str = ""
    skip: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a run makes of a change: nodes to declare, and what is left to a person."""

    nodes: tuple[DraftNode, ...]
    signatures: dict[str, Signature]
    remarks: tuple[str, ...] = ()

    def of(self, role: Role) -> tuple[DraftNode, ...]:
        """The nodes of one role that were not skipped."""
        return tuple(node for node in self.nodes if node.role is role and not node.skip)

    @property
    def skipped(self) -> tuple[DraftNode, ...]:
        """The nodes that were skipped in both arms."""
        return tuple(node for node in self.nodes if node.skip)


@dataclass(slots=True)
class _Drafting:
    """A draft that is being made."""

    before: ArmResults
    after: ArmResults
    flips: list[DraftNode] = field(default_factory=list)
    others: list[DraftNode] = field(default_factory=list)
    skipped: list[DraftNode] = field(default_factory=list)
    signatures: dict[str, Signature] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    unchanged: int = 0


def draft(before: ArmResults, after: ArmResults, about: About) -> Draft:
    """Make a draft of what an unpatched and a patched arm did.

    A test that fails unpatched and passes patched is a flip, also one whose own lines the change
    does not touch; tests of the change that pass in both arms are controls, skipped ones are
    declared as skipped. Whatever else became of a test is a remark.
    """
    making = _Drafting(before=before, after=after)
    ids = [*after.collected, *before.collected, *after.nodes, *before.nodes]
    for node_id in dict.fromkeys(ids):
        _take(making, node_id, _is_about(about, node_id))
    controls = making.others[:LIMIT]
    remarks = [*_load_errors(making), *making.remarks[:LIMIT]]
    if (more := len(making.others) - len(controls)) > 0:
        remarks.append(f"pass in both arms too, and are left out: {_tests(more)}")
    if (more := len(making.remarks) - LIMIT) > 0:
        remarks.append(f"are neither a flip nor a control either, and are left out: {_tests(more)}")
    if making.unchanged:
        remarks.append(f"not touched by the change, and left out: {_tests(making.unchanged)}")
    return Draft(
        nodes=(*making.flips, *controls, *making.skipped[:LIMIT]),
        signatures=making.signatures,
        remarks=tuple(remarks),
    )


def _is_about(about: About, node_id: str) -> bool:
    names = about.get(node_id.partition("::")[0], frozenset())
    return names is None or name_of(node_id) in names


def _take(making: _Drafting, node_id: str, own: bool) -> None:
    before, after = making.before.result(node_id), making.after.result(node_id)
    unloaded = before.outcome is Outcome.MISSING and making.before.load_error(node_id)
    outcomes = before.outcome, after.outcome
    note = "" if own else "its own lines are not changed: keep it if it is part of the claim"
    if after.outcome is Outcome.PASSED and (unloaded or before.outcome in _RED):
        if unloaded and not own:
            making.unchanged += 1
            return
        failure = unloaded or before.failure
        name = _signature(making, failure, loading=bool(unloaded))
        if name:
            node = DraftNode(id=node_id, role=Role.FLIP, signature=name, note=note)
            making.flips.append(node)
        else:
            making.remarks.append(f"{node_id}: {before.outcome} for no reason that can be declared")
    elif outcomes == (Outcome.PASSED, Outcome.PASSED):
        if own:
            making.others.append(DraftNode(id=node_id, role=Role.CONTROL))
        making.unchanged += not own
    elif outcomes == (Outcome.SKIPPED, Outcome.SKIPPED):
        if own:
            making.skipped.append(_skipped(node_id, after.skip_reason or before.skip_reason))
        making.unchanged += not own
    elif own or Outcome.PASSED in outcomes:
        making.remarks.append(f"{node_id}: {_became(making, node_id)}")
    else:
        making.unchanged += 1


def _skipped(node_id: str, reason: str) -> DraftNode:
    return DraftNode(
        id=node_id,
        role=Role.CONTROL,
        skip=_first_line(reason) or "skipped",
        note="its role could not be measured where it is skipped: state it",
    )


def _became(making: _Drafting, node_id: str) -> str:
    before, after = making.before.result(node_id), making.after.result(node_id)
    failure = after.failure or making.after.load_error(node_id) or before.failure
    why = f" ({_told(failure)})" if failure else ""
    if before.outcome is Outcome.PASSED and after.outcome in _RED:
        return f"a regression, passed unpatched and {after.outcome} patched{why}"
    if before.outcome is after.outcome:
        return f"{after.outcome} in both arms{why}"
    return f"{before.outcome} unpatched, {after.outcome} patched{why}"


def _load_errors(making: _Drafting) -> Iterator[str]:
    """Files that cannot be loaded in the patched arm: their tests are not known at all."""
    for file, failure in making.after.load_errors.items():
        where = "in both arms" if file in making.before.load_errors else "in the patched arm"
        remedy = ""
        if failure.exception.endswith("ModuleNotFoundError"):
            remedy = "; the image may lack it: --image pypi:NAME==VERSION,MORE brings it"
        yield f"{file or 'every file'}: cannot be loaded {where} ({_told(failure)}{remedy})"


def _told(failure: Failure) -> str:
    name = failure.exception.rpartition(".")[2]
    message = _PATH.sub("…/", _first_line(failure.message))
    return f"{name}: {message}" if message else name


def _signature(making: _Drafting, failure: Failure | None, *, loading: bool) -> str:
    """The name of the signature that this failure has; empty where none can be declared."""
    name = failure.exception.rpartition(".")[2] if failure else ""
    if failure is None or not _NAME.fullmatch(name) or name in ("SIGKILL", "unknown"):
        return ""
    place = failure.place
    wanted = Signature(
        exception=name,
        message=_stable(failure.message),
        at=place if _PLACE.fullmatch(place) else "",
        while_loading=loading,
    )
    for known, signature in making.signatures.items():
        if signature == wanted:
            return known
    stem = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
    stem = re.sub(r"[^a-z0-9-]+", "-", stem).strip("-") or "failure"
    number = 1 + sum(known.rstrip("0123456789-") == stem for known in making.signatures)
    chosen = stem if number == 1 else f"{stem}-{number}"
    making.signatures[chosen] = wanted
    return chosen


def _stable(message: str) -> str:
    """What of a message can be declared: its first line, up to an absolute path."""
    line = _first_line(message)
    found = _PATH.search(line)
    return line[: found.start()].rstrip(" '\"(") if found else line


def _first_line(text: str) -> str:
    """The first line of a text that says something, cut between words where it is long."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(line) <= _MESSAGE:
        return line
    return line[:_MESSAGE].rpartition(" ")[0] or line[:_MESSAGE]


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number} tests"
