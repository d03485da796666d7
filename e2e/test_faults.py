"""What faults promise, with a real API server, router and Toxiproxy: the numbers of it."""

from __future__ import annotations

import random
import ssl
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import psutil
import pytest
from rich.progress import track

from bench.bench_faults import FLAT, load
from e2e.informer import AGENT, LINK, NAMESPACE, PATIENCE, Informer, Place, place
from holdback.clock import poll
from holdback.faults.values import Answer, Cut, Delay, Fault, Hold
from holdback.traffic.lanes import Lane

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

WATCH = LINK.watch("configmaps")
CYCLES = 1000
LONG_HOLD = 90.0
Times = dict[Lane, list[float]]
"""Milliseconds that requests took."""


@pytest.fixture(scope="module")
def at() -> Iterator[Place]:
    with place() as started:
        yield started


@pytest.fixture
def informer(at: Place) -> Iterator[Informer]:
    with at.watched() as watching:
        yield watching


def _watches(at: Place) -> int:
    return len(at.requests(agent=AGENT, lane=WATCH.kind))


def test_a_thousand_holds_lose_nothing(at: Place) -> None:
    """1,000 cycles of hold and release, writes going on: no event lost, repeated or out of order, one connection."""
    before = _watches(at)
    with Informer(at.access) as informer, ThreadPoolExecutor(1) as writer:
        at.open_watch(informer)
        going, written = True, 0

        def write() -> None:
            nonlocal written
            while going:
                at.write("held", written)
                written += 1

        writing = writer.submit(write)
        try:
            for _ in track(range(CYCLES), "hold and release"):
                with at.put(Hold(WATCH)):
                    time.sleep(random.uniform(0, 0.005))
        finally:
            going = False
        writing.result(PATIENCE)
        assert informer.sees("held", str(written - 1))
        assert informer.values("held") == [str(value) for value in range(written)]
        print(f"{CYCLES} holds, {written} writes")
        assert written > CYCLES / 10  # they did go on
        assert _watches(at) == before  # a watch is logged when it ends, so none has
    assert poll(lambda: _watches(at) == before + 1, within=PATIENCE)


@pytest.mark.slow
def test_a_long_hold_leaks_nothing(at: Place, informer: Informer) -> None:
    """A hold of 90 s neither breaks the watch nor lets an event through; then all come."""
    before = _watches(at)
    with at.put(Hold(WATCH)):
        until = time.monotonic() + LONG_HOLD
        for value in track(range(int(LONG_HOLD)), "a long hold"):
            at.write("long", value)
            assert informer.values("long") == []
            time.sleep(max(0.0, min(1.0, until - time.monotonic())))
    assert informer.sees("long", str(int(LONG_HOLD) - 1))
    assert informer.values("long") == [str(value) for value in range(int(LONG_HOLD))]
    assert _watches(at) == before


@pytest.mark.parametrize("within", [PATIENCE, pytest.param(1.0, marks=pytest.mark.quiet, id="promised")])
def test_a_cut_ends_a_silent_watch(at: Place, informer: Informer, within: float) -> None:
    """The client of a watch on which nothing comes loses it by the cut itself, as a rule in a second."""
    for _ in range(5):
        at.open_watch(informer)
        before = _watches(at)
        with at.put(Cut(WATCH)):
            assert poll(lambda: _watches(at) > before, within=within, every=0.005)  # noqa: B023 - asked at once


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds that things took on three lanes, without a delay on the writes and with it, in turns.

    On the lane of a watch it is from a write, straight at the API server, to the event.
    """

    delay: int
    plain: Times
    delayed: Times

    def added(self, lane: Lane) -> float:
        """By how much the delay moved the median of a lane's times."""
        return statistics.median(self.delayed[lane]) - statistics.median(self.plain[lane])


@pytest.fixture(scope="module", params=[20, 100], ids=lambda milliseconds: f"{milliseconds} ms")
def timed(at: Place, request: pytest.FixtureRequest) -> Timed:
    milliseconds: int = request.param
    headers = {"Authorization": f"Bearer {at.access.token}"}
    context = ssl.create_default_context(cadata=at.access.ca)
    plain: Times = {LINK.reads: [], LINK.writes: [], WATCH: []}
    delayed: Times = {LINK.reads: [], LINK.writes: [], WATCH: []}
    at.write("timed", 0)
    with (
        Informer(at.access) as informer,
        httpx.Client(
            base_url=at.access.server, verify=context, headers=headers, http2=True, trust_env=False, timeout=PATIENCE
        ) as client,
    ):
        at.open_watch(informer)
        # Short turns in either order and at one pace, so that both halves meet the same noise of the machine.
        for turn in track(range(60), f"{milliseconds} ms"):
            halves: list[tuple[Times, float, list[Fault]]] = [
                (plain, milliseconds / 1000, []),
                (delayed, 0.0, [Delay(LINK.writes, milliseconds)]),
            ]
            for into, pause, faults in halves[:: 1 if turn % 2 else -1]:
                with at.put(*faults):
                    for _ in range(5):
                        into[LINK.reads].append(_read(client))
                        into[LINK.writes].append(_write(client, turn))
                        into[WATCH].append(_event(at, informer))
                        time.sleep(pause)
    return Timed(milliseconds, plain, delayed)


def test_a_delay_is_added_and_leaves_others_alone(timed: Timed) -> None:
    """A delay of d ms adds at least d to everything on its own lane, and nothing like it to another.

    By how much more than d, and how little to the other, is told by the quickest requests, for which nothing else had
    to be waited, and in bounds that hold on a busy machine.
    """
    assert min(timed.delayed[LINK.writes]) >= timed.delay
    own, other = (min(timed.delayed[lane]) - min(timed.plain[lane]) for lane in (LINK.writes, LINK.reads))
    print(f"a delay of {timed.delay} ms added {own:.2f} ms to its own lane, {other:.2f} ms to another (the quickest)")
    assert own < 1.5 * timed.delay
    assert abs(other) < 0.5 * timed.delay


@pytest.mark.quiet
def test_a_delay_is_exact(timed: Timed) -> None:
    """A delay of d ms adds d within 10% to its own lane's median, and less than 2 ms to others', a watch's among them.

    On a busy machine these tell more of its scheduler than of the delay.
    """
    own, *added = (timed.added(lane) for lane in (LINK.writes, LINK.reads, WATCH))
    others = " and ".join(f"{more:.2f}" for more in added)
    print(f"a delay of {timed.delay} ms added {own:.2f} ms to its own lane, {others} to reads and a watch")
    assert own == pytest.approx(timed.delay, rel=0.1)
    assert all(abs(more) < 2 for more in added)


def _read(client: httpx.Client) -> float:
    return _timed(client, "GET", None)


def _write(client: httpx.Client, value: int) -> float:
    return _timed(client, "PATCH", f'{{"data":{{"value":"{value}"}}}}')


def _event(at: Place, informer: Informer) -> float:
    value = f"event-{len(informer.seen)}"
    begin = time.perf_counter()
    at.write("timed", value)
    assert informer.sees("timed", value)
    (seen,) = (when for (_, _, found), when in zip(informer.seen, informer.at, strict=False) if found == value)
    return (seen - begin) * 1000


def _timed(client: httpx.Client, method: str, content: str | None) -> float:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/timed"
    headers = {"Content-Type": "application/merge-patch+json"} if content else {}
    begin = time.perf_counter()
    client.request(method, path, content=content, headers=headers).raise_for_status()
    return (time.perf_counter() - begin) * 1000


def test_ten_thousand_faults_leave_nothing_behind(at: Place) -> None:
    """10,000 operations, 50 at once: none is left, and Toxiproxy and the router need no more memory than before."""
    with _traffic(at):
        found = load(at.net, LINK.lanes, say=print)
    assert at.net.residue() == []
    at.net.check()
    print("MB:", {name: [round(size / 1e6) for size in after] for name, after in found.memory.items()})
    assert found.growth < FLAT, found.memory


@contextmanager
def _traffic(at: Place) -> Iterator[None]:
    """Requests through the link all the while, and watches that come back."""
    with ExitStack() as stack:
        informers = [stack.enter_context(Informer(at.access)) for _ in range(3)]
        yield
        at.write("after", 1)
        assert all(each.sees("after", "1") for each in informers)


def test_refusals_reach_the_client(at: Place) -> None:
    """A real client of the API gets each of the router's answers as it would get the cluster's."""
    headers = {"Authorization": f"Bearer {at.access.token}"}
    context = ssl.create_default_context(cadata=at.access.ca)
    with httpx.Client(
        base_url=at.access.server, verify=context, headers=headers, http2=True, trust_env=False, timeout=PATIENCE
    ) as client:
        for status in (409, 429, 500, 503):
            with at.put(Answer(LINK.reads, status, times=1)):
                assert client.get("/api/v1/namespaces").json()["code"] == status
                assert client.get("/api/v1/namespaces").json()["kind"] == "NamespaceList"


def test_all_listen_on_loopback_only(at: Place) -> None:
    """Router, Toxiproxy and API server have no port that another machine could reach, nor the router an open one."""
    for child in [*at.net.processes, *at.cluster.children]:
        sockets = psutil.Process(child.pid).net_connections("inet")
        assert {one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN} <= {"127.0.0.1"}
    context = ssl.create_default_context(cadata=at.access.ca)
    with httpx.Client(base_url=at.access.server, verify=context, trust_env=False, timeout=PATIENCE) as stranger:
        assert stranger.get("/version").status_code == 401
        assert stranger.get("/version", headers={"Authorization": "Bearer of-somebody-else"}).status_code == 401


def test_no_token_is_told(at: Place) -> None:
    """No log and no command line has the token or a key."""
    with Informer(at.access) as informer, at.put(Delay(LINK, 1)):
        at.open_watch(informer)
    told = "".join(log.read_text(errors="replace") for log in at.run.logs.iterdir())
    told += "".join(
        " ".join(psutil.Process(child.pid).cmdline()) for child in [*at.net.processes, *at.cluster.children]
    )
    assert at.cluster.access.token not in told
    assert at.cluster.access.token not in repr(at.access)
    assert "PRIVATE KEY" not in told
