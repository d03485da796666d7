"""What a driver of a world needs of the trial that it drives."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Steps"]


class Steps(Protocol):
    """The part of a trial that drivers use."""

    @property
    def id(self) -> str:
        """Unique in the run; what a driver makes is named after it."""

    @property
    def arm(self) -> str:
        """Whose cluster is driven."""

    def step(self, name: str, **detail: Any) -> None:
        """Write into the history what was done."""
