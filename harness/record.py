"""What a run leaves behind, as types: the records in ``run.json`` and ``arm.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.outcome import Arm, ArmStatus, Outcome, Series

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What was measured inside the environment, before the tests ran.

    ``devices`` counts those that the environment sees, of which the first is described.
    ``hardware`` is what cannot change between two arms (driver, VBIOS, ECC mode, memory, …),
    ``readings`` what may (clocks, ECC error counts, temperature). ``environment`` has the start
    of a sha256 for the value of every variable.
    """

    platform: str
    device: str
    device_uuid: str = ""
    devices: int = 0
    hardware: dict[str, str] = field(default_factory=dict)
    readings: dict[str, str] = field(default_factory=dict)
    python: str
    executable: str
    machine: str
    kernel: str
    libc: str
    package_version: str = ""
    package_commit: str = ""
    package_path: str = ""
    pytest: str = ""
    patch: str = ""
    distributions: int = 0
    distributions_sha256: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    plugins: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HunkResult:
    """How one hunk applied; ``offset`` counts lines, 0 is where the patch said."""

    file: str
    number: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The arm's tree of the package under test, and what the patch did to it.

    ``state`` is how the patch fits the tree as it came (empty, clean, offset,
    already-applied, rejected); ``action`` is what this arm did about it (none,
    applied, reversed). ``tree_before`` and ``tree_after`` are sha256 digests of
    the package's files; ``copied`` says whether the arm has a copy of the package
    or the sandbox's own one.
    """

    state: str
    action: str
    tool: str
    copied: bool
    package_path: str
    tree_before: str
    tree_after: str
    hunks: tuple[HunkResult, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Files that changed while the tests ran: an arm with any is not evidence."""

    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageIdentity:
    """What an arm ran in: ``digest`` is an image ID, or a digest of a lock or of distributions.

    ``registry_digest`` is what a registry knows the image by, where it came from one;
    ``pinned`` is the digest that image.toml (or the reference) states. They differ only where a
    moved tag was allowed.
    """

    name: str
    digest: str
    note: str = ""
    registry_digest: str = ""
    pinned: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """One arm as it was planned, before any was started.

    ``name`` is its folder in a row's evidence. ``hunks`` are those that a partly patched arm has,
    numbered from 1 through the whole patch; ``repeat`` counts the arms of one kind from 1.
    """

    name: str
    arm: Arm
    series: Series = Series.PAIR
    repeat: int = 1
    hunks: tuple[int, ...] | None = None


#: The arms of a run that does not say which it has.
PAIR = (
    ArmSpec(name="unpatched", arm=Arm.UNPATCHED),
    ArmSpec(name="patched", arm=Arm.PATCHED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """Where files of a run were taken from beside the case's folder.

    ``kind`` is folder, git or sdist; ``spec`` is what was asked for, ``revision`` the commit or
    the archive's sha256; ``files`` has the sha256 of each file that was taken.
    """

    kind: str
    spec: str
    revision: str = ""
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRecord:
    """One arm, written as soon as it ended. Times are UTC in ISO 8601, durations seconds.

    ``name`` is the arm's folder and ``hunks`` those that a partly patched arm has, as planned.
    ``tests_sha256`` is over the test files as they lay in the arm before the tests ran,
    ``environment_sha256`` over the variables that the harness set. ``access`` names the device
    access that was given; ``plugins`` are the case's pytest plugins, the image's own or wheels with
    their sha256; ``notes`` are remarkable events, such as a connection that was lost. ``root`` is
    where the arm's folder lay, which differs from host to host: reports have ``$ARM`` for it.
    """

    arm: Arm
    name: str = ""
    hunks: tuple[int, ...] | None = None
    status: ArmStatus
    reason: str = ""
    engine: str
    image: ImageIdentity
    started: str
    duration: float
    root: str = ""
    command: tuple[str, ...] = ()
    exit_code: int | None = None
    environment_sha256: str = ""
    tests_sha256: str = ""
    access: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    probe: Probe | None = None
    staging: Staging | None = None
    seal: Seal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """Image, engine, host and device of one row; ``slug`` is the name of its folder.

    ``host`` is the machine's own name, ``host_name`` what harness.toml or --host calls it.
    ``device`` is what was asked for (empty: the first), ``claimed`` what image.toml or
    harness.toml says the platform is: the probe decides.
    """

    slug: str
    image: str
    engine: str
    engine_note: str
    host: str
    host_name: str = ""
    device: str = ""
    claimed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """``run.json``: one case, run on some targets.

    ``arms`` were planned for each target before anything was started, in this order.
    ``whole_files`` says that the arms ran every test of the case's files, not only the declared
    ones. ``base_tests`` are the test files as they were before the change, ``tests_from`` says
    where test files that the case folder lacks were taken from. ``upstream`` is what the package's
    files were compared with (a file that it has not has no digest).
    """

    schema: int
    run_id: str
    harness: str
    command: tuple[str, ...]
    started: str
    finished: str
    case_id: str
    patch_sha256: str
    tests_sha256: dict[str, str]
    case_sha256: str
    selected: tuple[str, ...]
    deselected: tuple[str, ...]
    targets: tuple[TargetRecord, ...]
    arms: tuple[ArmSpec, ...] = PAIR
    whole_files: bool = False
    base_tests: SourceRecord | None = None
    tests_from: SourceRecord | None = None
    upstream: SourceRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a test (or the loading of its file) failed; ``file`` and ``line`` raised it.

    ``exception`` is the dotted type name, or a signal's name for a crash; ``frames``
    are ``file:line`` from the test down to the place.
    """

    exception: str
    message: str
    file: str = ""
    line: int = 0
    phase: str = "call"
    frames: tuple[str, ...] = ()
    module: str = ""

    @property
    def place(self) -> str:
        """``file:line`` of the frame that raised, or an empty string."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    """What one node ID did in one arm."""

    node_id: str
    outcome: Outcome
    failure: Failure | None = None
    skip_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResults:
    """One arm's outcomes, as derived from its raw files.

    ``load_errors`` and ``load_skips`` are by test file (an empty name stands for
    all of them, a longer node ID for a class); ``complete`` says whether collection came to
    its end, so that a node can be called missing at all; ``problems`` are contradictions in the
    evidence, and any of them makes the arm worthless.
    """

    nodes: dict[str, NodeResult]
    collected: tuple[str, ...] = ()
    load_errors: dict[str, Failure] = field(default_factory=dict)
    load_skips: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    complete: bool = True

    def result(self, node_id: str) -> NodeResult:
        """The node's result; a node that the arm does not have is missing.

        A node whose whole file skipped itself while it was loaded is skipped.
        """
        found = self.nodes.get(node_id)
        if found is not None:
            return found
        reason = self.load_skips.get(node_id.partition("::")[0])
        if reason is not None:
            return NodeResult(node_id=node_id, outcome=Outcome.SKIPPED, skip_reason=reason)
        if not self.complete and self.load_error(node_id) is None:
            return NodeResult(node_id=node_id, outcome=Outcome.NOT_RUN)
        return NodeResult(node_id=node_id, outcome=Outcome.MISSING)

    def load_error(self, node_id: str) -> Failure | None:
        """Why the node's test file (or its class) could not be loaded, if it could not."""
        parts = node_id.split("::")
        for length in range(len(parts), 0, -1):
            if found := self.load_errors.get("::".join(parts[:length])):
                return found
        return self.load_errors.get("")

    def counts(self, node_ids: Iterable[str]) -> dict[Outcome, int]:
        """Outcomes counted as pytest does: a file that cannot be loaded is one error."""
        counts: Counter[Outcome] = Counter()
        for node_id in node_ids:
            outcome = self.result(node_id).outcome
            if outcome is not Outcome.MISSING or self.load_error(node_id) is None:
                counts[outcome] += 1
        if self.load_errors:
            counts[Outcome.ERROR] += len(self.load_errors)
        return dict(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEvidence:
    """An arm's record together with what its raw files say.

    ``sources`` are files of the package as they were in the arm, by path relative to the folder
    that holds the package: those that declared failures pass through or the patch touches. Only
    the first unpatched arm has them.
    """

    record: ArmRecord
    results: ArmResults
    sources: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEvidence:
    """The arms of one row by name, in the order in which they were planned.

    An arm that left nothing is not among ``arms``.
    """

    target: TargetRecord
    arms: dict[str, ArmEvidence]
    planned: tuple[ArmSpec, ...] = PAIR

    @property
    def unpatched(self) -> ArmEvidence | None:
        """The first unpatched arm."""
        return self.arms.get(PAIR[0].name)

    @property
    def patched(self) -> ArmEvidence | None:
        """The first patched arm."""
        return self.arms.get(PAIR[1].name)

    def of(self, *series: Series) -> tuple[tuple[ArmSpec, ArmEvidence | None], ...]:
        """The planned arms of these series, each with what it left."""
        return tuple(
            (spec, self.arms.get(spec.name)) for spec in self.planned if spec.series in series
        )

    def pairs(self, series: Series = Series.PAIR) -> tuple[tuple[ArmEvidence | None, ...], ...]:
        """Unpatched and patched arm of each repeat."""
        by_repeat: dict[int, dict[Arm, ArmEvidence | None]] = {}
        for spec, arm in self.of(series):
            by_repeat.setdefault(spec.repeat, {})[spec.arm] = arm
        return tuple(
            (pair.get(Arm.UNPATCHED), pair.get(Arm.PATCHED)) for pair in by_repeat.values()
        )
