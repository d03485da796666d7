"""Sessions of a pytest inside pytest: a world made by hand, experiments that write their history, and their report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

__all__ = ["CONFTEST", "FIXED", "ORACLE", "SOURCE", "lines_of", "report_of", "rows_of", "summary_of"]

SOURCE = Path(__file__).parents[2] / "src"

CONFTEST = """
import contextlib
import pytest
from holdback.history.store import process_of
from holdback.history.recorder import Recorder
from holdback.traffic.lanes import Link

class Network:
    links = tuple(Link(f"kueue-{arm}", "worker1") for arm in ("control", "treatment"))
    def delay(self, lanes, milliseconds=0, jitter=0, of="answers", lease=None): return contextlib.nullcontext()
    hold = cut = delay
    def residue(self): return []

class World:
    def __init__(self, recorder):
        self.recorder, self.network = recorder, Network()
    def check(self): pass

@pytest.fixture
def world(trial):
    with Recorder() as recorder:
        world = World(recorder)
        trial.bind(world, variant=f"build of {trial.arm}")
        yield world

@pytest.fixture
def link(world, trial):
    return next(link for link in world.network.links if link.client.endswith(trial.arm))
"""

ORACLE = """
import holdback
from holdback import Finding, Judgement

def said(history):
    steps = history.steps("says")
    if not steps:
        return Finding("said", Judgement.UNKNOWN, "nothing was said")
    index, step = steps[-1]
    return Finding("said", Judgement(step.detail["word"]), "it said so", (index,))
"""

FIXED = (
    ORACLE
    + """
@holdback.experiment(oracles=[said])
def test_it(world, trial):
    trial.step("says", word="violated" if trial.arm == "control" else "holds")
"""
)


def report_of(inner: pytest.Pytester) -> Path:
    return inner.path / "holdback-report"


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(inner: pytest.Pytester) -> list[dict[str, Any]]:
    return lines_of(report_of(inner) / "trials.jsonl")


def summary_of(inner: pytest.Pytester) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((report_of(inner) / "summary.json").read_text())
    return found
