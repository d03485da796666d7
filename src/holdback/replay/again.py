"""`holdback replay`: one trial made again, and whether it ends as it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from holdback.errors import EvidenceError
from holdback.history.store import Store
from holdback.replay.original import Original
from holdback.replay.session import planned, run_pytest
from holdback.report.words import moment
from holdback.trials.outcome import Outcome, Row
from holdback.trials.trial import Plan

__all__ = ["Replayed", "print_replay", "replay"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trial as it was and as it is now; `store` has the new one's evidence."""

    before: Row
    now: Row
    store: Store

    @property
    def judged(self) -> bool:
        """Whether the new trial says anything."""
        return self.now.outcome in {Outcome.HOLDS, Outcome.VIOLATED}


def replay(original: Original, options: Sequence[str] = ()) -> Replayed:
    """Make a trial again, with its arm, seed and faults; pytest tells of it as it goes.

    Args:
        original: the trial.
        options: more of pytest's.

    Raises:
        EvidenceError: pytest made no trial of it.
        KeyboardInterrupt: Ctrl-C.
    """
    report = original.store.replay_of(original.row.id)
    plan = [f"--plan={original.plan.path}"] if original.plan else []
    again = _Again(original.row)
    code = run_pytest(original, again, report.directory, count=1, options=[*plan, *options])
    if again.row is None:
        raise EvidenceError(
            f"pytest did not make the trial {original.row.id} again, and ended with exit code {code}",
            remedy=f"it says why above; options that it needs go after `--`, its run was: {original.command}",
        )
    return Replayed(original.row, again.row, report)


class _Again:
    """A plugin that leaves of all trials one, and has it made as it was planned then."""

    def __init__(self, row: Row) -> None:
        self._before = row
        self.row: Row | None = None

    def pytest_holdback_select(self, plans: Sequence[Plan]) -> Mapping[str, Plan]:
        before = self._before
        same = (plan for plan in plans if (plan.experiment, plan.arm) == (before.experiment, before.arm))
        return {plan.id: planned(before) for plan in same if plan.index == 0}

    def pytest_holdback_judged(self, row: Row) -> None:
        self.row = row


def print_replay(replayed: Replayed, console: Console) -> None:
    """Print both outcomes, and whether they are the same."""
    before, now = replayed.before, replayed.now
    console.print(Text(f"\n{before.id} ({before.arm})"))
    for when, row in ((moment(before.started), before), ("now", now)):
        console.print(Text(f"{when}: {row.outcome.name}: {row.reason}"))
    if before.variant != now.variant:
        console.print(
            Text(f"It ran {before.variant or 'nothing'}, and now {now.variant or 'nothing'}.", style="yellow")
        )
    console.print(Text(_compared(replayed)))
    console.print(Text(f"Timeline: holdback show {now.id} --report {replayed.store.directory}"))


def _compared(replayed: Replayed) -> str:
    if replayed.now.outcome is replayed.before.outcome:
        return "The same outcome."
    if not replayed.judged:
        return "The new trial says nothing of the controller."
    return "Another outcome: what the controller does is not the same each time. How often it fails, more trials tell."
