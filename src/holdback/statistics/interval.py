"""Exact intervals for a share of trials, and the rule of three in words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

__all__ = [
    "CONFIDENCE",
    "Interval",
    "clopper_pearson",
    "lower_bound",
    "rule_of_three",
    "trials_for_bound",
    "upper_bound",
]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """Between which rates the true one lies, with the confidence it was computed for."""

    low: float
    high: float


def clopper_pearson(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The exact two-sided interval for the true rate behind `hits` of `trials`; 0 to 1 without trials.

    It never covers less than it promises, whatever the true rate and however few the trials.

    Source: C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case
    of the binomial", Biometrika 26 (1934), 404-413.
    """
    if trials == 0:
        return Interval(0.0, 1.0)
    bounds = stats.binomtest(hits, trials).proportion_ci(confidence, method="exact")
    return Interval(float(bounds.low), float(bounds.high))


def upper_bound(hits: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The rate that the true one stays below with `confidence`: the one-sided Clopper-Pearson bound."""
    if trials == 0:
        return 1.0
    return float(stats.binomtest(hits, trials, alternative="less").proportion_ci(confidence, method="exact").high)


def lower_bound(hits: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The rate that the true one stays above with `confidence`: the one-sided Clopper-Pearson bound."""
    if trials == 0:
        return 0.0
    return float(stats.binomtest(hits, trials, alternative="greater").proportion_ci(confidence, method="exact").low)


def rule_of_three(trials: int, confidence: float = CONFIDENCE) -> str:
    """What 0 hits in `trials` say, in words.

    The bound is exact, `1 - (1 - confidence) ** (1 / trials)`; the rule's famous `3 / trials` is its
    approximation at 95%.

    Source: J. A. Hanley, A. Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249 (1983),
    1743-1745.
    """
    bound = upper_bound(0, trials, confidence)
    return f"0 of {trials}: the true rate is below {bound:.1%} with {confidence:.0%} confidence"


def trials_for_bound(bound: float, confidence: float = CONFIDENCE) -> int:
    """How many trials without a hit show with `confidence` that the true rate is below `bound` (above 0, below 1)."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - bound))
