"""What every provider of clusters does; what only some can do, the others refuse in words.

kind's part needs an engine and a node image: `nox -s kind -- e2e/test_provider_contract.py` runs it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import holdback.process
from e2e.posing import MANAGERS, WORKERS, posing
from holdback.binaries import Binaries
from holdback.clock import poll
from holdback.clusters import Api, Cluster, LocalProvider, Provider
from holdback.clusters.abilities import restartable
from holdback.clusters.docker import Docker
from holdback.clusters.existing import Contexts, ExistingProvider, leftovers, remove
from holdback.clusters.kind import KindProvider
from holdback.clusters.kind import leftovers as kind_leftovers
from holdback.clusters.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from holdback.clusters.protocols import Borrowed
from holdback.errors import ClusterError, ConfigurationError
from holdback.faults.injection import inject
from holdback.faults.values import Delay
from holdback.plugin import Settings
from holdback.process import Run, open_run
from holdback.process.reaper import members
from holdback.traffic.lanes import Link
from holdback.traffic.network import network

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

NAMESPACE = "contract"
PLANNED = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
CONTEXTS = (MANAGERS[0], WORKERS[0])
_GONE_WITHIN = {"local": 60.0, "kind": 180.0, "existing": 60.0}
"""Seconds after SIGKILL until what is left is taken to stay; kind's clusters must be deleted."""
_OWNER = """
import sys, time
from pathlib import Path
from e2e.test_provider_contract import announced, provider_of
from holdback.process import open_run
name, logs, image = sys.argv[1:]
with open_run(logs=Path(logs)) as run, provider_of(name, run, image).clusters(["one"], ["two"]) as clusters:
    announced(clusters)
    print(run.id, flush=True)
    time.sleep(600)
"""


def provider_of(name: str, run: Run, image: str = "") -> Provider:
    """The provider of that name; the existing one finds its kubeconfig in the environment."""
    if name == "kind":
        return KindProvider(run, Binaries(environment=run.environment), image)
    if name == "existing":
        contexts = Contexts(CONTEXTS[:1], CONTEXTS[1:], CONTEXTS)
        return ExistingProvider(run, contexts, say=lambda _: None)
    return LocalProvider(run, Binaries())


def announced(clusters: Mapping[str, Cluster]) -> None:
    """Have the test's namespace in each cluster, as a world would."""
    for cluster in clusters.values():
        if isinstance(cluster, Borrowed):
            cluster.announce("a test", PLANNED)
    for cluster in clusters.values():
        cluster.api.ensure_namespace(NAMESPACE)


@dataclass(frozen=True, slots=True)
class Given:
    """A provider, its run, and the clusters that it gave."""

    name: str
    run: Run
    provider: Provider
    clusters: Mapping[str, Cluster]


@contextmanager
def ready(name: str, settings: Settings) -> Iterator[None]:
    """What the provider needs to be there before it."""
    if name == "kind" and settings.places.clusters != "kind":
        pytest.skip("kind is left out: `nox -s kind` has a Docker engine and a node image")
    if name != "existing":
        yield
        return
    with posing(CONTEXTS) as there, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(there.kubeconfig))
        yield
        left = {context: leftovers(cluster.api) for context, cluster in there.clusters.items()}
        assert not any(left.values()), f"not given back: {left}"


@pytest.fixture(scope="module", params=list(_GONE_WITHIN))
def given(
    request: pytest.FixtureRequest, holdback_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Given]:
    name = request.param
    with ready(name, holdback_settings):
        with open_run(logs=tmp_path_factory.mktemp("logs")) as run:
            provider = provider_of(name, run, holdback_settings.places.kind_image)
            with provider.clusters(["one"], ["two"]) as clusters:
                announced(clusters)
                yield Given(name, run, provider, clusters)
            stopped(clusters["one"], name)
        assert not members(run.id)


def stopped(cluster: Cluster, name: str) -> None:
    """After its end a cluster of ours is gone, and one of somebody's no longer has what we made."""
    with closing(Api(cluster.access)) as api:
        if name == "existing":
            assert api.get(NAMESPACES, NAMESPACE) is None
        else:
            with pytest.raises(ClusterError, match="no answer"):
                api.get(NAMESPACES, NAMESPACE)


def test_clusters_start(given: Given) -> None:
    """They have the names that were asked for, work, and are separate."""
    assert list(given.clusters) == ["one", "two"]
    one, two = given.clusters.values()
    for cluster in (one, two):
        assert given.clusters[cluster.name] is cluster
        cluster.check()
        assert cluster.api.ready()
    one.api.create(CONFIG_MAPS, {"metadata": {"name": "here"}}, NAMESPACE)
    assert one.api.get(CONFIG_MAPS, "here", NAMESPACE)
    assert two.api.get(CONFIG_MAPS, "here", NAMESPACE) is None


def test_two_worlds_at_once(given: Given) -> None:
    """A second world has clusters of its own, or is refused in words where there are no others."""
    if given.name == "existing":
        with pytest.raises(ConfigurationError, match="another world"), given.provider.clusters(["three"]):
            pass
        return
    with given.provider.clusters(["three"]) as others:
        assert others["three"].access.server != given.clusters["one"].access.server
        assert others["three"].api.get(NAMESPACES, NAMESPACE) is None
    given.clusters["one"].check()


def test_logs(given: Given) -> None:
    """What the provider started tells of itself in the run's logs; it started nothing for clusters that were there."""
    written = [path.name for path in given.run.logs.iterdir() if path.stat().st_size]
    assert bool(written) == (given.name != "existing"), written


def test_lanes(given: Given) -> None:
    """A client of the router at the provider's address is let in to the cluster, and feels a delay of its lane."""
    cluster, link = given.clusters["one"], Link("client", "one")
    cluster.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "client"}}, NAMESPACE)
    token = cluster.api.token("client", NAMESPACE)
    with network(given.run, Binaries(), {link: cluster.access}, address=given.provider.address) as lanes:
        with closing(Api(lanes.access(link, token))) as api:
            assert given.provider.address in api.access.server
            assert api.read("/version")["major"] == "1"
            with inject(lanes, [Delay(link, 500)], lambda *_: None):
                begin = time.monotonic()
                api.read("/version")
                assert time.monotonic() - begin >= 0.5
        assert lanes.residue() == []


def test_restart(given: Given) -> None:
    """An API server that can be restarted comes back with its data; for others it is refused in words."""
    cluster = given.clusters["two"]
    if given.name == "existing":
        with pytest.raises(ConfigurationError, match="cannot be restarted"):
            restartable(cluster)
        return
    restartable(cluster).restart_server()
    cluster.check()
    assert cluster.api.get(NAMESPACES, NAMESPACE)


@pytest.mark.parametrize("name", list(_GONE_WITHIN))
def test_a_killed_owner(name: str, holdback_settings: Settings, tmp_path: Path) -> None:
    """After SIGKILL nothing of the run is left; in a cluster of somebody's what was made is found, and can go."""
    with ready(name, holdback_settings):
        owner = subprocess.Popen(
            [sys.executable, "-c", _OWNER, name, str(tmp_path), holdback_settings.places.kind_image],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _PATHS))},
            start_new_session=True,
        )
        assert owner.stdout
        run = owner.stdout.readline().strip()
        os.killpg(owner.pid, signal.SIGKILL)
        owner.communicate()
        assert run
        assert poll(lambda: not members(run) and not containers(name, run, tmp_path), within=_GONE_WITHIN[name])
        if name == "existing":
            with open_run(logs=tmp_path) as own, provider_of(name, own).clusters(["one"], ["two"]) as clusters:
                for cluster in clusters.values():
                    assert [str(each) for each in leftovers(cluster.api, run)] == [f"Namespace {NAMESPACE}"]
                    remove(cluster.api, run)


def containers(name: str, run: str, logs: Path) -> list[str]:
    """The kind clusters that are left of a run."""
    if name != "kind":
        return []
    with open_run(logs=logs) as own:
        return [left.cluster for left in kind_leftovers(Docker(own)) if left.run == run]


_PATHS = (Path(holdback.process.__file__).parents[2], Path(__file__).parents[1])
