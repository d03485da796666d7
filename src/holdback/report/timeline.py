"""One trial as a timeline: who did or became what, and when. Pure: a history in, entries out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from holdback.history.events import Event, FaultChange, Note, ObjectChange, Request, Step
from holdback.history.history import History
from holdback.report.describing import Describer, describe_any

__all__ = ["Entry", "Tone", "brief", "timeline"]

Tone = Literal["step", "fault", "truth", "shadow", "request", "refused", "note"]
_READS = frozenset({"GET", "HEAD"})
_LONGEST_NAME = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: seconds since the trial began, whose lane it is in, what happened in words.

    `events` are the indices in the history that it stands for.
    """

    seconds: float
    lane: str
    text: str
    tone: Tone
    events: tuple[int, ...]


def timeline(
    history: History,
    describers: Mapping[str, Describer],
    *,
    shadow: bool = False,
    requests: bool = False,
) -> tuple[Entry, ...]:
    """The entries in the order of time.

    Objects are told by their changes; a state that differs in nothing that a describer knows is left out. Of the
    controller's requests the refused writes are shown, or all with `requests`; equal ones without a change of any
    object in between become one entry. `shadow` adds what the controller's own watches were told, and how late.
    """
    teller = _Teller(history, describers)
    ours = {index for index, _ in history.requests()}
    for index, event in enumerate(history.events):
        match event:
            case Step():
                teller.tell(index, event, "step", _step(event), "step")
            case FaultChange():
                teller.tell(index, event, "fault", _fault(event), "fault")
            case Note():
                teller.tell(index, event, event.source, event.text, "note")
            case ObjectChange() if history.concerns(event) and (shadow or event.view == "truth"):
                teller.object(index, event)
            case Request() if index in ours and (requests or _refused(event)):
                teller.request(index, event)
    return tuple(teller.entries)


@dataclass(slots=True)
class _Teller:
    """Turns event after event into entries; knows the last state of each object and the open groups of requests."""

    history: History
    describers: Mapping[str, Describer]
    entries: list[Entry] = field(default_factory=list)
    states: dict[tuple[str, ...], Mapping[str, Any]] = field(default_factory=dict)
    groups: dict[tuple[object, ...], int] = field(default_factory=dict)
    truth_at: dict[tuple[str, ...], float] = field(default_factory=dict)
    names: Mapping[str, Collection[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.names = _names(self.history)

    def tell(self, index: int, event: Event, lane: str, text: str, tone: Tone) -> None:
        since = event.at - self.history.events[0].at
        self.entries.append(Entry(since, lane, text, tone, (index,)))

    def object(self, index: int, change: ObjectChange) -> None:
        key = (change.view, change.client, change.cluster, change.resource, change.namespace, change.name)
        old = self.states.get(key)
        described = self.describers.get(change.resource, describe_any)(old, change.object)
        if change.change == "DELETED":
            self.states.pop(key, None)
            described = ["deleted"]
        else:
            self.states[key] = change.object
            if change.change == "ADDED" and old is None:
                described = ["appears", *described]
        seen = self._seen(change)
        if not described:
            return
        self.groups.clear()
        lane = change.cluster if change.view == "truth" else f"{change.cluster} (shadow)"
        self.tell(index, change, lane, f"{self._title(change)}: {'; '.join(described)}{seen}", change.view)

    def request(self, index: int, request: Request) -> None:
        key = (request.client, request.cluster, request.method, request.path, request.status)
        if (place := self.groups.get(key)) is None:
            self.groups[key] = len(self.entries)
            tone: Tone = "refused" if _refused(request) else "request"
            self.tell(index, request, "request", _request(request), tone)
            return
        entry = self.entries[place]
        events = (*entry.events, index)
        lasted = request.at - self.history.events[events[0]].at
        text = f"{_request(request)}, {len(events)} times over {lasted:.1f} s"
        self.entries[place] = replace(entry, text=text, events=events)

    def _seen(self, change: ObjectChange) -> str:
        """For a shadow: who was told, and how much later than our own watch was told of this very state."""
        metadata = change.object["metadata"]
        version = (change.cluster, str(metadata.get("uid")), str(metadata.get("resourceVersion")), change.change)
        if change.view == "truth":
            self.truth_at[version] = change.at
            return ""
        known = self.truth_at.get(version)
        late = "" if known is None else f", {(change.at - known) * 1000:.0f} ms late"
        return f" [seen by {change.client}{late}]"

    def _title(self, change: ObjectChange) -> str:
        kind = str(change.object.get("kind") or change.resource)
        return kind if len(self.names[change.resource]) == 1 else f"{kind} {change.name}"


def _names(history: History) -> dict[str, set[str]]:
    """The names that each resource's objects have: one alone need not be repeated in every line."""
    names: dict[str, set[str]] = {}
    for event in _changes(history):
        names.setdefault(event.resource, set()).add(event.name)
    return names


def _changes(history: History) -> Iterator[ObjectChange]:
    return (event for event in history.events if isinstance(event, ObjectChange) and history.concerns(event))


def _refused(request: Request) -> bool:
    """A write that was not accepted; deleting what is gone is no refusal."""
    gone = request.method == "DELETE" and request.status == 404
    return request.method not in _READS and request.status >= 400 and not gone


def _fault(change: FaultChange) -> str:
    """With what brought it about, and how much later than that it was complete, unless it was the scenario itself."""
    late = "" if change.reaction is None else f"{change.reaction * 1000:.0f} ms after "
    return f"{change.fault} {change.phase}{f', {late}{change.trigger}' if change.trigger else ''}"


def _step(step: Step) -> str:
    shown = [f"{key}={_plain(value, step.at)}" for key, value in step.detail.items()]
    return " ".join([step.name, *shown])


def _plain(value: object, now: float) -> str:
    if isinstance(value, float) and abs(value - now) < 86400:
        return f"in {value - now:.1f} s"  # wall time, such as a deadline
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ",".join(brief(str(each)) for each in value) or "none"
    return brief(str(value))


def brief(name: str) -> str:
    """A name whose middle is left out where it would fill the line: beginning and end tell objects apart."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:16]}...{name[-12:]}"


def _request(request: Request) -> str:
    verb = "WATCH" if request.watch else request.method
    return f"{request.client} > {request.cluster}: {request.status} {verb} {_short_path(request.path)}"


def _short_path(path: str) -> str:
    """A path without API group, version and namespace, which the reader knows: `workloads/job-x/status`."""
    parts = path.strip("/").split("/")
    skipped = {"api": 2, "apis": 3}.get(parts[0], 0)
    rest = parts[skipped:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return "/".join(map(brief, rest)) or path
