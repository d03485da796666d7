"""`holdback shrink`: the search for a smaller plan, driven by the trials of one session of pytest.

All candidates share the session's world: each item of it asks the search which plan it is to be made with.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TextIO

import pytest

from holdback.errors import EvidenceError, HoldbackError
from holdback.faults.plan import FaultPlan, PlannedInjection
from holdback.faults.triggers import After
from holdback.history.store import Store
from holdback.replay.original import Original
from holdback.replay.session import run_pytest
from holdback.replay.shrinking import Shrinking, Tried
from holdback.statistics.interval import CONFIDENCE, lower_bound
from holdback.trials.outcome import Outcome, Row
from holdback.trials.trial import Plan
from holdback.wording import counted

__all__ = ["Shrunk", "shrink"]

_LAST_LINES = 12
"""Of what pytest said, should it have ended before the search did."""
_LETTERS = {Outcome.VIOLATED: "V", Outcome.HOLDS: ".", Outcome.UNKNOWN: "u", Outcome.INVALID: "i"}


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a search has found; `store` has its evidence and the plan's file."""

    original: Original
    shrinking: Shrinking
    store: Store

    def told(self) -> str:
        """The faults that are left and how sure that is, in words."""
        best, arm = self.shrinking.best, self.original.row.arm
        counts = f"{len(best.faults)} of {len(self.shrinking.whole.faults)} faults"
        faults = "".join(
            f"\n  {fault.described(arm)}{_length(each)}" for each in best.injections for fault in each.faults
        )
        return f"{counts}{':' if faults else ''}{faults}\n{_certainty(self.shrinking)}"

    def text(self) -> str:
        """What the plan's file says."""
        head = f"Shrunk from the plan of {self.original.row.id}: {self.told()}"
        return "".join(f"# {line}\n" for line in head.splitlines()) + self.shrinking.best.text()


def _length(injection: PlannedInjection) -> str:
    match injection.end:
        case None:
            return ""
        case After():
            return f", for {injection.end}"
        case event:
            return f", until {event}"


def shrink(original: Original, *, repeats: int, budget: int, out: TextIO, options: Sequence[str] = ()) -> Shrunk:
    """Search for a smaller plan that still fails in the trial's arm. The best so far is on the disk all the time.

    Args:
        original: a trial that was violated while faults were in force.
        repeats: how many trials in a row must fail for a plan to count as failing.
        budget: the most trials to make.
        out: told of each trial as it is made, and of the best plan at the end, whatever end that is.
        options: more of pytest's.

    Raises:
        EvidenceError: the trial has nothing to shrink, it does not fail reliably, or its trials cannot be made.
        ConfigurationError: the budget is too small.
        KeyboardInterrupt: Ctrl-C.
    """
    plan = _plan_of(original)
    shrinking = Shrinking(plan, original.lasted(), repeats=repeats, budget=budget)
    shrunk = Shrunk(original, shrinking, original.store.shrink_of(original.row.id))
    search = _Search(shrunk, out)
    said = io.StringIO()
    faults, trials = counted(len(plan.faults), "fault"), counted(budget, "trial")
    out.write(f"Shrinking the plan of {original.row.id}, {faults}, in at most {trials}\n")
    try:
        with redirect_stdout(said):
            run_pytest(original, search, shrunk.store.directory, count=budget, options=options)
    finally:
        search.finish()
    if search.failure:
        raise search.failure
    if not search.over:
        raise _ended_early(original, said.getvalue())
    return shrunk


def _plan_of(original: Original) -> FaultPlan:
    row = original.row
    if row.outcome is not Outcome.VIOLATED:
        raise EvidenceError(f"trial {row.id} did not fail: {row.outcome.name}", remedy="name one that is VIOLATED")
    if original.plan is None or not original.plan.faults:
        raise EvidenceError(f"trial {row.id} failed without any fault", remedy="there is nothing to make smaller")
    return original.plan


class _Search:
    """A plugin that has each trial made with the candidate that the search asks for.

    `over` says that the search came to its end, `failure` why it cannot go on.
    """

    def __init__(self, shrunk: Shrunk, out: TextIO) -> None:
        self._shrunk = shrunk
        self._out = out
        self._trials = shrunk.shrinking.trials()
        self._candidate = next(self._trials)
        self._told: Tried | None = None
        self._row: Row | None = None
        self.over = False
        self.failure: HoldbackError | None = None

    def pytest_holdback_select(self, plans: Sequence[Plan]) -> Mapping[str, Plan]:
        row = self._shrunk.original.row
        return {plan.id: plan for plan in plans if (plan.experiment, plan.arm) == (row.experiment, row.arm)}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        self._row = None
        return True if self.over or self.failure else None  # the trials that are not needed any more are passed over

    def pytest_holdback_faults(self) -> FaultPlan:
        return self._candidate.plan

    def pytest_holdback_judged(self, row: Row) -> None:
        self._row = row

    def pytest_runtest_logfinish(self) -> None:
        """After the clean-up of a trial, when pytest captures nothing."""
        outcome = self._row.outcome if self._row else Outcome.INVALID
        reason = self._row.reason if self._row else "the scenario or its fixtures have a bug"
        tried = self._shrunk.shrinking.tried[-1]
        try:
            self._candidate = self._trials.send((outcome, reason))
        except StopIteration:
            self.over = True
        except HoldbackError as error:
            self.failure = error
        self._tell(tried, outcome)
        self._keep()

    def finish(self) -> None:
        """Say what was found, and keep it with that."""
        if self._shrunk.shrinking.found:
            self._out.write(f"\n{self._shrunk.told()}\n")
            self._keep()

    def _keep(self) -> None:
        if not self._shrunk.shrinking.found:
            return
        try:
            self._shrunk.store.keep_shrunk(self._shrunk.text())
        except EvidenceError as error:
            self.failure = self.failure or error

    def _tell(self, tried: Tried, outcome: Outcome) -> None:
        if tried is not self._told:
            self._out.write(f"  {tried.candidate.what.replace('{arm}', self._shrunk.original.row.arm)}: ")
            self._told = tried
        self._out.write(_LETTERS[outcome])
        if self.over or self.failure or tried is not self._shrunk.shrinking.tried[-1]:
            self._out.write(f" {_verdict(tried)} ({counted(self._shrunk.shrinking.used, 'trial')} so far)\n")
        self._out.flush()


def _verdict(tried: Tried) -> str:
    if tried.fails is None:
        return "left open"
    if tried.fails:
        return "fails"
    if not tried.held:
        return f"no result: {tried.reason.partition(chr(10))[0]}"
    return f"fails {tried.violated} of {tried.decided} times" if tried.violated else "holds"


def _certainty(shrinking: Shrinking) -> str:
    sure = shrinking.sure
    if sure is None:
        return (
            f"It failed {shrinking.repeats} times in a row when it was chosen, as one of {len(shrinking.tried)} "
            "candidates; it was not made afresh as often as it takes to be sure."
        )
    low = lower_bound(sure.violated, sure.decided)
    afresh = "" if sure is shrinking.tried[0] else " made afresh"
    return (
        f"It still fails in {sure.violated} of {counted(sure.decided, 'trial')}{afresh}: "
        f"the true rate is above {low:.0%} with {CONFIDENCE:.0%} confidence.{_without(shrinking.without)}"
    )


def _without(tried: Tried | None) -> str:
    if tried is None:
        return ""
    lasting = ": it also comes by itself, and what is left may not be what matters" if tried.violated else ""
    return f"\nWithout any fault it fails in {tried.violated} of {counted(tried.decided, 'trial')}{lasting}."


def _ended_early(original: Original, said: str) -> EvidenceError:
    last = "\n".join(f"    {line}" for line in said.splitlines()[-_LAST_LINES:])
    return EvidenceError(
        f"pytest ended before the search did:\n{last}",
        remedy=f"options that the experiment needs go after `--`; its run was: {original.command}",
    )
