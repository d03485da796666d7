"""A shard: one part of a run, whose verdict only all parts together give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdback.errors import ConfigurationError
from holdback.trials.arms import TREATMENT
from holdback.trials.outcome import Outcome
from holdback.trials.shards import Shard, read_shard

if TYPE_CHECKING:
    from holdback.plugin.ending import Ending


def add_option(group: pytest.OptionGroup) -> None:
    """`--shard`."""
    group.addoption(
        "--shard",
        metavar="K/N",
        help="make the K-th of N parts of --count, which N machines make side by side with the same --holdback-seed; "
        "`holdback merge` joins them and gives the verdict. The exit code says whether this part was made, not what "
        "came of it",
    )


def take_part(config: pytest.Config) -> Shard | None:
    """What `--shard` says, and leave this process only that part of `--count`.

    Raises:
        pytest.UsageError: there is no such shard, nothing is left for it, or no seed ties it to the others.
    """
    word = config.getoption("--shard")
    if word is None:
        return None
    seed = config.getoption("--holdback-seed")
    if seed is None:
        raise pytest.UsageError(
            "--shard without --holdback-seed: shards are parts of one run by their common seed\n"
            "  -> give every shard the same --holdback-seed; each draws other trials from it"
        )
    try:
        shard = read_shard(word, seed)
    except ConfigurationError as error:
        raise pytest.UsageError(f"--shard: {error}") from error
    count = getattr(config.option, "count", 1)
    config.option.count = shard.part(count)
    if config.option.count == 0:
        raise pytest.UsageError(
            f"--count={count} leaves no trial for --shard={word}\n  -> make at most {count} shards, or more trials"
        )
    return shard


def was_made(ending: Ending, failures: int) -> bool:
    """Whether a shard made its trials, whatever they showed; `failures` are pytest's.

    A violated treatment is a failure of pytest's and a result of ours. Any other one, and an arm of which no trial
    could be decided, say that this machine did not do its part.
    """
    violated = sum(row.arm == TREATMENT and row.outcome is Outcome.VIOLATED for row in ending.rows)
    arms = [arm for experiment in ending.summary.experiments for arm in experiment.arms.values()]
    return (
        all(arm.decided for arm in arms)
        and failures <= violated
        and not (ending.unjudged or ending.damages or ending.summary.interrupted)
    )
