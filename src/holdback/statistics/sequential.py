"""Stopping early without fooling oneself: test martingales over the blocks.

Looking at an ordinary p-value after each trial and stopping when it is small finds a difference sooner or later
even where there is none. A test martingale may be looked at as often as one likes: it is the fortune of a
gambler who bets against a hypothesis at fair odds, and the chance that it ever reaches `1 / alpha` is at most
`alpha` if the hypothesis is true.

Sources: J. Ville, "Etude critique de la notion de collectif" (1939); H. Robbins, "Statistical methods related
to the law of the iterated logarithm", Annals of Mathematical Statistics 41 (1970), 1397-1409; A. Ramdas,
P. Gruenwald, V. Vovk, G. Shafer, "Game-theoretic statistics and safe anytime-valid inference", Statistical
Science 38 (2023), 576-601.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special, stats

__all__ = ["Look", "fortune_against_halved", "fortune_against_no_difference", "look"]

Floats = npt.NDArray[np.float64]
_STAKES = np.linspace(0.2, 1.8, 9)
"""Shares of the fortune that are bet side by side; below 2, where a single loss would ruin."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the blocks so far say; both p-values hold however often one looks."""

    better: float
    """Anytime-valid p-value against "the treatment is no better than the control"."""
    not_halved: float
    """Anytime-valid p-value against "the treatment is violated at most half as often as the control"."""


def fortune_against_no_difference(helped: npt.ArrayLike, harmed: npt.ArrayLike) -> Floats:
    """The logarithm of the fortune after so many blocks in which the arms disagree.

    `helped`: only the control was violated, `harmed`: only the treatment was. If the arms do not differ each
    such block is a fair coin, because the order within a block was drawn. Half of the money bets that a
    disagreement never harms (so that five blocks suffice at alpha 0.05, as for the fixed test); the other half is
    spread evenly over all chances of helping between one half and one (Robbins' mixture).
    """
    helped, harmed = np.asarray(helped, dtype=float), np.asarray(harmed, dtype=float)
    coins = (helped + harmed) * np.log(2)
    certain = np.where(harmed == 0, coins, -np.inf)
    spread = coins + np.log(2) + special.betaln(helped + 1, harmed + 1) + stats.beta.logsf(0.5, helped + 1, harmed + 1)
    return np.asarray(np.logaddexp(certain, spread) - np.log(2))


def fortune_against_halved(control: npt.ArrayLike, treatment: npt.ArrayLike) -> Floats:
    """The logarithm of the fortune after each block (last axis); the arguments say which trials were violated.

    If the treatment is violated at most half as often, `treatment - control / 2` is at most 0 on average, and
    betting on it being positive cannot pay in the long run.
    """
    gain = np.asarray(treatment, dtype=float) - np.asarray(control, dtype=float) / 2
    paths = np.cumsum(np.log1p(_STAKES[:, None] * gain[..., None, :]), axis=-1)
    return np.asarray(special.logsumexp(paths, axis=-2) - np.log(len(_STAKES)))


def look(control: Sequence[bool], treatment: Sequence[bool]) -> Look:
    """What the completed blocks say, in the order in which they were completed.

    `control[i]` and `treatment[i]` say whether the trials of block i were violated. The largest fortune so far
    counts, so a later turn of luck does not take a decision back.
    """
    if not control:
        return Look(1.0, 1.0)
    first, second = np.asarray(control, dtype=bool), np.asarray(treatment, dtype=bool)
    better = fortune_against_no_difference(np.cumsum(first & ~second), np.cumsum(second & ~first))
    not_halved = fortune_against_halved(first, second)
    return Look(*(float(min(1.0, np.exp(-fortune.max()))) for fortune in (better, not_halved)))
