import numpy as np
import pytest

from holdback.statistics import ALPHA, certain
from holdback.statistics.sequential import fortune_against_halved, fortune_against_no_difference
from tests.statistics.rows import OUTCOMES, Row, rows

LETTERS = np.array(["h", "v"])


def first_look(trials: list[Row], experiment: str = "e") -> int | None:
    """The number of blocks after which the experiment is certain for the first time, asked after each block."""
    blocks = sorted({row.block for row in trials})
    for number, last in enumerate(blocks, start=1):
        if certain([row for row in trials if row.block <= last], [experiment]):
            return number
    return None


@pytest.mark.parametrize(
    ("control", "treatment", "blocks"),
    [
        ("v" * 10, "h" * 10, 5),
        ("v" * 10, "v" * 10, 7),
        ("hv" * 10, "h" * 20, 10),
        ("h" * 30, "h" * 30, None),
    ],
    ids=["a certain fix", "a useless one", "a control at one half", "nothing reproduced"],
)
def test_an_experiment_ends_when_its_verdict_is_certain(control: str, treatment: str, blocks: int | None) -> None:
    """It ends with the block that decides and not before; what never shows is never decided."""
    assert first_look(rows(control, treatment)) == blocks


def test_the_rule_is_the_one_whose_error_is_simulated() -> None:
    """In random experiments it ends at the first block whose fortune is twentyfold, as test_sequential counts it."""
    draw = np.random.default_rng(3)
    ends: set[int | None] = set()
    for _ in range(12):
        control, treatment = draw.random((2, 60)) < draw.random((2, 1))
        fortunes = np.maximum(
            fortune_against_no_difference(np.cumsum(control & ~treatment), np.cumsum(treatment & ~control)),
            fortune_against_halved(control, treatment),
        )
        enough = np.flatnonzero(fortunes >= -np.log(ALPHA))
        expected = int(enough[0]) + 1 if len(enough) else None
        assert first_look(rows(*("".join(LETTERS[arm.astype(int)]) for arm in (control, treatment)))) == expected
        ends.add(expected)
    assert len(ends) > 3


def test_several_experiments_have_to_be_more_certain() -> None:
    """One of three needs six clear blocks instead of five; the last one, with the others decided, five."""
    others = [*rows("v" * 9, "h" * 9, "b"), *rows("v" * 9, "h" * 9, "c")]
    assert not certain(rows("v" * 5, "h" * 5, "a"), ["a", "b", "c"])
    assert certain(rows("v" * 7, "h" * 7, "a"), ["a", "b", "c"]) == {"a"}
    assert certain([*others, *rows("v" * 5, "h" * 5, "a")], ["a", "b", "c"]) == {"a", "b", "c"}


def test_what_cannot_be_used_is_not_certain() -> None:
    """Five clear blocks beside as many invalid ones are INCONCLUSIVE, so they end nothing."""
    assert certain(rows("v" * 5, "h" * 5), ["e"])
    assert not certain(rows("v" * 5 + "i" * 5, "h" * 5 + "i" * 5), ["e"])


def test_blocks_count_when_they_are_complete() -> None:
    """A block whose second trial is still missing decides nothing, and a late one takes no decision back."""
    five = rows("vvvvv", "hhhhh")
    assert not certain(five[:-1], ["e"])
    harmed = [Row("e", "control", 99, OUTCOMES["h"]), Row("e", "treatment", 99, OUTCOMES["v"])]
    assert certain([*five, *harmed], ["e"])
