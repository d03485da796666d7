"""What holdback made in a cluster, known by a label, and how it goes whatever state it is in.

The controllers that would put it in order may be dead: so webhooks go first, resources of our own kinds lose their
finalizers, and the rest follows. Roles that are made of others go before those, or Kubernetes makes them anew. What
lies in a namespace of ours without the label goes with the namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from holdback.clock import SystemClock, poll
from holdback.clusters.api import Api
from holdback.clusters.existing.resources import AT_ONCE, kinds
from holdback.clusters.kinds import CRDS, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS, Kind
from holdback.errors import ClusterError

__all__ = ["RUN_LABEL", "Leftover", "leftovers", "remove"]

RUN_LABEL = "holdback/run"
"""The label of everything that holdback makes in a cluster that is not its own; its value names the run."""
_GONE_WITHIN = 120.0
_TOLD_EVERY = 3.0
_PASSING = {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE}
"""Refusals that may be over the next time: it went by itself, or a webhook that was just deleted is still asked."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """One object of ours; `run` is empty for one that has no label, but a kind that only we know.

    `leads` says that it must go before all others.
    """

    kind: Kind
    namespace: str
    name: str
    run: str
    finalizers: bool
    leads: bool

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.kind} {where}{self.name}"


def leftovers(api: Api, run: str = "") -> list[Leftover]:
    """What is there of that run, or of any: labelled objects, and all objects of kinds that are labelled.

    Raises:
        ClusterError: it cannot be listed.
    """
    selector = f"{RUN_LABEL}={run}" if run else RUN_LABEL
    known = kinds(api)
    own = {(crd["spec"]["group"], crd["spec"]["names"]["plural"]) for crd in api.list(CRDS, labels=selector)}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="leftovers") as pool:
        return [
            found
            for each in pool.map(
                lambda kind: _of_kind(api, kind, "" if (kind.group, kind.plural) in own else selector), known
            )
            for found in each
        ]


def _of_kind(api: Api, kind: Kind, selector: str) -> list[Leftover]:
    try:
        found = api.list(kind, labels=selector)
    except ClusterError as error:
        if error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
            return []  # it was removed since it was discovered
        raise
    return [_leftover(kind, item) for item in found]


def _leftover(kind: Kind, item: dict[str, Any]) -> Leftover:
    metadata = item["metadata"]
    return Leftover(
        kind,
        metadata.get("namespace", ""),
        metadata["name"],
        metadata.get("labels", {}).get(RUN_LABEL, ""),
        finalizers=bool(metadata.get("finalizers")),
        leads=kind in {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS} or "aggregationRule" in item,
    )


def remove(api: Api, run: str = "", *, say: Callable[[str], None] = lambda _: None) -> None:
    """Remove all that `leftovers` finds, and return when it is gone.

    Args:
        api: of the cluster.
        run: whose; of every run without one.
        say: told every few seconds what is waited for.

    Raises:
        ClusterError: something does not go within two minutes; the message names it.
    """
    left: list[Leftover] = []
    clock = SystemClock()
    told = clock.monotonic()

    def gone() -> bool:
        nonlocal left, told
        left = leftovers(api, run)
        _ask_to_go(api, left)
        if left and clock.monotonic() - told > _TOLD_EVERY:
            told = clock.monotonic()
            say(f"waiting for {len(left)} objects to go, {left[0]} among them")
        return not left

    if not poll(gone, within=_GONE_WITHIN, every=0.3):
        raise ClusterError(
            f"{len(left)} objects do not go: {', '.join(map(str, left[:10]))}",
            remedy="`kubectl describe` says what holds them; `holdback clean` tries again",
        )


def _ask_to_go(api: Api, left: Sequence[Leftover]) -> None:
    """Delete it in an order in which nothing is in the way of the next."""
    leading = [each for each in left if each.leads]
    definitions = [each for each in left if each.kind == CRDS]
    namespaces = [each for each in left if each.kind == NAMESPACES]
    others = [each for each in left if each not in {*leading, *definitions, *namespaces}]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="removal") as pool:
        for step, items in (
            (_delete, leading),
            (_without_conversion, definitions),
            (_release, others),
            (_delete, definitions),
            (_delete, namespaces),
        ):
            list(pool.map(partial(step, api), items))


def _without_conversion(api: Api, definition: Leftover) -> None:
    """Its objects can be read and changed without the webhook that would convert them."""
    with _if_it_passes():
        api.patch(CRDS, definition.name, {"spec": {"conversion": {"strategy": "None", "webhook": None}}})


def _release(api: Api, found: Leftover) -> None:
    """Delete an object, though nobody does what its finalizers wait for."""
    _delete(api, found)
    if found.finalizers:
        with _if_it_passes():
            api.patch(found.kind, found.name, {"metadata": {"finalizers": None}}, found.namespace)


def _delete(api: Api, found: Leftover) -> None:
    with _if_it_passes():
        api.delete(found.kind, found.name, found.namespace)


@contextmanager
def _if_it_passes() -> Iterator[None]:
    """Refusals that the next look makes good are none."""
    try:
        yield
    except ClusterError as error:
        if error.status not in _PASSING:
            raise
