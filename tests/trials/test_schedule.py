"""The order of trials."""

from __future__ import annotations

import subprocess
import sys

from holdback.trials.schedule import Slot, derive, order


def slots(experiment: str, count: int) -> list[Slot]:
    """As pytest collects them: all of one arm, then all of the other."""
    return [Slot(experiment, arm, index) for arm in ("control", "treatment") for index in range(count)]


def test_each_block_holds_one_trial_of_each_arm() -> None:
    """Trials 2n and 2n+1 are the n-th of both arms."""
    items = slots("a", 50)
    ordered = [items[number] for number in order(items, seed=1)]
    for n in range(50):
        pair = ordered[2 * n : 2 * n + 2]
        assert {slot.arm for slot in pair} == {"control", "treatment"}
        assert {slot.index for slot in pair} == {n}


def test_neither_arm_always_goes_first() -> None:
    """Over 400 blocks each arm goes first in about half (40% to 60%: beyond that by luck once in 15,000 seeds)."""
    items = slots("a", 400)
    first = [items[number].arm for number in order(items, seed=3)][::2]
    assert 160 <= first.count("control") <= 240


def test_the_seed_alone_decides() -> None:
    """The order of collection, within what pytest may do, changes nothing, and another seed gives another order."""
    items = slots("a", 20)
    ordered = [items[number] for number in order(items, seed=1)]
    turned = items[::-1]
    assert [turned[number] for number in order(turned, seed=1)] == ordered
    assert [items[number] for number in order(items, seed=2)] != ordered


def test_experiments_follow_each_other() -> None:
    """Experiments keep the order in which they come, and every trial is made once."""
    items = slots("b", 3) + slots("a", 3)
    ordered = order(items, seed=1)
    assert [items[number].experiment for number in ordered] == ["b"] * 6 + ["a"] * 6
    assert sorted(ordered) == list(range(12))


def test_doses_are_mixed_and_blocks_stay_within_one() -> None:
    """Each repetition has every dose once, in an order that changes; a block is of one dose, and its index its own."""
    items = [Slot("a", arm, n, dose, 3) for arm in ("control", "treatment") for dose in range(3) for n in range(40)]
    ordered = [items[number] for number in order(items, seed=5)]
    pairs = [ordered[at : at + 2] for at in range(0, len(ordered), 2)]
    assert all({slot.arm for slot in pair} == {"control", "treatment"} for pair in pairs)
    assert all(len({(slot.index, slot.dose_number) for slot in pair}) == 1 for pair in pairs)
    assert len({pair[0].index for pair in pairs}) == 120
    rounds = [tuple(pair[0].dose_number for pair in pairs[at : at + 3]) for at in range(0, 120, 3)]
    assert {tuple(sorted(each)) for each in rounds} == {(0, 1, 2)}
    assert len(set(rounds)) == 6


def test_a_lone_arm_is_ordered_too() -> None:
    """Where an arm was deselected the other one's trials are still made."""
    items = [Slot("a", "control", index) for index in (2, 0, 1)]
    assert [items[number].index for number in order(items, seed=1)] == [0, 1, 2]


def test_derived_seeds_are_the_same_in_every_process() -> None:
    """Python's own hash differs between processes; this does not."""
    words = (7, "trial", "a::b", 3)
    code = f"from holdback.trials.schedule import derive; print(derive(*{words!r}))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(other.stdout) == derive(*words)
    assert derive(7, "trial", "a::b", 4) != derive(*words)
    assert derive(1, 23) != derive(12, 3)
