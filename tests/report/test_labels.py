"""Rows are named as briefly as tells them apart."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from support.reports import CUDA_NODES, DOCKER, PROBE, cpu_row, cuda_row, report

from harness.record import TargetRecord
from harness.report import markdown, terminal
from harness.report.summary import groups
from harness.report.text import prose
from harness.verdict import Row, Verdict


def on(row: Row, **changes: object) -> Row:
    target: TargetRecord = replace(row.evidence.target, **changes)  # type: ignore[arg-type]
    return replace(row, evidence=replace(row.evidence, target=target))


def labels(*rows: Row) -> tuple[str, ...]:
    (group,) = groups(report(*rows))
    return group.labels


def test_the_platform_is_enough_where_it_differs() -> None:
    assert labels(cpu_row(), cuda_row()) == ("CPU", "sm90")


def test_a_named_host_then_the_engine_the_machine_and_the_image() -> None:
    assert labels(cuda_row(), on(cuda_row(), engine="local")) == ("sm90 docker", "sm90 local")
    assert labels(on(cuda_row(), host_name="lab"), cuda_row()) == (
        "sm90 on lab",
        f"sm90 on {DOCKER.host}",
    )
    named = (on(cuda_row(), host_name="lab"), on(cuda_row(), engine="local", host="desk"))
    assert labels(*named) == ("sm90 on lab", "sm90 on desk")
    same = [on(cuda_row(), host_name="lab", engine=engine) for engine in ("docker", "local")]
    assert labels(*same) == ("sm90 docker on lab", "sm90 local on lab")
    two = (on(cuda_row(), device="cuda:0"), on(cuda_row(), device="cuda:1"))
    assert labels(*two) == (f"sm90 on {DOCKER.host} cuda:0", f"sm90 on {DOCKER.host} cuda:1")
    images = (on(cuda_row(), image="a:1"), on(cuda_row(), image="a:2"))
    assert labels(*images) == ("sm90 docker a:1", "sm90 docker a:2")
    images = tuple(on(row, host_name="lab") for row in images)
    assert labels(*images) == ("sm90 on lab a:1", "sm90 on lab a:2")


def test_rows_that_nothing_tells_apart_are_numbered() -> None:
    assert labels(cuda_row(), cuda_row()) == ("sm90 docker (row 1)", "sm90 docker (row 2)")
    lab = on(cuda_row(), host_name="lab")
    assert labels(lab, lab) == ("sm90 on lab (row 1)", "sm90 on lab (row 2)")


def lost(host_name: str) -> Row:
    """A row whose host was never reached."""
    nodes = tuple(replace(n, verdict=Verdict.INFRA, confirmed=False) for n in CUDA_NODES)
    row = on(cuda_row(nodes, refused=("no such host",)), host_name=host_name, host="")
    nothing = replace(row.evidence, arms={})
    return replace(row, platform="unknown", device="", evidence=nothing)


def printed(*rows: Row, width: int = 140) -> str:
    out = io.StringIO()
    terminal.render(report(*rows), Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_a_host_that_was_never_reached_is_named_wherever_its_row_is() -> None:
    rows = (cpu_row(), lost("z"))
    assert labels(*rows) == ("CPU", "unknown platform on z")
    assert labels(lost("z")) == ("unknown platform on z",)
    text = markdown.render(report(*rows))
    assert "| unknown platform on z |" in text
    assert "; unknown platform on z: 3 infra" in text
    assert "- unknown platform on z: no such host" in text
    assert "| node ID | CPU | unknown platform on z |" in text
    for width in (80, 140):
        assert "unknown platform on z: engine docker" in printed(*rows, width=width)


def test_a_table_cell_ends_as_the_label_of_its_row_does() -> None:
    text = markdown.render(report(cpu_row(), on(cpu_row(), host="vm", device="cpu")))
    cell = f"CPU ({PROBE.device})"
    assert f"| {prose(f'{cell} on vm cpu')} |" in text
    twice = (on(cuda_row(), host_name="lab"), on(cuda_row(), host_name="lab"))
    text = markdown.render(report(*twice))
    assert f"| {prose('NVIDIA H200 (sm90) on lab (row 2)')} |" in text
    assert "NVIDIA H200 (sm90) on lab (row 2)" in printed(*twice)


def test_a_host_is_named_though_the_name_of_another_begins_alike() -> None:
    rows = [on(cpu_row(), host_name=name, image=name) for name in ("lab", "lab2")]
    (group,) = groups(report(*rows))
    assert [name.rpartition(" on ")[2] for name in group.names] == ["lab", "lab2"]


def test_a_named_host_stands_in_the_table() -> None:
    text = markdown.render(report(on(cuda_row(), host_name="lab")))
    assert "| NVIDIA H200 (sm90) on lab |" in text
