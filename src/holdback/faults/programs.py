"""Faults on processes, as effects: paused, dead or started again, and verified to work afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdback.process import Running

__all__ = ["Dead", "Paused", "Restarted"]


@dataclass(frozen=True, slots=True)
class Paused:
    """The program stands still, and its connections with it."""

    program: Running

    def begin(self) -> None:
        self.program.pause()

    def undo(self) -> Sequence[str]:
        lost = [] if self.program.paused() else [self.program.name]
        self.program.resume()
        self.program.await_ready()
        return lost

    def left(self) -> Sequence[str]:
        return [self.program.name] if self.program.paused() else []


@dataclass(frozen=True, slots=True)
class Dead:
    """The program is gone, killed as by a crash, until it is started again."""

    program: Running

    def begin(self) -> None:
        self.program.kill()

    def undo(self) -> Sequence[str]:
        lost = [] if self.program.down() else [self.program.name]
        self.program.start()
        self.program.await_ready()
        return lost

    def left(self) -> Sequence[str]:
        return [self.program.name] if self.program.down() else []


@dataclass(frozen=True, slots=True)
class Restarted:
    """The program is killed and started again at once; over when it is ready."""

    program: Running

    def begin(self) -> None:
        self.program.kill()
        self.program.start()

    def undo(self) -> Sequence[str]:
        self.program.start()  # does nothing to one that runs, as it should by now
        self.program.await_ready()
        return []

    def left(self) -> Sequence[str]:
        return [self.program.name] if self.program.down() else []
