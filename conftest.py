"""The repository's own fixtures, for e2e/ and bench/, and what is made only when asked for."""

from __future__ import annotations

import pytest

pytest_plugins = ["fixtures.kueue"]


ON_REQUEST = ("quiet", "unaimed")
"""Markers of what would fail a run for no fault of the code: too busy a machine, too rare a bug."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what carries a marker of `ON_REQUEST`, unless `-m` names it."""
    left_out = [name for name in ON_REQUEST if name not in str(config.option.markexpr)]
    unasked = [item for item in items if any(item.get_closest_marker(name) for name in left_out)]
    if unasked:
        config.hook.pytest_deselected(items=unasked)
        items[:] = [item for item in items if not any(item.get_closest_marker(name) for name in left_out)]
