"""An item runs as a trial, and its row decides how pytest reports it."""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass

import pytest

from holdback.errors import BinaryError, ConfigurationError, EvidenceError, HoldbackError
from holdback.faults.plan import FaultPlan
from holdback.history.store import Store
from holdback.plugin.blocks import SPARED, settle
from holdback.plugin.collecting import PLAN
from holdback.plugin.evidence import begin
from holdback.plugin.settings import FAULTS, REPORTED, SETTINGS
from holdback.trials import runner
from holdback.trials.arms import TREATMENT
from holdback.trials.outcome import Outcome, Row, likeness
from holdback.trials.trial import Plan, Trial

_SAME_INVALID = 3
"""So many INVALID trials in a row for the same reason end the run: the next ones would not be better."""
_FOR_ALL = BinaryError | ConfigurationError | EvidenceError
"""Errors that each further trial would meet as well: a variant that does not compile, a full disk."""
_LETTERS = {Outcome.HOLDS: ".", Outcome.VIOLATED: "V", Outcome.UNKNOWN: "u", Outcome.INVALID: "i"}


@dataclass(slots=True)
class _Streak:
    """INVALID trials in a row for the same reason, under the same plan of faults."""

    reason: str = ""
    faults: FaultPlan | None = None
    length: int = 0

    def add(self, row: Row, faults: FaultPlan | None) -> None:
        reason = likeness(row.reason) if row.outcome is Outcome.INVALID else ""
        same = reason == self.reason and faults == self.faults
        self.length = self.length + 1 if reason and same else int(bool(reason))
        self.reason, self.faults = reason, faults


_ROW = pytest.StashKey[Row]()
_STREAK = pytest.StashKey[_Streak]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the report with the first trial: a session without experiments leaves none."""
    if PLAN in item.stash:
        begin(item.config)
        settle(item)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run an experiment's function as a trial; its row decides how the item ends."""
    if PLAN not in pyfuncitem.stash:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    trial = pyfuncitem.funcargs["trial"]
    assert isinstance(trial, Trial)
    settings = pyfuncitem.config.stash[SETTINGS]
    store = settings.store
    row = runner.run(trial, lambda: pyfuncitem.obj(**arguments), store, seed=settings.seed)
    _keep(pyfuncitem, row)
    if row.outcome is Outcome.VIOLATED and row.arm == TREATMENT:
        pytest.fail(_complaint(row, store), pytrace=False)
    if row.outcome in {Outcome.UNKNOWN, Outcome.INVALID}:
        pytest.skip(_skipped(row))
    return True


def _keep(item: pytest.Item, row: Row) -> None:
    """Remember the row for the report; end the run when trial after trial fails for the same reason."""
    item.stash[_ROW] = row
    streak = item.config.stash.setdefault(_STREAK, _Streak())
    streak.add(row, item.stash.get(FAULTS, None))
    if streak.length >= _SAME_INVALID:
        reason = _first_line(row.reason)
        item.session.shouldfail = f"{streak.length} trials in a row were INVALID for the same reason: {reason}"
    item.config.hook.pytest_holdback_judged(config=item.config, row=row)


def _first_line(text: str) -> str:
    """What happened; the end of a log, which may follow, stands above already."""
    return text.partition("\n")[0]


def _complaint(row: Row, store: Store) -> str:
    history = os.path.relpath(store.history_path(row.id))
    return f"{row.reason}\n  arm: {row.arm}  {row.variant}\n  history: {history}\n  timeline: holdback show {row.id}"


def _skipped(row: Row) -> str:
    return f"{row.outcome.name}: {row.reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn failures of the infrastructure into what they are, and say the outcome with the report."""
    report = yield
    plan = item.stash.get(PLAN, None)
    if plan is None:
        return report
    error = call.excinfo.value if call.excinfo else None
    if call.when == "setup" and isinstance(error, Exception):
        _setup_failed(item, plan, error, report)
    if isinstance(error, HoldbackError) and report.failed:
        report.longrepr = str(error)
    if isinstance(error, _FOR_ALL):
        item.session.shouldfail = _first_line(error.message)
    if spared := item.stash.get(SPARED, ""):
        vars(report)["holdback"] = {"spared": spared}
    elif call.when != "teardown" and (row := item.stash.get(_ROW, None)):
        # An attribute of the report travels from a worker of pytest-xdist to the controller.
        vars(report)["holdback"] = {"outcome": row.outcome.value, "seconds": row.seconds}
        if report.skipped:
            _, line, _ = item.location
            report.longrepr = (str(item.path), (line or 0) + 1, f"Skipped: {_skipped(row)}")
    return report


def _setup_failed(item: pytest.Item, plan: Plan, error: Exception, report: pytest.TestReport) -> None:
    """A world that cannot be had makes the trial INVALID.

    A variant or an option that cannot be leaves no row: no trial began, of this arm or of the other, which it may be
    about. Nor does a report that cannot be written, or is another run's.
    """
    if isinstance(error, _FOR_ALL):
        return
    try:
        _keep(item, runner.invalid(plan, error, item.config.stash[SETTINGS].store))
    except EvidenceError as full:
        item.session.shouldfail = _first_line(full.message)
        report.longrepr = str(full)
        return
    report.outcome = "skipped"


def pytest_report_teststatus(
    report: pytest.CollectReport | pytest.TestReport, config: pytest.Config
) -> tuple[str, str, str] | None:
    """A violated control counts as passed: it is what a control is for. UNKNOWN and INVALID never do."""
    told = getattr(report, "holdback", None)
    if told is None or (report.failed and report.when == "setup"):
        return None
    config.stash[REPORTED] = True
    if spared := told.get("spared"):
        return (spared, "", spared.upper()) if report.when == "setup" else ("", "", "")
    outcome = Outcome(told["outcome"])
    letter = "F" if report.failed else _LETTERS[outcome]
    return report.outcome, letter, f"{outcome.name} {told['seconds']:.1f}s"
