"""Faults that start and end at observed events: a thread waits for them while the scenario goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Literal, Self, get_args

from holdback.clock import Clock, SystemClock
from holdback.errors import ConfigurationError, FaultError
from holdback.faults.injection import Phase, Record
from holdback.faults.triggers import After, Injection, ObjectSeen, Trigger
from holdback.faults.values import Fault
from holdback.history.events import Event, Request
from holdback.history.matching import Observed, matcher
from holdback.history.recorder import Recorder
from holdback.traffic.lanes import Lane

__all__ = ["SCENARIO", "Cause", "Changed", "Scheduled"]

_End = Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Cause:
    """What brings a change of a fault about: a trigger in words, and the wall time at which the change was due."""

    trigger: str = ""
    due: float | None = None


SCENARIO = Cause()
"""The scenario itself, by entering or leaving a block."""
Changed = Callable[[Fault, Phase, tuple[Lane, ...], Cause], None]
"""Told, from any thread, when a fault came into force or was verified gone, and why."""


class Scheduled:
    """The faults of one injection, for the time of a `with` block.

    The start is waited for from the beginning of the block, the end from the event of the start on. The faults are
    over when the block is, whatever was fired by then. An end that has not fired when the block ends in its time is no
    failure: what it waits for may be the very thing that a bug prevents.

    Args:
        injection: the faults and their triggers.
        inject: puts the faults into force for the time of a context.
        recorder: sees the events.
        window: the mark at which the trial began: what objects were before the block decides what they come to be.
        changed: told of each change.
        namespaces: those of the trial.
        clients: the controllers under test.

    Raises:
        ConfigurationError: at once: a trigger waits for what is not recorded.
        FaultError: at the end of the block: a trigger never fired.
        HoldbackError: likewise: a fault could not be started or ended.
    """

    def __init__(
        self,
        injection: Injection,
        inject: Callable[[Sequence[Fault], Record], AbstractContextManager[None]],
        recorder: Recorder,
        *,
        window: int,
        changed: Changed,
        namespaces: Sequence[str] = (),
        clients: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> None:
        self.injection = injection
        self._inject = inject
        self._recorder = recorder
        self._window = window
        self._changed = changed
        self._clock = clock or SystemClock()
        triggers: dict[_End, Trigger | None] = {"start": injection.start, "end": injection.end}
        for trigger in triggers.values():
            _check_recorded(trigger, recorder.watched)
        self._matchers = {
            end: matcher(trigger, namespaces=namespaces, clients=clients)
            for end, trigger in triggers.items()
            if isinstance(trigger, get_args(Observed))
        }
        self._cause = SCENARIO
        self._was_in_force = False
        self._failure: Exception | None = None
        self._leaving = threading.Event()
        self._decided = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"faults: {injection}", daemon=True)

    @property
    def over(self) -> bool:
        """Whether its faults will never be in force any more."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise what went wrong so far."""
        if self._failure:
            raise self._failure

    def __enter__(self) -> Self:
        self._armed = self._recorder.mark()
        self._since = self._clock.now()
        for event in self._recorder.since(self._window, until=self._armed):
            self._see(event)
        self._events = self._recorder.follow(self._armed)
        self._thread.start()
        try:
            if self.injection.start is None:
                self._decided.wait()
                self.check()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        failure = self._failure
        if failure is None and error is None and not self._was_in_force:
            failure = FaultError(
                f"never in force, for the block ended before: {self.injection}",
                remedy="let the scenario wait until it has happened, or start it at something that does happen",
            )
        if failure is None or failure is error:
            return
        if error is not None and not isinstance(error, Exception):
            error.add_note(str(failure))  # Ctrl-C stays Ctrl-C
            return
        raise failure

    def _leave(self) -> None:
        self._leaving.set()
        self._recorder.wake()
        self._thread.join()
        self._recorder.forget(self._armed)

    def _work(self) -> None:
        try:
            cause = self._await("start", self.injection.start)
            if cause is not None:
                self._cause = cause
                with self._inject(self.injection.faults, self._record):
                    self._was_in_force = True
                    self._decided.set()
                    self._cause = self._await_end() or SCENARIO
        except Exception as error:  # noqa: BLE001  raised where the scenario is
            self._failure = error
        finally:
            self._decided.set()
            self._recorder.wake()

    def _await_end(self) -> Cause | None:
        if self.injection.end is None:
            self._leaving.wait()
            return None
        return self._await("end", self.injection.end)

    def _await(self, end: _End, trigger: Trigger | None) -> Cause | None:
        """Why the faults start or end now; None when the block is over before."""
        if trigger is None:
            return SCENARIO
        if isinstance(trigger, After):
            return self._sleep_until(trigger, self._clock.now() + trigger.seconds)
        event = self._events.await_event(
            lambda event: self._see(event)[end] and self._is_news(event),
            within=trigger.within,
            stop=self._leaving.is_set,
        )
        if event is not None:
            self._since = event.at
            return self._sleep_until(trigger, event.at + trigger.later)
        if self._leaving.is_set():
            return None
        raise FaultError(
            f"the {end} trigger of {' and '.join(map(str, self.injection.faults))} never fired "
            f"within {trigger.within:g} s: {trigger}",
            remedy="see in the trial's timeline what happened instead; give it longer (within=), or another trigger",
        )

    def _sleep_until(self, trigger: Trigger, due: float) -> Cause | None:
        left = due - self._clock.now()
        if left > 0 and self._leaving.wait(left):
            return None
        return Cause(str(trigger), due)

    def _see(self, event: Event) -> dict[_End, bool]:
        """Show an event to every trigger, for each remembers what it was shown; which of them fire."""
        return {end: fires(event) for end, fires in self._matchers.items()}

    def _is_news(self, event: Event) -> bool:
        """A request is read from a log a moment after it was answered, so an older one may still come."""
        return not isinstance(event, Request) or event.at >= self._since

    def _record(self, fault: Fault, phase: Phase, lanes: tuple[Lane, ...]) -> None:
        self._changed(fault, phase, lanes, self._cause)


def _check_recorded(trigger: Trigger | None, watched: Collection[tuple[str, str]]) -> None:
    """An object that nobody watches is never seen: better told now than as an event that did not happen."""
    if not isinstance(trigger, ObjectSeen):
        return
    if any(resource == trigger.resource and fnmatchcase(cluster, trigger.on) for cluster, resource in watched):
        return
    there = ", ".join(f"{resource} on {cluster}" for cluster, resource in sorted(watched)) or "nothing"
    raise ConfigurationError(
        f"a trigger waits for {trigger}, which this world does not record",
        remedy=f"it records {there}; let its fixture call `recorder.truth(cluster, api, [kind])` for more",
    )
