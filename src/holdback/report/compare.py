"""`holdback compare`: last night's report against tonight's, arm by arm, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdback.errors import EvidenceError
from holdback.report.evidence import Evidence
from holdback.report.terminal import rate
from holdback.statistics import ALPHA, ExperimentSummary, Verdict
from holdback.statistics.change import Change, change
from holdback.statistics.correction import holm
from holdback.statistics.verdict import Arm
from holdback.statistics.words import chance
from holdback.trials.outcome import Row

__all__ = ["ArmComparison", "ExperimentComparison", "compare", "print_comparison"]

_CAVEAT = (
    "The two runs were not made side by side: another load of the machine alone can shift a rate. A change that "
    "matters should show again in one run that has both arms."
)

_FACTS: Mapping[str, Callable[[Row], str]] = {
    "it ran": lambda row: row.variant,
    "the dose was": lambda row: f"{row.dose_milliseconds:g} ms",
}


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """One arm of one experiment in both runs; `p_adjusted` is Holm's over all arms that are compared."""

    arm: str
    change: Change
    p_adjusted: float | None
    notes: tuple[str, ...]
    """What else differs and may explain a change."""

    @property
    def words(self) -> str:
        """What it means."""
        difference = self.change.difference
        if self.p_adjusted is None or difference is None:
            return "cannot be compared: one of the runs has no decided trial"
        if self.p_adjusted > ALPHA:
            return f"no sign of a change (p = {chance(self.p_adjusted)})"
        return f"violated {'more' if difference > 0 else 'less'} often than before (p = {chance(self.p_adjusted)})"


@dataclass(frozen=True, slots=True)
class ExperimentComparison:
    """One experiment in both runs; a verdict is None where the run has no trial of it."""

    name: str
    before: Verdict | None
    after: Verdict | None
    arms: tuple[ArmComparison, ...]

    @property
    def words(self) -> str:
        """What became of the verdict."""
        if self.before is None or self.after is None:
            return "only in the later run" if self.before is None else "only in the earlier run"
        if self.before is self.after:
            return f"{self.after.value} in both"
        return f"{self.before.value} before, {self.after.value} now"


def compare(before: Evidence, after: Evidence) -> tuple[ExperimentComparison, ...]:
    """Every experiment of either run.

    Raises:
        EvidenceError: both are one run, which has nothing to tell of itself.
    """
    if before.run.get("id") is not None and before.run.get("id") == after.run.get("id"):
        raise EvidenceError(
            f"{before.store.directory} and {after.store.directory} are reports of one run",
            remedy="name the reports of two runs; earlier ones are in `earlier/` of a report's directory",
        )
    old, new = _by_name(before), _by_name(after)
    names = list(dict.fromkeys((*old, *new)))
    changes = {
        (name, arm): change(old[name].arms[arm], new[name].arms[arm])
        for name in names
        if name in old and name in new
        for arm in old[name].arms
    }
    known = {key: each.p_value for key, each in changes.items() if each.p_value is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    return tuple(
        ExperimentComparison(
            name=name,
            before=old[name].verdict if name in old else None,
            after=new[name].verdict if name in new else None,
            arms=tuple(
                ArmComparison(arm, each, adjusted.get((of, arm)), _notes(before, after, name, arm))
                for (of, arm), each in changes.items()
                if of == name
            ),
        )
        for name in names
    )


def print_comparison(comparisons: Sequence[ExperimentComparison], console: Console) -> None:
    """Print them, in 80 columns and without colour if need be."""
    for each in comparisons:
        console.print(Text(each.name, style="bold"))
        console.print(Text(f"Verdict: {each.words}."))
        if each.arms:
            console.print(_table(each.arms))
        for arm in each.arms:
            console.print(Text(f"{arm.arm}: {'; '.join((arm.words, *arm.notes))}."))
        console.print()
    if any(each.arms for each in comparisons):
        console.print(Text(_CAVEAT))


def _table(arms: Sequence[ArmComparison]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("arm", no_wrap=True)
    for column in ("before", "rate", "now", "rate", "difference", "p"):
        table.add_column(column, justify="right", no_wrap=True)
    for arm in arms:
        table.add_row(arm.arm, *_counted(arm.change.before), *_counted(arm.change.after), *_figures(arm))
    return table


def _counted(arm: Arm) -> Iterator[str]:
    yield f"{arm.violated} of {arm.decided}"
    yield "-" if arm.rate is None else rate(arm.rate)


def _figures(arm: ArmComparison) -> Iterator[str]:
    difference = arm.change.difference
    yield "-" if difference is None else f"{difference:+.1%}"
    yield "-" if arm.p_adjusted is None else f"{arm.p_adjusted:.2g}"


def _by_name(evidence: Evidence) -> Mapping[str, ExperimentSummary]:
    return {experiment.name: experiment for experiment in evidence.summary.experiments}


def _notes(before: Evidence, after: Evidence, name: str, arm: str) -> tuple[str, ...]:
    notes = []
    for word, fact in _FACTS.items():
        old, new = (", ".join(sorted(_known(run, name, arm, fact))) or "nothing" for run in (before, after))
        if old != new:
            notes.append(f"{word} {old} before, {new} now")
    return tuple(notes)


def _known(run: Evidence, name: str, arm: str, fact: Callable[[Row], str]) -> set[str]:
    return {fact(row) for row in run.rows if (row.experiment, row.arm) == (name, arm)} - {""}
