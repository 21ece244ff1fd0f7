"""Raw files of one arm (JUnit and journal) to outcomes by node ID.

JUnit is what is counted; the journal has what JUnit cannot say (exact exceptions and
places, what ran when a crash came) and must agree with it. Both come from code under
test, so nothing in them is trusted to be well-formed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from signal import Signals
from typing import Any

from harness.answers import portable
from harness.errors import JUnitError
from harness.junit import Document, read
from harness.outcome import ArmStatus, Outcome, worst
from harness.record import ArmRecord, ArmResults, Failure, NodeResult
from harness.schema import loads

_SIGNED = (Outcome.FAILED, Outcome.ERROR, Outcome.XFAILED)
#: What a journal's line says in words, which may name the arm's folder.
_WORDS = ("failure", "package", "reason", "skip_reason", "text")


@dataclass(slots=True)
class Journal:
    """What the recorder wrote, line by line, up to the end or to the crash."""

    collected: tuple[str, ...] = ()
    complete: bool = False
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    skips: dict[str, str] = field(default_factory=dict)
    load_errors: dict[str, Failure] = field(default_factory=dict)
    load_skips: dict[str, str] = field(default_factory=dict)
    selected: tuple[str, ...] = ()
    running: str = ""
    finished: bool = False
    package: str = ""
    imported: bool = False
    interrupt: Failure | None = None
    no_pytest: Failure | None = None
    no_pytest_under_test: bool = False


def read_journal(data: bytes, root: str = "") -> Journal:
    """Read a journal; a line that is cut off or strange is passed over.

    Where the arm's folder ``root`` is named there, the journal read has ``$ARM``.
    """
    journal = Journal()
    for event in _events(data):
        words = {key: portable(event[key], root) for key in _WORDS if key in event}
        _take(journal, event | words)
    return journal


def arm_results(record: ArmRecord, files: Mapping[str, bytes]) -> ArmResults:
    """Derive one arm's outcomes from its raw files ``junit.xml`` and ``journal.jsonl``."""
    journal = read_journal(files.get("journal.jsonl", b""), record.root)
    if journal.no_pytest is not None:
        return _without_pytest(journal)
    if "" in journal.load_errors:
        return ArmResults(nodes={}, load_errors=journal.load_errors)
    exit_code = record.exit_code or 0
    if record.status is ArmStatus.RAN and exit_code < 0 and not journal.complete:
        # Whatever was being imported then took the process along.
        return ArmResults(nodes={}, load_errors={"": _crash(exit_code)})
    problems: list[str] = []
    nodes: dict[str, NodeResult] = {}
    document = _junit(files, problems) if record.status is ArmStatus.RAN else None
    whole = journal.finished and journal.complete and not journal.running
    if document is not None and whole:
        outcomes = _from_junit(document, journal, problems)
        problems += _contradictions(record, document, journal, outcomes)
    else:
        outcomes = _unfinished(record, journal, problems)
    for node_id, outcome in outcomes.items():
        nodes[node_id] = NodeResult(
            node_id=node_id,
            outcome=outcome,
            failure=_failure(node_id, outcome, journal, record),
            skip_reason=journal.skips.get(node_id, ""),
        )
    problems += _own_tree(record, journal)
    return ArmResults(
        nodes=nodes,
        collected=journal.collected,
        load_errors=journal.load_errors,
        load_skips=journal.load_skips,
        problems=tuple(problems),
        complete=journal.complete,
    )


def _events(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        event = loads(line)
        if isinstance(event, dict):
            yield event


def _take(journal: Journal, event: dict[str, Any]) -> None:
    match event.get("event"):
        case "collected":
            journal.complete = True
            journal.collected = _texts(event.get("ids"))
            journal.selected = _texts(event.get("selected"))
            _take_origin(journal, event)
        case "load-error":
            failure = _to_failure(event.get("failure"))
            unknown = Failure(exception="unknown", message=_text(event.get("text")))
            journal.load_errors[_text(event.get("file"))] = failure or unknown
        case "load-skip":
            journal.load_skips[_text(event.get("file"))] = _text(event.get("reason"))
        case "test-start":
            journal.running = _text(event.get("id"))
        case "test-end":
            journal.running = ""
        case "interrupt":
            journal.interrupt = _to_failure(event.get("failure"))
        case "report":
            _take_report(journal, event)
        case "finish":
            journal.finished = True
            _take_origin(journal, event)
        case "pytest-failed":
            journal.no_pytest = _to_failure(event.get("failure"))
            journal.no_pytest_under_test = event.get("under_test") is True
        case _:
            pass


def _take_origin(journal: Journal, event: dict[str, Any]) -> None:
    journal.package = _text(event.get("package"))
    journal.imported = event.get("imported") is True


def _take_report(journal: Journal, event: dict[str, Any]) -> None:
    node_id = _text(event.get("id"))
    outcome = _report_outcome(event)
    if outcome is None:
        return
    before = journal.outcomes.get(node_id, outcome)
    journal.outcomes[node_id] = worst(before, outcome)
    failure = _to_failure(event.get("failure"))
    if failure is not None:
        journal.failures.setdefault(node_id, failure)
    if outcome is Outcome.SKIPPED:
        journal.skips[node_id] = _text(event.get("skip_reason"))


def _report_outcome(event: dict[str, Any]) -> Outcome | None:
    """The outcome that one phase's report stands for; None where it says nothing yet."""
    xfail = event.get("xfail") is not None
    match event.get("outcome"), event.get("when"):
        case "passed", "call":
            return Outcome.XPASSED if xfail else Outcome.PASSED
        case "skipped", _:
            return Outcome.XFAILED if xfail else Outcome.SKIPPED
        case "failed", "call":
            return Outcome.FAILED
        case "failed", _:
            return Outcome.ERROR
        case _:
            return None


def _junit(files: Mapping[str, bytes], problems: list[str]) -> Document | None:
    data = files.get("junit.xml")
    if data is None:
        return None
    try:
        return read([data], where="junit.xml")
    except JUnitError as error:
        problems.append(str(error))
        return None


def _from_junit(document: Document, journal: Journal, problems: list[str]) -> dict[str, Outcome]:
    """Outcomes as JUnit has them, a non-strict XPASS (a plain pass there) as the journal does."""
    outcomes = {}
    for key, outcome in document.outcomes.items():
        if key in document.module_skips:
            continue  # a whole file; the journal has it as a load-skip
        if key not in journal.outcomes:
            problems.append(f"JUnit has {key!r}, which the recorder did not see")
            continue
        xpassed = journal.outcomes[key] is Outcome.XPASSED and outcome is Outcome.PASSED
        outcomes[key] = Outcome.XPASSED if xpassed else outcome
    return outcomes


def _contradictions(
    record: ArmRecord, document: Document, journal: Journal, outcomes: Mapping[str, Outcome]
) -> list[str]:
    """Where JUnit, journal and pytest's exit status do not tell the same story."""
    found = []
    for node_id, outcome in journal.outcomes.items():
        if outcomes.get(node_id) is not outcome:
            there = outcomes.get(node_id, Outcome.MISSING)
            found.append(f"{node_id}: JUnit says {there}, the journal says {outcome}")
    red = bool(journal.load_errors) or any(
        outcome in (Outcome.FAILED, Outcome.ERROR) for outcome in outcomes.values()
    )
    expected = 1 if red else 0 if journal.selected else 5
    if record.exit_code != expected:
        found.append(f"pytest's exit status is {record.exit_code}, its JUnit needs {expected}")
    if not set(journal.selected) <= set(journal.outcomes):
        found.append("pytest finished, but not every selected test has a result")
    if document.exact is False and outcomes:
        found.append("JUnit has results without a node ID")
    return found


def _unfinished(record: ArmRecord, journal: Journal, problems: list[str]) -> dict[str, Outcome]:
    """Outcomes of a run that ended early: what ran keeps its outcome, the rest is not-run."""
    outcomes = dict(journal.outcomes)
    if record.status is ArmStatus.RAN and not journal.running and not journal.load_errors:
        problems.append(f"pytest left no complete results (exit status {record.exit_code})")
    if journal.running:
        ended = {ArmStatus.TIMED_OUT: Outcome.TIMEOUT, ArmStatus.RAN: Outcome.CRASHED}
        outcomes[journal.running] = ended.get(record.status, Outcome.NOT_RUN)
    for node_id in journal.selected:
        outcomes.setdefault(node_id, Outcome.NOT_RUN)
    return outcomes


def _failure(node_id: str, outcome: Outcome, journal: Journal, record: ArmRecord) -> Failure | None:
    if outcome is Outcome.CRASHED:
        return journal.interrupt or _crash(record.exit_code or 0)
    if outcome is Outcome.TIMEOUT:
        return Failure(exception="timeout", message=record.reason)
    return journal.failures.get(node_id) if outcome in _SIGNED else None


def _crash(exit_code: int) -> Failure:
    """A process that ended in the middle of a test: by a signal, or by its own exit."""
    if exit_code >= 0:
        return Failure(exception="exit", message=f"the test ended the process with {exit_code}")
    try:
        name = Signals(-exit_code).name
    except ValueError:
        name = f"SIG{-exit_code}"
    return Failure(exception=name, message=f"the test was ended by {name}")


def _own_tree(record: ArmRecord, journal: Journal) -> list[str]:
    """The tests must have imported the arm's own tree of the package, if they imported it."""
    if not (record.staging and journal.imported):
        return []
    path = portable(record.staging.package_path, record.root)
    if journal.package == path or journal.package.startswith(path.rstrip("/") + "/"):
        return []
    return [f"the tests imported {journal.package}, not the arm's own {path}"]


def _without_pytest(journal: Journal) -> ArmResults:
    """pytest itself did not start: the code under test's doing, or the environment's."""
    failure = journal.no_pytest
    assert failure is not None
    if journal.no_pytest_under_test:
        return ArmResults(nodes={}, load_errors={"": failure})
    return ArmResults(
        nodes={}, problems=(f"pytest does not start: {failure.exception}: {failure.message}",)
    )


def _to_failure(data: Any) -> Failure | None:
    if not isinstance(data, dict):
        return None
    line = data.get("line")
    return Failure(
        exception=_text(data.get("exception")),
        message=_text(data.get("message")),
        file=_text(data.get("file")),
        line=line if isinstance(line, int) else 0,
        phase=_text(data.get("phase")),
        frames=_texts(data.get("frames")),
        module=_text(data.get("module")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
