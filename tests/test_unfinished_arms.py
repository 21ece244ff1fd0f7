"""Arms whose engine failed, or whose run was cut short: what is known of them is said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.golden import LocalEnvironments, Silent, Spec, write_case

from harness import evidence, store, workflow
from harness.engines.base import Environment, Sandbox
from harness.errors import EngineError
from harness.outcome import ArmStatus
from harness.parallel import Stop
from harness.record import ArmEvidence
from harness.report import markdown
from harness.verdict import Report, Row

LOST = EngineError("the connection is gone (refused)", "Check the host.")


class Cut:
    """A real engine whose sandboxes are lost when they come to run pytest."""

    def __init__(self, engine: Any, error: BaseException) -> None:
        self.engine, self.error = engine, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    @contextmanager
    def open(self, environment: Environment, *, label: str) -> Iterator[Any]:
        with self.engine.open(environment, label=label) as sandbox:
            yield _CutSandbox(sandbox, self.error)


class _CutSandbox:
    def __init__(self, sandbox: Sandbox, error: BaseException) -> None:
        self.sandbox, self.error = sandbox, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sandbox, name)

    def exec(self, argv: tuple[str, ...], **options: Any) -> Any:
        if any(word.endswith("/guest/run.py") for word in argv):
            raise self.error
        return self.sandbox.exec(argv, **options)


def run(tmp_path: Path, error: BaseException) -> Path:
    """Run a case until the error comes; return the run's folder."""
    target = LocalEnvironments(tmp_path, tmp_path / "cache").target(Spec())
    files = store.load_case(write_case(tmp_path / "case"))
    out = tmp_path / "out"
    job = workflow.Job(files=files, nodes=workflow.select(files, ""), out=out, command=("test",))
    cut = replace(target, engine=Cut(target.engine, error))  # type: ignore[arg-type]
    try:
        workflow.run(job, [cut], cache=tmp_path / "cache", progress=Silent(), stop=Stop())
    except type(error):
        assert not isinstance(error, EngineError)
    (folder,) = evidence.find_runs(out)
    return folder


def row_of(folder: Path) -> tuple[Report, Row]:
    report = workflow.assess([folder])
    (row,) = report.rows
    return report, row


def arms_of(row: Row) -> tuple[ArmEvidence, ArmEvidence]:
    assert row.evidence.unpatched
    assert row.evidence.patched
    return row.evidence.unpatched, row.evidence.patched


def test_an_arm_whose_engine_failed_says_all_that_was_known(tmp_path: Path) -> None:
    folder = run(tmp_path, LOST)
    report, row = row_of(folder)
    for arm in arms_of(row):
        record = arm.record
        assert record.status is ArmStatus.ENGINE_FAILED
        assert record.started >= row.run.started
        assert record.duration > 0
        assert record.probe
        assert record.staging
        assert {"probe.json", "stage.json", "output.log"} <= set(record.files)
        for name, digest in record.files.items():
            path = folder / row.evidence.target.slug / record.arm / name
            assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    assert row.platform == "cpu"
    assert row.refused == (
        "both arms: engine-failed: the connection is gone (refused). Check the host",
    )
    text = markdown.render(report)
    assert "- raw files of the patched arm (sha256):\n  - `" in text
    assert "engine-failed: the connection is gone (refused). Check the host" in text
    assert "unknown platform" not in text


def test_what_an_engine_that_failed_had_fetched_is_checked(tmp_path: Path) -> None:
    folder = run(tmp_path, LOST)
    _, row = row_of(folder)
    probe = folder / row.evidence.target.slug / "patched" / "probe.json"
    probe.write_text(json.dumps(json.loads(probe.read_text()) | {"device": "another"}))
    _, row = row_of(folder)
    assert "patched arm: probe.json: not as the arm left it" in row.refused


def test_old_evidence_of_a_failed_engine_is_read_as_it_was(tmp_path: Path) -> None:
    folder = run(tmp_path, LOST)
    for path in folder.glob("*/*/arm.json"):
        record = json.loads(path.read_text()) | {"files": {}, "probe": None, "staging": None}
        path.write_text(json.dumps(record))
        (path.parent / "journal.jsonl").write_text("{}\n")
    _, row = row_of(folder)
    assert len(row.refused) == 1
    assert "- raw files of" not in markdown.render(workflow.assess([folder]))


def test_an_arm_that_never_started_has_no_time_of_a_start(tmp_path: Path) -> None:
    folder = run(tmp_path, LOST)
    (path,) = folder.glob("*/patched/arm.json")
    record = json.loads(path.read_text())
    lost = {"started": "", "duration": 0.0, "files": {}, "probe": None, "staging": None}
    path.write_text(json.dumps(record | lost))
    text = markdown.render(workflow.assess([folder]))
    (started,) = [line for line in text.splitlines() if line.startswith("| started |")]
    assert started.endswith("| never |")
    assert "0.00 s" not in text


def test_an_interrupted_arm_says_so_and_how_far_it_came(tmp_path: Path) -> None:
    folder = run(tmp_path, KeyboardInterrupt())
    assert not list(folder.glob("*/*/arm.json"))
    assert list(folder.glob("*/unpatched/stage.json"))
    report, row = row_of(folder)
    arm = row.evidence.unpatched
    assert arm
    assert row.evidence.patched is None
    assert arm.record.status is ArmStatus.INTERRUPTED
    assert arm.record.staging
    assert row.platform == "cpu"
    assert row.refused[0] == "unpatched arm: interrupted before its end"
    assert {node.unpatched for node in row.nodes} == {"not-run"}
    text = markdown.render(report)
    assert "(interrupted before its end, no container) | **refused** (interrupted) |" in text
    assert "| status | interrupted before its end | – |" in text
    assert "never started" not in text
    assert "No arm left evidence" not in text
    assert "0.00 s" not in text
    assert "0 tests" not in text


@pytest.mark.parametrize("finished", [True, False])
def test_a_row_without_any_file_of_its_arms(tmp_path: Path, finished: bool) -> None:
    folder = run(tmp_path, KeyboardInterrupt())
    for path in folder.glob("*/*patched/*"):
        path.unlink()
    if finished:
        name = folder / "run.json"
        record = json.loads(name.read_text()) | {"finished": "2026-01-02T03:05:06+00:00"}
        name.write_text(json.dumps(record))
    text = markdown.render(workflow.assess([folder]))
    assert ("(never started, no container)" in text) is finished
    assert ("(interrupted before its end, no container)" in text) is not finished
    assert ("No arm left evidence: the run was interrupted" in text) is not finished
