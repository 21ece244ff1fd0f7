"""The one JSON document of a report: everything, exact and uncut, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from harness.ablation import Ablation
from harness.flips import FlipTable
from harness.flips import Node as FlipNode
from harness.junit_document import Detail
from harness.outcome import Outcome
from harness.record import ArmEvidence, Failure
from harness.repeats import Agreement
from harness.report import diffs
from harness.report.summary import image, staging_of
from harness.verdict import NodeVerdict, Report, Row

SCHEMA = "ab-harness/report/1"


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain data; the keys are a promise to other programs."""
    return {
        "schema": SCHEMA,
        "verdict": report.overall.value,
        "rows": [_row(row) for row in report.rows],
        "nodes": [
            _node(node, row, index) for index, row in enumerate(report.rows) for node in row.nodes
        ],
        "gaps": list(report.gaps),
        "evidence": list(dict.fromkeys(row.folder for row in report.rows)),
    }


def _diff_verdict(found: FlipTable) -> str:
    if found.worse:
        return "regression"
    return "inconclusive" if found.inconclusive else "no-regression"


def diff_document(found: FlipTable, before_name: str, after_name: str) -> dict[str, Any]:
    """Return two compared JUnit files as plain data, under the same keys as a report."""
    return {
        "schema": SCHEMA,
        "verdict": _diff_verdict(found),
        "rows": [
            {
                "platform": "",
                "device": "",
                "image": "",
                "engine": "",
                "unpatched": _counts(found.totals_before),
                "patched": _counts(found.totals_after),
                "flips": {flip.value: number for flip, number in found.counts.items()},
            }
        ],
        "nodes": [_diff_node(node) for node in found],
        "gaps": list(diffs.gaps(found)),
        "evidence": [before_name, after_name],
    }


def dumps(document: Mapping[str, Any]) -> str:
    """Write a document with a line for each row and node, in ASCII, so that any output takes it."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item) for item in value)
            parts.append(f"{json.dumps(key)}: [\n  {items}\n ]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def _row(row: Row) -> dict[str, Any]:
    identity, target = image(row), row.evidence.target
    return {
        "case": row.case.id,
        "platform": row.platform,
        "device": row.device,
        "image": f"{identity.name}@{identity.digest}" if identity.digest else identity.name,
        "image_details": plain(identity),
        "engine": target.engine,
        "engine_note": target.engine_note,
        "host": target.host,
        "host_name": target.host_name,
        "device_asked": target.device,
        "claimed": target.claimed,
        "unpatched": _counts(row.unpatched),
        "patched": _counts(row.patched),
        "refused": list(row.refused),
        "patch": _patch(row),
        "repeats": row.repeats,
        "ablation": _ablation(row.ablation),
        "old_tests": plain(row.drift),
        "a_a": _agreement(row.agreement),
        "undeclared": plain(row.others),
        "upstream": plain(row.transfer),
        "provenance": _provenance(row),
        "evidence": row.folder,
    }


def _ablation(found: Ablation | None) -> dict[str, Any] | None:
    if found is None:
        return None
    document: dict[str, Any] = plain(found)
    return document | {"unneeded": [hunk.number for hunk in found.unneeded]}


def _agreement(found: Agreement | None) -> dict[str, Any] | None:
    if found is None:
        return None
    document: dict[str, Any] = plain(found)
    return document | {"rate": found.rate, "upper": found.upper}


def _counts(counts: Mapping[Outcome, int]) -> dict[str, int]:
    return {outcome.value: counts[outcome] for outcome in Outcome if counts.get(outcome)}


def _patch(row: Row) -> dict[str, Any]:
    staging = staging_of(row)
    return {
        "sha256": row.run.patch_sha256,
        "state": staging.state if staging else "",
        "action": staging.action if staging else "",
        "tool": staging.tool if staging else "",
        "hunks": plain(staging.hunks) if staging else [],
        "message": staging.message if staging else "",
    }


def _provenance(row: Row) -> dict[str, Any]:
    run = plain(row.run)
    del run["targets"]
    evidence = row.evidence
    return {
        "run": run,
        "arms": {spec.name: _arm(evidence.arms.get(spec.name)) for spec in evidence.planned},
    }


def _arm(evidence: ArmEvidence | None) -> dict[str, Any] | None:
    if evidence is None:
        return None
    record: dict[str, Any] = plain(evidence.record)
    del record["arm"]
    results = evidence.results
    return record | {"collected": list(results.collected), "problems": list(results.problems)}


def _node(node: NodeVerdict, row: Row, index: int) -> dict[str, Any]:
    return {
        "case": row.case.id,
        "node_id": node.node_id,
        "platform": row.platform,
        "role": node.role.value,
        "unpatched": node.unpatched.value,
        "patched": node.patched.value,
        "verdict": node.verdict.value,
        "confirmed": node.confirmed,
        "reason": node.reason,
        "failure": _failure(node.failure),
        "patched_failure": _failure(node.patched_failure),
        "skip_reason": node.skip_reason,
        "runs": plain(node.runs),
        "row": index,
    }


def _diff_node(node: FlipNode) -> dict[str, Any]:
    return {
        "node_id": node.key,
        "platform": "",
        "role": "",
        "unpatched": node.before.value,
        "patched": node.after.value,
        "verdict": node.flip.value,
        "confirmed": not node.is_regression,
        "reason": diffs.reason(node),
        "failure": _detail(node.before, node.before_detail),
        "patched_failure": _detail(node.after, node.after_detail),
        "row": 0,
    }


def _detail(outcome: Outcome, detail: Detail | None) -> dict[str, Any] | None:
    if detail is None or outcome is Outcome.SKIPPED:
        return None
    return {"exception": detail.type, "message": detail.message, "at": "", "frames": []}


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "exception": failure.exception,
        "message": failure.message,
        "at": failure.place,
        "phase": failure.phase,
        "frames": list(failure.frames),
    }


def plain(value: Any) -> Any:
    """Turn records, enums and tuples into what JSON has."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
