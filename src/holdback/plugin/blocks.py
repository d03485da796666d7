"""What depends on the trials before it: whether a block is still needed, and the dose that a search gives it.

It is settled once for a block, before its first trial and in the evidence, where every process of a run can see it: so
both arms of a block are made or none, and at one dose, on whichever worker of pytest-xdist they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdback.plugin.collecting import EXPERIMENTS, PLAN
from holdback.plugin.settings import SETTINGS
from holdback.trials.outcome import read_rows

__all__ = ["SPARED", "settle"]

SPARED = pytest.StashKey[str]()
"""Of an item that is not made: what it is counted as."""
_NOT_NEEDED = "not needed"


def settle(item: pytest.Item) -> None:
    """Skip a trial that is not needed any more, and give it its dose where that is searched for.

    Raises:
        EvidenceError: the evidence cannot be read or written.
    """
    settings = item.config.stash[SETTINGS]
    if not (settings.until_decided or settings.searching):
        return
    # Here, for it brings scipy, which takes a second, and before the store is locked.
    from holdback.statistics import certain, next_dose  # noqa: PLC0415

    plan, store = item.stash[PLAN], settings.store

    def ask() -> dict[str, Any]:
        rows, _ = read_rows(store)
        sure = certain(rows, item.config.stash[EXPERIMENTS]) if settings.until_decided else ()
        dose = next_dose(row for row in rows if row.experiment == plan.experiment) if settings.searching else None
        return {"needed": plan.experiment not in sure, "dose": dose}

    settled = store.settle(plan.experiment, plan.block, ask)
    if not settled["needed"]:
        item.stash[SPARED] = _NOT_NEEDED
        pytest.skip(f"{_NOT_NEEDED}: the verdict is certain without it")
    if settings.searching:
        item.stash[PLAN] = replace(plan, dose=settled["dose"])
