"""Sieve's three patterns (Sun et al., OSDI '22), from outside: an unmodified controller is made to see the past.

- **stale state**: the controller acts on what was, because it does not hear what happened since.
- **unobserved state**: the controller never hears of a state that came and went.
- **time travel**: the controller hears what was after it had heard what is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from holdback.faults.values import Hold, TimeTravel, Unobserved
from holdback.traffic.lanes import Link
from holdback.traffic.second import view_of

__all__ = ["stale_state", "time_travel", "unobserved_state"]

Inject = Callable[..., AbstractContextManager[Any]]
"""`Trial.inject`, or whatever else brings faults into force within a block."""


def stale_state(link: Link, resource: str) -> Hold:
    """While it lasts the controller knows of these objects what it knew at its beginning; then it learns the rest."""
    return Hold(link.watch(resource))


def unobserved_state(link: Link, resource: str) -> Unobserved:
    """What these objects go through while it lasts the controller never learns, only what has become of them."""
    return Unobserved(link.watch(resource))


@contextmanager
def time_travel(inject: Inject, link: Link) -> Iterator[Callable[[], None]]:
    """The second API server of the link's cluster stays where it is; at a call the client is moved to it.

    ```
    with time_travel(trial.inject, link) as travel:
        ...  # changes, which the controller sees
        travel()  # from now on it reads of a time before them
        ...  # restart the controller: an informer that goes on refuses to go back
    ```

    Raises:
        FaultError: as the faults themselves; the cluster has no second API server.
    """
    with inject(Hold(view_of(link.cluster))), ExitStack() as moved:

        def travel() -> None:
            moved.enter_context(inject(TimeTravel(link)))

        yield travel
