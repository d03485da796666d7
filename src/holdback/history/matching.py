"""Is this event the one that a trigger waits for? Pure, but for what is remembered of each object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from holdback.faults.triggers import FaultEnded, ObjectSeen, RequestSeen, steps_of
from holdback.history.events import Event, FaultChange, ObjectChange, Request

__all__ = ["Observed", "matcher", "values_at"]

Observed = ObjectSeen | RequestSeen | FaultEnded
"""The triggers that wait for an event."""


def matcher(
    trigger: Observed, *, namespaces: Sequence[str] = (), clients: Sequence[str] = ()
) -> Callable[[Event], bool]:
    """Asked about each event in the order of arrival, from the trial's first one on, whether the trigger fires at it.

    It has to be shown events before it may fire as well: whether an object comes to match depends on what it was.

    Args:
        trigger: what to wait for.
        namespaces: those of the trial, for a trigger that names none; empty for all.
        clients: the controllers under test, for a trigger that names none; empty for all.
    """
    match trigger:
        case ObjectSeen():
            return _Objects(trigger, (trigger.namespace,) if trigger.namespace else tuple(namespaces))
        case RequestSeen():
            return _requests(trigger, (trigger.client,) if trigger.client else tuple(clients))
        case FaultEnded(fault):
            ended = str(fault)
            return lambda event: isinstance(event, FaultChange) and (event.phase, event.fault) == ("ended", ended)


class _Objects:
    """Remembers which objects match."""

    def __init__(self, trigger: ObjectSeen, namespaces: tuple[str, ...]) -> None:
        self._trigger = trigger
        self._namespaces = namespaces
        self._matching: set[tuple[str, str, str]] = set()

    def __call__(self, event: Event) -> bool:
        if not isinstance(event, ObjectChange) or not self._concerns(event):
            return False
        key = (event.cluster, event.namespace, event.name)
        matched, matches = key in self._matching, _holds(self._trigger.where, event.object)
        if event.change == "DELETED" or not matches:
            self._matching.discard(key)
        else:
            self._matching.add(key)
        if self._trigger.change:
            return matches and event.change == self._trigger.change
        return matches and not matched and event.change != "DELETED"

    def _concerns(self, event: ObjectChange) -> bool:
        trigger = self._trigger
        return (
            event.view == "truth"
            and event.resource == trigger.resource
            and fnmatchcase(event.cluster, trigger.on)
            and trigger.name in {"", event.name}
            and (not self._namespaces or event.namespace in self._namespaces)
        )


def _requests(trigger: RequestSeen, clients: tuple[str, ...]) -> Callable[[Event], bool]:
    return lambda event: (
        isinstance(event, Request)
        and (not clients or event.client in clients)
        and fnmatchcase(event.cluster, trigger.on)
        and trigger.method.upper() in {"", event.method}
        and trigger.status in {0, event.status}
        and fnmatchcase(event.path, trigger.path)
    )


def _holds(where: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    return all(_has(found, path, wanted) for path, wanted in where.items())


def _has(found: Mapping[str, Any], path: str, wanted: object) -> bool:
    values = [value for value in values_at(found, path) if value is not None]
    return not values if wanted is None else str(wanted) in map(str, values)


def values_at(found: Any, path: str) -> list[Any]:
    """Everything that a path leads to, see `ObjectSeen.where`; empty when it leads nowhere."""
    values = [found]
    for step in steps_of(path):
        values = [inner for value in values for inner in _inside(value, step)]
    return values


def _inside(value: Any, step: str) -> list[Any]:
    key = step.removeprefix("[")
    if isinstance(value, Mapping):
        return [value[key]] if key in value else []
    if isinstance(value, list | tuple) and step.startswith("["):
        return [
            entry
            for entry in value
            if key == "*" or (isinstance(entry, Mapping) and key in {entry.get("type"), entry.get("name")})
        ]
    return []
