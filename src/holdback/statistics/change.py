"""Whether the rate of an arm changed between two runs at different times.

The trials of two nights were not drawn side by side, so there are no blocks to shuffle within: the test takes all
trials of an arm in one night as alike. What else differed between the nights, the load of the machine above all,
counts as change too; the words that go with it say so.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats

from holdback.statistics.verdict import Arm

__all__ = ["Change", "change"]


@dataclass(frozen=True, slots=True)
class Change:
    """An arm before and after. `p_value` is None where one of them has no decided trial."""

    before: Arm
    after: Arm
    p_value: float | None

    @property
    def difference(self) -> float | None:
        """The rate after minus the rate before; None where one is unknown."""
        if self.before.rate is None or self.after.rate is None:
            return None
        return self.after.rate - self.before.rate


def change(before: Arm, after: Arm) -> Change:
    """Fisher's exact test, two-sided: how probable is a difference as rare as this one if nothing changed.

    Source: R. A. Fisher, "The Design of Experiments" (1935).
    """
    if not (before.decided and after.decided):
        return Change(before, after, None)
    table = [[before.violated, before.held], [after.violated, after.held]]
    return Change(before, after, float(stats.fisher_exact(table).pvalue))
