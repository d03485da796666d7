"""From the rows of a run to the summary that is stored, printed and decides the exit code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from holdback.statistics.correction import holm
from holdback.statistics.counting import OUTCOMES, Counts, RowLike, Violations, by_experiment
from holdback.statistics.design import Design
from holdback.statistics.dose import Half, Response
from holdback.statistics.interval import CONFIDENCE
from holdback.statistics.stopping import certain_of
from holdback.statistics.verdict import ALPHA, Arm, Verdict, judge
from holdback.statistics.words import advise, ended, explain, over
from holdback.trials.arms import ARMS

__all__ = ["ExperimentSummary", "Summary", "summarise"]

_PLAIN = Design()


@dataclass(frozen=True, slots=True)
class ExperimentSummary:
    """One experiment: its counts, its verdict, and what they mean.

    `p_value` is the exact one; `p_adjusted`, which decides, is Holm's over all experiments of the run. Both are
    None where an arm has no decided trial. `next` says what to do when the verdict is not FIXED. `response` has the
    trials by dose, where doses were asked for; `arms` and the verdict are of all doses together. `violations` tells for
    each arm which oracles its violated trials were violated by, the most frequent first; together they are `violated`.
    """

    name: str
    verdict: Verdict
    p_value: float | None
    p_adjusted: float | None
    arms: Mapping[str, Arm]
    blocks: int
    words: str
    next: tuple[str, ...] = ()
    response: Response | None = None
    violations: Mapping[str, tuple[Violations, ...]] = field(default_factory=dict)

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
            "arms": {
                name: {**_arm_to_json(arm), "violations": [each.to_json() for each in self.violations.get(name, ())]}
                for name, arm in self.arms.items()
            },
            **_response_to_json(self.response),
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole run. `sequential`: its p-values and intervals hold although it was looked at while it ran."""

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
    rows: Iterable[RowLike],
    design: Design = _PLAIN,
    *,
    interrupted: bool = False,
    alpha: float = ALPHA,
) -> Summary:
    """The summary of all rows, experiments in the order of their first row.

    Args:
        rows: every judged trial.
        design: how the run was made.
        interrupted: whether trials that were asked for are missing.
        alpha: the error that the verdicts allow.

    Raises:
        EvidenceError: a row names an arm that does not exist.
    """
    counts = by_experiment(rows, anytime=design.adaptive)
    p_values = {name: each.p_value() for name, each in counts.items()}
    known = {name: p_value for name, p_value in p_values.items() if p_value is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    experiments = tuple(
        _summary(name, each, p_values[name], adjusted.get(name), alpha, multiple=max(1, len(known)))
        for name, each in counts.items()
    )
    if design.most is not None:
        sure = certain_of(counts, list(counts), alpha)
        experiments = tuple(_with_end(each, design.most, certain=each.name in sure) for each in experiments)
    return Summary(experiments, interrupted, design.adaptive, alpha)


def _with_end(experiment: ExperimentSummary, most: int, *, certain: bool) -> ExperimentSummary:
    made = max(arm.total for arm in experiment.arms.values())
    sentence = ended(experiment.verdict, made, most, certain=certain)
    return replace(experiment, words=f"{experiment.words} {sentence}")


def _summary(
    name: str, counts: Counts, p_value: float | None, adjusted: float | None, alpha: float, *, multiple: int
) -> ExperimentSummary:
    control, treatment = (counts.arm(arm) for arm in ARMS)
    deciding = 1.0 if adjusted is None else adjusted
    verdict = judge(control, treatment, deciding, alpha)
    cells = counts.cells()
    return ExperimentSummary(
        name=name,
        verdict=verdict,
        p_value=p_value,
        p_adjusted=adjusted,
        arms={"control": control, "treatment": treatment},
        blocks=len(counts.tables()),
        words=f"{over(list(cells))}{explain(verdict, control, treatment, deciding)}",
        next=advise(verdict, control, treatment, alpha=alpha, multiple=multiple, doses=max(1, len(cells))),
        response=Response(cells) if cells else None,
        violations={arm: counts.violations(arm) for arm in ARMS},
    )


def _response_to_json(response: Response | None) -> dict[str, Any]:
    if response is None:
        return {"doses": [], "half": {}}
    doses = [
        {"dose": dose, "arms": {name: _arm_to_json(arm) for name, arm in arms.items()}}
        for dose, arms in response.cells.items()
    ]
    return {"doses": doses, "half": {name: _half_to_json(curve.half) for name, curve in response.curves.items()}}


def _half_to_json(half: Half) -> dict[str, float | None]:
    """JSON has no infinity, which is where nothing bounds it."""
    return {name: value if math.isfinite(value) else None for name, value in asdict(half).items()}


def _arm_to_json(arm: Arm) -> dict[str, Any]:
    counts = {outcome: getattr(arm, outcome) for outcome in OUTCOMES}
    return {**counts, "rate": arm.rate, "low": arm.low, "high": arm.high}
