"""Which dose to try next, to find the one at which half of the control's trials fail.

The up-and-down method: one step down after a trial that was violated, one step up after one that held. The trials then
gather around the dose that is looked for, where they tell most; `holdback.statistics.dose` fits the curve to them.

Source: W. J. Dixon, A. M. Mood, "A method for obtaining and analyzing sensitivity data", JASA 43 (1948), 109-126.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdback.statistics.counting import RowLike
from holdback.trials.arms import CONTROL
from holdback.trials.outcome import Outcome

__all__ = ["DOSES", "FIRST", "next_dose"]

DOSES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Milliseconds, about evenly apart on the logarithmic scale on which the curve is fitted."""
FIRST = 100


def next_dose(rows: Iterable[RowLike]) -> int:
    """The dose of the next block, in milliseconds, from the trials of one experiment in the order of their end."""
    decided = [row for row in rows if row.arm == CONTROL and row.outcome in {Outcome.VIOLATED, Outcome.HOLDS}]
    if not decided or decided[-1].dose is None:
        return FIRST
    step = DOSES.index(decided[-1].dose) + (-1 if decided[-1].outcome is Outcome.VIOLATED else 1)
    return DOSES[min(max(step, 0), len(DOSES) - 1)]
