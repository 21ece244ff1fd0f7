"""A case made of a change: written, scouted in the environment, and written again as measured."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness import evidence, store, targets, workflow
from harness.case import Role, unsafe_path
from harness.change import Proposal
from harness.draft import Draft, DraftNode, draft
from harness.draft_text import Head, case_text
from harness.engines import locking
from harness.errors import BadInput, EngineError
from harness.outcome import ArmStatus
from harness.parallel import Stop
from harness.plan import CaseFiles, Design, slug
from harness.progress import Progress
from harness.record import ArmEvidence, TargetEvidence
from harness.wheels import PREFIX

_OTHER_IMAGE = "Name an image that the change was made for: --image pypi:NAME==VERSION, say."


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A drafted case in its folder, and what was found on the way."""

    files: CaseFiles
    head: Head
    draft: Draft


def case_id(proposal: Proposal, wanted: str = "") -> str:
    """The id of the case to be written: the wanted one, else of package and diff.

    Raises:
        BadInput: the wanted one is no folder name.
    """
    if wanted:
        if unsafe_path(wanted) or "/" in wanted or wanted.startswith((".", "-")):
            raise BadInput(f"--id {wanted!r} is not a folder name", "Write it as click-2934, say.")
        return wanted
    name = slug(proposal.name).lower()
    return name if name.startswith(proposal.package) else slug(f"{proposal.package}-{name}").lower()


def with_image(proposal: Proposal, choice: targets.Choice, progress: Progress) -> targets.Choice:
    """The choice, with the package's newest release from wheels where no image was named.

    Raises:
        BadInput: there is no such package.
        EngineError: the index is out of reach.
    """
    named = choice.image or choice.python or any(host.image for host in choice.hosts)
    if named:
        return choice
    name = proposal.dist or proposal.package
    image = f"{PREFIX}{name}=={locking.newest(name)}"
    progress.step(f"draft: image {image}, the newest release; --image names another")
    return replace(choice, image=image)


def scout(
    proposal: Proposal,
    *,
    name: str,
    choice: targets.Choice,
    folder: Path,
    root: Path,
    progress: Progress,
    stop: Stop,
) -> Drafted:
    """Write the case ``name`` below ``folder``, drafted from a run of all its tests in both arms.

    The first host and device that are chosen are used.

    Raises:
        BadInput: the patch does not fit the image, or no test says anything.
        EngineError: the environment cannot be made, or an arm failed for its reasons.
    """
    head = _head(proposal, name, choice)
    placeholders = tuple(
        DraftNode(id=f"{file}::harness_draft", role=Role.CONTROL) for file in proposal.files
    )
    files = _write(proposal, head, Draft(nodes=placeholders, signatures={}), folder / name)
    row = targets.wanted(files.case, choice, root)[0]
    with targets.prepared([row], choice, progress=progress, stop=stop) as ready:
        target = ready[row.key]
        job = workflow.Job(
            files=files,
            nodes=tuple(node.id for node in placeholders),
            out=folder / "scouting",
            command=("harness", "draft"),
            design=Design(whole_files=True),
        )
        run = workflow.run(
            job, [target], cache=targets.cache_folder(), progress=progress, stop=stop
        )
    measured = evidence.load_run(run).targets[0]
    found = _drafted(proposal, measured)
    platform = _platform(measured)
    origin = f" {datetime.now(UTC):%Y-%m-%d} from a run on {platform}, {_shown(row.image.name)}"
    head = replace(head, platform=platform, origin=origin)
    files = _write(proposal, head, found, folder / name)
    return Drafted(files=files, head=head, draft=found)


def keep(drafted: Drafted, folder: Path, *, force: bool) -> None:
    """Put the drafted case at ``folder``.

    Raises:
        BadInput: there is something, and ``force`` is not given, or it is no case.
    """
    refuse_existing(folder, force=force)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
    try:
        shutil.copytree(drafted.files.folder, scratch / "case")
        if folder.exists():
            shutil.rmtree(folder)
        os.rename(scratch / "case", folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def refuse_existing(folder: Path, *, force: bool) -> None:
    """Refuse to write a case over what is there.

    Raises:
        BadInput: as ``keep``.
    """
    if not folder.exists() and not folder.is_symlink():
        return
    if not force:
        raise BadInput(f"{folder} is there already", "Choose another --id, or overwrite: --force.")
    if folder.is_symlink() or not (folder / "case.toml").is_file():
        raise BadInput(f"{folder} is no case: it is not overwritten", "Choose another --id.")


def _head(proposal: Proposal, name: str, choice: targets.Choice) -> Head:
    dist = proposal.dist or proposal.package
    hosts = tuple(host.image for host in choice.hosts if host.image)
    named = (choice.image,) if choice.image else hosts
    patterns = (f"{PREFIX}{dist}==*", f"{dist}-*")
    return Head(
        id=name,
        title=proposal.title,
        package=proposal.package,
        source=proposal.source,
        tests=tuple(proposal.tests),
        images=patterns if choice.python or not named else tuple(dict.fromkeys(named)),
    )


def _write(proposal: Proposal, head: Head, found: Draft, folder: Path) -> CaseFiles:
    """Write the case's folder and read it back, which checks it."""
    content = {
        "case.toml": case_text(head, found, proposal.left_out).encode(),
        "fix.patch": proposal.patch,
        **proposal.tests,
    }
    for name, data in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return store.load_case(folder)


def _drafted(proposal: Proposal, measured: TargetEvidence) -> Draft:
    before = _ran(measured.unpatched, measured, "unpatched")
    after = _ran(measured.patched, measured, "patched")
    found = draft(before.results, after.results, proposal.about)
    if not found.nodes:
        remarks = "\n".join(f"  - {remark}" for remark in found.remarks)
        raise BadInput(
            f"no test of the change passes with it in {_shown(measured.target.image)}, so there is "
            f"nothing to claim:\n{remarks}",
            _OTHER_IMAGE,
        )
    return found


def _ran(arm: ArmEvidence | None, measured: TargetEvidence, name: str) -> ArmEvidence:
    """The arm, if it says anything about the tests."""
    image = _shown(measured.target.image)
    if arm is None:
        raise EngineError(f"the {name} arm left nothing in {image}")
    record = arm.record
    if record.status is ArmStatus.PATCH_REJECTED:
        detail = (record.staging.message if record.staging else "") or record.reason
        raise BadInput(f"the change does not apply to {image}: {detail}", _OTHER_IMAGE)
    problems = "; ".join(arm.results.problems)
    if record.status is not ArmStatus.RAN or problems:
        raise EngineError(
            f"the {name} arm was {record.status} in {image}: {record.reason or problems}",
            "Try another image or engine, or fewer tests.",
        )
    return arm


def _platform(measured: TargetEvidence) -> str:
    arm = measured.unpatched
    return arm.record.probe.platform if arm and arm.record.probe else "cpu"


def _shown(image: str) -> str:
    """An image's name; of an interpreter only what it is, as its path says nothing to others."""
    return "the interpreter given" if image.startswith("/") else image


def summary(found: Drafted) -> Sequence[str]:
    """What the draft claims, in lines for people."""
    made = found.draft
    counts = (
        (len(made.of(Role.FLIP)), "flip", "fails unpatched, passes patched"),
        (len(made.of(Role.CONTROL)), "control", "passes in both"),
        (len(made.skipped), "skipped", "skipped in both"),
    )
    lines = [
        f"{number} {what}{'s' if number > 1 and what != 'skipped' else ''} ({meaning})"
        for number, what, meaning in counts
        if number
    ]
    return [*lines, *made.remarks]
