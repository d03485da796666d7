import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from holdback.statistics.interval import (
    anytime,
    clopper_pearson,
    lower_bound,
    rule_of_three,
    trials_for_bound,
    upper_bound,
)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (10, 10, 0.6915, 1.0),
        (4, 20, 0.0573, 0.4366),
    ],
)
def test_published_intervals(hits: int, trials: int, low: float, high: float) -> None:
    """The interval is the one in printed tables of exact binomial limits (to their four digits)."""
    interval = clopper_pearson(hits, trials)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=6e-5)


@pytest.mark.parametrize(("hits", "trials"), [(0, 1), (1, 1), (3, 7), (198, 200)])
def test_each_end_leaves_out_exactly_its_share(hits: int, trials: int) -> None:
    """At each end of the interval the observed count is at the edge of what a 2.5% tail allows."""
    interval = clopper_pearson(hits, trials)
    if hits:
        assert stats.binom.sf(hits - 1, trials, interval.low) == pytest.approx(0.025)
    if hits < trials:
        assert stats.binom.cdf(hits, trials, interval.high) == pytest.approx(0.025)


@pytest.mark.parametrize("true_rate", [0.01, 0.1, 0.5, 0.97])
def test_coverage_is_never_below_what_is_promised(true_rate: float) -> None:
    """Summed over all that may be observed, the interval holds the true rate with at least 95%."""
    covered = 0.0
    for hits in range(41):
        interval = clopper_pearson(hits, 40)
        if interval.low <= true_rate <= interval.high:
            covered += stats.binom.pmf(hits, 40, true_rate)
    assert covered >= 0.95


def test_nothing_is_known_without_trials() -> None:
    """Without trials every rate is possible."""
    assert (clopper_pearson(0, 0).low, clopper_pearson(0, 0).high, upper_bound(0, 0)) == (0.0, 1.0, 1.0)


def test_the_rule_of_three() -> None:
    """0 of 200 is said to be below 1.5%, which is exact and close to 3 of 200."""
    assert rule_of_three(200) == "0 of 200: the true rate is below 1.5% with 95% confidence"
    assert upper_bound(0, 200) == pytest.approx(1 - 0.05 ** (1 / 200))
    assert math.isclose(upper_bound(0, 200), 3 / 200, rel_tol=0.02)


def test_trials_for_a_bound_are_the_fewest() -> None:
    """One trial less than promised does not reach the bound."""
    needed = trials_for_bound(0.01)
    assert upper_bound(0, needed) <= 0.01 < upper_bound(0, needed - 1)
    assert needed == 299


@pytest.mark.parametrize(("hits", "trials"), [(1, 1), (5, 5), (3, 7), (198, 200)])
def test_the_lower_bound_is_exact(hits: int, trials: int) -> None:
    """At the bound so many hits or more come up with a chance of exactly 5%; without hits or trials it is 0."""
    assert stats.binom.sf(hits - 1, trials, lower_bound(hits, trials)) == pytest.approx(0.05)
    assert lower_bound(0, trials) == lower_bound(0, 0) == 0


LOOKS = 100


@cache
def at_every_look() -> npt.NDArray[np.float64]:
    """The interval for `anytime` by trials made (from 1) and hits."""
    found = [[anytime(min(hits, made), made) for hits in range(LOOKS + 1)] for made in range(1, LOOKS + 1)]
    return np.array([[(each.low, each.high) for each in row] for row in found])


def ever_missed(rate: float, intervals: npt.NDArray[np.float64]) -> float:
    """The share of 2,000 arms with that true rate in which any of 100 looks gives an interval without it."""
    hits = np.cumsum(np.random.default_rng(1939).random((2000, LOOKS)) < rate, axis=1)
    low, high = intervals[np.arange(LOOKS), hits].transpose(2, 0, 1)
    return float(((rate < low) | (rate > high)).any(axis=1).mean())


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.95])
def test_the_interval_for_every_look_holds_at_every_look(rate: float) -> None:
    """Of 2,000 arms, looked at after each of 100 trials, the interval ever misses the true rate in at most 5%."""
    assert ever_missed(rate, at_every_look()) <= 0.05


def test_looking_again_and_again_at_an_exact_interval_would_not_do() -> None:
    """The exact interval, looked at in the same way, misses far more often: the simulation can tell the difference."""
    made, hits = (
        np.arange(1, LOOKS + 1)[:, None],
        np.arange(LOOKS + 1)[None, :].clip(max=np.arange(1, LOOKS + 1)[:, None]),
    )
    low, high = stats.beta.ppf(0.025, hits, made - hits + 1), stats.beta.ppf(0.975, hits + 1, made - hits)
    exact = np.stack([np.where(hits == 0, 0, low), np.where(hits == made, 1, high)], axis=-1)
    assert ever_missed(0.1, exact) > 0.075


@pytest.mark.parametrize(("hits", "trials", "high"), [(0, 5, 0.5850), (0, 200, 0.0306), (5, 5, 1.0), (0, 0, 1.0)])
def test_the_price_of_looking(hits: int, trials: int, high: float) -> None:
    """The documented bounds, the same at both ends."""
    assert anytime(hits, trials).high == pytest.approx(high, abs=5e-5)
    assert anytime(trials - hits, trials).low == pytest.approx(1 - high, abs=5e-5)
