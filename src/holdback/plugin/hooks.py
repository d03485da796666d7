"""Hooks by which another plugin decides which trials are made and with which faults: replaying, shrinking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from holdback.faults.plan import FaultPlan
from holdback.trials.outcome import Row
from holdback.trials.trial import Plan


@pytest.hookspec(firstresult=True)
def pytest_holdback_select(config: pytest.Config, plans: Sequence[Plan]) -> Mapping[str, Plan] | None:
    """Choose among the collected trials: by the id of each that is to be made, the plan to make it by; None for all."""


@pytest.hookspec(firstresult=True)
def pytest_holdback_faults(config: pytest.Config, plan: Plan) -> FaultPlan | None:
    """The faults that a trial puts in force in place of its scenario's own; None for those of `--plan`, if any."""


@pytest.hookspec
def pytest_holdback_judged(config: pytest.Config, row: Row) -> None:
    """A trial was judged and its row is kept. Not called where the scenario raised what is a bug in it."""
