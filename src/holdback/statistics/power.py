"""How many trials it takes, before they are made."""

from __future__ import annotations

import numpy as np
from scipy import stats

from holdback.statistics.verdict import ALPHA

__all__ = ["MOST_TRIALS", "needed_trials", "power"]

MOST_TRIALS = 1_000_000
"""Nobody runs more; a search that passes it ends."""
_NEGLIGIBLE = 1e-12
"""Chances below this are left out of the sums."""


def power(trials: int, control: float, treatment: float = 0.0, alpha: float = ALPHA) -> float:
    """The chance that `trials` an arm give p <= `alpha`, when the arms' true rates are these.

    Exact for blocks of one trial of each arm: the number of blocks in which the arms disagree is binomial,
    and so is the share of them that speaks for the treatment.

    Source: S. W. Duffy, "Asymptotic and exact power for the McNemar test", Biometrics 40 (1984), 1005-1015.
    """
    helped, harmed = control * (1 - treatment), treatment * (1 - control)
    if helped == 0:
        return 0.0
    number = stats.binom(trials, helped + harmed)  # of blocks in which the arms disagree
    disagreeing = np.arange(number.ppf(_NEGLIGIBLE), number.isf(_NEGLIGIBLE) + 1)
    needed = stats.binom.isf(alpha, disagreeing, 0.5) + 1  # the fewest that reach alpha; may exceed what there is
    reached = stats.binom.sf(needed - 1, disagreeing, helped / (helped + harmed))
    return float(np.dot(number.pmf(disagreeing), reached))


def needed_trials(control: float, treatment: float = 0.0, *, wanted: float = 0.9, alpha: float = ALPHA) -> int | None:
    """The fewest trials an arm that give p <= `alpha` with the chance `wanted`; None where no number does."""
    if control <= treatment:
        return None
    low, high = 0, 8
    while power(high, control, treatment, alpha) < wanted:
        low, high = high, 2 * high
        if high > MOST_TRIALS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle, control, treatment, alpha) >= wanted else (middle, high)
    # Power is not quite monotonic in the count, because the test is discrete: step back over such dents.
    while high > 1 and power(high - 1, control, treatment, alpha) >= wanted:
        high -= 1
    return high
