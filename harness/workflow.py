"""The whole job on one screen: load, plan, run, write, read back, judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from harness import __version__, evidence, gaps, transfer
from harness.errors import BadInput, EvidenceMismatch, HarnessError
from harness.judge import judge_row
from harness.parallel import Stop, side_by_side
from harness.plan import CaseFiles, Design, sha256, slug, specs
from harness.progress import Progress, Stoppable
from harness.record import SCHEMA, RunRecord, TargetEvidence, TargetRecord
from harness.report import markdown
from harness.rows import RowRun
from harness.store import read_file
from harness.targets import Target, stop_all
from harness.upstream import Checkout
from harness.verdict import Report, Row, overall
from harness.wheels import is_wheels


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One case to be run on targets; ``nodes`` are those that -k left."""

    files: CaseFiles
    nodes: tuple[str, ...]
    out: Path
    command: tuple[str, ...]
    design: Design = field(default_factory=Design)
    upstream: Checkout | None = None


def run(
    job: Job, targets: Sequence[Target], *, cache: Path, progress: Progress, stop: Stop
) -> Path:
    """Run the arms on every target and return the evidence folder.

    Targets on one device take turns, others run side by side. Evidence is on disk as soon as it
    is fetched; an engine's fault ends a row, not the run.

    Raises:
        BadInput: the evidence folder cannot be made.
        EvidenceUnwritable: it cannot be written any more; what was written is kept.
        KeyboardInterrupt: what was fetched is kept.
    """
    folder = evidence.RunFolder.create(job.out, job.files, job.design.base)
    record = _run_record(job, targets, folder.path.name)
    folder.write_run(record)
    _write_locks(folder, targets)
    by_device: dict[str, list[RowRun]] = {}
    for target, entry in zip(targets, record.targets, strict=True):
        row = RowRun(
            files=job.files,
            nodes=job.nodes,
            design=job.design,
            target=target,
            entry=entry,
            folder=folder,
            cache=cache,
            progress=Stoppable(progress, stop),
        )
        by_device.setdefault(row.device, []).append(row)
    try:
        side_by_side(
            [partial(_in_turn, rows) for rows in by_device.values()],
            stop=stop,
            on_stop=lambda: stop_all([target.engine for target in targets]),
        )
        if job.upstream:
            record = _with_upstream(record, job.upstream, folder, progress)
        folder.write_run(replace(record, finished=_now()))
    finally:  # a run that is cut short says so by having no end
        folder.write_manifest()
    folder.write("report.md", markdown.render(assess([folder.path])).encode())
    return folder.path


def assess(folders: Sequence[Path], *, one_case: bool = False) -> Report:
    """Derive the report from evidence folders, and from nothing else.

    ``one_case`` refuses runs of more than one case.

    Raises:
        BadInput: evidence that cannot be read.
        EvidenceMismatch: runs of one case with different patches, tests or claims.
    """
    by_id = {run.record.run_id: run for run in map(evidence.load_run, reversed(folders))}
    runs = list(reversed(by_id.values()))  # a copy of a run is no second measurement
    _same_claim(runs)
    cases = sorted({run.record.case_id for run in runs})
    if one_case and len(cases) > 1:
        raise EvidenceMismatch(
            f"evidence of different cases: {', '.join(cases)}", "Make a table for each of them."
        )
    rows = tuple(_row(run, target) for run in runs for target in run.targets)
    return Report(overall=overall(rows), rows=rows, gaps=gaps.find(rows))


def _row(run: evidence.LoadedRun, target: TargetEvidence) -> Row:
    """A row's verdicts, and whether they transfer to upstream, where that can be said."""
    case, patch = run.files.case, run.files.patch
    row = judge_row(case, patch, run.record, target, folder=run.folder)
    if row.refused:
        return row
    return replace(row, transfer=transfer.of(case, patch, target, run.upstream))


def _write_locks(folder: evidence.RunFolder, targets: Sequence[Target]) -> None:
    """Keep what images from wheels were locked to: no repository has it."""
    images = {target.wanted.image.name: target.wanted.image for target in targets}
    for name, image in images.items():
        if is_wheels(name) and image.folder and image.lock:
            data = read_file(Path(image.folder) / image.lock.requirements)
            folder.write(f"images/{slug(name)}/{image.lock.requirements}", data)


def _with_upstream(
    record: RunRecord, checkout: Checkout, folder: evidence.RunFolder, progress: Progress
) -> RunRecord:
    """Keep upstream's version of the files that the result rests on, beside the arms'.

    The run stands without them: where git fails now, nothing was compared, which is a gap.
    """
    run = evidence.load_run(folder.path)
    case, patch = run.files.case, run.files.patch
    paths = dict.fromkeys(p for row in run.targets for p in transfer.paths(case, patch, row))
    try:
        files = checkout.take(paths)
    except HarnessError as error:
        progress.step(f"not compared with upstream: {error.problem}")
        return record
    for path, data in files.items():
        if data is not None:
            folder.write(f"upstream/{path}", data)
    digests = {path: sha256(data) if data is not None else "" for path, data in files.items()}
    return replace(record, upstream=replace(checkout.record, files=digests))


def _in_turn(rows: Sequence[RowRun]) -> None:
    for row in rows:
        row.run()


def _run_record(job: Job, targets: Sequence[Target], run_id: str) -> RunRecord:
    case = job.files.case
    return RunRecord(
        schema=SCHEMA,
        run_id=run_id,
        harness=__version__,
        command=job.command,
        started=_now(),
        finished="",
        case_id=case.id,
        patch_sha256=job.files.patch_sha256,
        tests_sha256=job.files.tests_sha256,
        case_sha256=sha256(job.files.toml),
        selected=job.nodes,
        deselected=tuple(node.id for node in case.nodes if node.id not in job.nodes),
        targets=tuple(
            TargetRecord(
                slug=_slug(number, target),
                image=target.wanted.image.name,
                engine=target.engine.name,
                engine_note=target.engine.isolation,
                host=target.environment.host if target.environment else "",
                host_name=_named(target),
                device=str(target.wanted.device or ""),
                claimed=target.wanted.claimed,
            )
            for number, target in enumerate(targets, 1)
        ),
        arms=specs(job.design, job.files.patch),
        whole_files=job.design.whole,
        base_tests=job.design.base.source if job.design.base else None,
        tests_from=job.files.tests_from,
        upstream=job.upstream.record if job.upstream else None,
    )


def _named(target: Target) -> str:
    """The host's name in harness.toml or on the command line; empty for this machine."""
    host = target.wanted.host
    return host.name if host.docker and target.engine.name != "local" else ""


def _slug(number: int, target: Target) -> str:
    """The name of a row's folder; an interpreter's path is of no use in it."""
    image = target.wanted.image.name
    short = Path(image).name if image.startswith("/") else image
    return slug(f"{number}-{_named(target) or target.engine.name}-{short}")


def _same_claim(runs: Sequence[evidence.LoadedRun]) -> None:
    """Rows of one case must be of the same patch, tests and claims."""
    first: dict[str, evidence.LoadedRun] = {}
    for run in runs:
        other = first.setdefault(run.record.case_id, run)
        for key, what in (
            ("patch_sha256", "patch"),
            ("tests_sha256", "tests"),
            ("case_sha256", "case.toml"),
            ("selected", "selection of node IDs"),
        ):
            if getattr(run.record, key) != getattr(other.record, key):
                raise EvidenceMismatch(
                    f"{run.folder} and {other.folder} were run with a different {what}",
                    "One table shows one claim: run the older one again, or leave it out.",
                )


def select(files: CaseFiles, expression: str) -> tuple[str, ...]:
    """The declared node IDs that a ``-k`` expression keeps, in declared order.

    Raises:
        BadInput: the expression cannot be read.
    """
    ids = tuple(node.id for node in files.case.nodes)
    if not expression:
        return ids
    from _pytest.mark.expression import Expression

    try:
        compiled = Expression.compile(expression)
    except SyntaxError as error:
        raise BadInput(
            f"-k {expression!r}: {error}", "Write it as for pytest: 'marlin and not prep'."
        ) from None

    def keeps(node_id: str) -> bool:
        return compiled.evaluate(lambda word, /, **_: word.lower() in node_id.lower())

    return tuple(node_id for node_id in ids if keeps(node_id))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
