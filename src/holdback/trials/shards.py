"""A run in parts, each on a machine of its own: what a part makes, from which seed, and whether all are there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdback.clock import Clock, poll
from holdback.errors import ConfigurationError
from holdback.history.store import Store
from holdback.trials.schedule import derive

__all__ = ["Shard", "await_finished", "missing_shards", "read_shard", "shards_of"]

_LOOK_EVERY = 2.0
"""Seconds between two looks at reports that other machines write."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number` of `of` (from 1) of the run with this seed, which all its shards are given."""

    number: int
    of: int
    seed: int

    @property
    def own_seed(self) -> int:
        """The seed of this part's trials: no two shards of a run make the same ones."""
        return derive(self.seed, "shard", self.number, self.of)

    def part(self, count: int) -> int:
        """How many of an arm's `count` trials it makes; the parts of all shards add up to `count`."""
        whole, left = divmod(count, self.of)
        return whole + (self.number <= left)

    def __str__(self) -> str:
        return f"shard {self.number} of {self.of} of the run with seed {self.seed}"


def read_shard(word: str, seed: int) -> Shard:
    """What `3/8` means.

    Raises:
        ConfigurationError: it means nothing, or there is no such shard.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", word.strip())
    number, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= of:
        raise ConfigurationError(
            f"{word!r} names no shard", remedy="give its number and how many there are: 1/8, 2/8, ... 8/8"
        )
    return Shard(number, of, seed)


def shards_of(runs: Iterable[Mapping[str, Any]]) -> list[Shard]:
    """The shards among runs, by their run.json."""
    told = [run["shard"] for run in runs if run.get("shard")]
    return [Shard(each["number"], each["of"], each["seed"]) for each in told]


def missing_shards(runs: Iterable[Mapping[str, Any]]) -> tuple[Shard, ...]:
    """The shards that are not among the runs although others of the same run are."""
    there = set(shards_of(runs))
    runs_in_parts = dict.fromkeys((each.of, each.seed) for each in sorted(there, key=str))
    wanted = (Shard(number, of, seed) for of, seed in runs_in_parts for number in range(1, of + 1))
    return tuple(each for each in wanted if each not in there)


def await_finished(
    reports: Sequence[Path],
    *,
    within: float,
    waiting: Callable[[Sequence[Path]], None] = lambda _reports: None,
    clock: Clock | None = None,
) -> tuple[Path, ...]:
    """Wait until each report is there and finished; those that were not within so many seconds.

    `waiting` is told at each look which ones are waited for.
    """

    def unfinished() -> tuple[Path, ...]:
        return tuple(each for each in reports if not Store(each).finished)

    def all_there() -> bool:
        left = unfinished()
        if left:
            waiting(left)
        return not left

    return () if poll(all_there, within=within, every=_LOOK_EVERY, clock=clock) else unfinished()
