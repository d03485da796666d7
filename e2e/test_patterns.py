"""Sieve's patterns: what a small informer in between saw equals what each of them promises."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from e2e.informer import AGENT, LINK, NAMESPACE, PATIENCE, Informer, Place, Restarted, place
from holdback.clock import poll
from holdback.clusters.kinds import CONFIG_MAPS
from holdback.errors import FaultError
from holdback.faults.patterns import stale_state, time_travel, unobserved_state
from holdback.faults.values import Answer, Cut, Hold, Kill, Pause, Restart, TimeTravel
from holdback.traffic.second import second_server, view_of

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none


@pytest.fixture(scope="module")
def at() -> Iterator[Place]:
    with place(doubled=[LINK.cluster]) as started, second_server(started.net, started.cluster):
        yield started


@pytest.fixture
def informer(at: Place) -> Iterator[Informer]:
    with at.watched() as watching:
        yield watching


def test_nobody_to_leave_unobserved(at: Place) -> None:
    """Where nobody watches nothing can go unobserved, and that is an error. First, as no watch has to end before."""
    with pytest.raises(FaultError, match="no watch is open"), at.put(unobserved_state(LINK, "configmaps")):
        pass


def test_stale_state(at: Place, informer: Informer) -> None:
    """Within the pattern the informer sees nothing new; after it everything, once and in order."""
    at.write("stale", 0)
    assert informer.sees("stale", "0")
    with at.put(stale_state(LINK, "configmaps")):
        for value in range(1, 6):
            at.write("stale", value)
        assert not informer.sees("stale", "5", within=0.5)
        assert informer.values("stale") == ["0"]
    assert informer.sees("stale", "5")
    assert informer.values("stale") == ["0", "1", "2", "3", "4", "5"]


def test_unobserved_state(at: Place, informer: Informer) -> None:
    """A, B and A again: the informer never sees B, nor an object that came and went, and goes on from the last A."""
    at.write("unobserved", "A")
    assert informer.sees("unobserved", "A")
    with at.put(unobserved_state(LINK, "configmaps")):
        at.write("unobserved", "B")
        at.write("guest", "here")
        at.cluster.api.delete(CONFIG_MAPS, "guest", NAMESPACE)
        at.write("unobserved", "A")
    assert poll(lambda: informer.values("unobserved") == ["A", "A"], within=PATIENCE)
    at.write("unobserved", "C")
    assert informer.sees("unobserved", "C")
    assert informer.of("unobserved") == [("ADDED", "A"), ("MODIFIED", "A"), ("MODIFIED", "C")]
    assert informer.values("guest") == []
    assert len(at.requests(agent=AGENT, status=410)) == 1


def test_without_the_pattern_b_is_seen(at: Place, informer: Informer) -> None:
    """A mere cut loses nothing: the informer goes on from where it was and sees B."""
    at.write("observed", "A")
    assert informer.sees("observed", "A")
    with at.put(Cut(LINK.watch("configmaps"))):
        at.write("observed", "B")
        at.write("observed", "A")
    assert poll(lambda: informer.values("observed") == ["A", "B", "A"], within=PATIENCE)


def test_an_expired_watch_lists_again(at: Place, informer: Informer) -> None:
    """An answer of 410 to a watch that was cut makes the informer list anew, and nothing that lasts is missed."""
    at.write("expired", 1)
    assert informer.sees("expired", "1")
    lists, refused = len(at.requests(agent=AGENT, lane="reads")), len(at.requests(agent=AGENT, status=410))
    with at.put(Answer(LINK.watch("configmaps"), 410, times=1)):
        with at.put(Cut(LINK.watch("configmaps"))):
            at.write("expired", 2)
        assert poll(lambda: len(at.requests(agent=AGENT, status=410)) == refused + 1, within=PATIENCE)
    assert informer.sees("expired", "2")
    assert poll(lambda: len(at.requests(agent=AGENT, lane="reads")) == lists + 1, within=PATIENCE)


def _listed(at: Place, *, version: str, within: float) -> dict[str, str]:
    """What a list gives, by name; with version 0 what the API server has cached, if it has."""
    headers = {"Authorization": f"Bearer {at.access.token}"}
    context = ssl.create_default_context(cadata=at.access.ca)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps?resourceVersion={version}"
    with httpx.Client(
        base_url=at.access.server, verify=context, headers=headers, trust_env=False, http2=True
    ) as client:
        answer = client.get(path, timeout=httpx.Timeout(PATIENCE, read=within))
    if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return {}  # it still reads what it stores
    listed = answer.raise_for_status().json()["items"]
    return {item["metadata"]["name"]: item["data"]["value"] for item in listed if "value" in item["data"]}


def test_time_travel(at: Place, informer: Informer) -> None:
    """An informer that begins anew within the pattern sees what was, though it had seen what is; after it what is."""
    at.write("travel", "before")
    assert informer.sees("travel", "before")
    assert poll(lambda: _second_knows(at, "travel", "before"), within=PATIENCE)
    with ExitStack() as running:
        with time_travel(at.put, LINK) as travel:
            at.write("travel", "after")
            assert informer.sees("travel", "after")
            with Restarted(at.access) as before_the_travel:
                assert before_the_travel.sees("travel", "after")
            travel()
            anew = running.enter_context(Restarted(at.access))
            assert anew.sees("travel", "before")
            assert not anew.sees("travel", "after", within=0.5)
            with pytest.raises(httpx.ReadTimeout):  # who wants the latest state gets no older one, but waits
                _listed(at, version="", within=1)
        assert anew.sees("travel", "after")
        at.write("travel", "last")
        assert anew.sees("travel", "last")
        assert informer.sees("travel", "last")
        assert anew.of("travel") == [("ADDED", "before"), ("MODIFIED", "after"), ("MODIFIED", "last")]
    assert before_the_travel.values("travel") == ["after"]
    assert informer.values("travel") == ["before", "after", "last"]


def _second_knows(at: Place, name: str, value: str) -> bool:
    with at.put(TimeTravel(LINK)):
        return _listed(at, version="0", within=PATIENCE).get(name) == value


def test_the_second_server_learns_the_rest_at_the_end(at: Place) -> None:
    """Once its view is no longer held, the second API server catches up."""
    with at.put(Hold(view_of(LINK.cluster))):
        at.write("later", "1")
        assert not poll(lambda: _second_knows(at, "later", "1"), within=1)
    assert poll(lambda: _second_knows(at, "later", "1"), within=PATIENCE)


@pytest.mark.parametrize("kind", [Kill, Restart, Pause])
def test_an_api_server_comes_back(
    at: Place, informer: Informer, kind: type[Kill] | type[Restart] | type[Pause]
) -> None:
    """After each fault on the API server it is ready, the world is content all the time, and nothing was missed."""
    name = kind.__name__.lower()
    at.write(name, 1)
    assert informer.sees(name, "1")
    with at.put(kind(at.cluster.program)):
        at.cluster.check()
        assert not at.cluster.api.ready()
    assert at.cluster.api.ready()
    at.write(name, 2)
    assert informer.sees(name, "2")
    assert informer.values(name) == ["1", "2"]
