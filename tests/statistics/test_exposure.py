from __future__ import annotations

from dataclasses import dataclass

import pytest

from holdback.history.exposure import Exposure
from holdback.statistics.exposure import ArmExposure, exposures, reaction
from holdback.trials.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Row:
    arm: str
    exposure: Exposure | None
    experiment: str = "e"
    outcome: Outcome = Outcome.HOLDS
    reactions: tuple[float, ...] = ()


def behind(seconds: float, events: int = 1) -> Exposure:
    return Exposure(5, int(seconds > 0), seconds, events if seconds else 0)


def rows(control: list[float], treatment: list[float]) -> list[Row]:
    return [
        Row(arm, behind(seconds)) for arm, each in (("control", control), ("treatment", treatment)) for seconds in each
    ]


def test_an_arm_is_told_by_its_worst_and_its_median() -> None:
    """Counts, largest lag, most events and the median of the trials' largest lags are those of decided trials."""
    found = [
        Row("control", behind(0.3, 2)),
        Row("control", behind(0.1, 4)),
        Row("control", behind(0.0)),
        Row("control", behind(9.0, 9), outcome=Outcome.INVALID),
        Row("control", None),
    ]
    (summary,) = exposures(found)
    assert summary.arms == {"control": ArmExposure(3, 2, 0.3, 4, 0.1)}
    assert (summary.p_exposed, summary.p_seconds, summary.differs) == (None, None, False)


@pytest.mark.parametrize(
    ("control", "treatment", "differs"),
    [
        ([0.3] * 10, [0.3] * 10, False),
        ([0.0] * 10, [0.0] * 10, False),
        ([0.3] * 10, [0.0] * 10, True),
        ([0.30 + n / 100 for n in range(10)], [0.10 + n / 100 for n in range(10)], True),
        ([0.30 + n / 100 for n in range(10)], [0.31 + n / 100 for n in range(10)], False),
        ([0.3], [0.0], False),
    ],
)
def test_a_difference_is_one_that_luck_does_not_explain(
    control: list[float], treatment: list[float], differs: bool
) -> None:
    """Arms differ in how many trials were exposed or in how far behind they were, and few trials show no difference."""
    (summary,) = exposures(rows(control, treatment))
    assert summary.differs is differs


def test_experiments_are_apart_and_those_without_shadows_are_not_told() -> None:
    """Each experiment with a known exposure has a summary, in order."""
    found = [Row("control", None, "a"), Row("control", behind(1), "b"), Row("control", behind(1), "c")]
    assert [summary.experiment for summary in exposures(found)] == ["b", "c"]


def test_reactions_of_all_trials_are_taken_together() -> None:
    """Median and longest are over every trigger, and without one there is nothing to tell."""
    found = [Row("control", None, reactions=(0.01, 0.05)), Row("treatment", None, reactions=(0.02,))]
    told = reaction(found)
    assert told is not None
    assert (told.times, told.median, told.longest) == (3, 0.02, 0.05)
    assert reaction([Row("control", None)]) is None
