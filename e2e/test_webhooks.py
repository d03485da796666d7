"""Faults on a controller, on its admission webhooks and on its informers, with a real Kueue."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from itertools import count

import pytest

from holdback.binaries import Binaries
from holdback.clock import poll
from holdback.clusters import LocalCluster, local_clusters
from holdback.clusters.kinds import Kind
from holdback.controllers.kueue.hosting import Settings
from holdback.controllers.kueue.outside import Outside
from holdback.controllers.kueue.source import KueueBuild
from holdback.controllers.kueue.starting import client_of, start_kueues, wanted_kueues, webhooks_of
from holdback.errors import ClusterError
from holdback.faults.injection import inject
from holdback.faults.values import Cut, Delay, Fault, Hold, Kill, Pause, Restart, Unobserved
from holdback.process import Run, Running
from holdback.traffic.lanes import Link
from holdback.traffic.network import Network, network

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

NAME = "one"
PIPE = webhooks_of(NAME)
LINK = Link(client_of(NAME), NAME, ("resourceflavors",))
FLAVORS = Kind("kueue.x-k8s.io", "v1beta1", "ResourceFlavor", "resourceflavors", namespaced=False)
_numbers = count()


class Piped:
    """A cluster whose Kueue is asked by a pipe."""

    def __init__(self, cluster: LocalCluster, net: Network, kueue: Running) -> None:
        self.cluster = cluster
        self.net = net
        self.kueue = kueue

    def put(self, *faults: Fault) -> AbstractContextManager[None]:
        return inject(self.net, faults, lambda *_: None)

    def create(self, name: str = "") -> float:
        """Make an object that Kueue's webhooks are asked about; the seconds it took."""
        begin = time.monotonic()
        self.cluster.api.create(FLAVORS, {"metadata": {"name": name or f"flavor-{next(_numbers)}"}})
        return time.monotonic() - begin

    def is_gone(self, name: str) -> bool:
        return self.cluster.api.get(FLAVORS, name) is None

    def hears_of(self, name: str) -> bool:
        """Whether Kueue logged that its informer told it of the flavor."""
        lines = self.kueue.log.read_text().splitlines()
        return any("ResourceFlavor create event" in line and f'"{name}"' in line for line in lines)


@pytest.fixture(scope="module")
def piped(holdback_run: Run, holdback_binaries: Binaries, kueue_builds: Mapping[str, KueueBuild]) -> Iterator[Piped]:
    wanted = wanted_kueues({NAME: (kueue_builds["control"], Settings())})
    with ExitStack() as stack:
        clusters = stack.enter_context(local_clusters(holdback_run, holdback_binaries, [NAME]))
        net = stack.enter_context(network(holdback_run, holdback_binaries, {LINK: clusters[NAME].access}))
        host = Outside(holdback_run)
        kueues = start_kueues(stack, host, clusters, net, links={NAME: LINK}, wanted=wanted, piped=True)
        yield Piped(clusters[NAME], net, kueues[LINK.client])


def test_a_slow_webhook(piped: Piped) -> None:
    """With its answers delayed every write that it is asked about takes that much longer, and only then."""
    assert poll(lambda: piped.create() < 1, within=60)  # at the first try, unless the machine is busy
    with piped.put(Delay(PIPE, 1000)):
        assert all(piped.create() >= 1 for _ in range(3))
    assert poll(lambda: piped.create() < 1, within=60)


def test_a_failing_webhook(piped: Piped) -> None:
    """With the way to it cut such writes are refused, and the API server says why; afterwards they are not."""
    with piped.put(Cut(PIPE)), pytest.raises(ClusterError, match="failed calling webhook"):
        piped.create()
    piped.create()


def test_a_webhook_that_does_not_answer(piped: Piped) -> None:
    """Held, it lets such a write run into the API server's own time limit of ten seconds."""
    begin = time.monotonic()
    with piped.put(Hold(PIPE)), pytest.raises(ClusterError, match="failed calling webhook"):
        piped.create()
    assert time.monotonic() - begin >= 9
    piped.create()


def test_a_real_informer_never_learns_of_what_it_did_not_observe(piped: Piped) -> None:
    """Kueue hears of an object that stays, never of one that came and went; without the fault it hears of both."""
    for number, fault in enumerate([None, Unobserved(LINK.watch("resourceflavors"))]):
        with piped.put(fault) if fault else nullcontext():
            piped.create(f"guest-{number}")
            piped.cluster.api.patch(FLAVORS, f"guest-{number}", {"metadata": {"finalizers": None}})
            piped.cluster.api.delete(FLAVORS, f"guest-{number}")
            # At once where Kueue does not know of it; else it may have put its finalizer back, and takes it off itself.
            assert poll(partial(piped.is_gone, f"guest-{number}"), within=60)
            piped.create(f"stays-{number}")
        assert poll(partial(piped.hears_of, f"stays-{number}"), within=60)
    assert [piped.hears_of(f"guest-{number}") for number in range(2)] == [True, False]


@pytest.mark.parametrize("kind", [Kill, Restart, Pause])
def test_a_controller_comes_back(piped: Piped, kind: type[Kill] | type[Restart] | type[Pause]) -> None:
    """After each fault on the controller it serves again at once, and its end in between was no failure."""
    with piped.put(kind(piped.kueue)):
        piped.kueue.check()
        if kind is Kill:
            with pytest.raises(ClusterError, match="failed calling webhook"):
                piped.create()
    piped.kueue.check()
    piped.create()
    assert piped.net.residue() == []
