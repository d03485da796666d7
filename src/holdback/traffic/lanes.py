"""Links and lanes: the names of the traffic that can be held back.

A **link** is one client talking to one cluster. A **lane** is the part of a link with one kind of traffic.
The lanes of a link never overlap and together carry all of it. A **pipe** is traffic that is not taken apart, because
no controller sends it: an API server's calls of a webhook, say. It is a single lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["READS", "WATCHES", "WRITES", "Lane", "Link", "Pipe", "Side", "watch_of", "writes_of"]

Side = Literal["answers", "requests"]
"""Which way a fault works: on what the cluster sends back, or on what the client sends."""

READS = "reads"
"""GET without watch: gets and lists."""
WRITES = "writes"
"""POST, PUT, PATCH, DELETE, of every resource whose writes have no lane of their own."""
WATCHES = "watches"
"""Every watch that has no lane of its own."""


def watch_of(resource: str) -> str:
    """The kind of traffic of one resource's watch, for instance `watch:workloads`."""
    return f"watch:{resource}"


def writes_of(resource: str) -> str:
    """The kind of traffic of the writes to one resource, for instance `writes:pods`."""
    return f"{WRITES}:{resource}"


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """One client talking to one cluster; both are names within a world.

    `watched` are the resources (plural, lower case: `workloads`) whose watch has a lane of its own, `written` those
    whose writes have one.
    """

    client: str
    cluster: str
    watched: tuple[str, ...] = ()
    written: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For instance `kueue-control>worker1`."""
        return f"{self.client}>{self.cluster}"

    def __str__(self) -> str:
        return self.name

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Every lane of the link."""
        watches = [*map(watch_of, self.watched), WATCHES]
        writes = [*map(writes_of, self.written), WRITES]
        return tuple(Lane(self, kind) for kind in [*watches, READS, *writes])

    def watch(self, resource: str) -> Lane:
        """The lane of one resource's watch; `watches` where it has none of its own."""
        return Lane(self, watch_of(resource) if resource in self.watched else WATCHES)

    @property
    def watches(self) -> Lane:
        """The lane of the watches that have none of their own."""
        return Lane(self, WATCHES)

    @property
    def reads(self) -> Lane:
        """The lane of gets and lists."""
        return Lane(self, READS)

    @property
    def writes(self) -> Lane:
        """The lane of the writes that have none of their own."""
        return Lane(self, WRITES)

    def write(self, resource: str) -> Lane:
        """The lane of the writes to one resource; `writes` where they have none of their own."""
        return Lane(self, writes_of(resource) if resource in self.written else WRITES)


@dataclass(frozen=True, slots=True, order=True)
class Pipe:
    """One client's connections to one server, both names within a world; `kind` says what goes through.

    `webhooks`: an API server asks a controller's admission webhooks. `etcd`: an API server reads and writes its data.
    """

    client: str
    cluster: str
    kind: str

    @property
    def name(self) -> str:
        """For instance `worker1>kueue-worker1`."""
        return f"{self.client}>{self.cluster}"

    def __str__(self) -> str:
        return f"{self.name}/{self.kind}"

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Its only lane."""
        return (Lane(self, self.kind),)


@dataclass(frozen=True, slots=True)
class Lane:
    """One kind of traffic of one link, or all of a pipe."""

    link: Link | Pipe
    kind: str

    @property
    def name(self) -> str:
        """For instance `kueue-control>worker1/watch:workloads`."""
        return f"{self.link.name}/{self.kind}"

    def __str__(self) -> str:
        return self.name

    @property
    def is_watch(self) -> bool:
        """Whether only watches go through."""
        return self.kind == WATCHES or self.kind.startswith(watch_of(""))

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Itself: what takes a link takes a lane as well."""
        return (self,)
