"""The recorder: watches a world for as long as it lives, and gives each trial the window of events that is its own.

Watches live as long as the world, because starting them anew for each trial would cost more than the trial. Threads
add events; whoever waits for one is woken at once.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, cast, get_args

from holdback.clock import Clock, SystemClock
from holdback.errors import EvidenceError
from holdback.history.events import Event, Note, ObjectChange, Request, Step
from holdback.history.requests import AccessLog

if TYPE_CHECKING:
    from holdback.clusters.kinds import Kind

__all__ = ["Follower", "Recorder", "Watchable"]

_READ_EVERY = 0.005
"""Seconds between two looks at an access log: faults may be waiting for a request."""
_END_WITHIN = 10.0
_CHECK_EVERY = 1.0
"""Seconds a recording thread gets to end."""


Change = Literal["ADDED", "MODIFIED", "DELETED"]


class Watchable(Protocol):
    """What the recorder needs of `holdback.clusters.api.Api`."""

    def watch(self, kind: Kind, namespace: str = "", *, stop: threading.Event) -> Iterator[tuple[str, dict[str, Any]]]:
        """ADDED for what exists, then every change, until `stop` is set."""


class Recorder:
    """Collects events from many threads, in order.

    A mark is a place in the stream of events. What lies before the oldest open mark is dropped as soon as a mark is
    forgotten, so a recorder of hours holds no more than its open windows.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._news = threading.Condition()
        self._numbers = itertools.count(1)
        self._events: deque[tuple[int, Event]] = deque()
        self._marks: dict[int, float] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._logs: list[_Tail] = []
        self._failure: str = ""
        self._watched: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def truth(self, cluster: str, api: Watchable, kinds: Sequence[Kind]) -> None:
        """Watch these kinds straight at the API server."""
        for kind in kinds:
            self._watched.add((cluster, kind.plural))
            self._start_watch("truth", "", cluster, api, kind)

    def shadow(self, client: str, cluster: str, api: Watchable, kinds: Sequence[Kind]) -> None:
        """Watch these kinds as a controller sees them: `api` goes through that client's lane."""
        for kind in kinds:
            self._start_watch("shadow", client, cluster, api, kind)

    @property
    def watched(self) -> frozenset[tuple[str, str]]:
        """Cluster and resource (plural) of everything that is recorded of the truth."""
        return frozenset(self._watched)

    def requests(self, access_log: Path) -> None:
        """Record every request that the router logs, our own ones left out."""
        tail = _Tail(AccessLog(access_log))
        self._logs.append(tail)
        self._start(f"access log {access_log}", lambda: self._follow(tail))

    def record(self, event: Event) -> None:
        """Add an event and wake whoever waits."""
        with self._news:
            self._events.append((next(self._numbers), event))
            self._news.notify_all()

    def step(self, name: str, **detail: Any) -> None:
        """Add a step of the scenario, now."""
        self.record(Step(self._clock.now(), name, detail))

    def mark(self) -> int:
        """A mark at this moment; keeps everything after it until it is forgotten."""
        with self._news:
            mark = next(self._numbers)
            self._marks[mark] = self._clock.now()
            return mark

    def since(self, mark: int, until: int | None = None) -> tuple[Event, ...]:
        """The events after a mark (up to another one), ordered by time.

        A request is logged when it is over, and read a moment later: one that ended before the mark is not part of
        what follows it, although it arrives then.
        """
        with self._news:
            opened = self._marks.get(mark, 0.0)
            events = [event for number, event in self._events if number > mark and (until is None or number <= until)]
        ours = (event for event in events if not isinstance(event, Request) or event.at >= opened)
        return tuple(sorted(ours, key=lambda event: event.at))

    def forget(self, mark: int) -> None:
        """Drop a mark, and all that no other one keeps."""
        with self._news:
            self._marks.pop(mark, None)
            oldest = min(self._marks, default=None)
            while self._events and (oldest is None or self._events[0][0] < oldest):
                self._events.popleft()

    def await_event(
        self,
        predicate: Callable[[Event], bool],
        *,
        within: float,
        mark: int,
        check: Callable[[], None] = lambda: None,
    ) -> Event | None:
        """The first event after the mark, in the order of arrival, that satisfies `predicate`.

        Waits for it up to `within` seconds, then gives None. `predicate` sees each event once. `check` is called at
        the end and every second until then; what it raises (that the world is dead, say) ends the waiting.

        Raises:
            EvidenceError: recording has failed, so the event may never come.
        """
        events, deadline = self.follow(mark), self._clock.monotonic() + within
        while True:
            left = deadline - self._clock.monotonic()
            if found := events.await_event(predicate, within=min(left, _CHECK_EVERY)):
                return found
            check()
            if left <= _CHECK_EVERY:
                return None

    def follow(self, mark: int) -> Follower:
        """A reader of the events after the mark, which must stay open meanwhile."""
        return Follower(self, mark)

    def wake(self) -> None:
        """Make every `Follower` ask again whether it should stop."""
        with self._news:
            self._news.notify_all()

    def await_news(self, seen: int, *, within: float) -> int:
        """Wait until something newer than `seen` is recorded, or time is up; the newest event's number.

        Raises:
            EvidenceError: recording has failed.
        """
        _, newest = self._after(seen, until=self._clock.monotonic() + within)
        return newest

    def catch_up(self) -> None:
        """Return when every request that was logged before this call is recorded.

        Raises:
            EvidenceError: recording has failed or hangs.
        """
        for tail in self._logs:
            target = tail.passes + 2  # the pass under way may have read before the call
            deadline = self._clock.monotonic() + _END_WITHIN
            with self._news, tail.awaiting():
                while tail.passes < target:
                    self._raise_failure()
                    if not self._news.wait(max(0.0, deadline - self._clock.monotonic())):
                        raise EvidenceError(
                            "the access log is not read any more",
                            remedy="the machine may be overloaded, or the log's disk broken; run again with less load",
                        )

    def check(self) -> None:
        """Prove that recording goes on.

        Raises:
            EvidenceError: a recording thread has died; the message holds why.
        """
        with self._news:
            self._raise_failure()

    def close(self) -> None:
        """End all recording.

        Raises:
            EvidenceError: a thread does not end.
        """
        self._stop.set()
        for thread in self._threads:
            thread.join(_END_WITHIN)
        if left := [thread.name for thread in self._threads if thread.is_alive()]:
            raise EvidenceError(
                f"recording does not end: {', '.join(left)}",
                remedy="what was recorded is kept; the machine may be overloaded, or a disk broken",
            )

    def _after(self, seen: int, *, until: float, stop: Callable[[], bool] = lambda: False) -> tuple[list[Event], int]:
        with self._news:
            while True:
                self._raise_failure()
                fresh = list(itertools.takewhile(lambda numbered: numbered[0] > seen, reversed(self._events)))
                if fresh:
                    return [event for _, event in reversed(fresh)], fresh[0][0]
                left = until - self._clock.monotonic()
                if left <= 0 or stop():
                    return [], seen
                self._news.wait(left)

    def _raise_failure(self) -> None:
        if self._failure:
            raise EvidenceError(f"recording failed: {self._failure}", remedy="the world has to be started again")

    def _start_watch(
        self, view: Literal["truth", "shadow"], client: str, cluster: str, api: Watchable, kind: Kind
    ) -> None:
        def watch() -> None:
            for change, found in api.watch(kind, stop=self._stop):
                event = ObjectChange(
                    self._clock.now(), view, cluster, kind.plural, _change(change), _slim(found), client=client
                )
                self.record(event)

        self._start(f"{view} of {kind.plural} on {cluster}" + (f" by {client}" if client else ""), watch)

    def _follow(self, tail: _Tail) -> None:
        with closing(tail.log):
            while True:
                stopping = self._stop.is_set()
                for request in tail.log.read():
                    self.record(request)
                with self._news:
                    tail.passes += 1
                    if tail.awaited:
                        self._news.notify_all()
                if stopping:
                    return
                self._stop.wait(_READ_EVERY)

    def _start(self, name: str, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
                reason = "it ended by itself"
            except Exception as error:  # noqa: BLE001  whatever it was, trials must not go on without this record
                reason = f"{type(error).__name__}: {error}"
            if not self._stop.is_set():
                self._failure = f"{name}: {reason}"
                self.record(Note(self._clock.now(), "recorder", self._failure, fatal=True))

        thread = threading.Thread(target=guarded, name=f"recorder: {name}", daemon=True)
        self._threads.append(thread)
        thread.start()


class Follower:
    """Reads a recorder's events in the order of arrival, each once, over any number of waits. For one thread."""

    def __init__(self, recorder: Recorder, mark: int) -> None:
        self._recorder = recorder
        self._seen = mark
        self._unread: deque[Event] = deque()

    def await_event(
        self, predicate: Callable[[Event], bool], *, within: float, stop: Callable[[], bool] = lambda: False
    ) -> Event | None:
        """The next event that satisfies `predicate`; those before it are read and gone, those after it are not.

        Gives None when `within` seconds have passed, or when `stop` says so (see `Recorder.wake`).

        Raises:
            EvidenceError: recording has failed, so the event may never come.
        """
        deadline = self._recorder._clock.monotonic() + within
        while True:
            while self._unread:
                event = self._unread.popleft()
                if predicate(event):
                    return event
            events, self._seen = self._recorder._after(self._seen, until=deadline, stop=stop)
            if not events:
                return None
            self._unread.extend(events)


class _Tail:
    """An access log, how many times it was read to its end, and how many wait for that.

    Somebody always reads, so the others are woken only when one of them waits.
    """

    def __init__(self, log: AccessLog) -> None:
        self.log = log
        self.passes = 0
        self.awaited = 0

    @contextmanager
    def awaiting(self) -> Iterator[None]:
        """Within the block its passes are told. To be used under the recorder's lock."""
        self.awaited += 1
        try:
            yield
        finally:
            self.awaited -= 1


def _change(word: str) -> Change:
    if word not in get_args(Change):
        raise EvidenceError(f"a watch said {word!r}", remedy="see the log of that cluster's API server")
    return cast(Change, word)


def _slim(found: dict[str, Any]) -> dict[str, Any]:
    """The object without what is bulky and never judged; the given one stays as it is."""
    slim = {**found, "metadata": {key: value for key, value in found["metadata"].items() if key != "managedFields"}}
    spec = found.get("spec")
    if isinstance(spec, dict):
        slim["spec"] = {key: value for key, value in spec.items() if key != "template"}
        if isinstance(sets := spec.get("podSets"), list):
            slim["spec"]["podSets"] = [
                {key: value for key, value in each.items() if key != "template"} for each in sets
            ]
    return slim
