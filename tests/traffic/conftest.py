"""One router and one Toxiproxy for all tests that leave them as they found them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from holdback.binaries import Binaries
from holdback.process import Run, open_run
from holdback.traffic.lanes import Link
from holdback.traffic.network import Network, network
from tests.traffic.client import PATIENCE, Watch
from tests.traffic.client import client as connect
from tests.traffic.upstream import END, Upstream, upstream

LINK = Link("kueue", "worker1", ("workloads", "jobs"), ("jobs",))
OTHER = Link("kueue", "worker2", ("workloads",))
TOKEN = "a-token-that-no-log-may-hold"


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with open_run(logs=tmp_path_factory.mktemp("logs")) as opened:
        yield opened


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    with upstream(tmp_path_factory.mktemp("upstream")) as server:
        yield server


@pytest.fixture(scope="session")
def shared_network(run: Run, binaries: Binaries, cluster: Upstream) -> Iterator[Network]:
    with network(run, binaries, {LINK: cluster.access, OTHER: cluster.access}) as started:
        yield started


@pytest.fixture
def net(shared_network: Network) -> Iterator[Network]:
    """The shared network; the test must leave nothing in force."""
    yield shared_network
    assert shared_network.residue() == []


@pytest.fixture
def client(net: Network) -> Iterator[httpx.Client]:
    """A client of LINK."""
    with connect(net.access(LINK, TOKEN)) as made:
        yield made


@pytest.fixture
def watch(client: httpx.Client, cluster: Upstream) -> Iterator[Callable[[str], Watch]]:
    """Opens watches through LINK, and ends them.

    They must end before their client is closed: OpenSSL would go on with the number of a closed socket, which by
    then may be another connection's.
    """
    watches: list[Watch] = []
    cluster.watchers.clear()

    def begin(path: str) -> Watch:
        watches.append(Watch(client, path))
        return watches[-1]

    yield begin
    cluster.publish(END)
    assert all(each.ended(PATIENCE) for each in watches)
