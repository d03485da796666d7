"""Faults with triggers, in a trial whose events are made by hand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdback.clock import poll
from holdback.errors import ConfigurationError, FaultError
from holdback.faults.triggers import After, FaultEnded, ObjectSeen, RequestSeen
from holdback.faults.values import Delay, Hold
from holdback.history.events import FaultChange, ObjectChange, Request
from holdback.history.store import Store
from holdback.trials import runner
from holdback.trials.outcome import Outcome, Row
from holdback.trials.trial import DELAYS_TO_SETTLE, Trial
from tests.trials.handmade import LINK, World

SLOW = Delay(LINK, 100)
RETRY = ObjectSeen("workloads", on="manager", where={"status.state": "Retry"}, within=60)
READY = ObjectSeen("workloads", on="manager", where={"status.state": "Ready"}, within=60)


def shows(world: World, state: str, at: float | None = None) -> None:
    found = {"metadata": {"name": "w", "namespace": "ns"}, "status": {"state": state}}
    world.recorder.record(ObjectChange(at or time.time(), "truth", "manager", "workloads", "MODIFIED", found))


def in_force(world: World) -> bool:
    return bool(world.network.force)


def until(condition: Callable[[], bool]) -> None:
    assert poll(condition, within=30, every=0.002)


def changes(store: Store, row: Row) -> list[FaultChange]:
    return [change for _, change in store.history(row.id)[0].faults()]


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before  # what others began may end at any time


def test_a_fault_lasts_from_event_to_event(trial: Trial, world: World, store: Store) -> None:
    """It is in force after the first event and not before, gone after the second, and both reactions are recorded."""

    def scenario() -> None:
        with trial.inject(SLOW, start=RETRY, end=READY):
            shows(world, "Pending")
            assert not poll(lambda: in_force(world), within=0.1)
            shows(world, "Retry")
            until(lambda: in_force(world))
            shows(world, "Ready")
            until(lambda: not in_force(world))
            trial.step("done")

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.HOLDS
    started, ended = changes(store, row)
    assert [started.phase, ended.phase] == ["started", "ended"]
    assert (started.trigger, ended.trigger) == (str(RETRY), str(READY))
    assert started.reaction is not None
    assert ended.reaction is not None
    assert started.reaction > 0
    assert trial.reactions == (started.reaction,)
    assert row.faults == (str(SLOW),)
    assert row.dose_milliseconds == 100


def test_the_past_decides_what_comes_about(trial: Trial, world: World, store: Store) -> None:
    """An object that matched before the block does not fire until it stopped and matches again."""

    def scenario() -> None:
        shows(world, "Retry")
        with trial.inject(SLOW, start=RETRY):
            shows(world, "Retry")
            assert not poll(lambda: in_force(world), within=0.1)
            shows(world, "Ready")
            shows(world, "Retry")
            until(lambda: in_force(world))
        trial.step("done")

    assert runner.run(trial, scenario, store).outcome is Outcome.HOLDS


def test_the_end_counts_from_the_start_on(trial: Trial, world: World, store: Store) -> None:
    """What would end a fault is no end before its start, not even when both come in one go."""

    def scenario() -> None:
        with trial.inject(SLOW, start=RETRY, end=READY):
            for state in ("Ready", "Retry"):
                shows(world, state)
            until(lambda: in_force(world))
            shows(world, "Ready")
            until(lambda: not in_force(world))
        with trial.inject(Hold(LINK), start=RETRY, end=READY):
            for state in ("Retry", "Ready"):
                shows(world, state)
            until(lambda: len(trial.faults) == 2 and not in_force(world))
        trial.step("done")

    assert runner.run(trial, scenario, store).outcome is Outcome.HOLDS


@pytest.mark.parametrize("resource", ["workload", "jobs"])
@pytest.mark.parametrize("end", ["start", "end"])
def test_a_trigger_that_nothing_can_fire_is_refused(trial: Trial, store: Store, resource: str, end: str) -> None:
    """A trigger on objects that no watch of the world shows is an error at once, which names those that there are."""
    trigger = ObjectSeen(resource, on="manager")

    def scenario() -> None:
        with trial.inject(SLOW, start=trigger if end == "start" else None, end=trigger if end == "end" else None):
            pytest.fail("the block must not begin")

    with pytest.raises(ConfigurationError, match=f"{resource} on manager, which this world does not record") as caught:
        runner.run(trial, scenario, store)
    assert "workloads on manager" in caught.value.remedy


def test_a_start_that_never_comes_makes_the_trial_invalid(trial: Trial, world: World, store: Store) -> None:
    """When the deadline of a trigger passes the wait for the oracles ends, and the trial is INVALID with its name."""
    never = ObjectSeen("workloads", on="manager", where={"status.state": "Retry"}, within=0.2)

    def scenario() -> None:
        with trial.inject(SLOW, start=never):
            trial.settle(within=60)

    began = time.monotonic()
    row = runner.run(trial, scenario, store)
    assert time.monotonic() - began < 10
    assert row.outcome is Outcome.INVALID
    assert "the start trigger of delay 100 ms on kueue>worker1 never fired within 0.2 s" in row.reason
    assert not world.network.force


def test_an_end_that_never_comes_makes_the_trial_invalid(trial: Trial, world: World, store: Store) -> None:
    """The fault ends with its end trigger's deadline, and the trial is INVALID."""
    never = ObjectSeen("workloads", on="manager", where={"status.state": "Ready"}, within=0.1)

    def scenario() -> None:
        with trial.inject(SLOW, end=never):
            assert in_force(world)
            until(lambda: not in_force(world))
            trial.step("done")

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.INVALID
    assert "the end trigger" in row.reason


def test_a_block_that_ends_before_the_start_makes_the_trial_invalid(trial: Trial, store: Store) -> None:
    """A fault that was never in force is no trial, however the oracles judge."""

    def scenario() -> None:
        with trial.inject(SLOW, start=RETRY):
            trial.step("done")

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.INVALID
    assert "never in force" in row.reason


def test_a_block_ends_its_faults(trial: Trial, world: World, store: Store) -> None:
    """A fault whose end has not come when the block ends in time ends with the block, and the trial counts."""

    def scenario() -> None:
        with trial.inject(SLOW, start=RETRY, end=READY):
            shows(world, "Retry")
            until(lambda: in_force(world))
            trial.step("done")
        assert not in_force(world)

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.HOLDS
    ended = changes(store, row)[-1]
    assert (ended.trigger, ended.reaction) == ("", None)


@pytest.mark.parametrize("error", [FaultError("the scenario's"), KeyboardInterrupt()])
def test_an_error_in_the_block_is_the_one_that_is_raised(trial: Trial, world: World, error: BaseException) -> None:
    """Whatever ends the block, its faults end, and that they were never in force does not hide it."""
    with trial.window():
        for state in ("Pending", "Retry"):
            with pytest.raises(type(error)) as raised, trial.inject(SLOW, start=RETRY):
                shows(world, state)
                if state == "Retry":
                    until(lambda: in_force(world))
                raise error
            assert raised.value is error
            assert not in_force(world)


def test_a_fault_that_does_not_go_is_told(trial: Trial, world: World, store: Store) -> None:
    """An end by trigger that cannot be verified makes the trial INVALID with the reason."""
    world.network.refuses_to_end = True

    def scenario() -> None:
        with trial.inject(SLOW, end=After(0.05)):
            trial.settle(within=60)

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.INVALID
    assert "the delay is still there" in row.error


def test_durations_and_offsets_are_kept(trial: Trial, world: World, store: Store) -> None:
    """`After` and `later` are waited for, and are no part of the reaction."""

    def scenario() -> None:
        with trial.inject(SLOW, start=ObjectSeen("workloads", on="manager", later=0.2), end=After(0.3)):
            shows(world, "Any")
            until(lambda: len(trial.faults) == 1)
            until(lambda: not in_force(world))
            trial.step("done")

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.HOLDS
    started, ended = changes(store, row)
    (shown,) = (event for _, event in store.history(row.id)[0].objects())
    assert started.at - shown.at >= 0.2
    assert ended.at - started.at >= 0.29
    assert started.reaction == pytest.approx(started.at - shown.at - 0.2, abs=1e-5)


def test_one_fault_may_wait_for_the_end_of_another(trial: Trial, world: World, store: Store) -> None:
    """A fault that starts at another one's end comes into force after that one was verified gone."""
    hold = Hold(LINK.writes)

    def scenario() -> None:
        with trial.inject(SLOW, start=FaultEnded(hold, within=60)), trial.inject(hold, end=After(0.1)):
            until(lambda: len(trial.faults) == 2)
        trial.step("done")

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.HOLDS
    order = [(change.fault, change.phase) for change in changes(store, row)]
    assert order == [(str(fault), phase) for fault in (hold, SLOW) for phase in ("started", "ended")]


def test_a_request_of_before_fires_nothing(trial: Trial, world: World, store: Store) -> None:
    """A request that was answered before the block is none of it, though the log tells of it only later."""

    def asked(at: float) -> None:
        world.recorder.record(Request(at, "kueue", "manager", "PATCH", "/api/v1/pods/p", 200, 0.0))

    def scenario() -> None:
        with trial.inject(SLOW, start=RequestSeen("PATCH", within=60)):
            asked(time.time() - 1)
            assert not poll(lambda: in_force(world), within=0.1)
            asked(time.time())
            until(lambda: in_force(world))
        trial.step("done")

    assert runner.run(trial, scenario, store).outcome is Outcome.HOLDS


def test_the_deadline_counts_faults_to_come(trial: Trial, world: World) -> None:
    """A delay that may still come into force prolongs the wait for the oracles."""
    with trial.window():
        trial.step("done")
        with trial.inject(SLOW, start=RETRY):
            trial.settle(within=5)
            (_, settle), *_ = trial.history(closed=False).steps("settle")
            assert settle.detail["deadline"] - settle.at == pytest.approx(5 + DELAYS_TO_SETTLE * 0.1, abs=0.5)
            shows(world, "Retry")
            until(lambda: in_force(world))


def test_reaction_is_quick(trial: Trial, world: World, store: Store, tmp_path: Path) -> None:
    """From event to fault in force the trial itself takes less than the 20 ms that are promised, on a free machine.

    Hence the quickest of many counts: the others may have waited for whatever else the machine does.
    """

    def scenario() -> None:
        for _ in range(21):
            with trial.inject(SLOW, start=RETRY, end=READY):
                shows(world, "Retry")
                until(lambda: in_force(world))
                shows(world, "Ready")
                until(lambda: not in_force(world))
        trial.step("done")

    assert runner.run(trial, scenario, store).outcome is Outcome.HOLDS
    assert min(trial.reactions) < 0.02
