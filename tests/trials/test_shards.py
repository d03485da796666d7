"""Shards: what each makes, and what is known of all of them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from holdback.clock import FakeClock
from holdback.errors import ConfigurationError
from holdback.history.store import Store
from holdback.trials.shards import Shard, await_finished, missing_shards, read_shard
from tests.report.sample import report


@pytest.mark.parametrize(("count", "of"), [(1, 1), (7, 3), (200, 8), (5, 8), (0, 2)])
def test_the_parts_add_up(count: int, of: int) -> None:
    """All shards together make the count, and none makes more than one trial an arm more than another."""
    parts = [Shard(number, of, 1).part(count) for number in range(1, of + 1)]
    assert sum(parts) == count
    assert max(parts) - min(parts) <= 1


def test_every_shard_draws_other_trials() -> None:
    """No two shards have one seed, be they of the same run, of another one, or of another division."""
    seeds = [Shard(number, of, seed).own_seed for seed in (1, 2) for of in (2, 3) for number in range(1, of + 1)]
    assert len(set(seeds)) == len(seeds) == 10
    assert Shard(3, 8, 5).own_seed == Shard(3, 8, 5).own_seed


@pytest.mark.parametrize("word", ["", "3", "0/8", "9/8", "3/0", "-1/8", "1/x", "1/8/2", "1.5/8"])
def test_a_word_that_names_no_shard(word: str) -> None:
    """It is refused, with what to give instead."""
    with pytest.raises(ConfigurationError, match="names no shard") as refused:
        read_shard(word, 1)
    assert "1/8" in refused.value.remedy


def test_a_word_that_names_one() -> None:
    """`3/8` is the third of eight, of the run with the seed."""
    assert read_shard("3/8", 5) == Shard(3, 8, 5)


def test_what_is_missing_is_told_for_each_run_in_parts() -> None:
    """Runs that are no shards miss nothing; of each other run, the shards that are not there are named."""
    there = [Shard(1, 3, 5), Shard(3, 3, 5), Shard(1, 2, 6), Shard(2, 2, 6)]
    runs = [{"shard": asdict(each)} for each in there]
    assert missing_shards([*runs, {"seed": 5}, {"shard": None}]) == (Shard(2, 3, 5),)
    assert missing_shards([{"seed": 5}]) == ()


def finish(store: Store) -> None:
    store.summarise({"run": store.run()["id"]})


def test_a_finished_report_is_not_waited_for(tmp_path: Path) -> None:
    """Where all are finished no time passes."""
    finish(report(tmp_path, "v", "h"))
    clock = FakeClock()
    assert await_finished([tmp_path], within=60, clock=clock) == ()
    assert clock.monotonic() == FakeClock().monotonic()


def test_a_report_that_is_finished_meanwhile(tmp_path: Path) -> None:
    """It is waited for, by name, also when it is not there at first."""
    told: list[list[Path]] = []

    def waiting(left: object) -> None:
        told.append(list(left))  # type: ignore[call-overload]
        if len(told) == 3:
            finish(report(tmp_path / "late", "v", "h"))

    finish(report(tmp_path / "early", "v", "h"))
    reports = [tmp_path / "early", tmp_path / "late"]
    assert await_finished(reports, within=60, waiting=waiting, clock=FakeClock()) == ()
    assert told == [[tmp_path / "late"]] * 3


def test_what_is_not_finished_in_time_is_named(tmp_path: Path) -> None:
    """A report without a summary, one with that of an earlier run, and one that is not there."""
    killed, stale = report(tmp_path / "killed", "v", "h"), report(tmp_path / "stale", "v", "h")
    stale.summarise({"run": "another"})
    clock = FakeClock()
    reports = [killed.directory, stale.directory, tmp_path / "absent"]
    assert await_finished(reports, within=60, clock=clock) == tuple(reports)
    assert clock.monotonic() == FakeClock().monotonic() + 60
