"""Trials in a world made by hand: what they record, how long they wait, and what is kept of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from holdback.errors import ConfigurationError, FaultError, HoldbackError, ProcessExited, Undecidable
from holdback.faults.values import Delay, Hold
from holdback.history.events import FaultChange, Step
from holdback.history.store import Store
from holdback.oracles import Finding, Judgement
from holdback.trials import runner
from holdback.trials.outcome import Outcome, conclude, read_rows
from holdback.trials.trial import DELAYS_TO_SETTLE, Trial
from tests.trials.handmade import LINK, PLAN, World, done


def test_a_trial_leaves_plan_history_and_row(trial: Trial, store: Store) -> None:
    """All three are kept, with the faults that were in force, and the outcome follows from the stored history."""

    def scenario() -> None:
        trial.step("before")
        with trial.inject(Delay(LINK, 100, 20), Delay(LINK.writes, 50)):
            trial.step("done")

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.HOLDS
    assert row.faults == ("delay 100 ms (jitter 20 ms) on kueue>worker1", "delay 50 ms on kueue>worker1/writes")
    assert row.dose_milliseconds == 120
    assert read_rows(store) == ((row,), ())
    assert store.planned()[0][0][1]["id"] == PLAN.id
    history, damages = store.history(PLAN.id)
    assert not damages
    assert conclude(history, [done(history)]) == (row.outcome, row.reason)
    assert [step.name for _, step in history.steps()] == ["before", "done", "end"]
    changes = [(change.phase, change.milliseconds, change.blocks) for _, change in history.faults()]
    assert changes == [("started", 120, False), ("started", 50, False), ("ended", 50, False), ("ended", 120, False)]
    assert dict(history.scope) == {
        "trial": PLAN.id,
        "experiment": "test_it",
        "arm": "control",
        "variant": "v1",
        "clients": ["kueue"],
        "namespaces": ["ns"],
        "queue": "q",
    }


def test_a_hold_is_recorded_as_one(trial: Trial, store: Store) -> None:
    """A hold adds no delay that could be named, and says that nothing gets through."""

    def scenario() -> None:
        with trial.inject(Hold(LINK.watches)):
            trial.step("done")

    runner.run(trial, scenario, store)
    (_, started), _ = store.history(PLAN.id)[0].faults()
    assert started == FaultChange(
        started.at, "hold kueue>worker1/watches", "started", ("kueue>worker1/watches",), 0.0, blocks=True
    )


def raises(error: Exception) -> Callable[[], None]:
    def scenario() -> None:
        raise error

    return scenario


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (HoldbackError("worker1 is away"), Outcome.INVALID),
        (AssertionError("not as it should be"), Outcome.INVALID),
        (ExceptionGroup("two", [FaultError("one"), FaultError("other")]), Outcome.INVALID),
        (Undecidable("odd"), Outcome.UNKNOWN),
    ],
)
def test_what_a_scenario_raises_decides(world: World, store: Store, error: Exception, outcome: Outcome) -> None:
    """An error of the infrastructure is INVALID and `Undecidable` UNKNOWN, in the row and from the disk alike."""
    trial = Trial(PLAN, [lambda _: Finding("fine", Judgement.HOLDS, "fine")])
    trial.bind(world)
    row = runner.run(trial, raises(error), store)
    assert row.outcome is outcome
    assert row.error
    assert conclude(store.history(PLAN.id)[0], row.findings) == (outcome, row.reason)


@pytest.mark.parametrize(
    "error", [TypeError("a bug"), ExceptionGroup("mixed", [FaultError("one"), TypeError("a bug")])]
)
def test_a_bug_in_the_scenario_is_raised_after_it_was_kept(trial: Trial, store: Store, error: Exception) -> None:
    """The trial is INVALID on disk, and the exception reaches the user."""
    with pytest.raises(type(error)) as raised:
        runner.run(trial, raises(error), store)
    assert raised.value is error
    assert [row.outcome for row in read_rows(store)[0]] == [Outcome.INVALID]


def test_what_no_trial_could_do_is_raised(trial: Trial, store: Store) -> None:
    """A scenario that asks for what cannot be is kept as INVALID and told, for every trial of it would be the same."""
    with pytest.raises(ConfigurationError):
        runner.run(trial, raises(ConfigurationError("a delay of -1 ms")), store)
    assert [row.outcome for row in read_rows(store)[0]] == [Outcome.INVALID]


def test_ctrl_c_leaves_the_plan_alone(trial: Trial, store: Store) -> None:
    """An interrupted trial is planned, not judged, and keeps no window open in the recorder."""

    def scenario() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(trial, scenario, store)
    assert len(store.planned()[0]) == 1
    assert store.trials()[0] == []
    assert trial.world.recorder.since(0) == ()


def test_a_dead_world_makes_the_trial_invalid(trial: Trial, world: World, store: Store) -> None:
    """A process that died during the trial is its reason, although the oracle was content."""

    def scenario() -> None:
        trial.step("done")
        world.death = ProcessExited("kueue exited with 2; its log ends: panic")

    row = runner.run(trial, scenario, store)
    assert (row.outcome, row.reason) == (Outcome.INVALID, "world: kueue exited with 2; its log ends: panic")


def test_a_fault_that_stays_makes_the_trial_invalid(trial: Trial, world: World, store: Store) -> None:
    """When a fault is not verified gone the trial does not count, and both who noticed it are heard."""
    world.network.refuses_to_end = True

    def scenario() -> None:
        with trial.inject(Delay(LINK, 100)):
            trial.step("done")

    row = runner.run(trial, scenario, store)
    assert row.outcome is Outcome.INVALID
    texts = [note.text for _, note in store.history(PLAN.id)[0].notes()]
    assert any("the delay is still there" in text for text in texts)
    assert any("faults are left in the network" in text for text in texts)


def test_a_trial_without_a_world_is_refused(store: Store) -> None:
    """Nothing is planned for a test that takes no world."""
    with pytest.raises(ConfigurationError, match="no world is bound"):
        runner.run(Trial(PLAN, [done]), lambda: None, store)
    assert store.planned()[0] == []


@pytest.mark.parametrize("word", ["done", "bad"])
def test_settling_ends_as_soon_as_the_oracles_have_decided(trial: Trial, world: World, word: str) -> None:
    """What is recorded while settle() waits is judged at once, whichever way it goes."""
    with trial.window():
        threading.Timer(0.15, world.recorder.step, [word]).start()
        began = time.monotonic()
        (finding,) = trial.settle(within=60)
        assert time.monotonic() - began < 10
    assert finding.judgement is (Judgement.HOLDS if word == "done" else Judgement.VIOLATED)


def test_settling_ends_at_the_deadline(trial: Trial) -> None:
    """Undecided findings are given back when time is up."""
    with trial.window():
        (finding,) = trial.settle(within=0.2)
    assert finding.judgement is Judgement.UNKNOWN


def test_the_deadline_grows_with_the_dose(trial: Trial) -> None:
    """The deadline in the history is `within` plus twenty times the largest delay in force, none after its end."""
    with trial.window():
        trial.step("done")
        with trial.inject(Delay(LINK, 100), Delay(LINK.writes, 300)):
            trial.settle(within=5)
        trial.settle(within=5)
        steps = [event for event in trial.world.recorder.since(0) if isinstance(event, Step) and event.name == "settle"]
    allowed = [step.detail["deadline"] - step.at for step in steps]
    assert allowed == [pytest.approx(5 + DELAYS_TO_SETTLE * 0.3, abs=0.5), pytest.approx(5, abs=0.5)]


def test_settling_notices_that_the_world_died(trial: Trial, world: World) -> None:
    """A death while nothing happens is not waited out."""
    with trial.window():
        threading.Timer(0.1, setattr, [world, "death", ProcessExited("kueue exited")]).start()
        began = time.monotonic()
        with pytest.raises(ProcessExited):
            trial.settle(within=60)
        assert time.monotonic() - began < 10


def test_randomness_comes_from_the_plan(world: World) -> None:
    """Two trials with one seed draw the same numbers."""
    assert Trial(PLAN, [done]).random.random() == Trial(PLAN, [done]).random.random()


def test_what_is_deferred_is_part_of_the_trial(trial: Trial, store: Store) -> None:
    """Clean-up runs last first after a scenario that failed too, is in the history, and its failure is INVALID."""

    def refuse() -> None:
        raise HoldbackError("the Job is still there")

    trial.defer(refuse)
    trial.defer(lambda: trial.step("cleaned"))
    row = runner.run(trial, lambda: trial.step("done"), store)
    assert (row.outcome, row.reason) == (Outcome.INVALID, "clean-up: the Job is still there")
    assert [step.name for _, step in store.history(PLAN.id)[0].steps()] == ["done", "cleaned", "end"]
    again = Trial(PLAN, [done])
    again.bind(trial.world)
    again.defer(lambda: again.step("cleaned"))
    runner.run(again, raises(HoldbackError("away")), store)
    assert [step.name for _, step in store.history(PLAN.id)[0].steps()] == ["cleaned", "end"]
