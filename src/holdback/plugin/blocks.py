"""What depends on the trials before it: whether a block is still needed.

It is settled once for a block, before its first trial and in the evidence, where every process of a run can see it: so
both arms of a block are made or none, on whichever worker of pytest-xdist they are.
"""

from __future__ import annotations

import pytest

from holdback.plugin.collecting import EXPERIMENTS, PLAN
from holdback.plugin.settings import SETTINGS
from holdback.trials.outcome import read_rows

__all__ = ["SPARED", "settle"]

SPARED = pytest.StashKey[str]()
"""Of an item that is not made: what it is counted as."""
_NOT_NEEDED = "not needed"


def settle(item: pytest.Item) -> None:
    """Skip a trial that is not needed any more.

    Raises:
        EvidenceError: the evidence cannot be read or written.
    """
    settings = item.config.stash[SETTINGS]
    if not settings.until_decided:
        return
    from holdback.statistics import certain  # noqa: PLC0415  brings scipy, which takes a second

    plan, store = item.stash[PLAN], settings.store

    def ask() -> dict[str, bool]:
        rows, _ = read_rows(store)
        return {"needed": plan.experiment not in certain(rows, item.config.stash[EXPERIMENTS])}

    if not store.settle(plan.experiment, plan.block, ask)["needed"]:
        item.stash[SPARED] = _NOT_NEEDED
        pytest.skip(f"{_NOT_NEEDED}: the verdict is certain without it")
