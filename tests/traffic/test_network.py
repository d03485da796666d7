from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdback.binaries import Binaries
from holdback.clock import poll
from holdback.clusters.access import Access
from holdback.errors import ConfigurationError, FaultError, TrafficError
from holdback.process import Run
from holdback.traffic.inforce import Lease
from holdback.traffic.lanes import Lane, Link, Pipe
from holdback.traffic.listening import connections
from holdback.traffic.network import Network, network
from holdback.traffic.toxiproxy import Toxic
from tests.traffic.client import PATIENCE, Watch, async_client
from tests.traffic.client import client as connect
from tests.traffic.conftest import LINK, OTHER, TOKEN
from tests.traffic.upstream import END, Upstream, upstream

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/workloads?watch=true"
JOBS = "/apis/batch/v1/jobs?watch=true"
DELAY = 0.2

Begin = Callable[[str], Watch]
Way = Callable[[Network, list[Lane]], AbstractContextManager[None]]
WAYS: dict[str, Way] = {
    "delay": lambda net, lanes: net.delay(lanes, 10),
    "hold": lambda net, lanes: net.hold(lanes),
    "hold of requests": lambda net, lanes: net.hold(lanes, of="requests"),
    "cut": lambda net, lanes: net.cut(lanes),
    "slow": lambda net, lanes: net.slow(lanes, 100),
    "toxic": lambda net, lanes: net.toxic(lanes, "slicer", {"average_size": 64, "size_variation": 0, "delay": 0}),
}


@pytest.fixture(params=list(WAYS.values()), ids=list(WAYS))
def way(request: pytest.FixtureRequest) -> Way:
    made: Way = request.param
    return made


def _quickest(action: Callable[[], object]) -> float:
    """Seconds of the quickest of several times.

    A delay slows each of them; whatever else the machine does may slow some.
    """
    durations = []
    for _ in range(4):
        begin = time.monotonic()
        action()
        durations.append(time.monotonic() - begin)
    return min(durations)


def test_all_lanes_share_the_clients_one_connection(client: httpx.Client) -> None:
    """Watch, read and write go over one HTTP/2 connection of the client, as they do for client-go."""
    with client.stream("GET", WORKLOADS) as watch:
        others = [client.get("/api/v1/pods"), client.post("/api/v1/pods")]
        assert {response.http_version for response in [watch, *others]} == {"HTTP/2"}
        ports = {
            response.extensions["network_stream"].get_extra_info("client_addr")[1] for response in [watch, *others]
        }
        assert len(ports) == 1


def test_a_delay_slows_its_lane_alone(net: Network, client: httpx.Client) -> None:
    """With the writes delayed, a write takes at least that long, and a read less."""
    client.post("/api/v1/pods")
    with net.delay([LINK.writes], DELAY * 1000):
        assert _quickest(lambda: client.post("/api/v1/pods")) >= DELAY
        assert _quickest(lambda: client.get("/api/v1/pods")) < DELAY
    assert _quickest(lambda: client.post("/api/v1/pods")) < DELAY


def test_a_delay_slows_its_link_alone(net: Network, client: httpx.Client) -> None:
    """With a whole link delayed, another link to the same cluster is as fast as before."""
    with net.delay(LINK.lanes, DELAY * 1000), connect(net.access(OTHER, TOKEN)) as other:
        assert _quickest(lambda: client.get("/api/v1/pods")) >= DELAY
        assert _quickest(lambda: other.get("/api/v1/pods")) < DELAY


def test_delays_add_up_and_each_takes_only_itself_away(net: Network, client: httpx.Client) -> None:
    """Two delays on one lane add up, and the end of the first leaves the second in force."""
    client.get("/api/v1/pods")
    first, second = net.delay([LINK.reads], DELAY * 1000), net.delay([LINK.reads], DELAY * 1000)
    first.__enter__()
    second.__enter__()
    assert _quickest(lambda: client.get("/api/v1/pods")) >= 2 * DELAY
    first.__exit__(None, None, None)
    assert DELAY <= _quickest(lambda: client.get("/api/v1/pods")) < 2 * DELAY
    second.__exit__(None, None, None)
    assert _quickest(lambda: client.get("/api/v1/pods")) < DELAY


def test_a_hold_loses_repeats_and_reorders_nothing(net: Network, watch: Begin, cluster: Upstream) -> None:
    """Held events arrive only after the end, all, once and in order, while writes and another watch go on."""
    free = watch(JOBS)
    assert free.opened()
    asyncio.run(_hold_cycles(net, free, cluster))


async def _hold_cycles(net: Network, free: Watch, cluster: Upstream) -> None:
    held: list[str] = []
    expected: list[str] = []
    async with async_client(net.access(LINK, TOKEN)) as client, asyncio.timeout(PATIENCE):
        reading = asyncio.create_task(_read(client, WORKLOADS, held))
        await _until(lambda: len(cluster.watchers) == 2)
        for cycle in range(4):
            before = len(expected)
            with net.hold([LINK.watch("workloads")]):
                for number in range(100 * cycle, 100 * cycle + 25):
                    cluster.publish(number)
                    expected.append(str(number))
                    assert (await client.post("/api/v1/pods")).status_code == 200
                await _until(lambda: free.lines == expected)  # so the held one would have them too
                assert held == expected[:before]
            await _until(lambda: len(held) >= len(expected))
            assert held == expected
        cluster.publish(END)
        await reading
    assert held == expected


async def _read(client: httpx.AsyncClient, path: str, into: list[str]) -> None:
    async with client.stream("GET", path) as response:
        async for line in response.aiter_lines():
            into.append(line)  # noqa: PERF401 - one at a time, so that others see it when it comes


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("open_before", [True, False])
def test_a_held_request_reaches_the_cluster_only_at_the_end(
    net: Network, client: httpx.Client, cluster: Upstream, open_before: bool
) -> None:
    """With requests held a write has not happened until the end, and then it has; other lanes go on meanwhile."""
    link, mark = (LINK, "held-old") if open_before else (OTHER, "held-new")

    def arrived() -> bool:
        return any(mark in path for _, path, _ in cluster.requests)

    with connect(net.access(link, TOKEN)) as writer, ThreadPoolExecutor(1) as pool:
        if open_before:
            writer.post("/api/v1/pods")
        with net.hold([link.writes], of="requests"):
            answer = pool.submit(writer.post, f"/api/v1/pods?{mark}")
            assert client.get("/api/v1/pods").status_code == 200
            assert not poll(arrived, within=0.3)
        assert answer.result(PATIENCE).status_code == 200
    assert arrived()


def test_a_delay_of_requests_is_over_before_the_cluster_acts(
    net: Network, client: httpx.Client, cluster: Upstream
) -> None:
    """A delayed request reaches the cluster only after the delay."""
    client.post("/api/v1/pods")
    with net.delay([LINK.writes], DELAY * 1000, of="requests"), ThreadPoolExecutor(1) as pool:
        begin = time.monotonic()
        answer = pool.submit(client.post, "/api/v1/pods?late=yes")
        assert poll(lambda: any("late=yes" in path for _, path, _ in cluster.requests), within=PATIENCE, every=0.002)
        assert time.monotonic() - begin >= DELAY
        assert answer.result(PATIENCE).status_code == 200


def test_a_watch_opened_during_a_hold_opens_at_its_end(net: Network, watch: Begin, cluster: Upstream) -> None:
    """A new connection of a held lane waits as its events do, and then gets them."""
    with net.hold([LINK.watch("workloads")]):
        held = watch(WORKLOADS)
        assert not held.opened(within=0.3)
    assert held.opened()
    cluster.publish(1)
    assert held.has(1)


def test_a_cut_ends_a_silent_watch(net: Network, watch: Begin) -> None:
    """The client of a cut lane notices at once, even where nothing was being sent."""
    silent = watch(WORKLOADS)
    assert silent.opened()
    with net.cut([LINK.watch("workloads")]):
        assert silent.ended(within=PATIENCE)
        assert silent.error is not None


def test_a_cut_refuses_new_requests_until_it_is_healed(net: Network, client: httpx.Client, cluster: Upstream) -> None:
    """No request of a cut lane reaches the cluster, other lanes work, and after the end this one does again."""
    assert client.post("/api/v1/pods").status_code == 200  # its connection stays open, and must not be used
    with net.cut([LINK.writes]):
        with pytest.raises(httpx.TransportError):
            client.post("/api/v1/pods?during=cut")
        assert client.get("/api/v1/pods").status_code == 200
    assert not [path for _, path, _ in cluster.requests if "during=cut" in path]
    assert client.post("/api/v1/pods").status_code == 200


def test_a_cut_loses_what_is_held(net: Network, watch: Begin, cluster: Upstream) -> None:
    """A cut ends a watch that is being held and nothing of what was held arrives, whichever of the two ends first."""
    held = watch(WORKLOADS)
    assert held.opened()
    hold, cut = net.hold([LINK.watch("workloads")]), net.cut([LINK.watch("workloads")])
    hold.__enter__()
    for number in range(20):
        cluster.publish(number)
    cut.__enter__()
    assert held.ended(within=PATIENCE)
    hold.__exit__(None, None, None)
    cut.__exit__(None, None, None)
    assert held.lines == []
    assert watch(WORKLOADS).opened()


def test_a_hold_ends_at_once_although_its_client_left(net: Network, cluster: Upstream) -> None:
    """What was held for a client that is gone by the end keeps nobody from ending the hold."""
    lane = LINK.watch("workloads")
    cluster.watchers.clear()

    async def leave_behind(number: int) -> None:
        async with async_client(net.access(LINK, TOKEN)) as client, asyncio.timeout(PATIENCE):
            reading = asyncio.create_task(_read(client, WORKLOADS, []))
            await _until(lambda: len(cluster.watchers) == 1)
            hold.__enter__()
            for each in range(number):
                cluster.publish(each)
            reading.cancel()

    hold = net.hold([lane])
    asyncio.run(leave_behind(200))
    assert poll(lambda: connections(net._toxiproxy.process, net._ports[lane]) == 0, within=PATIENCE)
    begin = time.monotonic()
    hold.__exit__(None, None, None)
    assert time.monotonic() - begin < 4, "Toxiproxy waits five seconds for each piece"
    cluster.publish(END)


@pytest.mark.parametrize("kind", ["delay", "hold", "slow", "toxic"])
def test_nothing_comes_behind_a_hold(net: Network, watch: Begin, cluster: Upstream, kind: str) -> None:
    """A fault that would let a piece of what is held slip through is refused, and nothing slips through."""
    held = watch(WORKLOADS)
    assert held.opened()
    with net.delay([LINK.watch("workloads")], 1), net.hold([LINK.watch("workloads")]):
        cluster.publish(1)
        with pytest.raises(FaultError, match="held already"), WAYS[kind](net, [LINK.watch("workloads")]):
            pytest.fail("the fault must not start")
        with WAYS[kind](net, [LINK.watch("jobs")]), net.delay([LINK.watch("workloads")], 5, of="requests"):
            time.sleep(0.05)
        assert held.lines == []
    assert held.has(1)
    with WAYS[kind](net, [LINK.watch("workloads")]):
        pass


def test_a_hold_that_begins_at_the_same_moment_is_noticed(net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delay that is put on a lane while another thread's hold begins there is refused: it may have come behind it."""
    lanes, add = [LINK.watch("workloads")], net._toxiproxy.add
    hold = net.hold(lanes)

    def hold_first(toxics: Sequence[Toxic]) -> None:
        monkeypatch.setattr(net._toxiproxy, "add", add)
        hold.__enter__()
        add(toxics)

    monkeypatch.setattr(net._toxiproxy, "add", hold_first)
    with pytest.raises(FaultError, match="held already"), net.delay(lanes, 1):
        pytest.fail("the fault must not be in force")
    assert len(net.residue()) == 1
    hold.__exit__(None, None, None)


def test_a_slow_lane_passes_so_many_bytes_a_second(net: Network, client: httpx.Client) -> None:
    """An answer of 6 kB takes half a second at 12 kB/s, and other lanes take no longer than ever."""
    long = f"/api/v1/pods?long={'x' * 6000}"
    client.get(long)
    with net.slow([LINK.reads], 12):
        assert client.get(long).elapsed.total_seconds() >= 0.4
        assert _quickest(lambda: client.post(long)) < 0.4
    assert _quickest(lambda: client.get(long)) < 0.4


def test_any_toxic_can_be_put_on_a_lane(net: Network, client: httpx.Client) -> None:
    """Toxiproxy's `limit_data`, which has no kind of its own, ends a connection after so many bytes."""
    with net.toxic([LINK.reads], "limit_data", {"bytes": 100}), pytest.raises(httpx.TransportError):
        client.get("/api/v1/pods")
    assert client.get("/api/v1/pods").status_code == 200


def test_an_unknown_toxic_is_refused(net: Network) -> None:
    """What Toxiproxy does not know is an error with its own words."""
    with pytest.raises(TrafficError, match="nonsense"), net.toxic([LINK.reads], "nonsense", {}):
        pytest.fail("the fault must not start")


def test_a_pipe_can_be_held_and_cut(net: Network, cluster: Upstream) -> None:
    """Traffic that is not taken apart, as that to a webhook server, is held and cut as a whole."""
    pipe = Pipe("worker1", "kueue", "webhooks-of-test")
    port = net.pipe(pipe, cluster.access.server.removeprefix("https://"))
    with connect(replace(cluster.access, server=f"https://127.0.0.1:{port}")) as caller:
        assert caller.post("/validate").status_code == 200
        with ThreadPoolExecutor(1) as pool:
            with net.hold(pipe.lanes):
                held = pool.submit(caller.post, "/validate?held")
                assert poll(lambda: any("held" in path for _, path, _ in cluster.requests), within=PATIENCE)
                with pytest.raises(TimeoutError):
                    held.result(0.1)
                assert net.residue()
            assert held.result(PATIENCE).status_code == 200
        with net.cut(pipe.lanes), pytest.raises(httpx.TransportError):
            caller.post("/validate?cut")
    assert not any("cut" in path for _, path, _ in cluster.requests if "validate" in path)


@pytest.fixture
def second(net: Network, cluster: Upstream, tmp_path: Path) -> Iterator[Upstream]:
    with upstream(tmp_path, cluster.authority) as server:
        net.second("worker1", server.access)
        yield server


def test_a_traveller_meets_the_second_server_and_comes_home(
    net: Network, client: httpx.Client, cluster: Upstream, second: Upstream
) -> None:
    """Within a time travel the link's requests go to the second server alone, after it to the first alone."""
    client.post("/api/v1/pods?before")
    with net.travel(LINK.lanes), connect(net.access(OTHER, TOKEN)) as other:
        assert net.residue() == sorted(f"{lane.name}: leads elsewhere" for lane in LINK.lanes)
        client.post("/api/v1/pods?away")
        other.post("/api/v1/pods?other")
    client.post("/api/v1/pods?after")
    assert [path for _, path, _ in second.requests] == ["/api/v1/pods?away"]
    assert [path for _, path, _ in cluster.requests][-3:] == [f"/api/v1/pods?{w}" for w in ("before", "other", "after")]


def test_watches_break_off_at_both_ends_of_a_travel(net: Network, watch: Begin, second: Upstream) -> None:
    """A watch of the first server ends when the travel begins, one of the second when it is over."""
    first = watch(WORKLOADS)
    assert first.opened()
    with net.travel(LINK.lanes):
        assert first.ended(within=PATIENCE)
        away = watch(WORKLOADS)
        assert away.opened()
        assert len(second.watchers) == 1
    assert away.ended(within=PATIENCE)


def test_toxics_stay_on_the_lanes_of_a_traveller(net: Network, client: httpx.Client, second: Upstream) -> None:
    """A delay on a lane is one on the way to the second server as well."""
    with net.travel(LINK.lanes), net.delay([LINK.reads], DELAY * 1000):
        assert _quickest(lambda: client.get("/api/v1/pods")) >= DELAY
        assert second.requests


def test_there_is_no_travel_without_a_second_server(net: Network) -> None:
    """A time travel to nowhere is refused before anything happens."""
    with pytest.raises(FaultError, match="no second API server of worker2"), net.travel(OTHER.lanes):
        pytest.fail("the fault must not start")


def test_held_events_of_an_unobserved_span_are_lost_and_the_watch_expires(
    net: Network, client: httpx.Client, watch: Begin, cluster: Upstream
) -> None:
    """Events within the block never arrive; going on from before is refused, beginning anew is not."""
    path = f"{WORKLOADS}&resourceVersion="
    seen = watch(f"{path}{cluster.revision - 1}")
    assert seen.opened()
    answers: list[int] = []

    def come_back() -> None:
        seen.ended(PATIENCE)
        answers.append(client.get(f"{path}{cluster.revision - 1}").status_code)

    with ThreadPoolExecutor(1) as pool:
        with net.unobserved([LINK.watch("workloads")]):
            back = pool.submit(come_back)
            for number in (1, 2, 3):
                cluster.publish(number)
        back.result(PATIENCE)
    assert seen.lines == []
    assert seen.error is not None
    assert answers == [410]
    anew = watch(f"{path}{cluster.revision}")
    assert anew.opened()
    cluster.publish(4)
    assert anew.has(1)
    assert anew.lines == ["4"]


def test_nothing_goes_unobserved_where_nobody_watches(net: Network) -> None:
    """An unobserved span on a lane without a watch has not happened, and says so."""
    with pytest.raises(FaultError, match="no watch is open"), net.unobserved([OTHER.watch("workloads")]):
        pass


def test_a_watch_that_has_ended_leaves_no_connection(net: Network, watch: Begin, cluster: Upstream) -> None:
    """A watch that its server ended is no watch that an unobserved span would wait for: its connection goes with it."""
    with connect(net.access(LINK, TOKEN)) as other:  # two threads that read one connection starve each other
        ended = [watch(WORKLOADS), Watch(other, WORKLOADS)]
        assert all(each.opened() for each in ended)
        cluster.publish(END)
        assert all(each.ended(PATIENCE) for each in ended)
    lane, toxiproxy = LINK.watch("workloads"), net.processes[1]
    # Sooner than the router gives up an idle connection.
    assert poll(lambda: not connections(toxiproxy, net._ports[lane]), within=20)
    with pytest.raises(FaultError, match="no watch is open"), net.unobserved([lane]):
        pass


def test_reads_cannot_go_unobserved(net: Network) -> None:
    """A lane through which no watch goes is refused before anything happens."""
    with pytest.raises(FaultError, match="no watch goes through"), net.unobserved(LINK.lanes):
        pytest.fail("the fault must not start")


def test_a_watch_that_does_not_come_back_is_told(net: Network, watch: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a watch that broke off does not return, nobody knows what its client saw: that is an error."""
    monkeypatch.setattr("holdback.traffic.network._BACK_WITHIN", 0.2)
    lost = watch(WORKLOADS)
    assert lost.opened()
    with pytest.raises(FaultError, match="0 of 1 watch came back"), net.unobserved([LINK.watch("workloads")]):
        pass


def test_a_toxic_names_its_owner(net: Network) -> None:
    """What is left in force says whose it is, to us and to whoever else asks Toxiproxy."""
    lease = Lease("it-[a b]-control-001")
    with net.delay([LINK.reads], 1, lease=lease), net.hold([LINK.reads], lease=lease):
        assert len(residue := net.residue()) == 2
        assert all(line.endswith("-of-it-_a_b_-control-001") for line in residue)


def test_residue_names_lanes_while_a_fault_is_in_force(net: Network, way: Way) -> None:
    """`residue` shows each lane of a fault, and nothing once it is over."""
    with way(net, [LINK.reads, LINK.writes]):
        assert {line.partition(": ")[0] for line in net.residue()} == {LINK.reads.name, LINK.writes.name}
    assert net.residue() == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_fault_ends_whatever_ends_its_block(net: Network, way: Way, error: type[BaseException]) -> None:
    """An error or Ctrl-C inside the block goes on as itself, and the fault is gone."""
    with pytest.raises(error), way(net, [LINK.reads]):
        raise error
    assert net.residue() == []


def test_an_unknown_lane_is_refused_before_anything_happens(net: Network, way: Way) -> None:
    """A lane of another world makes no fault at all, and the message names the lanes there are."""
    stranger = Link("kueue", "mars").reads
    with pytest.raises(FaultError, match="mars/reads") as caught, way(net, [LINK.reads, stranger]):
        pytest.fail("the fault must not start")
    assert LINK.reads.name in caught.value.remedy


def test_a_fault_on_nothing_is_refused(net: Network, way: Way) -> None:
    """A fault without lanes is an error, because a trial would count as faulted without having been."""
    with pytest.raises(FaultError, match="no lane"), way(net, []):
        pytest.fail("the fault must not start")


@pytest.mark.parametrize("milliseconds", [-1, 0.5])
def test_a_delay_that_toxiproxy_cannot_do_is_refused(net: Network, milliseconds: float) -> None:
    """Fractions of a millisecond and negative delays are an error of configuration, never rounded."""
    with pytest.raises(ConfigurationError), net.delay([LINK.reads], milliseconds):
        pytest.fail("the fault must not start")


def test_an_overdue_fault_is_ended_and_reported(net: Network, client: httpx.Client) -> None:
    """A fault that outlives its lease is ended by itself, and its block's end says so."""
    with pytest.raises(FaultError, match=r"lease of 0\.1 s"), net.hold([LINK.reads], lease=Lease(seconds=0.1)):
        assert client.get("/api/v1/pods").status_code == 200
        assert poll(lambda: not net.residue(), within=PATIENCE) is not None


def test_a_network_in_order_passes_its_check(net: Network) -> None:
    """`check` finds nothing wrong with a network that works, faults or not."""
    net.check()
    with net.cut(LINK.lanes):
        net.check()


@pytest.fixture
def another(run: Run, binaries: Binaries, cluster: Upstream) -> AbstractContextManager[Network]:
    return network(run, binaries, {LINK: cluster.access})


def test_two_networks_of_one_process_do_not_mix(net: Network, another: AbstractContextManager[Network]) -> None:
    """A fault on a link leaves the link of the same name in another network alone."""
    with another as second, connect(second.access(LINK, TOKEN)) as client, net.cut(LINK.lanes):
        assert client.get("/api/v1/pods").status_code == 200
        assert second.residue() == []
        assert net.residue()
        assert second.access_log != net.access_log


@pytest.mark.parametrize("victim", ["toxiproxy", "router"])
def test_a_killed_part_is_named(another: AbstractContextManager[Network], victim: str) -> None:
    """When Toxiproxy or the router was killed from outside, `check` raises TrafficError with its name."""
    with another as net:
        _processes(net)[victim].kill()
        with pytest.raises(TrafficError, match=f"{victim}.*SIGKILL"):
            net.check()


def test_a_fault_cannot_end_in_peace_when_toxiproxy_is_gone(another: AbstractContextManager[Network]) -> None:
    """The end of a fault whose Toxiproxy was killed raises TrafficError and says that it is dead."""
    message = r"Toxiproxy did not answer.*has ended"
    with another as net, pytest.raises(TrafficError, match=message), net.delay(LINK.lanes, 10):
        _processes(net)["toxiproxy"].kill()


def _processes(net: Network) -> dict[str, Any]:
    return {"toxiproxy": net._toxiproxy.process, "router": net._router.process}


def test_nothing_is_written_to_the_users_home(
    another: AbstractContextManager[Network], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither Caddy nor Toxiproxy touches the home directory."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with another:
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("server", ["http://127.0.0.1:80", "https://127.0.0.1:1/k8s/clusters/a", "nonsense"])
def test_an_address_that_cannot_be_routed_to_is_refused(
    run: Run, binaries: Binaries, cluster: Upstream, server: str
) -> None:
    """A cluster's address that is not just https, host and port is an error that names the link."""
    access = Access(server=server, ca=cluster.access.ca, token="")
    with pytest.raises(ConfigurationError, match="kueue>worker1"), network(run, binaries, {LINK: access}):
        pytest.fail("the network must not start")
