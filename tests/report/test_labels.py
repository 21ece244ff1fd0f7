"""Rows are named as briefly as tells them apart."""

from __future__ import annotations

from dataclasses import replace

from support.reports import DOCKER, cpu_row, cuda_row, report

from harness.record import TargetRecord
from harness.report import markdown
from harness.report.summary import groups
from harness.verdict import Row


def on(row: Row, **changes: object) -> Row:
    target: TargetRecord = replace(row.evidence.target, **changes)  # type: ignore[arg-type]
    return replace(row, evidence=replace(row.evidence, target=target))


def labels(*rows: Row) -> tuple[str, ...]:
    (group,) = groups(report(*rows))
    return group.labels


def test_the_platform_is_enough_where_it_differs() -> None:
    assert labels(cpu_row(), cuda_row()) == ("CPU", "sm90")


def test_the_engine_then_the_host_then_the_image() -> None:
    assert labels(cuda_row(), on(cuda_row(), engine="local")) == ("sm90 docker", "sm90 local")
    assert labels(on(cuda_row(), host_name="lab"), cuda_row()) == (
        "sm90 on lab",
        f"sm90 on {DOCKER.host}",
    )
    two = (on(cuda_row(), device="cuda:0"), on(cuda_row(), device="cuda:1"))
    assert labels(*two) == (f"sm90 on {DOCKER.host} cuda:0", f"sm90 on {DOCKER.host} cuda:1")
    images = (on(cuda_row(), image="a:1"), on(cuda_row(), image="a:2"))
    assert labels(*images) == ("sm90 docker a:1", "sm90 docker a:2")


def test_rows_that_nothing_tells_apart_are_numbered() -> None:
    assert labels(cuda_row(), cuda_row()) == ("sm90 docker (row 1)", "sm90 docker (row 2)")


def test_a_named_host_stands_in_the_table() -> None:
    text = markdown.render(report(on(cuda_row(), host_name="lab")))
    assert "| NVIDIA H200 (sm90) on lab |" in text
