"""What a trial observed, as frozen values: the alphabet in which histories are written and judged.

Every event has `at`, wall time in seconds since the epoch, taken by one machine. A history is a tuple of
events in that order. To add a kind: a frozen dataclass with a `kind` of its own here, and it is read,
written and shown everywhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Literal

from holdback.errors import EvidenceError

__all__ = ["Event", "FaultChange", "Note", "ObjectChange", "Request", "Step", "decode", "encode"]

View = Literal["truth", "shadow"]


@dataclass(frozen=True, slots=True)
class Step:
    """Something the scenario did or established: `submit`, `admitted`, `evict`, `settle`, `end`."""

    kind: ClassVar[str] = "step"
    at: float
    name: str
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FaultChange:
    """A fault came into force or was verified gone.

    `lanes` are lane names (see `holdback.traffic.lanes`), `fault` is the fault's own description and
    `milliseconds` the delay it adds (0 for faults that are no delay); `blocks` says that nothing gets through while
    it lasts (hold, cut). `trigger` describes the event that brought the change about, empty for the scenario itself;
    `reaction` is how long after it the change was complete, in seconds, without the waiting that was asked for.
    """

    kind: ClassVar[str] = "fault"
    at: float
    fault: str
    phase: Literal["started", "ended"]
    lanes: tuple[str, ...] = ()
    milliseconds: float = 0.0
    blocks: bool = False
    trigger: str = ""
    reaction: float | None = None


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A watch delivered a change of one object.

    `view` is `truth` for our watch straight to the API server, `shadow` for our watch through a
    controller's lane; `client` then names that controller. `change` is the watch's own word (ADDED, MODIFIED,
    DELETED). `object` is the object without managedFields and pod templates.
    """

    kind: ClassVar[str] = "object"
    at: float
    view: View
    cluster: str
    resource: str
    change: Literal["ADDED", "MODIFIED", "DELETED"]
    object: dict[str, Any]
    client: str = ""

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace, empty where it has none."""
        return str(self.object["metadata"].get("namespace", ""))


@dataclass(frozen=True, slots=True)
class Request:
    """A controller's request, as the router's access log has it; `at` is when it was answered.

    `path` is without its query, `watch` says that it was a watch, `seconds` how long it took.
    """

    kind: ClassVar[str] = "request"
    at: float
    client: str
    cluster: str
    method: str
    path: str
    status: int
    seconds: float
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """Something that makes a trial's result suspect or explains it: a process that died, the end of a log."""

    kind: ClassVar[str] = "note"
    at: float
    source: str
    text: str
    fatal: bool = False


_OTHER = "it was damaged, or another holdback wrote it (run.json names its version)"
Event = Step | FaultChange | ObjectChange | Request | Note
_KINDS: dict[str, type[Event]] = {cls.kind: cls for cls in (Step, FaultChange, ObjectChange, Request, Note)}


def encode(event: Event) -> dict[str, Any]:
    """The event as plain JSON data, with its `kind`."""
    return {"kind": event.kind, **asdict(event)}


def decode(data: dict[str, Any]) -> Event:
    """The event that `encode` wrote.

    Raises:
        EvidenceError: the data is no event of a known kind, or has wrong fields.
    """
    rest = dict(data)
    cls = _KINDS.get(str(rest.pop("kind", "")))
    if cls is None:
        raise EvidenceError(f"unknown kind of event: {data.get('kind')!r}", remedy=_OTHER)
    if unknown := rest.keys() - {f.name for f in fields(cls)}:
        raise EvidenceError(f"a {cls.kind} event has unknown fields {sorted(unknown)}", remedy=_OTHER)
    if "lanes" in rest:
        rest["lanes"] = tuple(rest["lanes"])
    try:
        return cls(**rest)
    except TypeError as error:
        raise EvidenceError(f"a {cls.kind} event lacks fields: {error}", remedy=_OTHER) from error
