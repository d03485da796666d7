from __future__ import annotations

import math
import random

import pytest

from holdback.statistics.ratio import paired_ratio


def test_a_ratio_is_the_geometric_mean_of_its_pairs() -> None:
    """Twice as long and half as long cancel out, whatever the pairs' own sizes."""
    found = paired_ratio([(1.0, 2.0), (100.0, 50.0)])
    assert found is not None
    assert found.estimate == pytest.approx(1.0)


def test_the_interval_is_students() -> None:
    """Against the textbook: logs 0, 0.1, 0.2 have mean 0.1, standard error 0.1/sqrt(3), and t of 4.3027."""
    found = paired_ratio([(1.0, math.exp(each)) for each in (0.0, 0.1, 0.2)])
    assert found is not None
    reach = 4.30265 * 0.1 / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((math.exp(0.1 - reach), math.exp(0.1 + reach)), rel=1e-4)


def test_one_pair_bounds_nothing() -> None:
    """A single pair gives an estimate, and an interval that excludes nothing."""
    found = paired_ratio([(10.0, 11.0)])
    assert found is not None
    assert found.estimate == pytest.approx(1.1)
    assert (found.low, found.high) == (0.0, math.inf)


@pytest.mark.parametrize("pairs", [[], [(0.0, 0.0)], [(0.0, 3.0), (2.0, 0.0)]])
def test_what_has_no_ratio_has_none(pairs: list[tuple[float, float]]) -> None:
    """Zero has no ratio to anything: such pairs count for nothing."""
    assert paired_ratio(pairs) is None


def test_it_covers_what_it_promises() -> None:
    """Of 1000 intervals from 4 noisy pairs with a true ratio of 1.05, about 95% contain it."""
    draw = random.Random(7)
    covered = 0
    for _ in range(1000):
        pairs = [(control := draw.uniform(10, 1000), control * 1.05 * math.exp(draw.gauss(0, 0.1))) for _ in range(4)]
        found = paired_ratio(pairs)
        assert found is not None
        covered += found.low <= 1.05 <= found.high
    assert 930 <= covered <= 970
