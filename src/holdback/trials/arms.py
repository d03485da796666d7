"""Arms, and the mark that makes a pytest function an experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from holdback.errors import ConfigurationError
from holdback.oracles.judgement import Oracle

__all__ = ["ARMS", "CONTROL", "MARK", "TREATMENT", "experiment"]

CONTROL = "control"
"""The arm with the bug."""
TREATMENT = "treatment"
"""The arm with the fix."""
ARMS = (CONTROL, TREATMENT)
MARK = "holdback_experiment"
"""The pytest mark that carries an experiment's oracles and arms."""

F = TypeVar("F", bound=Callable[..., object])


def experiment(*, oracles: Sequence[Oracle], arms: Sequence[str] = ARMS) -> Callable[[F], F]:
    """Make a test function an experiment: it runs in each arm, and `oracles` judge what was recorded, not asserts.

    Raises:
        ConfigurationError: no oracle, something that is none, or arms that do not exist.
    """
    if not isinstance(oracles, Sequence) or not all(map(callable, oracles)):
        raise ConfigurationError(
            f"oracles={oracles!r} is no list of functions",
            remedy="write oracles=[readmitted]: each takes a history and returns a Finding",
        )
    if not oracles:
        raise ConfigurationError("an experiment without oracles decides nothing", remedy="name at least one oracle")
    if not arms or set(arms) - set(ARMS):
        raise ConfigurationError(f"arms {list(arms)} are unknown", remedy=f"choose from {', '.join(ARMS)}")

    def mark(function: F) -> F:
        marked: F = pytest.mark.holdback_experiment(oracles=tuple(oracles), arms=tuple(arms))(function)
        return marked

    return mark
