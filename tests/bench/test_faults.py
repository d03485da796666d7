"""What the load of faults concludes from what it measured."""

from __future__ import annotations

import pytest

from bench.bench_faults import FLAT, ROUNDS, Load


@pytest.mark.parametrize(
    ("after", "percent"),
    [
        ([10, 20, 30, 40, 100, 100, 100, 100, 100, 100], 0),  # warming up is no growth
        ([100, 100, 100, 100, 100, 100, 150, 100, 100, 100], 50),  # a peak is
        ([100] * 9 + [90], 0),
        ([100] * 4 + [70] + [100] * 5, 0),  # given back and taken again
    ],
)
def test_growth_is_that_of_the_second_half(after: list[int], percent: float) -> None:
    """What counts is the most that a process has after the first half of the rounds, and the one that grows most."""
    assert len(after) == ROUNDS
    assert Load(1.0, {"grows": after, "flat": [5] * ROUNDS}).growth == pytest.approx(percent)


def test_what_keeps_a_little_of_each_fault_is_not_flat() -> None:
    """A process that grows by as much in each round as it had at first is found."""
    assert Load(1.0, {"leaks": [10 * number for number in range(1, ROUNDS + 1)]}).growth > FLAT
