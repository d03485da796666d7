from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdback.history.recorder import Recorder
from holdback.history.store import Store
from holdback.trials.trial import Trial
from tests.trials.handmade import PLAN, WORKLOADS, Silent, World, done


@pytest.fixture
def world() -> Iterator[World]:
    with Recorder() as recorder:
        recorder.truth("manager", Silent(), [WORKLOADS])
        yield World(recorder)


@pytest.fixture
def trial(world: World) -> Trial:
    trial = Trial(PLAN, [done])
    trial.bind(world, variant="v1", clients=["kueue"], namespaces=["ns"], queue="q")
    return trial


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path)
    store.begin({"id": "one", "started": 0.0})
    return store
