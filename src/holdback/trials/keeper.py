"""Keeps a world for many trials, and starts a new one when it broke."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from holdback.errors import HoldbackError
from holdback.trials.trial import World

__all__ = ["Keeper"]

W = TypeVar("W", bound=World)


class Keeper(Generic[W]):
    """One world at a time, made at first need.

    Args:
        make: gives the context of a new world.
        say: told when a world is given up, and why.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[W]], say: Callable[[str], None]) -> None:
        self._make = make
        self._say = say
        self._context: AbstractContextManager[W] | None = None
        self._world: W | None = None

    def world(self) -> W:
        """A world that works: the one there is, or a new one.

        Raises:
            HoldbackError: a new one cannot be started.
        """
        if self._world is not None:
            try:
                self._world.check()
            except HoldbackError as error:
                self.discard(error.message.partition("\n")[0])
        if self._world is None:
            context = self._make()
            self._world = context.__enter__()
            self._context = context
        return self._world

    def discard(self, reason: str) -> None:
        """Give up the world; that some of it could not be ended properly is expected of a broken one, and said."""
        self._say(f"this world is given up: {reason}")
        try:
            self.close()
        except (HoldbackError, ExceptionGroup) as error:
            self._say(f"while it ended: {error}")

    def close(self) -> None:
        """End the world, if there is one."""
        context, self._context, self._world = self._context, None, None
        if context is not None:
            context.__exit__(None, None, None)
