"""When an experiment may end because its verdict is certain (`--until-decided`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdback.statistics.correction import holm
from holdback.statistics.counting import Counts, RowLike, by_experiment
from holdback.statistics.sequential import look
from holdback.statistics.verdict import ALPHA, Verdict, judge
from holdback.trials.arms import ARMS

__all__ = ["certain", "certain_of"]


def certain(rows: Iterable[RowLike], among: Sequence[str], alpha: float = ALPHA) -> frozenset[str]:
    """The experiments of `among`, all those of the run, that further trials need not decide any more.

    May be asked as often as one likes. Certain is FIXED or REDUCED once the treatment is better by the p-value that
    holds at every look, and NOT FIXED once it does not even halve the rate by the other one; both after Holm's
    correction over all experiments, of which those without a trial count as undecided. What is certain stays so
    however the others end: a p-value never rises again, and the correction never grows when that of another falls.
    """
    return certain_of(by_experiment(rows, anytime=True), among, alpha)


def certain_of(counts: Mapping[str, Counts], among: Sequence[str], alpha: float) -> frozenset[str]:
    """Likewise, of what was counted."""
    looks = [counts[name].look() if name in counts else look([], []) for name in among]
    better = holm([each.better for each in looks])
    not_halved = holm([each.not_halved for each in looks])
    return frozenset(
        name
        for name, gain, harm in zip(among, better, not_halved, strict=True)
        if name in counts and _is_certain(counts[name], gain, harm, alpha)
    )


def _is_certain(counts: Counts, better: float, not_halved: float, alpha: float) -> bool:
    control, treatment = (counts.arm(name) for name in ARMS)
    verdict = judge(control, treatment, better, alpha)
    return verdict in {Verdict.FIXED, Verdict.REDUCED} or (verdict is Verdict.NOT_FIXED and not_halved <= alpha)
