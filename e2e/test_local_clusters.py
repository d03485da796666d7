"""Local clusters are real, private, and never outlive their run."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import psutil
import pytest

import holdback.process
from holdback.binaries import Binaries
from holdback.clock import poll
from holdback.clusters import Api, LocalCluster, local_clusters
from holdback.clusters.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS
from holdback.errors import ClusterError, ProcessExited
from holdback.process import Run, open_run
from holdback.process.reaper import members

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

_OWNER = """
import sys, time
from pathlib import Path
from holdback.binaries import Binaries
from holdback.clusters import local_clusters
from holdback.process import open_run
with open_run(logs=Path(sys.argv[1])) as run, local_clusters(run, Binaries(), ["doomed"]):
    print(run.id, run.directory, flush=True)
    time.sleep(600)
"""
_POD = {"spec": {"containers": [{"name": "main", "image": "none"}]}}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with open_run(logs=tmp_path_factory.mktemp("logs")) as opened:
        yield opened


@pytest.fixture(scope="module")
def clusters(run: Run) -> Iterator[dict[str, LocalCluster]]:
    """Two clusters, started together."""
    with local_clusters(run, Binaries(), ["one", "two"]) as started:
        yield started


@pytest.fixture(scope="module")
def one(clusters: dict[str, LocalCluster]) -> LocalCluster:
    clusters["one"].api.ensure_namespace("test")
    return clusters["one"]


def test_clusters_are_separate(clusters: dict[str, LocalCluster]) -> None:
    """Each cluster has data and credentials of its own, and plain pods can be made in it."""
    one, two = clusters.values()
    for cluster in (one, two):
        cluster.check()
        assert cluster.api.ready()
    one.api.create(PODS, {"metadata": {"name": "here"}, **_POD}, "default")
    assert one.api.get(PODS, "here", "default")
    assert two.api.get(PODS, "here", "default") is None
    with pytest.raises(ClusterError) as error:
        Api(replace(two.access, token=one.access.token)).list(PODS)
    assert error.value.status == 401


def test_nothing_is_open_to_others(run: Run, clusters: dict[str, LocalCluster]) -> None:
    """The API servers listen on one loopback port each, nothing else listens, and the files are ours alone."""
    for cluster in clusters.values():
        listening = {
            child: [one.laddr for one in psutil.Process(child.pid).net_connections("inet") if one.status == "LISTEN"]
            for child in cluster.children
        }
        assert [f"https://{ip}:{port}" for ip, port in listening[cluster.server]] == [cluster.access.server]
        assert listening[cluster.etcd] == []
    assert stat.S_IMODE(run.directory.stat().st_mode) == 0o700
    files = [path for path in run.directory.rglob("*") if path.is_file() and "etcd" not in path.parts]
    assert {"apiserver.key", "tokens.csv", "accounts.key"} <= {path.name for path in files}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    tokens = [cluster.access.token for cluster in clusters.values()]
    told = "".join(log.read_text() for log in run.logs.iterdir())
    told += "".join(" ".join(psutil.Process(child.pid).cmdline()) for c in clusters.values() for child in c.children)
    assert not any(token in told for token in tokens)


def test_nobody_is_let_in_without_a_token(one: LocalCluster) -> None:
    """A request without a valid token is refused."""
    with pytest.raises(ClusterError) as error:
        Api(replace(one.access, token="guess")).list(PODS)
    assert error.value.status == 401


def test_accounts_have_the_rights_they_are_given(one: LocalCluster) -> None:
    """A service account's token is accepted, refused what it was not given, and allowed what it was."""
    one.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "reader"}}, "test")
    reader = Api(replace(one.access, token=one.api.token("reader", "test")))
    with pytest.raises(ClusterError, match="system:serviceaccount:test:reader") as error:
        reader.list(SECRETS, "test")
    assert error.value.status == 403
    rbac = "rbac.authorization.k8s.io"
    role = {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]}
    one.api.apply(
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": {"name": "reader", "namespace": "test"}, **role}
    )
    one.api.apply(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "reader", "namespace": "test"},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "test"}],
        }
    )

    def allowed() -> bool:
        try:
            return reader.list(SECRETS, "test") == []
        except ClusterError as error:
            assert error.status == 403
            return False

    assert poll(allowed, within=60)


def test_a_watch_outlives_the_api_server(one: LocalCluster) -> None:
    """A watch goes on after the API server was killed and restarted on the same data, and misses nothing.

    What comes first is not promised: where the new server has forgotten what came after the last event, a list tells.
    """
    stop = threading.Event()
    changes = one.api.watch(CONFIG_MAPS, "test", stop=stop)
    one.api.create(CONFIG_MAPS, {"metadata": {"name": "before"}}, "test")
    assert [item["metadata"]["name"] for _, item in islice(changes, 1)] == ["before"]
    one.restart_server()
    one.api.create(CONFIG_MAPS, {"metadata": {"name": "after"}}, "test")
    one.api.delete(CONFIG_MAPS, "before", "test")
    seen = [(change, item["metadata"]["name"]) for change, item in islice(changes, 2)]
    assert sorted(seen) == [("ADDED", "after"), ("DELETED", "before")]
    begun = threading.Timer(0.05, stop.set)
    begun.start()
    assert list(changes) == []


def test_many_changes_arrive_in_order(one: LocalCluster) -> None:
    """Of hundreds of changes made by several threads, a watch delivers each once, in the server's order."""
    stop = threading.Event()
    changes = one.api.watch(PODS, "test", stop=stop)
    one.api.create(PODS, {"metadata": {"name": "first"}, **_POD}, "test")
    assert [change for change, _ in islice(changes, 1)] == ["ADDED"]

    def write(writer: int) -> None:
        for number in range(50):
            one.api.create(PODS, {"metadata": {"name": f"p{writer}-{number}"}, **_POD}, "test")

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    added = [item["metadata"] for _, item in islice(changes, 200)]
    for writer in writers:
        writer.join()
    assert len({metadata["name"] for metadata in added}) == 200
    versions = [int(metadata["resourceVersion"]) for metadata in added]
    assert versions == sorted(versions)
    one.api.delete_all(PODS, "test")
    gone = islice((item["metadata"]["name"] for change, item in changes if change == "DELETED"), 201)
    assert sorted(gone) == sorted(["first", *(metadata["name"] for metadata in added)])


def test_a_dead_process_is_told(run: Run) -> None:
    """A cluster whose etcd was killed says so, and a new one of that name is as good as the first."""
    with local_clusters(run, Binaries(), ["fragile"]) as started:
        os.kill(started["fragile"].etcd.pid, signal.SIGKILL)
        assert poll(lambda: not started["fragile"].etcd.alive(), within=60)
        with pytest.raises(ProcessExited, match="fragile-etcd was killed by SIGKILL"):
            started["fragile"].check()
    with local_clusters(run, Binaries(), ["fragile"]) as anew:
        anew["fragile"].check()
        assert anew["fragile"].api.ready()
    assert not list(run.directory.glob("fragile*")), "the data of clusters that ended takes room"


def test_a_taken_port_ends_the_start_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a foreign program has the API server's port the start fails naming the port, and undoes itself."""
    before = members(run.id)
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        monkeypatch.setattr(run, "port", lambda: port)
        with pytest.raises(ProcessExited) as error, local_clusters(run, Binaries(), ["unlucky"]):
            pass
    assert f"took port {port} " in error.value.remedy
    assert members(run.id) == before


def test_kill_of_the_owner_leaves_nothing(tmp_path: Path) -> None:
    """Soon after the owner was killed with SIGKILL no process and no file of its cluster is left."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(holdback.process.__file__).parents[2])},
        start_new_session=True,
    )
    assert owner.stdout
    name, directory = owner.stdout.readline().split()
    assert len(members(name)) == 2
    os.killpg(owner.pid, signal.SIGKILL)
    owner.communicate()
    assert poll(lambda: not members(name) and not Path(directory).exists(), within=60)
