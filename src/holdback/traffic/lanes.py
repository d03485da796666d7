"""Links and lanes: the names of the traffic that can be held back.

A **link** is one client talking to one cluster. A **lane** is the part of a link with one kind of traffic.
The lanes of a link never overlap and together carry all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["READS", "WATCHES", "WRITES", "Lane", "Link", "watch_of"]

READS = "reads"
"""GET without watch: gets and lists."""
WRITES = "writes"
"""POST, PUT, PATCH, DELETE."""
WATCHES = "watches"
"""Every watch that has no lane of its own."""


def watch_of(resource: str) -> str:
    """The kind of traffic of one resource's watch, for instance `watch:workloads`."""
    return f"watch:{resource}"


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """One client talking to one cluster; both are names within a world.

    `watched` are the resources (plural, lower case: `workloads`) whose watch has a lane of its own.
    """

    client: str
    cluster: str
    watched: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For instance `kueue-control>worker1`."""
        return f"{self.client}>{self.cluster}"

    def __str__(self) -> str:
        return self.name

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Every lane of the link."""
        kinds = [*(watch_of(resource) for resource in self.watched), WATCHES, READS, WRITES]
        return tuple(Lane(self, kind) for kind in kinds)

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
        """The lane of everything that changes something."""
        return Lane(self, WRITES)


@dataclass(frozen=True, slots=True, order=True)
class Lane:
    """One kind of traffic of one link."""

    link: Link
    kind: str

    @property
    def name(self) -> str:
        """For instance `kueue-control>worker1/watch:workloads`."""
        return f"{self.link.name}/{self.kind}"

    def __str__(self) -> str:
        return self.name

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Itself: what takes a link takes a lane as well."""
        return (self,)
