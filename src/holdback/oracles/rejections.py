"""No endless rejection: a controller does not send the same write again and again to be refused again and again.

This decides a stuck trial early: a controller that is refused, changes nothing, and tries again is not waiting for
anything that could come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from holdback.history.events import FaultChange, ObjectChange, Request
from holdback.history.history import History
from holdback.oracles.judgement import Finding, Judgement

__all__ = ["no_endless_rejection"]

_TRANSIENT = frozenset({401, 404, 408, 409, 410, 429})
"""4xx that are no verdict on what was written: no valid token, the object is gone, a timeout, a stale copy, throttling.
A 409 in particular ends as soon as the controller's cache catches up; a refusal by a webhook does not."""
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")

_Object = tuple[str, str, str]
"""Resource, namespace and name: the copies of one object in several clusters are one object here."""
_Write = tuple[str, str, str, str]
"""Client, cluster, method and path."""
_NAME = "no_endless_rejection"


def no_endless_rejection(history: History, *, times: int = 6, seconds: float = 1.0) -> Finding:
    """VIOLATED when one write to one object was refused `times` times over at least `seconds` and nothing changed.

    The same write is: same client, cluster, method and path, which names an object (a refused creation does not name
    one in its path, and is not judged). Nothing changed is: no cluster's copy of that object got another content,
    where content is spec, status, labels, finalizers and deletion, without timestamps and resource versions; other
    controllers may go on writing the same status again. An object that no watch ever saw is not judged.

    The thresholds come from the workqueue of client-go, which retries after 5 ms, then twice as long each time: a
    healthy controller that is refused because its cache is a moment behind succeeds within a few tries, some tens
    of milliseconds. The eighth or ninth refusal is the first that comes later than one second. Six are asked for, so
    that a slow link, which makes each try longer, does not hide a stuck controller for long; and one second, so that
    a quick burst is not taken for an endless one. A delay in force adds three times itself.
    """
    scan = _Scan()
    requests = {index for index, _ in history.requests()}
    for index, event in enumerate(history.events):
        if isinstance(event, FaultChange):
            scan.fault(event)
        elif isinstance(event, ObjectChange):
            scan.object(event)
        elif isinstance(event, Request) and index in requests:
            streak = scan.request(index, event)
            if streak and len(streak.events) >= times and streak.last - streak.first >= seconds + scan.patience:
                return Finding(_NAME, Judgement.VIOLATED, _words(event, streak), tuple(streak.events))
    if history.closed and not requests:
        return Finding(_NAME, Judgement.UNKNOWN, "no request of the controller was recorded")
    return Finding(_NAME, Judgement.HOLDS, "no write was refused again and again")


@dataclass(slots=True)
class _Streak:
    """Refusals of one write since something last changed."""

    events: list[int]
    first: float
    last: float


@dataclass(slots=True)
class _Scan:
    """What is known on the way through a history."""

    streaks: dict[_Write, _Streak] = field(default_factory=dict)
    contents: dict[tuple[str, _Object], object] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    delay: float = 0.0

    @property
    def patience(self) -> float:
        """How long a controller behind the delay may go on without the news: seconds.

        It works on old knowledge, is refused rightly, and learns better. Three delays are a request, its answer, and
        the event that was queued behind. A delay counts on after its end: what it held back is still on its way.
        """
        return 3 * self.delay / 1000

    def fault(self, change: FaultChange) -> None:
        """While traffic is held or cut nothing bounds how late the news is, so nothing is judged."""
        self.delay = max(self.delay, change.milliseconds)
        if change.blocks:
            self.streaks.clear()
            (self.blocked.add if change.phase == "started" else self.blocked.discard)(change.fault)

    def object(self, change: ObjectChange) -> None:
        """New content of any copy of the object ends the streaks on it."""
        if change.view != "truth":
            return
        what, content = (change.resource, change.namespace, change.name), _content(change)
        if self.contents.get((change.cluster, what), ...) != content:
            self.contents[change.cluster, what] = content
            self.streaks = {write: streak for write, streak in self.streaks.items() if _object_of(write[3]) != what}

    def request(self, index: int, request: Request) -> _Streak | None:
        """The streak that a refusal prolongs; None when the request is none to be counted."""
        what = _object_of(request.path)
        if self.blocked or not _refused(request) or not any(seen == what for _, seen in self.contents):
            return None
        write = (request.client, request.cluster, request.method, request.path)
        streak = self.streaks.setdefault(write, _Streak([], request.at, request.at))
        streak.events.append(index)
        streak.last = request.at
        return streak


def _refused(request: Request) -> bool:
    return request.method in _WRITES and 400 <= request.status < 500 and request.status not in _TRANSIENT


@lru_cache(maxsize=1024)
def _object_of(path: str) -> _Object | None:
    """The object that a path names; None for a collection and for what is no resource."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    return (parts[0], namespace, parts[1]) if len(parts) > 1 else None


def _content(event: ObjectChange) -> object:
    if event.change == "DELETED":
        return None
    metadata = event.object.get("metadata", {})
    kept = {key: metadata.get(key) for key in ("uid", "labels", "annotations", "finalizers", "ownerReferences")}
    kept["deleting"] = "deletionTimestamp" in metadata
    rest = {key: value for key, value in event.object.items() if key not in {"metadata", "apiVersion", "kind"}}
    return _timeless([kept, rest])


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _timeless(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_timeless(item) for item in value]
    return "" if isinstance(value, str) and _TIMESTAMP.match(value) else value


def _words(event: Request, streak: _Streak) -> str:
    return (
        f"{event.client}'s {event.method} {event.path} on {event.cluster} was refused with {event.status} "
        f"{len(streak.events)} times in {streak.last - streak.first:.1f} s while nothing changed"
    )
