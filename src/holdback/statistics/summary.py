"""From the rows of a run to the summary that is stored, printed and decides the exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdback.errors import EvidenceError
from holdback.statistics.comparison import Table, exact_test
from holdback.statistics.correction import holm
from holdback.statistics.interval import CONFIDENCE
from holdback.statistics.sequential import Look, look
from holdback.statistics.verdict import ALPHA, Arm, Verdict, judge
from holdback.statistics.words import advise, explain
from holdback.trials.arms import ARMS
from holdback.trials.outcome import Outcome

__all__ = ["ExperimentSummary", "RowLike", "Summary", "look_at", "summarise"]

_OUTCOMES = ("violated", "held", "unknown", "invalid")
_COUNTED_AS = {
    Outcome.VIOLATED: "violated",
    Outcome.HOLDS: "held",
    Outcome.UNKNOWN: "unknown",
    Outcome.INVALID: "invalid",
}


class RowLike(Protocol):
    """What the statistics need to know of a trial (`holdback.trials.outcome.Row` has it)."""

    @property
    def experiment(self) -> str: ...
    @property
    def arm(self) -> str: ...
    @property
    def block(self) -> Hashable:
        """Equal for the trials that were scheduled side by side, in random order."""

    @property
    def outcome(self) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class ExperimentSummary:
    """One experiment: its counts, its verdict, and what they mean.

    `p_value` is the exact one; `p_adjusted`, which decides, is Holm's over all experiments of the run. Both are
    None where an arm has no decided trial. `next` says what to do when the verdict is not FIXED.
    """

    name: str
    verdict: Verdict
    p_value: float | None
    p_adjusted: float | None
    arms: Mapping[str, Arm]
    blocks: int
    words: str
    next: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "p_value": self.p_value,
            "p_adjusted": self.p_adjusted,
            "blocks": self.blocks,
            "words": self.words,
            "next": list(self.next),
            "arms": {name: _arm_to_json(arm) for name, arm in self.arms.items()},
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole run. `sequential`: its p-values hold although it was looked at while it ran (`--until-decided`)."""

    experiments: tuple[ExperimentSummary, ...] = ()
    interrupted: bool = False
    sequential: bool = False
    alpha: float = ALPHA

    @property
    def fixed(self) -> bool:
        """Whether there is an experiment and each one's verdict is FIXED."""
        return bool(self.experiments) and all(each.verdict is Verdict.FIXED for each in self.experiments)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data, as in `summary.json`."""
        return {
            "experiments": [experiment.to_json() for experiment in self.experiments],
            "interrupted": self.interrupted,
            "sequential": self.sequential,
            "alpha": self.alpha,
            "confidence": CONFIDENCE,
        }


def summarise(
    rows: Iterable[RowLike], *, interrupted: bool = False, sequential: bool = False, alpha: float = ALPHA
) -> Summary:
    """The summary of all rows, experiments in the order of their first row.

    Raises:
        EvidenceError: a row names an arm that does not exist.
    """
    counts = _by_experiment(rows)
    p_values = {name: each.p_value(sequential=sequential) for name, each in counts.items()}
    known = {name: p_value for name, p_value in p_values.items() if p_value is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    experiments = tuple(
        _summary(name, each, p_values[name], adjusted.get(name), alpha, multiple=max(1, len(known)))
        for name, each in counts.items()
    )
    return Summary(experiments, interrupted, sequential, alpha)


def look_at(rows: Iterable[RowLike]) -> dict[str, Look]:
    """For each experiment what its blocks say so far; may be asked after each trial (`--until-decided`)."""
    return {name: look(*each.sequence()) for name, each in _by_experiment(rows).items()}


def _nothing_yet() -> dict[str, Counter[str]]:
    return {arm: Counter() for arm in ARMS}


@dataclass(slots=True)
class _Counts:
    """What is counted of one experiment while its rows go by."""

    arms: dict[str, Counter[str]] = field(default_factory=_nothing_yet)
    blocks: dict[Hashable, dict[str, Counter[str]]] = field(default_factory=dict)

    def add(self, row: RowLike) -> None:
        outcome = _COUNTED_AS[row.outcome]
        if row.arm not in self.arms:
            raise EvidenceError(
                f"a trial of {row.experiment} has arm {row.arm!r}", remedy=f"arms are {', '.join(ARMS)}"
            )
        self.arms[row.arm][outcome] += 1
        if outcome in ("violated", "held"):
            block = self.blocks.pop(row.block, None) or _nothing_yet()
            block[row.arm][outcome] += 1
            self.blocks[row.block] = block  # at the end: blocks stand in the order of their completion

    def arm(self, name: str) -> Arm:
        return Arm(**{outcome: self.arms[name][outcome] for outcome in _OUTCOMES})

    def tables(self) -> list[Table]:
        """The blocks in which both arms were decided; the others cannot tell the arms apart."""
        tables = (
            Table(
                control=block["control"].total(),
                control_violated=block["control"]["violated"],
                treatment=block["treatment"].total(),
                treatment_violated=block["treatment"]["violated"],
            )
            for block in self.blocks.values()
        )
        return [table for table in tables if table.control and table.treatment]

    def sequence(self) -> tuple[list[bool], list[bool]]:
        """Whether the control, and the treatment, was violated in each completed block."""
        tables = self.tables()
        return [table.control_violated > 0 for table in tables], [table.treatment_violated > 0 for table in tables]

    def p_value(self, *, sequential: bool) -> float | None:
        if not all(self.arm(name).decided for name in ARMS):
            return None
        return look(*self.sequence()).better if sequential else exact_test(self.tables())


def _by_experiment(rows: Iterable[RowLike]) -> dict[str, _Counts]:
    counts: dict[str, _Counts] = {}
    for row in rows:
        counts.setdefault(row.experiment, _Counts()).add(row)
    return counts


def _summary(
    name: str, counts: _Counts, p_value: float | None, adjusted: float | None, alpha: float, *, multiple: int
) -> ExperimentSummary:
    control, treatment = (counts.arm(arm) for arm in ARMS)
    deciding = 1.0 if adjusted is None else adjusted
    verdict = judge(control, treatment, deciding, alpha)
    return ExperimentSummary(
        name=name,
        verdict=verdict,
        p_value=p_value,
        p_adjusted=adjusted,
        arms={"control": control, "treatment": treatment},
        blocks=len(counts.tables()),
        words=explain(verdict, control, treatment, deciding),
        next=advise(verdict, control, treatment, alpha=alpha, multiple=multiple),
    )


def _arm_to_json(arm: Arm) -> dict[str, Any]:
    counts = {outcome: getattr(arm, outcome) for outcome in _OUTCOMES}
    return {**counts, "rate": arm.rate, "low": arm.low, "high": arm.high}
