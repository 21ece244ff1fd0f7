"""What can be found: verdicts by node, rows, and the report that holds them all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from harness.ablation import Ablation
from harness.case import Case, Role
from harness.drift import Drift
from harness.errors import ExitCode
from harness.others import Finding, Others
from harness.outcome import Outcome
from harness.record import Failure, RunRecord, TargetEvidence
from harness.repeats import Agreement, Runs
from harness.transfer import Transfer


class Verdict(StrEnum):
    """What was found for one node ID on one target."""

    FLIP_CONFIRMED = "flip-confirmed"
    CONTROL_HELD = "control-held"
    DOES_NOT_REPRODUCE = "does-not-reproduce"
    WRONG_RED = "wrong-red"
    LOAD_ERROR = "load-error"
    NOT_FIXED = "not-fixed"
    REGRESSION = "regression"
    UNSTABLE = "unstable"
    DRIFT = "drift"
    SKIPPED = "skipped"
    UNEXPECTED_SKIP = "unexpected-skip"
    MISSING = "missing"
    INFRA = "infra"
    INCONCLUSIVE = "inconclusive"
    UNEXPECTED_FLIP = "unexpected-flip"


class Overall(StrEnum):
    """What was found for all claims together."""

    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not-confirmed"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that says the same."""
        match self:
            case Overall.CONFIRMED:
                return ExitCode.CONFIRMED
            case Overall.NOT_CONFIRMED:
                return ExitCode.NOT_CONFIRMED
            case Overall.INCONCLUSIVE:
                return ExitCode.INFRASTRUCTURE


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """One node ID on one row. ``confirmed`` says whether the claim stands as declared.

    ``failure`` is why the unpatched arm is red, ``skip_reason`` what the test said
    where it skipped itself. Outcomes and failures are those of the first pair of arms; ``runs``
    has those of all, where there are several.
    """

    node_id: str
    role: Role
    unpatched: Outcome
    patched: Outcome
    verdict: Verdict
    confirmed: bool
    reason: str
    failure: Failure | None = None
    patched_failure: Failure | None = None
    skip_reason: str = ""
    runs: Runs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the platform table, with its node verdicts and the evidence behind them.

    ``refused`` says why the two arms cannot be compared, where they cannot. What was asked for
    beside them is in ``ablation``, ``drift``, ``agreement`` (the unpatched arm against itself) and
    ``others`` (undeclared tests); ``transfer`` compares files with upstream's.
    """

    case: Case
    run: RunRecord
    folder: str
    platform: str
    device: str
    evidence: TargetEvidence
    nodes: tuple[NodeVerdict, ...]
    unpatched: dict[Outcome, int] = field(default_factory=dict)
    patched: dict[Outcome, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    ablation: Ablation | None = None
    drift: Drift | None = None
    agreement: Agreement | None = None
    others: Others | None = None
    transfer: Transfer | None = None

    @property
    def repeats(self) -> int:
        """How many pairs of arms were planned."""
        return len(self.evidence.pairs())


def overall(rows: Iterable[Row]) -> Overall:
    """Sum up: a claim that failed outweighs what could not be measured.

    Where no flip of a case was confirmed anywhere (everything skipped, say), nothing was shown.
    An undeclared test that broke is a regression; one that is unstable or drifts changes nothing.
    """
    rows = tuple(rows)
    nodes = [node for row in rows for node in row.nodes]
    unclear = (Verdict.INFRA, Verdict.INCONCLUSIVE, Verdict.DRIFT)
    if any(row.others.of(Finding.REGRESSION) for row in rows if row.others is not None):
        return Overall.NOT_CONFIRMED
    if any(not node.confirmed and node.verdict not in unclear for node in nodes):
        return Overall.NOT_CONFIRMED
    if any(not node.confirmed for node in nodes):
        return Overall.INCONCLUSIVE
    if not nodes or any(_shows_nothing(rows, case) for case in {row.case.id for row in rows}):
        return Overall.INCONCLUSIVE
    return Overall.CONFIRMED


def _shows_nothing(rows: Iterable[Row], case_id: str) -> bool:
    """Whether a case that claims flips had none confirmed: all skipped, or not selected."""
    own = [row for row in rows if row.case.id == case_id]
    claims = any(node.role_at(row.platform) is Role.FLIP for row in own for node in row.case.nodes)
    shown = {node.verdict for row in own for node in row.nodes if node.role is Role.FLIP}
    return claims and Verdict.FLIP_CONFIRMED not in shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that every output format is made of."""

    overall: Overall
    rows: tuple[Row, ...]
    gaps: tuple[str, ...]
