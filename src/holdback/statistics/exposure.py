"""Whether both arms acted on equally old state: a difference there could pass for the fix's work."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from scipy import stats

from holdback.history.exposure import Exposure
from holdback.statistics.verdict import ALPHA
from holdback.trials.arms import ARMS
from holdback.trials.outcome import Outcome

__all__ = ["ArmExposure", "ExposureSummary", "Reaction", "exposures", "reaction"]

_DECIDED = frozenset({Outcome.HOLDS, Outcome.VIOLATED})


class RowLike(Protocol):
    """What is needed of a trial (`holdback.trials.outcome.Row` has it)."""

    @property
    def experiment(self) -> str: ...
    @property
    def arm(self) -> str: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def reactions(self) -> Sequence[float]: ...
    @property
    def exposure(self) -> Exposure | None: ...


@dataclass(frozen=True, slots=True)
class ArmExposure:
    """Of an arm's decided trials: how many there are, in how many the controller wrote while it was behind.

    `seconds` and `events` are the most it was behind in any of them, `median_seconds` the median of each trial's most.
    """

    trials: int
    exposed: int
    seconds: float = 0.0
    events: int = 0
    median_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ExposureSummary:
    """One experiment's exposure in each arm.

    `p_exposed` tells whether the arms were exposed in as many trials (Fisher's exact test), `p_seconds` whether by as
    much (Mann-Whitney's); both two-sided, None where an arm has no trial.
    """

    experiment: str
    arms: Mapping[str, ArmExposure]
    p_exposed: float | None = None
    p_seconds: float | None = None

    @property
    def p_value(self) -> float | None:
        """Of a difference in either respect: the smaller one, doubled because two were looked at."""
        known = [p for p in (self.p_exposed, self.p_seconds) if p is not None]
        return min(1.0, 2 * min(known)) if known else None

    @property
    def differs(self) -> bool:
        """Whether luck does not explain the difference between the arms, in either respect."""
        return self.p_value is not None and self.p_value < ALPHA

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Reaction:
    """From a trigger's event to its fault in force, in seconds, over all trials."""

    times: int
    median: float
    longest: float


def exposures(rows: Iterable[RowLike]) -> tuple[ExposureSummary, ...]:
    """Each experiment whose trials know their exposure, in the order of their first trial."""
    found: dict[str, dict[str, list[Exposure]]] = defaultdict(lambda: {arm: [] for arm in ARMS})
    for row in rows:
        if row.exposure is not None and row.outcome in _DECIDED:
            found[row.experiment][row.arm].append(row.exposure)
    return tuple(_summary(experiment, arms) for experiment, arms in found.items())


def reaction(rows: Iterable[RowLike]) -> Reaction | None:
    """How quickly triggers put faults into force; None when there was no trigger."""
    seconds = [each for row in rows for each in row.reactions]
    return Reaction(len(seconds), statistics.median(seconds), max(seconds)) if seconds else None


def _summary(experiment: str, arms: Mapping[str, Sequence[Exposure]]) -> ExposureSummary:
    counted = {arm: _arm(each) for arm, each in arms.items() if each}
    if len(counted) < len(ARMS):
        return ExposureSummary(experiment, counted)
    table = [[arm.exposed, arm.trials - arm.exposed] for arm in counted.values()]
    seconds = [[each.seconds for each in arms[arm]] for arm in ARMS]
    return ExposureSummary(
        experiment,
        counted,
        p_exposed=float(stats.fisher_exact(table).pvalue),
        p_seconds=float(stats.mannwhitneyu(*seconds).pvalue),
    )


def _arm(found: Sequence[Exposure]) -> ArmExposure:
    return ArmExposure(
        trials=len(found),
        exposed=sum(each.behind > 0 for each in found),
        seconds=max(each.seconds for each in found),
        events=max(each.events for each in found),
        median_seconds=statistics.median(each.seconds for each in found),
    )
