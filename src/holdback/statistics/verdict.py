"""The written rules from counts and a p-value to a verdict; `docs/statistics.md` gives their reasons."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdback.statistics.interval import Interval, anytime, clopper_pearson

__all__ = ["ALPHA", "MOST_UNUSABLE", "Arm", "Verdict", "judge"]

ALPHA = 0.05
"""The chance of taking a fix that does nothing for one that works."""
MOST_UNUSABLE = 0.2
"""The share of an arm's trials that may be unknown or invalid; above it nothing is concluded."""


class Verdict(StrEnum):
    """What an experiment says about the fix."""

    FIXED = "FIXED"
    REDUCED = "REDUCED"
    NOT_FIXED = "NOT FIXED"
    NOT_REPRODUCED = "NOT REPRODUCED"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True, slots=True)
class Arm:
    """How the trials of one arm came out; `anytime`: how many were made may depend on what was seen."""

    violated: int = 0
    held: int = 0
    unknown: int = 0
    invalid: int = 0
    anytime: bool = False

    @property
    def decided(self) -> int:
        """Trials that an oracle could judge."""
        return self.violated + self.held

    @property
    def total(self) -> int:
        """All trials made."""
        return self.decided + self.unknown + self.invalid

    @property
    def rate(self) -> float | None:
        """Violated among the decided; None where nothing was decided."""
        return self.violated / self.decided if self.decided else None

    @property
    def interval(self) -> Interval:
        """The rate's 95% interval: exact, or where that would be wrong the one that holds at every look."""
        return (anytime if self.anytime else clopper_pearson)(self.violated, self.decided)

    @property
    def low(self) -> float:
        """Lower end of the rate's interval."""
        return self.interval.low

    @property
    def high(self) -> float:
        """Upper end of the rate's interval."""
        return self.interval.high

    @property
    def usable(self) -> bool:
        """Whether anything may be concluded from it."""
        return self.decided > 0 and self.unknown + self.invalid <= MOST_UNUSABLE * self.total


def judge(control: Arm, treatment: Arm, p_value: float, alpha: float = ALPHA) -> Verdict:
    """The verdict; the first rule that fits decides.

    1. An arm without decided trials, or with more than 20% unknown or invalid: INCONCLUSIVE.
    2. The control never violated: NOT REPRODUCED; but NOT FIXED if the treatment was.
    3. p <= alpha: FIXED if the treatment was never violated, else REDUCED.
    4. p > alpha: NOT FIXED if the treatment was violated, else INCONCLUSIVE (too few trials to tell).
    """
    if not (control.usable and treatment.usable):
        return Verdict.INCONCLUSIVE
    if control.violated == 0:
        return Verdict.NOT_FIXED if treatment.violated else Verdict.NOT_REPRODUCED
    if p_value <= alpha:
        return Verdict.REDUCED if treatment.violated else Verdict.FIXED
    return Verdict.NOT_FIXED if treatment.violated else Verdict.INCONCLUSIVE
