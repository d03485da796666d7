"""What only kind has: a Kueue in a pod for faults to act on, and containers that must not outlive a run.

`nox -s kind -- e2e/test_kind.py` runs it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from holdback.binaries import Binaries
from holdback.clock import poll
from holdback.clusters import Cluster, Provider
from holdback.clusters.abilities import restartable
from holdback.clusters.docker import Docker
from holdback.clusters.kind import leftovers
from holdback.clusters.kinds import PODS
from holdback.controllers.kueue.hosting import Settings as Wishes
from holdback.controllers.kueue.inside import Inside
from holdback.controllers.kueue.kinds import RESOURCE_FLAVORS
from holdback.controllers.kueue.source import KueueBuild
from holdback.controllers.kueue.starting import client_of, start_kueues, wanted_kueues
from holdback.errors import ClusterError
from holdback.faults.injection import inject
from holdback.faults.values import Fault, Hold, Kill, Pause, Restart
from holdback.plugin import Settings
from holdback.process import Run, Running
from holdback.traffic.lanes import Link
from holdback.traffic.network import Network, network

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

NAME = "one"
LINK = Link(client_of(NAME), NAME, ("resourceflavors",))
OWNER = """
import sys, time
from pathlib import Path
from holdback.binaries import Binaries
from holdback.clusters.kind import KindProvider
from holdback.process import open_run
with open_run(logs=Path(sys.argv[1])) as run:
    with KindProvider(run, Binaries(environment=run.environment), sys.argv[2]).clusters(["one"]):
        print(run.id, flush=True)
        time.sleep(600)
"""


@dataclass(frozen=True)
class Kind:
    """A cluster with a Kueue in a pod, behind its lanes."""

    cluster: Cluster
    net: Network
    kueue: Running

    def put(self, *faults: Fault) -> AbstractContextManager[None]:
        return inject(self.net, faults, lambda *_: None)

    def create(self, name: str) -> None:
        """Make an object that Kueue's webhooks are asked about, and throw it away."""
        self.cluster.api.create(RESOURCE_FLAVORS, {"metadata": {"name": name}, "spec": {}})
        self.cluster.api.patch(RESOURCE_FLAVORS, name, {"metadata": {"finalizers": None}})
        self.cluster.api.delete(RESOURCE_FLAVORS, name)

    def hears_of(self, name: str) -> bool:
        """Whether Kueue logged that its informer told it of the flavor."""
        lines = self.kueue.log.read_text().splitlines()
        return any("ResourceFlavor create event" in line and f'"{name}"' in line for line in lines)


@pytest.fixture(scope="module")
def of_kind(holdback_settings: Settings) -> None:
    if holdback_settings.places.clusters != "kind":
        pytest.skip("it is about kind clusters, and these are others: nox -s kind")


@pytest.fixture(scope="module")
def kind(
    of_kind: None,
    holdback_run: Run,
    holdback_binaries: Binaries,
    holdback_provider: Provider,
    kueue_builds: Mapping[str, KueueBuild],
) -> Iterator[Kind]:
    wanted = wanted_kueues({NAME: (kueue_builds["control"], Wishes())})
    with ExitStack() as stack:
        clusters = stack.enter_context(holdback_provider.clusters([NAME]))
        accesses = {LINK: clusters[NAME].access}
        net = stack.enter_context(network(holdback_run, holdback_binaries, accesses, address=holdback_provider.address))
        kueues = start_kueues(stack, Inside(holdback_run), clusters, net, links={NAME: LINK}, wanted=wanted)
        yield Kind(clusters[NAME], net, kueues[LINK.client])


def test_a_kueue_in_a_pod_hears_through_its_lanes(kind: Kind) -> None:
    """While its watch is held it learns of nothing, and of everything afterwards; its log is ours to read."""
    with kind.put(Hold(LINK.watch("resourceflavors"))):
        kind.create("late")
        assert not poll(partial(kind.hears_of, "late"), within=2)
    assert poll(partial(kind.hears_of, "late"), within=60)


@pytest.mark.parametrize("fault", [Kill, Restart, Pause])
def test_a_kueue_in_a_pod_comes_back(kind: Kind, fault: type[Kill] | type[Restart] | type[Pause]) -> None:
    """After each fault on it it serves again, in one pod; its end in between was no failure, and its log goes on."""
    before = kind.kueue.log.stat().st_size
    with kind.put(fault(kind.kueue)):
        kind.kueue.check()
        if fault is Kill:
            with pytest.raises(ClusterError, match="failed calling webhook"):
                kind.create("refused")
    kind.kueue.check()
    kind.create(f"after-{fault.__name__.lower()}")
    assert len(kind.cluster.api.list(PODS, "kueue-system")) == 1
    assert poll(lambda: kind.kueue.log.stat().st_size > before, within=60)
    assert kind.net.residue() == []


def test_an_api_server_of_kind_comes_back(kind: Kind) -> None:
    """Killed, it is started again on the same data, and the Kueue in the cluster goes on."""
    kind.cluster.api.ensure_namespace("stays")
    restartable(kind.cluster).restart_server()
    kind.cluster.check()
    kind.kueue.await_ready()
    kind.kueue.check()
    kind.create("after-restart")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_cluster_outlives_its_run(
    of_kind: None, holdback_run: Run, holdback_settings: Settings, tmp_path: Path, how: signal.Signals
) -> None:
    """Killed or interrupted, a run leaves no node, and `holdback clean` finds nothing of it."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "logs"), holdback_settings.places.kind_image],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,
    )
    assert owner.stdout
    run = owner.stdout.readline().strip()
    assert re.fullmatch(r"[0-9a-f]{12}", run), owner.communicate()
    docker = Docker(holdback_run)

    def nodes() -> list[str]:
        return docker("ps", "--all", "--format={{.Names}}", f"--filter=name=-{run}-").split()

    assert len(nodes()) == 1
    os.killpg(owner.pid, how)
    owner.communicate(timeout=180)
    assert poll(lambda: not nodes(), within=180)
    assert run not in {each.run for each in leftovers(docker)}
    assert not (tmp_path / ".pytest-kind").exists()
