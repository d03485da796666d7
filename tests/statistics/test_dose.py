import math
from collections.abc import Mapping

import numpy as np
import pytest

from holdback.statistics.dose import Curve, fit
from holdback.statistics.verdict import Arm


def cells(*counts: tuple[float, int, int]) -> Mapping[float, Arm]:
    """Dose, violated, and of how many."""
    return {dose: Arm(violated=violated, held=of - violated) for dose, violated, of in counts}


def fitted(*counts: tuple[float, int, int]) -> Curve:
    curve = fit(cells(*counts))
    assert curve is not None
    return curve


def at(curve: Curve, dose: float) -> tuple[float, float, float]:
    place = curve.doses.index(dose)
    return curve.lows[place], curve.rates[place], curve.highs[place]


def test_a_curve_through_many_trials_meets_their_rates() -> None:
    """With 200 trials a dose the curve is within 4% of each rate, and half fail at 15 ms, give or take 2."""
    counts = [(0, 2, 200), (5, 10, 200), (10, 60, 200), (25, 150, 200), (50, 190, 200), (100, 198, 200)]
    curve = fitted(*counts)
    for dose, violated, of in counts:
        low, rate, high = at(curve, dose)
        assert low < rate < high
        assert rate == pytest.approx(violated / of, abs=0.04)
    assert curve.half.dose == pytest.approx(15.2, abs=0.5)
    assert (curve.half.low, curve.half.high) == pytest.approx((13.5, 17.1), abs=0.5)


def test_the_fitted_curve_is_the_likeliest() -> None:
    """It agrees with a maximum of the likelihood that is found in another way, by scipy's minimiser."""
    from scipy import optimize, special

    counts = [(0, 3, 40), (5, 4, 40), (10, 11, 40), (20, 22, 40), (50, 35, 40), (100, 39, 40)]
    doses, violated, of = (np.array(each, dtype=float) for each in zip(*counts, strict=True))

    def unlikelihood(point: np.ndarray) -> float:
        background = special.expit(point[2])
        with np.errstate(divide="ignore"):
            rates = background + (1 - background) * special.expit(np.exp(point[1]) * (np.log(doses) - point[0]))
        return -float((special.xlogy(violated, rates) + special.xlog1py(of - violated, -rates)).sum())

    best = optimize.minimize(unlikelihood, [3.0, 0.5, -2.5], method="Nelder-Mead", options={"xatol": 1e-6}).x
    background, curve = special.expit(best[2]), fitted(*counts)
    for dose in (5.0, 20.0, 100.0):
        rate = background + (1 - background) * special.expit(np.exp(best[1]) * (np.log(dose) - best[0]))
        assert at(curve, dose)[1] == pytest.approx(rate, abs=0.02)  # the flattest of those nearly as likely


def test_arms_that_part_completely_are_fitted() -> None:
    """No failure up to 10 ms, nothing else from 25 ms on: half lies between them, in the logarithms' middle."""
    curve = fitted((0, 0, 8), (10, 0, 8), (25, 8, 8), (50, 8, 8))
    assert curve.half.dose == pytest.approx(math.sqrt(10 * 25), abs=1)
    assert 9 < curve.half.low < curve.half.dose < curve.half.high < 26
    assert at(curve, 10)[1] < 0.05
    assert at(curve, 25)[1] > 0.95


def test_an_arm_that_never_fails_is_flat() -> None:
    """Its curve lies at 0, its band gets narrower with the trials, and half fail at no dose tried."""
    few, many = (fitted(*((dose, 0, trials) for dose in (0, 10, 50, 100))) for trials in (8, 80))
    assert max(few.rates) < 0.02
    assert max(few.lows) < 1e-6
    assert max(many.highs) < max(few.highs) < 0.5
    assert (few.half.dose, few.half.low, few.half.high) == (math.inf, 100, math.inf)


def test_an_arm_that_always_fails_needs_no_dose() -> None:
    """Half fail below the lowest dose already."""
    curve = fitted(*((dose, 8, 8) for dose in (0, 10, 100)))
    assert (curve.half.dose, curve.half.low, curve.half.high) == (0, 0, 10)
    assert min(curve.rates) > 0.95


def test_a_background_is_told_from_the_dose() -> None:
    """Where 30% fail without a dose the curve begins there, and half are reached where the dose adds the rest."""
    curve = fitted((0, 60, 200), (5, 62, 200), (10, 80, 200), (25, 140, 200), (50, 190, 200))
    assert at(curve, 0)[1] == pytest.approx(0.3, abs=0.03)
    assert 10 < curve.half.dose < 20


@pytest.mark.parametrize("counts", [[], [(10, 3, 8)], [(10, 3, 8), (50, 0, 0)]])
def test_one_dose_is_no_curve(counts: list[tuple[float, int, int]]) -> None:
    """A curve needs decided trials at two doses."""
    assert fit(cells(*counts)) is None


@pytest.mark.parametrize(("middle", "slope", "background"), [(20, 3, 0.0), (60, 1, 0.1), (1e9, 2, 0.0)])
def test_the_band_has_the_true_curve_in_it(middle: float, slope: float, background: float) -> None:
    """Of 20 simulated experiments with 8 trials a dose the band has the whole true curve in it in 17 or more.

    At a true 95% fewer come up once in 60 times, and not with this seed.
    """
    draw = np.random.default_rng(1944)
    doses = np.array([0.0, 5, 10, 25, 50, 100])

    def true(at: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return background + (1 - background) / (1 + (middle / at) ** slope)

    covered = 0
    for _ in range(20):
        curve = fitted(*((dose, int(draw.binomial(8, rate)), 8) for dose, rate in zip(doses, true(doses), strict=True)))
        rates = true(np.array(curve.doses))
        covered += bool(np.all((np.array(curve.lows) <= rates + 1e-9) & (rates <= np.array(curve.highs) + 1e-9)))
    assert covered >= 17
