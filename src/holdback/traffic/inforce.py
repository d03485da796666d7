"""A fault in force: what makes it, and the proof that it is gone afterwards."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from holdback.errors import FaultError, HoldbackError

__all__ = ["UNOWNED", "Effect", "InForce", "Lease", "in_force"]


@dataclass(frozen=True, slots=True)
class Lease:
    """Whose a fault is, and for how many seconds at most: one that nobody has ended by then is ended by itself.

    `owner` is a trial's id, empty for nobody's. Toxics carry it in their names.
    """

    owner: str = ""
    seconds: float = 120.0


UNOWNED = Lease()


class Effect(Protocol):
    """What makes a fault, on all of its targets together. Each method raises HoldbackError when it cannot."""

    def begin(self) -> None:
        """Bring it into force. When this fails `undo` takes away what may be in force all the same."""

    def undo(self) -> Sequence[str]:
        """Take it away; names the targets on which it was not in force any more. Again is harmless."""

    def left(self) -> Sequence[str]:
        """The targets on which it is still in force: asked, not assumed."""


class InForce:
    """One fault, ended once: by whoever started it or, when that takes too long, by its lease."""

    def __init__(self, what: str, effect: Effect, lease: Lease) -> None:
        self._what = what
        self._effect = effect
        self._lease = lease
        self._timer = threading.Timer(lease.seconds, self._expire)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._ended = False
        self._expired = False

    def start(self) -> None:
        """Bring it into force on every target, or on none.

        Raises:
            HoldbackError: the effect cannot begin.
        """
        try:
            self._effect.begin()
        except BaseException:
            # The one that failed may be in force all the same; if this fails too, the first error says why.
            with contextlib.suppress(HoldbackError):
                self._effect.undo()
            raise
        self._timer.start()

    def end(self) -> None:
        """Take it off every target, and ask whether it is gone.

        Raises:
            FaultError: it is not, or it was gone before: ended by its lease or by somebody else.
            HoldbackError: the effect cannot be undone.
        """
        self._timer.cancel()
        with self._lock:
            if self._expired:
                raise FaultError(
                    f"{self._what}: not ended within its lease of {self._lease.seconds:g} s, which then took it away",
                    remedy="let its block or its end trigger come sooner",
                )
            self._ended = True
            lost = self._effect.undo()
            left = self._effect.left()
        if left:
            raise FaultError(
                f"{self._what}: it was ended, but is still in force on {', '.join(left)}",
                remedy="start the world again",
            )
        if lost:
            raise FaultError(
                f"{self._what}: somebody else ended it before, on {', '.join(lost)}",
                remedy="let nothing else control what holdback started",
            )

    def _expire(self) -> None:
        with self._lock:
            if self._ended:
                return  # at this very moment; what is in force there by now is somebody else's
            self._expired = True
            # When this fails things stay as they are, and whoever comes next sees it: end, residue or check.
            with contextlib.suppress(HoldbackError):
                self._effect.undo()


@contextmanager
def in_force(what: str, effect: Effect, lease: Lease = UNOWNED) -> Iterator[None]:
    """The effect within the block, and verified gone after it, whatever ends the block.

    Raises:
        HoldbackError: as `InForce.start` and `InForce.end` say.
    """
    fault = InForce(what, effect, lease)
    fault.start()
    try:
        yield
    except Exception:
        fault.end()  # if this fails, it is the graver news; the other error stays its context
        raise
    except BaseException as interrupt:
        try:
            fault.end()
        except HoldbackError as failure:
            interrupt.add_note(str(failure))  # Ctrl-C stays Ctrl-C
        raise
    fault.end()
