"""A history: everything observed in one trial, in order, with pure questions that oracles ask of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from holdback.history.events import Event, FaultChange, Note, ObjectChange, Request, Step, View

__all__ = ["History", "Indexed"]

E = TypeVar("E", bound=Event)
Indexed = tuple[int, E]
"""An event with its index in the history: the index is what a finding cites."""


@dataclass(frozen=True, slots=True)
class History:
    """The events of one trial, ordered by their time.

    `closed` says that the trial has ended and nothing will be added. `scope` says what the trial was about:
    `trial`, `experiment`, `arm` and `variant` always, `namespaces` and `clients` (the controllers under test)
    where the world narrows it, and whatever else the world adds for its own oracles.
    """

    events: tuple[Event, ...]
    closed: bool = True
    scope: Mapping[str, Any] = field(default_factory=dict)

    @property
    def clients(self) -> tuple[str, ...]:
        """The controllers under test; empty when the world did not narrow them."""
        return tuple(self.scope.get("clients", ()))

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that belong to the trial; empty when the world did not narrow them."""
        return tuple(self.scope.get("namespaces", ()))

    def concerns(self, change: ObjectChange) -> bool:
        """Whether the object is the trial's and, in a shadow, it is a controller under test that was told of it."""
        mine = not self.namespaces or change.namespace in self.namespaces
        return mine and (change.view == "truth" or not self.clients or change.client in self.clients)

    def _of(self, cls: type[E]) -> Iterator[Indexed[E]]:
        return ((index, event) for index, event in enumerate(self.events) if isinstance(event, cls))

    def steps(self, name: str = "") -> tuple[Indexed[Step], ...]:
        """The scenario's steps, or those of one name."""
        return tuple((i, e) for i, e in self._of(Step) if name in {"", e.name})

    def faults(self) -> tuple[Indexed[FaultChange], ...]:
        """Every start and end of a fault."""
        return tuple(self._of(FaultChange))

    def notes(self) -> tuple[Indexed[Note], ...]:
        """Every note."""
        return tuple(self._of(Note))

    def objects(
        self,
        *,
        view: View = "truth",
        cluster: str = "",
        resource: str = "",
        namespace: str = "",
        name: str = "",
        client: str = "",
    ) -> tuple[Indexed[ObjectChange], ...]:
        """Changes of objects in one view; an empty criterion matches all."""
        wanted = {"cluster": cluster, "resource": resource, "namespace": namespace, "name": name, "client": client}
        given = [(key, value) for key, value in wanted.items() if value]
        return tuple(
            (index, event)
            for index, event in self._of(ObjectChange)
            if event.view == view and all(getattr(event, key) == value for key, value in given)
        )

    def requests(self, *, client: str = "", cluster: str = "") -> tuple[Indexed[Request], ...]:
        """The controllers' requests; without `client` those of every controller under test."""
        clients = (client,) if client else self.clients
        return tuple(
            (index, event)
            for index, event in self._of(Request)
            if (not clients or event.client in clients) and cluster in {"", event.cluster}
        )
