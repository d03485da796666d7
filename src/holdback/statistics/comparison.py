"""The exact test between the arms: a permutation test within blocks.

Trials that run side by side meet the same noise, so they are not independent, and a test that shuffles all
trials of both arms is not exact for them. The schedule therefore draws trials in blocks, one of each arm in
random order, and this test shuffles only inside a block: it is exact because that order really was drawn,
whatever the blocks have in common. With a single block that holds everything it is Fisher's exact test.

Boschloo's test is more powerful than Fisher's, but it needs all trials of an arm to be independent with one
rate, which trials that share a world and a machine are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = ["Table", "exact_test"]


@dataclass(frozen=True, slots=True)
class Table:
    """The decided trials of one block: how many each arm made, and how many of them were violated."""

    control: int
    control_violated: int
    treatment: int
    treatment_violated: int


def exact_test(blocks: Iterable[Table]) -> float:
    """One-sided p-value: how probable is so much violated control, or more, if the arms do not differ.

    Given each block's number of violated trials, the number of them that fell on the control is
    hypergeometric; the sum over the blocks is their convolution. With one trial of each arm in a block this is
    McNemar's exact test (a sign test over the blocks in which the arms disagree). 1.0 without any information.

    Sources: R. A. Fisher, "The Design of Experiments" (1935); Q. McNemar, Psychometrika 12
    (1947), 153-157; the stratified form: C. R. Mehta, N. R. Patel, R. Gray, JASA 80 (1985), 969-973.
    """
    distribution = np.ones(1)
    excess = 0  # the observed sum, counted from the smallest possible one
    for block in blocks:
        violated = block.control_violated + block.treatment_violated
        low, high = max(0, violated - block.treatment), min(violated, block.control)
        if low == high:
            continue  # nothing to shuffle
        chances = stats.hypergeom.pmf(
            np.arange(low, high + 1), block.control + block.treatment, violated, block.control
        )
        distribution = np.convolve(distribution, chances)
        excess += block.control_violated - low
    return float(min(1.0, distribution[excess:].sum()))
