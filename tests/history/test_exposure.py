"""Exposure, from histories written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import pytest

from holdback.history.events import Event, ObjectChange, Request
from holdback.history.exposure import NOISE, Exposure, exposure
from holdback.history.history import History

LANE = "kueue>worker1/watch:workloads"
Word = Literal["ADDED", "MODIFIED", "DELETED"]


def truth(at: float, version: int, word: Word = "MODIFIED", *, name: str = "w", namespace: str = "ns") -> ObjectChange:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return ObjectChange(at, "truth", "worker1", "workloads", word, {"metadata": metadata})


def shadow(at: float, version: int, word: Word = "MODIFIED", *, client: str = "kueue") -> ObjectChange:
    seen = truth(at, version, word)
    return ObjectChange(at, "shadow", seen.cluster, seen.resource, word, seen.object, client=client)


def write(
    began: float, *, seconds: float = 0.0, client: str = "kueue", path: str = "/api/v1/namespaces/ns/pods/p"
) -> Request:
    return Request(began + seconds, client, "manager", "PATCH", path, 200, seconds)


def of(events: Iterable[Event], clients: Sequence[str] = ("kueue",)) -> Exposure | None:
    ordered = tuple(sorted(events, key=lambda event: event.at))
    return exposure(History(ordered, scope={"clients": list(clients), "namespaces": ["ns"]}))


def test_a_write_behind_a_lagging_lane_is_counted_with_its_lag() -> None:
    """Age of the oldest missing change and number of missing ones are those at the write, the largest over all."""
    events = [truth(1.0, 10), truth(1.1, 11), truth(1.2, 12), shadow(1.4, 10), shadow(1.5, 11), shadow(1.6, 12)]
    writes = [write(0.9), write(1.3), write(1.45), write(1.7)]
    assert of([*events, *writes]) == Exposure(writes=4, behind=2, seconds=0.35, events=3, lane=LANE)


def test_a_write_is_dated_by_its_beginning() -> None:
    """What arrived while a slow write was under way was not known when it was decided, and the other way round."""
    events = [truth(1.0, 10), shadow(1.3, 10)]
    assert of([*events, write(1.2, seconds=0.3)]) == Exposure(1, 1, 0.2, 1, LANE)
    assert of([*events, write(0.9, seconds=0.3)]) == Exposure(1, 0)


def test_a_moment_behind_is_noise() -> None:
    """A change that is missing for less than what our own threads differ by does not count."""
    events = [truth(1.0, 10), shadow(1.0 + 2 * NOISE, 10)]
    assert of([*events, write(1.0 + NOISE / 2)]) == Exposure(1, 0)


def test_what_a_relist_skips_is_known_with_what_is_newer() -> None:
    """A shadow that was told of a newer state lacks no older one of that object."""
    events = [truth(1.0, 10), truth(1.1, 11), shadow(1.3, 11)]
    assert of([*events, write(1.2), write(1.4)]) == Exposure(2, 1, 0.2, 2, LANE)


def test_a_deletion_is_missing_until_it_is_seen() -> None:
    """A relist tells a deletion with an old version: it counts as seen then, and not before."""
    events = [truth(1.0, 10), shadow(1.0, 10), truth(1.1, 14, "DELETED"), shadow(1.5, 10, "DELETED")]
    assert of([*events, write(1.3), write(1.6)]) == Exposure(2, 1, 0.2, 1, LANE)


def test_what_never_arrives_is_missing_to_the_end() -> None:
    """A lane that shows nothing more stays behind."""
    events = [truth(1.0, 10), shadow(1.0, 10), truth(2.0, 11)]
    assert of([*events, write(1.5), write(5.0)]) == Exposure(2, 1, 3.0, 1, LANE)


@pytest.mark.parametrize(
    "harmless",
    [
        write(1.2, client="other"),
        write(1.2, path="/api/v1/namespaces/ns/events"),
        write(1.2, path="/apis/coordination.k8s.io/v1/namespaces/ns/leases/kueue"),
        Request(1.2, "kueue", "manager", "GET", "/api/v1/pods", 200, 0.0),
    ],
)
def test_only_acts_of_the_controller_count(harmless: Request) -> None:
    """Reads, events, leases and other clients' writes are no acts of the controller under test."""
    assert of([truth(1.0, 10), shadow(1.5, 10), harmless]) == Exposure(0, 0)


def test_only_what_concerns_the_trial_counts() -> None:
    """Objects of other namespaces and lanes of other clients make nobody exposed."""
    strangers = [truth(1.0, 10, namespace="other"), truth(1.0, 10, name="x", namespace="other")]
    assert of([*strangers, shadow(0.5, 1), write(1.2)]) == Exposure(1, 0)
    assert of([truth(1.0, 10), shadow(1.5, 10, client="other"), write(1.2)]) is None


def test_without_a_shadow_nothing_is_known() -> None:
    """No shadow gives None, not an exposure of zero."""
    assert of([truth(1.0, 10), write(1.2)]) is None
