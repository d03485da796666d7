"""Triggers as plain values: at which observed event a fault starts or ends.

They only say what to wait for, so that a plan can hold them as data. `holdback.history.matching` tells whether an event
is the one, `holdback.trials.scheduled` waits for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdback.errors import ConfigurationError
from holdback.faults.values import Fault

__all__ = ["PATIENCE", "After", "FaultEnded", "Injection", "ObjectSeen", "RequestSeen", "Trigger", "steps_of"]

PATIENCE = 30.0
"""Seconds that a trigger waits for its event unless it says otherwise."""
_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]+)\]")


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object comes to be as described, in the truth: as our own watch straight at the API server shows it.

    Without `change` the trigger fires when a change makes an object match that did not match before, so one that
    matches already has to stop first. With `change` (ADDED, MODIFIED, DELETED) it fires on each such change of an
    object that matches.

    Args:
        resource: plural, lower case: `workloads`.
        on: the cluster; a pattern as in a shell (`worker*`) for any of several.
        where: values by path, all of which must be there, compared as text; None says that nothing is there.
            `status.conditions[QuotaReserved].status` is the condition of that type, `status.admissionChecks[*].state`
            any of the list, `metadata.labels[example.com/queue]` a key with dots in it.
        change: the watch's own word; empty for any.
        name: of the object; empty for any.
        namespace: empty for those of the trial.
        within: seconds from when the trigger is armed; when they have passed the trial is INVALID.
        later: seconds to wait after the event.
    """

    resource: str
    on: str
    where: Mapping[str, Any] = field(default_factory=dict)
    change: Literal["", "ADDED", "MODIFIED", "DELETED"] = ""
    name: str = ""
    namespace: str = ""
    within: float = PATIENCE
    later: float = 0.0

    def __post_init__(self) -> None:
        _check_times(self.within, self.later)
        if self.change not in {"", "ADDED", "MODIFIED", "DELETED"}:
            raise ConfigurationError(f"a watch never says {self.change!r}", remedy="it says ADDED, MODIFIED or DELETED")
        for path in self.where:
            steps_of(path)

    def __str__(self) -> str:
        what = " ".join(word for word in (self.resource, self.namespace, self.name, self.change) if word)
        where = ", ".join(f"{path}={'nothing' if value is None else value}" for path, value in self.where.items())
        return f"{what} on {self.on}{': ' if where else ''}{where}{_plus(self.later)}"


@dataclass(frozen=True, slots=True)
class RequestSeen:
    """A controller's request was answered, as the router's access log has it; a watch is answered when it ends.

    Args:
        method: POST, PATCH, ...; empty for any.
        path: a pattern as in a shell (`*/workloads/*/status`), for the path without its query; `*` also matches `/`.
        status: the answer's HTTP status; 0 for any.
        on: the cluster, or a pattern.
        client: whose request; empty for the controllers under test.
        within: seconds from when the trigger is armed; when they have passed the trial is INVALID.
        later: seconds to wait after the answer.
    """

    method: str = ""
    path: str = "*"
    status: int = 0
    on: str = "*"
    client: str = ""
    within: float = PATIENCE
    later: float = 0.0

    def __post_init__(self) -> None:
        _check_times(self.within, self.later)

    def __str__(self) -> str:
        status = f" answered {self.status}" if self.status else ""
        on = "" if self.on == "*" else f" on {self.on}"
        return (
            f"{self.client or 'the controller'}'s {self.method or 'request'} {self.path}{on}{status}{_plus(self.later)}"
        )


@dataclass(frozen=True, slots=True)
class FaultEnded:
    """Another fault of the trial was verified gone; `fault` is that fault or its description (`str(fault)`)."""

    fault: Fault | str
    within: float = PATIENCE
    later: float = 0.0

    def __post_init__(self) -> None:
        _check_times(self.within, self.later)

    def __str__(self) -> str:
        return f"end of {self.fault}{_plus(self.later)}"


@dataclass(frozen=True, slots=True)
class After:
    """So many seconds: for a start since the block began, for an end since the faults came into force."""

    seconds: float

    def __post_init__(self) -> None:
        _check_times(self.seconds)

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


Trigger = ObjectSeen | RequestSeen | FaultEnded | After


@dataclass(frozen=True, slots=True)
class Injection:
    """Faults that are in force together: from `start` (None: at once) to `end` (None: the end of the block)."""

    faults: tuple[Fault, ...]
    start: Trigger | None = None
    end: Trigger | None = None

    def __str__(self) -> str:
        faults = " and ".join(map(str, self.faults)) or "no fault"
        start = f" from {self.start}" if self.start else ""
        return f"{faults}{start}{f' to {self.end}' if self.end else ''}"


def steps_of(path: str) -> tuple[str, ...]:
    """The steps of a path into an object; one in brackets keeps its opening bracket: `a.b[c]` is `a`, `b`, `[c`.

    Raises:
        ConfigurationError: it is no path.
    """
    found = list(_STEP.finditer(path))
    if not found or "".join(match.group() for match in found) != path or path.startswith("."):
        raise ConfigurationError(
            f"{path!r} is no path into an object", remedy="write it like status.conditions[Ready].status"
        )
    return tuple(plain or f"[{bracketed}" for plain, bracketed in (match.groups() for match in found))


def _plus(later: float) -> str:
    return f" + {later:g} s" if later else ""


def _check_times(*seconds: float) -> None:
    if any(value < 0 for value in seconds):
        raise ConfigurationError(f"a trigger with {min(seconds):g} s", remedy="times are 0 s or more")
