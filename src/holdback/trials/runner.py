"""Everything around one trial: plan, run, record, judge, keep. No pytest in here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict

from holdback.clock import Clock, SystemClock
from holdback.errors import ConfigurationError, FaultError, HoldbackError, Undecidable
from holdback.faults.plan import write_plan
from holdback.history.exposure import exposure
from holdback.history.store import Store
from holdback.oracles.judgement import judge
from holdback.trials.outcome import UNDECIDABLE, Outcome, Row, conclude
from holdback.trials.trial import Plan, Trial

__all__ = ["invalid", "run"]


def run(
    trial: Trial,
    scenario: Callable[[], object],
    store: Store,
    clock: Clock | None = None,
    *,
    seed: int | None = None,
) -> Row:
    """Make a trial and keep its evidence: planned, recorded, judged, each before the next.

    What the scenario raises becomes part of the history, so the outcome can be computed again from disk: an error of
    holdback or a failed assert makes the trial INVALID, `Undecidable` makes it UNKNOWN. `seed` is the run's own, for
    the plan of the trial's faults that is kept.

    Raises:
        EvidenceError: the evidence cannot be written.
        ConfigurationError: the scenario asked for what cannot be, as every trial of it would; kept as INVALID.
        Exception: the scenario has a bug; the trial was kept as INVALID.
        KeyboardInterrupt: as it came; the trial stays planned and is not judged.
    """
    clock = clock or SystemClock()
    trial.world  # noqa: B018  unbound is an error before anything is planned
    began, started = clock.monotonic(), clock.now()
    store.plan({**asdict(trial.plan), "started": started})
    with trial.window():
        failure = _attempt(trial, scenario)
        trial.step("end")
        trial.world.recorder.catch_up()
        history = trial.history(closed=True)
        store.record(trial.id, history)
    if trial.injections:
        plan = write_plan(trial.injections, arm=trial.arm, experiment=trial.plan.experiment, seed=seed)
        store.keep_plan(trial.id, plan)
    findings = judge(history, trial.oracles)
    outcome, reason = conclude(history, findings)
    row = Row(
        **asdict(trial.plan),
        variant=trial.variant,
        started=started,
        seconds=round(clock.monotonic() - began, 3),
        outcome=outcome,
        reason=reason,
        findings=findings,
        faults=trial.faults,
        dose_milliseconds=trial.dose_milliseconds,
        reactions=trial.reactions,
        exposure=exposure(history),
        error=_text(failure) if failure else "",
    )
    store.judged(row.to_json())
    if failure is not None and not _expected(failure):
        raise failure
    return row


def invalid(plan: Plan, error: Exception, store: Store, clock: Clock | None = None) -> Row:
    """Keep a trial that could not even begin, because its world could not be had.

    Raises:
        EvidenceError: the evidence cannot be written.
    """
    started = (clock or SystemClock()).now()
    store.plan({**asdict(plan), "started": started})
    row = Row(
        **asdict(plan),
        variant="",
        started=started,
        seconds=0.0,
        outcome=Outcome.INVALID,
        reason=f"setup: {_text(error)}",
        error=_text(error),
    )
    store.judged(row.to_json())
    return row


def _attempt(trial: Trial, scenario: Callable[[], object]) -> Exception | None:
    """Run the scenario and then look at the world; what failed, also noted in the history.

    The world is looked at even after a failure: that a process died explains more than what came of it.
    """
    failure: Exception | None = None
    for source, work in _stages(trial, scenario):
        try:
            work()
        except Undecidable as error:
            failure = failure or error
            trial.note(UNDECIDABLE, _text(error))
        except Exception as error:  # noqa: BLE001  an exception that is a bug is raised once the evidence is kept
            failure = failure or error
            trial.note(source, _text(error), fatal=True)
    return failure


def _stages(trial: Trial, scenario: Callable[[], object]) -> Iterator[tuple[str, Callable[[], object]]]:
    def whole() -> None:
        scenario()
        trial.check_asked()

    yield "scenario", whole
    for work in trial.deferred:  # asked for only now: the scenario may have deferred more
        yield "clean-up", work
    yield "world", lambda: _look_at_world(trial)


def _look_at_world(trial: Trial) -> None:
    trial.world.check()
    trial.world.recorder.check()
    if left := trial.world.network.residue():
        raise FaultError(
            f"faults are left in the network: {'; '.join(left)}",
            remedy="put them in force with `trial.inject`, and let its block end before the scenario does",
        )


def _expected(failure: Exception) -> bool:
    if isinstance(failure, ExceptionGroup):
        return all(_expected(each) for each in failure.exceptions)
    return isinstance(failure, HoldbackError | AssertionError) and not isinstance(failure, ConfigurationError)


def _text(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        return "; ".join(_text(each) for each in error.exceptions)
    if isinstance(error, HoldbackError):
        return str(error)
    return f"{type(error).__name__}: {error}"
