"""pytest plugin: ``pytest cases`` runs each case and shows every declared node ID as an item.

Registered as the entry point ``ab-harness``. A case's arms run once, however many of its
items are selected and on however many pytest-xdist workers they are.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from harness.verdict import NodeVerdict, Report

_SHARED = "AB_HARNESS_PYTEST_SHARED"
_MADE = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of ``harness ab`` that make sense here."""
    group = parser.getgroup("harness", "A/B cases (case.toml)")
    group.addoption("--harness-image", metavar="NAME_OR_REF", help="run all cases in this image")
    group.addoption(
        "--harness-engine",
        choices=("auto", "docker", "local"),
        default="auto",
        help="what starts the environment (default: auto)",
    )
    group.addoption("--harness-python", metavar="PATH", help="use this interpreter's environment")
    group.addoption(
        "--harness-host",
        metavar="NAME[=URL]",
        action="append",
        default=[],
        help="make a row on this Docker host, as harness ab --host does; several times",
    )
    group.addoption(
        "--harness-device",
        metavar="DEVICE",
        action="append",
        default=[],
        help="use this device, as harness ab --device does; several times",
    )
    group.addoption(
        "--harness-allow-moved-tag",
        action="store_true",
        help="run what the image's tag names now, though another digest is pinned",
    )
    group.addoption(
        "--harness-repeat",
        metavar="N",
        type=int,
        default=1,
        help="run each arm N times in turn; a test whose runs disagree is unstable, and fails",
    )
    group.addoption("--harness-out", metavar="DIR", help="where evidence goes (default: reports/)")


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder through which xdist's workers share one run."""
    if config.getoption("--harness-repeat") < 1:
        raise pytest.UsageError("--harness-repeat: must be 1 or more")
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        config.stash[_MADE] = tempfile.mkdtemp(prefix="ab-harness-pytest-")
        os.environ[_SHARED] = config.stash[_MADE]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove it again, and no other: a pytest started by a test inherits the variable."""
    if made := config.stash.get(_MADE, None):
        os.environ.pop(_SHARED, None)
        shutil.rmtree(made, ignore_errors=True)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect ``case.toml`` files."""
    if file_path.name != "case.toml":
        return None
    collector: CaseFile = CaseFile.from_parent(parent, path=file_path)
    return collector


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A case's own tests run inside the arms, not here, unless they are named explicitly."""
    if not (collection_path.parent / "case.toml").is_file() or collection_path.name == "case.toml":
        return None
    for arg in config.args:
        named = (config.invocation_params.dir / arg.partition("::")[0]).resolve()
        if collection_path in (named, *named.parents):
            return None
    return True


class CaseFile(pytest.File):
    """One case; its items are the declared node IDs."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each node ID, named shortly where that is unambiguous."""
        from harness import store
        from harness.errors import HarnessError

        try:
            files = store.load_case(self.path.parent)
        except HarnessError as error:
            raise self.CollectError(str(error)) from None
        ids = [node.id for node in files.case.nodes]
        shorts = [node_id.partition("::")[2] for node_id in ids]
        for node_id, short in zip(ids, shorts, strict=True):
            name = short if shorts.count(short) == 1 else node_id
            yield CaseItem.from_parent(self, name=name, node_id=node_id)


class CaseItem(pytest.Item):
    """One declared node ID: passes when the measured verdict confirms the claim."""

    def __init__(self, *, node_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.node_id = node_id

    def setup(self) -> None:
        """Run the arms, or take the run that another item already made.

        Where nothing worse was measured, an engine's fault shows up here, as pytest's error and
        never as a failure.
        """
        self.report = _report(self.config, self.path.parent)
        faults = [verdict for verdict in self._verdicts() if _unmeasured(verdict)]
        if faults and not self._refuted():
            _fault("\n".join(map(self._text, faults)))

    def runtest(self) -> None:
        """Compare the verdicts of all rows with the claim.

        Raises:
            _NotConfirmed: with verdict, outcomes, reason and the evidence folder.
        """
        from harness.verdict import Verdict

        verdicts = self._verdicts()
        for verdict in verdicts:
            self.user_properties.append(("verdict", verdict.verdict.value))
        if refuted := self._refuted():
            raise _NotConfirmed("\n".join(map(self._text, refuted)))
        if all(verdict.verdict is Verdict.SKIPPED for verdict in verdicts):
            pytest.skip(f"skipped in both arms, as declared: {verdicts[0].reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A readable reason instead of a traceback through the harness."""
        if isinstance(excinfo.value, _NotConfirmed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the item comes from."""
        return self.path, None, f"{self.path.parent.name}: {self.name}"

    def _verdicts(self) -> list[NodeVerdict]:
        return [
            node for row in self.report.rows for node in row.nodes if node.node_id == self.node_id
        ]

    def _refuted(self) -> list[NodeVerdict]:
        """What was measured and does not stand."""
        return [v for v in self._verdicts() if not v.confirmed and not _unmeasured(v)]

    def _text(self, verdict: NodeVerdict) -> str:
        from harness.report.summary import platform_name

        row = next(row for row in self.report.rows if any(v is verdict for v in row.nodes))
        lines = [
            f"{verdict.verdict} on {platform_name(row)}: {verdict.reason}",
            f"  unpatched: {verdict.unpatched}   patched: {verdict.patched}   role: {verdict.role}",
            f"  evidence:  {row.folder}",
        ]
        return "\n".join(lines)


def _unmeasured(verdict: NodeVerdict) -> bool:
    from harness.verdict import Verdict

    return verdict.verdict in (Verdict.INFRA, Verdict.INCONCLUSIVE)


def _fault(text: str) -> NoReturn:
    """The engine or the evidence failed, not the claim: an error without a traceback."""
    pytest.fail(text, pytrace=False)


class _NotConfirmed(Exception):
    """The claim was measured and does not stand."""


_REPORTS = pytest.StashKey[dict[Path, "Report"]]()
_FAULT = "fault: "


def _report(config: pytest.Config, folder: Path) -> Report:
    """The case's report: from this process, from another worker's run, or from a new run.

    Raises:
        pytest.fail.Exception: the run could not be made, now or when an item before tried.
    """
    known = config.stash.setdefault(_REPORTS, {})
    if folder not in known:
        from harness import workflow

        note = _evidence(config, folder)
        if note.startswith(_FAULT):
            _fault(note.removeprefix(_FAULT))
        known[folder] = workflow.assess([Path(note)])
    return known[folder]


def _evidence(config: pytest.Config, folder: Path) -> str:
    """The evidence folder of the case's one run, or why there is none."""
    from filelock import FileLock

    from harness.errors import HarnessError
    from harness.plan import sha256

    shared = os.environ.get(_SHARED) or config.stash.get(_MADE, None)
    if not shared:
        shared = config.stash[_MADE] = tempfile.mkdtemp(prefix="ab-harness-pytest-")
    note = Path(shared) / sha256(str(folder).encode())[:16]
    with FileLock(f"{note}.lock"):
        if note.is_file():
            return note.read_text()
        try:
            text = str(_run(config, folder))
        except HarnessError as error:
            text = f"{_FAULT}{error}"
        note.write_text(text)
        return text


def _run(config: pytest.Config, folder: Path) -> Path:
    from harness import store, targets, workflow
    from harness.device import parse_device
    from harness.parallel import Stop
    from harness.plan import Design
    from harness.settings import choose_hosts

    files = store.load_case(folder)
    root = store.project_root(folder.resolve())
    given = config.getoption("--harness-python")
    hosts = choose_hosts(config.getoption("--harness-host"), store.load_hosts(root))
    devices = tuple(parse_device(text) for text in config.getoption("--harness-device"))
    choice = targets.Choice(
        image=config.getoption("--harness-image"),
        engine=config.getoption("--harness-engine"),
        python=Path(given) if given else None,
        hosts=hosts,
        default_host=not config.getoption("--harness-host"),
        devices=devices,
        allow_moved_tag=config.getoption("--harness-allow-moved-tag"),
    )
    out = config.getoption("--harness-out")
    job = workflow.Job(
        files=files,
        nodes=workflow.select(files, ""),
        out=Path(out) if out else root / "reports",
        command=("pytest", *map(str, config.invocation_params.args)),
        design=Design(repeat=config.getoption("--harness-repeat")),
    )
    rows = targets.wanted(files.case, choice, root)
    progress, stop = _Silent(), Stop()
    with targets.prepared(rows, choice, progress=progress, stop=stop) as ready:
        return workflow.run(
            job,
            [ready[row.key] for row in rows],
            cache=targets.cache_folder(),
            progress=progress,
            stop=stop,
        )


class _Silent:
    """pytest has a display of its own."""

    def step(self, text: str) -> None:
        """Say nothing."""

    def arm(self, case_id: str, target: str, arm: str) -> None:
        """Say nothing."""

    def event(self, target: str, step: str, test: str) -> None:
        """Say nothing."""

    def done(self, target: str) -> None:
        """Say nothing."""

    def tick(self) -> None:
        """Say nothing."""
