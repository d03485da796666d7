"""The search, with worlds that are functions from a plan to how often it fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from pathlib import Path

import pytest

from holdback.errors import ConfigurationError, EvidenceError
from holdback.faults.plan import FaultPlan, PlannedFault, PlannedInjection
from holdback.faults.triggers import After
from holdback.faults.values import Delay, Hold
from holdback.replay.shrinking import Shrinking, fewest
from holdback.trials.outcome import Outcome

World = Callable[[FaultPlan], Outcome]


def delay(number: int, milliseconds: int = 100) -> PlannedFault:
    return PlannedFault(Delay, f"kueue-{{arm}}>worker{number}", {"milliseconds": milliseconds})


def plan(*injections: PlannedInjection) -> FaultPlan:
    return FaultPlan(Path("plan.yaml"), "t.py::test_it", 7, injections)


def of(*faults: PlannedFault) -> FaultPlan:
    return plan(PlannedInjection(faults))


def fails(when: bool) -> Outcome:
    return Outcome.VIOLATED if when else Outcome.HOLDS


def searched(
    whole: FaultPlan, world: World, *, repeats: int = 3, budget: int = 200, lasted: tuple[float, ...] = (0.0,)
) -> Shrinking:
    """A search to its end."""
    shrinking = Shrinking(whole, lasted, repeats=repeats, budget=budget)
    trials = shrinking.trials()
    candidate = next(trials)
    while True:
        try:
            candidate = trials.send((world(candidate.plan), "so it is"))
        except StopIteration:
            return shrinking


def targets(found: FaultPlan) -> set[str]:
    return {fault.target[-1] for fault in found.faults}


def subsets(elements: str) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(elements, size) for size in range(1, len(elements) + 1))


@pytest.mark.parametrize("needed", list(subsets("01234")), ids="".join)
def test_what_is_needed_is_what_is_left(needed: tuple[str, ...]) -> None:
    """Whichever of five faults the failure needs, these are left, and none else."""
    whole = plan(PlannedInjection((delay(0), delay(1))), PlannedInjection((delay(2), delay(3), delay(4))))
    found = searched(whole, lambda tried: fails(set(needed) <= targets(tried)), lasted=(0.0, 0.0))
    assert targets(found.best) == set(needed)
    assert len(found.best) == len(whole)


def test_no_fault_of_the_result_can_go() -> None:
    """With needs that no subset has in common (this one, or those two), what is left is minimal nevertheless."""
    asked: list[tuple[int, ...]] = []

    def needs(kept: tuple[int, ...]) -> bool:
        asked.append(kept)
        return {3} <= set(kept) or {0, 6} <= set(kept)

    search = fewest(range(8))
    try:
        kept = next(search)
        while True:
            kept = search.send(needs(kept))
    except StopIteration as end:
        found = end.value
    assert needs(found)
    assert not any(needs(tuple(each for each in found if each != gone)) for gone in found)
    assert asked[0] == ()
    assert len(asked) < 2**8


def test_a_failure_that_needs_no_fault_is_told() -> None:
    """Nothing at all is tried first, and if that fails nothing is left."""
    found = searched(of(delay(1), delay(2)), lambda _: Outcome.VIOLATED)
    assert found.best.faults == ()
    assert len(found.best) == 1


def test_the_dose_ends_near_its_threshold() -> None:
    """The dose that is left fails, and is at most a sixteenth of the first dose above the one that does not."""
    found = searched(
        of(delay(1, 160), delay(2, 160)),
        lambda tried: fails(
            any(fault.target[-1] == "1" and fault.settings["milliseconds"] >= 47 for fault in tried.faults)
        ),
    )
    assert targets(found.best) == {"1"}
    assert 47 <= found.best.faults[0].settings["milliseconds"] <= 57


def test_a_hold_ends_near_what_it_needs() -> None:
    """A fault that lasts as long as the scenario's block gets an end of its own; one that cannot be told none."""

    def needs_one_second(tried: FaultPlan) -> Outcome:
        end = tried.injections[0].end
        return fails(bool(tried.faults) and (end is None or (isinstance(end, After) and end.seconds >= 1)))

    whole = of(PlannedFault(Hold, "kueue-{arm}>worker1", {}))
    end = searched(whole, needs_one_second, lasted=(8.0,)).best.injections[0].end
    assert isinstance(end, After)
    assert 1 <= end.seconds <= 1.5
    assert searched(whole, needs_one_second, lasted=(0.0,)).best == whole


@pytest.mark.parametrize("budget", range(10, 60))
def test_the_budget_is_the_most(budget: int) -> None:
    """However few the trials are, no more are made, what is found fails, and it is said whether that is sure."""
    made: list[FaultPlan] = []

    def world(tried: FaultPlan) -> Outcome:
        made.append(tried)
        return fails({"1", "4"} <= targets(tried))

    found = searched(of(*map(delay, range(6))), world, budget=budget)
    assert len(made) == found.used <= budget
    assert {"1", "4"} <= targets(found.best)
    assert found.sure is not None
    assert (found.sure.candidate.plan, found.sure.violated) == (found.best, 3)


def test_a_noisy_world_is_not_believed_too_soon() -> None:
    """Where the needed fault fails in 95% and its lack in 20% of trials, in 19 of 20 searches it is not left out."""
    searches = kept = 0
    for seed in range(200):
        draws = random.Random(seed)

        def world(tried: FaultPlan, draws: random.Random = draws) -> Outcome:
            return fails(draws.random() < (0.95 if "2" in targets(tried) else 0.2))

        try:
            found = searched(of(*map(delay, range(4))), world, repeats=4, budget=60)
        except EvidenceError:
            continue  # the whole plan itself held once
        assert found.used <= 60
        searches += 1
        kept += "2" in targets(found.best)
    assert searches > 100
    assert kept >= 0.95 * searches


def test_a_lucky_candidate_is_given_up_for_the_one_before() -> None:
    """What failed often enough to be chosen, and then holds when tried afresh, is no result."""
    luck = iter([True] * 3)

    def world(tried: FaultPlan) -> Outcome:
        return fails(targets(tried) >= {"1"} or (not tried.faults and next(luck, False)))

    found = searched(of(delay(1, 1), delay(2, 1)), world)
    assert [each.candidate.what for each in found.tried] == [
        "the whole plan",
        "no fault at all",
        "that one again, to be sure",
        "no fault at all, to compare with",
    ]
    assert found.best == found.whole
    assert found.sure is found.tried[0]


@pytest.mark.parametrize("budget", range(10, 40))
@pytest.mark.parametrize("each", [0, 2, 3])
def test_what_is_left_is_compared_with_no_fault_at_all(each: int, budget: int) -> None:
    """Whatever the budget, as many trials as make a plan fail are made without faults, all of them, and counted."""
    draws = [0]

    def world(tried: FaultPlan) -> Outcome:
        draws[0] += not tried.faults
        return fails("1" in targets(tried) or (each > 0 and draws[0] % each == 0))

    found = searched(of(delay(1), delay(2)), world, budget=budget)
    assert found.without is not None
    assert found.without is found.tried[-1]
    assert (found.without.decided, found.without.violated > 0) == (3, each > 0)
    assert found.used <= budget


def test_a_candidate_that_cannot_be_tried_is_refused() -> None:
    """Two trials without a result refuse it, and do not count for or against anything."""
    unusable = {"1", "2", "3"}
    found = searched(
        of(*map(delay, range(4))),
        lambda tried: Outcome.INVALID if 0 < len(targets(tried) & unusable) < 3 else fails("0" in targets(tried)),
    )
    assert targets(found.best) == {"0"}
    refused = [each for each in found.tried if each.unusable]
    assert {(each.unusable, each.fails) for each in refused} <= {(2, False)}


def test_an_invalid_trial_in_between_does_not_count() -> None:
    """One trial without a result among those that fail neither refuses a plan nor counts for it."""
    outcomes = iter([Outcome.VIOLATED, Outcome.INVALID, Outcome.VIOLATED, Outcome.VIOLATED])
    found = searched(of(delay(1, 1)), lambda tried: next(outcomes, Outcome.VIOLATED) if tried.faults else Outcome.HOLDS)
    assert (found.tried[0].violated, found.tried[0].unusable, found.tried[0].fails) == (3, 1, True)


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (lambda _: Outcome.HOLDS, "the plan itself does not fail 3 times in a row: 0 of 1 trial failed"),
        (lambda _: Outcome.INVALID, r"0 of 0 trials failed, 2 had no result \(so it is\)"),
        (
            lambda tried: Outcome.VIOLATED if len(tried.faults) == 8 else Outcome.INVALID,
            "6 trials in a row had no result; the last one: so it is",
        ),
    ],
)
def test_a_search_that_leads_nowhere_says_why(world: World, words: str) -> None:
    """A plan that does not fail reliably, and trials without results, end it with an error that has their reason."""
    with pytest.raises(EvidenceError, match=words):
        searched(of(*map(delay, range(8))), world)


@pytest.mark.parametrize(("repeats", "budget"), [(0, 60), (5, 15), (20, 60)])
def test_numbers_that_cannot_be_are_refused(repeats: int, budget: int) -> None:
    """No repeats, and a budget without room for a single candidate, are errors with a number that would do."""
    with pytest.raises(ConfigurationError) as error:
        Shrinking(of(delay(1)), (0.0,), repeats=repeats, budget=budget)
    assert error.value.remedy.startswith(("give 1 or more", f"give --trials={3 * repeats + 1}"))


def test_the_best_so_far_is_there_at_any_time() -> None:
    """A search that is abandoned after any trial has a plan that failed, or says that it has none."""
    whole = of(*map(delay, range(5)))
    for stop in range(1, 60):
        shrinking = Shrinking(whole, (0.0,), repeats=3, budget=60)
        trials = shrinking.trials()
        candidate = next(trials)
        for _ in range(stop):
            try:
                candidate = trials.send((fails("3" in targets(candidate.plan)), ""))
            except StopIteration:
                break
        assert shrinking.found == (stop >= 3)
        assert "3" in targets(shrinking.best)
