"""What faults and checks need of something that runs, wherever it does."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

__all__ = ["Running"]


class Running(Protocol):
    """Something that runs, and can be stopped and started again as it was: `Program` is one next to us.

    `str()` of it is its name.
    """

    @property
    def name(self) -> str:
        """What messages and its log call it."""

    @property
    def log(self) -> Path:
        """The file with all that it wrote, before and after restarts."""

    def check(self) -> None:
        """Say so if it is gone, unless we killed it ourselves.

        Raises:
            ProcessError: with the end of its log.
        """

    def await_ready(self) -> None:
        """Wait until it does its work.

        Raises:
            ProcessError: it is gone, or took too long.
        """

    def pause(self) -> None:
        """It keeps its connections and does nothing; when this returns it has stopped.

        Raises:
            ProcessError: it is gone or does not stop.
        """

    def resume(self) -> None:
        """Let a paused one go on.

        Raises:
            ProcessError: it is gone.
        """

    def paused(self) -> bool:
        """Whether it is stopped: asked, not remembered."""

    def down(self) -> bool:
        """Whether it is gone."""

    def kill(self) -> None:
        """End it as by a crash; `check` finds nothing wrong with that until `start`.

        Raises:
            ProcessError: it does not die.
        """

    def start(self) -> None:
        """Start it again; it need not be ready when this returns. One that runs already is left alone.

        Raises:
            ProcessError: it cannot be started.
        """
