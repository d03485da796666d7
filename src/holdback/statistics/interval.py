"""Exact intervals for a share of trials, also for numbers of trials that depend on what was seen."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import optimize, special, stats

__all__ = [
    "CONFIDENCE",
    "Interval",
    "anytime",
    "clopper_pearson",
    "lower_bound",
    "rule_of_three",
    "trials_for_bound",
    "upper_bound",
]

CONFIDENCE = 0.95
_TINY = 1e-12
"""No rate that trials could tell from 0."""


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


def anytime(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The interval for the true rate that holds at every look, however the number of trials came about.

    It has all rates against which a gambler would not have won `1 / (1 - confidence)` times his stake by betting on
    this outcome; he spreads his stakes by the arcsine law (Jeffreys' prior, the mixture of Krichevsky and Trofimov). So
    it may be looked at after each trial, and the trials may end because of what it says. That makes it wider than
    `clopper_pearson`: 0 of 5 is below 58.5% instead of 52.2%, 0 of 200 below 3.1% instead of 1.8%.

    Sources: H. Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of Mathematical
    Statistics 41 (1970), 1397-1409; R. E. Krichevsky, V. K. Trofimov, IEEE Transactions on Information Theory 27
    (1981), 199-207.
    """
    if trials == 0:
        return Interval(0.0, 1.0)
    missed, rate = trials - hits, hits / trials
    won = float(special.betaln(hits + 0.5, missed + 0.5) - special.betaln(0.5, 0.5))

    def beyond(true: float) -> float:
        """Above 0 where the gambler's fortune rules this rate out."""
        return won - float(special.xlogy(hits, true) + special.xlog1py(missed, -true)) + math.log(1 - confidence)

    return Interval(
        low=float(optimize.brentq(beyond, _TINY, rate)) if hits else 0.0,
        high=float(optimize.brentq(beyond, rate, 1 - _TINY)) if missed else 1.0,
    )


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
