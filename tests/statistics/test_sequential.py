import numpy as np
import pytest

from holdback.statistics.sequential import Look, fortune_against_halved, fortune_against_no_difference, look
from holdback.statistics.verdict import ALPHA

EXPERIMENTS, BLOCKS = 2000, 200
ENOUGH = -np.log(ALPHA)


def decided(seen: Look) -> bool:
    return min(seen.better, seen.not_halved) <= ALPHA


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9, 0.98])
def test_equal_arms_are_seldom_taken_for_fixed(rate: float) -> None:
    """Of 2,000 A/A experiments, looked at after each of 200 blocks, at most 5% ever claim a difference."""
    draw = np.random.default_rng(11062)
    control, treatment = draw.random((2, EXPERIMENTS, BLOCKS)) < rate
    fortunes = fortune_against_no_difference(
        np.cumsum(control & ~treatment, axis=1), np.cumsum(treatment & ~control, axis=1)
    )
    false = (fortunes >= ENOUGH).any(axis=1).mean()
    assert false <= ALPHA


def test_shared_noise_does_not_raise_the_error() -> None:
    """Also where each block's noise is its own, and comes in waves, at most 5% claim a difference."""
    draw = np.random.default_rng(3899)
    waves = 0.5 + 0.45 * np.sin(np.arange(BLOCKS) / 9 + draw.random((EXPERIMENTS, 1)) * 6.3)
    control, treatment = draw.random((2, EXPERIMENTS, BLOCKS)) < waves
    fortunes = fortune_against_no_difference(
        np.cumsum(control & ~treatment, axis=1), np.cumsum(treatment & ~control, axis=1)
    )
    assert (fortunes >= ENOUGH).any(axis=1).mean() <= ALPHA


def test_looking_again_and_again_at_an_ordinary_p_value_would() -> None:
    """The same A/A experiments fool the fixed-count test far more often: the simulation can tell the difference."""
    from scipy import stats

    draw = np.random.default_rng(11062)
    control, treatment = draw.random((2, EXPERIMENTS, BLOCKS)) < 0.5
    helped, harmed = np.cumsum(control & ~treatment, axis=1), np.cumsum(treatment & ~control, axis=1)
    assert (stats.binom.sf(helped - 1, helped + harmed, 0.5) <= ALPHA).any(axis=1).mean() > 3 * ALPHA


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_a_halved_rate_is_seldom_taken_for_not_fixed(rate: float) -> None:
    """Of 2,000 experiments whose treatment halves the rate, at most 5% ever claim that it does not."""
    draw = np.random.default_rng(11378)
    control = draw.random((EXPERIMENTS, BLOCKS)) < rate
    treatment = draw.random((EXPERIMENTS, BLOCKS)) < rate / 2
    assert (fortune_against_halved(control, treatment) >= ENOUGH).any(axis=1).mean() <= ALPHA


def test_a_clear_fix_is_decided_after_a_small_part() -> None:
    """With the control at 50% and the treatment at 0%, half the experiments end by 10 blocks, 95% by 20."""
    draw = np.random.default_rng(7)
    control = draw.random((EXPERIMENTS, BLOCKS)) < 0.5
    fortunes = fortune_against_no_difference(np.cumsum(control, axis=1), np.zeros_like(control, dtype=int))
    decided = (fortunes >= ENOUGH).argmax(axis=1) + 1
    assert (fortunes >= ENOUGH).any(axis=1).all()
    assert np.quantile(decided, 0.5) <= 10
    assert np.quantile(decided, 0.95) <= 20


def test_a_useless_fix_is_decided_early() -> None:
    """When both arms always fail, seven blocks show that the treatment does not even halve the rate."""
    assert not decided(look([True] * 6, [True] * 6))
    assert look([True] * 7, [True] * 7).not_halved <= ALPHA


def test_a_certain_fix_needs_as_few_blocks_as_the_fixed_test() -> None:
    """Five blocks that speak for the treatment decide, four do not."""
    assert not decided(look([True] * 4, [False] * 4))
    assert look([True] * 5, [False] * 5).better <= ALPHA


def test_a_decision_is_not_taken_back() -> None:
    """The largest fortune counts: bad luck after the decision leaves it standing."""
    before = look([True] * 6, [False] * 6)
    after = look([True] * 6 + [False] * 6, [False] * 6 + [True] * 6)
    assert after.better == before.better <= ALPHA


def test_nothing_seen_decides_nothing() -> None:
    """Without blocks, or where nothing was ever violated, nothing is decided."""
    assert not decided(look([], []))
    assert not decided(look([False] * 50, [False] * 50))
