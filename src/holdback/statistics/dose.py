"""How the rate of violated trials rises with the dose: a fitted curve, its band, and the dose at which half fail.

The curve is the logistic one on the logarithm of the dose, above a background that needs no dose (Abbott's formula):
`rate = background + (1 - background) / (1 + (middle / dose) ** slope)`. Three numbers describe it.

Fitted is by likelihood over a grid that is made finer around what is likely, so nothing can fail to converge: where the
arms part completely (no failure up to one dose, nothing else from the next one on), where nothing ever failed, or
where everything did. The band is the envelope of all curves whose likelihood is not too far below the highest one, by
the chi-square distribution with as many degrees of freedom as the curve has numbers: it has the whole true curve in it
with the confidence, not only each of its points.

Sources: J. Berkson, "Application of the logistic function to bio-assay", JASA 39 (1944), 357-365; W. S. Abbott, "A
method of computing the effectiveness of an insecticide", Journal of Economic Entomology 18 (1925), 265-267; D. J.
Finney, "Probit Analysis" (1947); R. J. Brand, D. E. Pinnock, K. L. Jackson, "Large sample confidence bands for the
logistic response curve and its inverse", American Statistician 27 (1973), 157-160; D. J. Venzon, S. H. Moolgavkar, "A
method for computing profile-likelihood-based confidence intervals", Applied Statistics 37 (1988), 87-94.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from holdback.statistics.interval import CONFIDENCE
from holdback.statistics.verdict import Arm
from holdback.trials.arms import ARMS

__all__ = ["Curve", "Half", "Response", "fit"]

Floats = npt.NDArray[np.float64]

_SIZES = (37, 19, 25)
"""Points of the grid along middle, slope and background."""
_FINER = 3
"""So many times the grid is made anew around what is likely."""
_SLOPES = (0.4, 40.0)
"""From nearly flat (doses that differ a hundredfold) to a step (within a tenth)."""
_BEYOND = 100.0
"""The middle may lie so many times outside the doses that were tried."""
_AS_LIKELY = 0.05
"""Differences of log-likelihood below this are nothing: of such curves the flattest is taken for the fitted one."""
_POINTS = 80
"""Of the curve as it is drawn."""


@dataclass(frozen=True, slots=True)
class Half:
    """The dose at which half of the trials fail, in milliseconds, and its interval.

    0 is what lies below the lowest dose tried that is one, infinite what lies above the highest: the curve is not asked
    where nothing was tried.
    """

    dose: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The fitted rates at rising doses, with the band in which the whole true curve lies with the confidence."""

    doses: tuple[float, ...]
    rates: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    half: Half


@dataclass(frozen=True)
class Response:
    """What an experiment showed at each dose (milliseconds, rising) in each arm, and the curves through that."""

    cells: Mapping[float, Mapping[str, Arm]]

    @cached_property
    def curves(self) -> Mapping[str, Curve]:
        """By arm; an arm with decided trials at fewer than two doses has none."""
        fitted = {name: fit({dose: arms[name] for dose, arms in self.cells.items()}) for name in ARMS}
        return {name: curve for name, curve in fitted.items() if curve is not None}


@dataclass(frozen=True, slots=True)
class _Axes:
    """The grid's axes, each in the coordinate in which it is even: ln middle, ln slope, and the background's angle."""

    middle: tuple[float, float]
    slope: tuple[float, float]
    angle: tuple[float, float]

    def grid(self) -> Floats:
        """All combinations, a row each."""
        axes = (np.linspace(*ends, size) for ends, size in zip(self._ends(), _SIZES, strict=True))
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)

    def around(self, likely: Floats) -> _Axes:
        """Axes about these points only, with a step's margin, within the old ones."""
        narrowed = []
        for (low, high), size, points in zip(self._ends(), _SIZES, likely.T, strict=True):
            step = (high - low) / (size - 1)
            narrowed.append((max(low, points.min() - step), min(high, points.max() + step)))
        return _Axes(*narrowed)

    def _ends(self) -> tuple[tuple[float, float], ...]:
        return self.middle, self.slope, self.angle


def fit(cells: Mapping[float, Arm], confidence: float = CONFIDENCE) -> Curve | None:
    """The curve through the cells (by dose in milliseconds); None with decided trials at fewer than two doses."""
    decided = {dose: arm for dose, arm in sorted(cells.items()) if arm.decided}
    doses = np.array(list(decided))
    if len(doses) < 2:
        return None
    violated = np.array([arm.violated for arm in decided.values()], dtype=float)
    held = np.array([arm.held for arm in decided.values()], dtype=float)
    lowest, highest = math.log(doses[doses > 0].min()), math.log(doses.max())
    far = math.log(_BEYOND)
    axes = _Axes((lowest - far, highest + far), (math.log(_SLOPES[0]), math.log(_SLOPES[1])), (0.0, math.pi))
    allowed = float(stats.chi2.ppf(confidence, df=3)) / 2
    for _ in range(_FINER):
        points = axes.grid()
        likelihood = _log_likelihood(points, doses, violated, held)
        inside = likelihood >= likelihood.max() - allowed
        likely, likelihood = points[inside], likelihood[inside]
        axes = axes.around(likely)
    best = _flattest(likely, likelihood)
    drawn = _drawn(doses)
    rates = _rates(likely, drawn)
    return Curve(
        doses=tuple(drawn.tolist()),
        rates=tuple(_rates(best[None], drawn)[0].tolist()),
        lows=tuple(rates.min(axis=0).tolist()),
        highs=tuple(rates.max(axis=0).tolist()),
        half=_half(best, likely, doses),
    )


def _rates(points: Floats, doses: Floats) -> Floats:
    """The rate of each curve (rows) at each dose."""
    middle, slope, angle = points[:, 0, None], np.exp(points[:, 1, None]), points[:, 2, None]
    background = (1 - np.cos(angle)) / 2  # even in the angle: fine near 0 and near 1, where rates are told apart best
    with np.errstate(divide="ignore"):
        response = special.expit(slope * (np.log(doses)[None, :] - middle))
    return np.asarray(background + (1 - background) * response)


def _log_likelihood(points: Floats, doses: Floats, violated: Floats, held: Floats) -> Floats:
    rates = _rates(points, doses)
    likelihood = special.xlogy(violated, rates) + special.xlog1py(held, -rates)
    return np.asarray(likelihood.sum(axis=1))


def _flattest(points: Floats, likelihood: Floats) -> Floats:
    """The fitted curve. Where the likeliest ones are many (the arms part completely) it is in the middle of them."""
    as_likely = likelihood >= likelihood.max() - _AS_LIKELY
    points, likelihood = points[as_likely], likelihood[as_likely]
    flat = points[:, 1] <= points[:, 1].min()
    return np.asarray(points[flat][likelihood[flat].argmax()])


def _drawn(doses: Floats) -> Floats:
    """Doses at which the curve is drawn: the tried ones, and between them by equal ratios, in which its shape is even.

    Between 0 and the lowest dose above it the ratios begin well below the latter.
    """
    lowest = doses[doses > 0].min()
    start = lowest if doses.min() > 0 else lowest / 20
    return np.unique(np.concatenate([np.geomspace(start, doses.max(), _POINTS), doses]))


def _half(best: Floats, likely: Floats, doses: Floats) -> Half:
    half, halves = float(_halves(best[None])[0]), _halves(likely)
    lowest, highest = float(doses[doses > 0].min()), float(doses.max())

    def within(dose: float) -> float:
        """Where a bound lies; what is beyond the doses tried the curve cannot know."""
        return 0.0 if dose < lowest else math.inf if dose > highest else dose

    return Half(
        dose=within(half), low=min(within(float(halves.min())), highest), high=max(lowest, within(float(halves.max())))
    )


def _halves(points: Floats) -> Floats:
    """The dose at which each curve reaches one half: 0 where its background does already."""
    background = (1 - np.cos(points[:, 2])) / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = (0.5 - background) / (1 - background)  # of the response, what is missing to one half
        reached = np.exp(points[:, 0] + np.log(share / (1 - share)) / np.exp(points[:, 1]))
    return np.where(background >= 0.5, 0.0, reached)
