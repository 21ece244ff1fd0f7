from __future__ import annotations

import json
from dataclasses import replace

from support import reports
from support.reports import MARLIN, PREP, TRITON, cpu_row

from harness.report import jsondoc


def test_the_keys_that_other_programs_read() -> None:
    doc = json.loads(jsondoc.dumps(jsondoc.document(reports.confirmed())))
    assert list(doc) == ["schema", "verdict", "rows", "nodes", "gaps", "evidence"]
    assert doc["schema"] == "ab-harness/report/1"
    assert doc["verdict"] == "confirmed"
    row = doc["rows"][0]
    assert row["platform"] == "cpu"
    assert row["unpatched"] == {"passed": 1, "failed": 1, "skipped": 1}
    assert row["patched"] == {"passed": 2, "skipped": 1}
    assert row["engine"] == "local"
    assert row["image"] == "example-cpu-0.27.0@sha256:" + "1f" * 32
    assert row["image_details"]["note"].endswith("no container")
    assert row["refused"] == []
    assert row["patch"]["state"] == "clean"
    assert row["patch"]["action"] == "applied"
    assert row["patch"]["hunks"][0] == {"file": "example/oracle.py", "number": 1, "offset": 0}
    assert row["provenance"]["run"]["command"][:2] == ["harness", "ab"]
    arm = row["provenance"]["arms"]["unpatched"]
    assert arm["exit_code"] == 1
    assert arm["collected"] == [MARLIN, PREP, TRITON]
    assert doc["evidence"] == [row["evidence"] for row in doc["rows"]]


def test_every_node_has_the_promised_keys() -> None:
    doc = jsondoc.document(reports.confirmed())
    first = doc["nodes"][0]
    assert first == {
        "case": "example-1",
        "node_id": MARLIN,
        "platform": "cpu",
        "role": "flip",
        "unpatched": "failed",
        "patched": "passed",
        "verdict": "flip-confirmed",
        "confirmed": True,
        "reason": first["reason"],
        "failure": {
            "exception": "TypeError",
            "message": reports.MESSAGE,
            "at": "example/utils/marlin_utils.py:378",
            "phase": "call",
            "frames": list(reports.RED.frames),
        },
        "patched_failure": None,
        "skip_reason": "",
        "runs": None,
        "row": 0,
    }
    assert [node["row"] for node in doc["nodes"]] == [0, 0, 0, 1, 1, 1]
    assert [node["node_id"] for node in doc["nodes"]][:3] == [MARLIN, PREP, TRITON]


def test_texts_are_exact_but_ascii_on_the_wire() -> None:
    text = "é 日本語 \x1b[31m \u202e \ud800 </script>"
    nodes = (replace(cpu_row().nodes[0], node_id=text, reason=text),)
    written = jsondoc.dumps(jsondoc.document(reports.report(cpu_row(nodes))))
    assert written.isascii()
    assert "\x1b" not in written
    assert json.loads(written)["nodes"][0]["node_id"] == text


def test_no_rows() -> None:
    doc = json.loads(jsondoc.dumps(jsondoc.document(reports.report())))
    assert doc["rows"] == doc["nodes"] == doc["gaps"] == doc["evidence"] == []


def test_an_arm_that_never_started() -> None:
    row = cpu_row(refused=("no evidence",))
    row = replace(row, evidence=replace(row.evidence, arms={}))
    found = jsondoc.document(reports.report(row))["rows"][0]
    assert found["image"] == "example-cpu-0.27.0"
    assert found["patch"]["state"] == ""
    assert found["provenance"]["arms"] == {"unpatched": None, "patched": None}
