import numpy as np
import pytest

from holdback.statistics import ALPHA, next_dose, summarise
from holdback.statistics.design import Design
from holdback.statistics.search import DOSES, FIRST
from holdback.trials.outcome import Outcome
from tests.statistics.rows import OUTCOMES, Row

ARMS = ("control", "treatment")


def seen(*trials: tuple[str, int, str]) -> list[Row]:
    """Arm, dose and outcome of trials, in the order of their end."""
    return [Row("e", arm, block, OUTCOMES[letter], dose) for block, (arm, dose, letter) in enumerate(trials)]


@pytest.mark.parametrize(
    ("trials", "dose"),
    [
        ([], FIRST),
        ([("control", 100, "v")], 50),
        ([("control", 100, "h")], 200),
        ([("control", 100, "v"), ("treatment", 100, "h"), ("control", 50, "i")], 50),
        ([("control", 0, "v")], 0),
        ([("control", 1000, "h")], 1000),
    ],
    ids=["the first", "down", "up", "only what the control decides", "nothing below 0", "nothing above the last"],
)
def test_one_step_down_or_up(trials: list[tuple[str, int, str]], dose: int) -> None:
    """The control's last decided trial decides."""
    assert next_dose(seen(*trials)) == dose


def searched(draw: np.random.Generator, blocks: int, middle: float, arms: tuple[float, float]) -> list[Row]:
    """A search in which each arm fails with the logistic curve's chance times its own factor."""
    made: list[Row] = []
    for block in range(blocks):
        dose = next_dose(made)
        chance = 0.0 if dose == 0 else 1 / (1 + (middle / dose) ** 3)
        for arm, factor in zip(ARMS, arms, strict=True):
            outcome = Outcome.VIOLATED if draw.random() < chance * factor else Outcome.HOLDS
            made.append(Row("e", arm, block, outcome, dose))
    return made


@pytest.mark.parametrize("middle", [5.0, 30.0, 300.0])
def test_a_search_finds_the_dose(middle: float) -> None:
    """40 trials an arm find the dose at which half fail within a factor of two, in 9 of 10 searches or more."""
    draw = np.random.default_rng(1948)
    found = 0
    for _ in range(10):
        response = summarise(searched(draw, 40, middle, (1, 0)), Design(adaptive=True)).experiments[0].response
        assert response is not None
        found += middle / 2 <= response.curves["control"].half.dose <= middle * 2
    assert found >= 9


def test_trials_gather_where_they_tell_most() -> None:
    """Most of them are made at the two doses about the one that is looked for."""
    doses = [row.dose for row in searched(np.random.default_rng(7), 60, 30.0, (1, 0))]
    assert sum(dose in {20, 50} for dose in doses) > len(doses) / 2


def test_a_search_does_not_raise_the_error() -> None:
    """Of 1,000 searches with equal arms at most 5% claim a difference, though the doses follow from the control."""
    draw = np.random.default_rng(11)
    p_values = [
        summarise(searched(draw, 30, 30.0, (1, 1)), Design(adaptive=True)).experiments[0].p_value for _ in range(1000)
    ]
    assert np.mean([p is not None and p <= ALPHA for p in p_values]) <= ALPHA


def test_doses_are_whole_and_rise() -> None:
    """Toxiproxy delays by whole milliseconds; the first dose is one of them."""
    assert list(DOSES) == sorted(set(DOSES))
    assert FIRST in DOSES
