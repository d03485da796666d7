"""Clusters made by kind, through pytest-kind: a node each, which is a container of the Docker engine.

Names tell whose a cluster is: `hb-MACHINE-RUN-NAME`. So two runs never meet, and what a run has left can be found when
nothing else is left of it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest_kind
import yaml

from holdback.binaries import Binaries
from holdback.clock import poll
from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.docker import Docker
from holdback.clusters.kind_refusals import explain, too_little
from holdback.clusters.protocols import Cluster
from holdback.errors import ClusterError, ConfigurationError
from holdback.process import Run
from holdback.process.reaper import living, members

__all__ = ["KindCluster", "KindProvider", "Leftover", "leftovers"]

_OLDEST = (0, 27)
"""Older ones cannot load images into nodes with containerd 2."""
_NETWORK = "KIND_EXPERIMENTAL_DOCKER_NETWORK"
_LABEL = "io.x-k8s.kind.cluster"
"""By which kind knows the nodes of a cluster."""
_READY_WITHIN = 60.0
_ACCOUNT, _NAMESPACE = "holdback", "kube-system"
_NAME = re.compile(r"hb-(?P<machine>[0-9a-f]{4})-(?P<run>[0-9a-f]{12})-(?P<name>.+)")


def _machine() -> str:
    """Tells machines apart that share an engine: what runs on another one cannot be seen here."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:4]


class KindCluster:
    """One cluster; made by `KindProvider`."""

    def __init__(self, name: str, made: pytest_kind.KindCluster, docker: Docker, access: Access) -> None:
        self.name = name
        self.node = _node(made.name)
        self.access = access
        self.api = Api(access)
        self._made = made
        self._docker = docker

    def __repr__(self) -> str:
        return f"KindCluster({self.name!r}, {self.access.server})"

    def check(self) -> None:
        """Say so if it is gone.

        Raises:
            ClusterError: its node does not run, or its API server does not answer.
        """
        state = self._docker("inspect", "--format", "{{.State.Status}}", self.node).strip()
        if state != "running":
            raise ClusterError(f"the node {self.node} is {state}", remedy=f"see `docker logs {self.node}`")
        if not self.api.ready():
            raise ClusterError(
                f"the API server of {self.name} does not answer",
                remedy=f"see `docker exec {self.node} crictl ps --all`; the machine may be overloaded",
            )

    def restart_server(self) -> None:
        """Kill the API server; the kubelet starts it again on the same data, and everyone's connections break.

        Raises:
            ClusterError: it does not come back.
        """
        before = self._server()
        self.run_in_node("kill", "-KILL", before)
        if not poll(lambda: self._server() not in {"", before} and self.api.ready(), within=_READY_WITHIN):
            raise ClusterError(
                f"the API server of {self.name} did not come back within {_READY_WITHIN:g} s",
                remedy=f"see `docker exec {self.node} journalctl -u kubelet`",
            )

    def house(self, image: str, executable: Path) -> None:
        """Make an image of a static executable and have it in the node; once is enough for an image in all clusters.

        Raises:
            ClusterError: the engine or kind refused.
        """
        with _building(image):
            if not self._docker("image", "ls", "--quiet", image).strip():
                self._docker.wrap(image, executable, self._docker.run.folder("image"))
        with _explained(self._docker.run, self._made.name):
            self._made.load_docker_image(image)

    def in_node(self, *words: str) -> list[str]:
        """The command that runs these words in the node."""
        return ["docker", "exec", self.node, *words]

    def run_in_node(self, *words: str) -> str:
        """Run a command in the node to its end; what it wrote.

        Raises:
            ClusterError: it failed; with its words.
        """
        return self._docker("exec", self.node, *words)

    def _server(self) -> str:
        """The process id of the API server within the node, empty if there is none."""
        with suppress(ClusterError):
            return self.run_in_node("pgrep", "--oldest", "--exact", "kube-apiserver").strip()
        return ""


_locks: dict[str, threading.Lock] = {}


def _building(image: str) -> threading.Lock:
    """Held while an image is built, so that clusters that want it at the same time build it once."""
    return _locks.setdefault(image, threading.Lock())


def _node(cluster: str) -> str:
    """What kind calls the only node of a cluster."""
    return f"{cluster}-control-plane"


@dataclass(frozen=True, slots=True)
class KindProvider:
    """Clusters made by kind.

    `image` is the node image, kind's own default if empty. With `keep` the clusters outlive the run.
    """

    run: Run
    binaries: Binaries
    image: str = ""
    keep: bool = False
    docker: Docker = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "docker", Docker(self.run))

    @property
    def name(self) -> str:
        return "kind"

    @property
    def address(self) -> str:
        self.docker.check()
        return self.docker.gateway(os.environ.get(_NETWORK, "kind"))

    def full_name(self, name: str) -> str:
        """What kind calls the cluster of that name."""
        return f"hb-{_machine()}-{self.run.id}-{name}"

    @contextmanager
    def clusters(self, managers: Sequence[str], workers: Sequence[str] = ()) -> Iterator[Mapping[str, Cluster]]:
        names = [*managers, *workers]
        self.docker.check()
        too_little(len(names))
        full = {name: self.full_name(name) for name in names}
        kind = self._kind()
        with ExitStack() as stack:
            if not self.keep:
                stack.enter_context(self.run.if_killed([kind, "delete", "clusters", *full.values()]))
            made = {name: self._describe(kind, full[name]) for name in names}
            stack.callback(self._keep if self.keep else self._delete, made)
            with self.binaries.workshop.progress.task(f"kind clusters {', '.join(names)}") as task:
                task.note = "being created"
                clusters = self._create(made)
            for cluster in clusters.values():
                stack.callback(cluster.api.close)
            yield clusters

    def _kind(self) -> Path:
        """The executable.

        Raises:
            ConfigurationError: it is too old.
            BinaryError: there is none, and it cannot be built.
        """
        path = self.binaries.get("kind")["kind"]
        found = self.binaries.find("kind")
        assert found is not None
        version = self.binaries.version(found)
        if number := re.match(r"v(\d+)\.(\d+)", version):
            major, minor = map(int, number.groups())
            if (major, minor) < _OLDEST:
                raise ConfigurationError(
                    f"{path} is kind {version}; v{_OLDEST[0]}.{_OLDEST[1]} or newer is needed",
                    remedy="install a newer one, or name one in HOLDBACK_KIND; without any on the PATH one is built",
                )
        return path

    def _describe(self, kind: Path, full: str) -> pytest_kind.KindCluster:
        """A cluster as pytest-kind has it, not yet created.

        Both executables are scripts of ours: what kind says goes to a log of the run, all that they start carries the
        run's mark, and kubectl is the node's own. So pytest-kind finds everything, and downloads nothing.
        """
        home = self.run.folder(full)
        docker = f"docker exec --interactive {_node(full)} kubectl --kubeconfig=/etc/kubernetes/admin.conf"
        made = pytest_kind.KindCluster(
            full,
            kubeconfig=home / "kubeconfig",
            image=self.image or None,
            kind_path=self._script(home / "kind", f"{shlex.quote(str(kind))}", _log(self.run, full)),
            kubectl_path=self._script(home / "kubectl", docker, _log(self.run, full)),
        )
        for folder in (made.path, made.path.parent):  # it makes them whether it needs them or not
            with suppress(OSError):
                folder.rmdir()
        return made

    def _script(self, path: Path, command: str, log: Path) -> Path:
        marks = " ".join(f"{name}={value}" for name, value in self.run.environment.items())
        path.write_text(f'#!/bin/sh\n{marks} exec {command} "$@" 2>>{shlex.quote(str(log))}\n')
        path.chmod(0o700)
        return path

    def _create(self, made: Mapping[str, pytest_kind.KindCluster]) -> dict[str, KindCluster]:
        with ThreadPoolExecutor(len(made), thread_name_prefix="kind") as pool:
            futures = {name: pool.submit(self._create_one, name, one) for name, one in made.items()}
            try:
                return {name: future.result() for name, future in futures.items()}
            except BaseException:
                # A creation must be over before its cluster is deleted, or it would come to be afterwards.
                _end_creations(self.run, [one.name for one in made.values()])
                raise

    def _create_one(self, name: str, made: pytest_kind.KindCluster) -> KindCluster:
        with _explained(self.run, made.name, image=self.image):
            made.create()
            made.kubectl("create", "serviceaccount", _ACCOUNT, f"--namespace={_NAMESPACE}")
            account = f"--serviceaccount={_NAMESPACE}:{_ACCOUNT}"
            made.kubectl("create", "clusterrolebinding", _ACCOUNT, "--clusterrole=cluster-admin", account)
            token = made.kubectl("create", "token", _ACCOUNT, f"--namespace={_NAMESPACE}", "--duration=24h")
        server, ca = _server_of(made.kubeconfig_path)
        return KindCluster(name, made, self.docker, Access(server, ca, token.strip()))

    def _delete(self, made: Mapping[str, pytest_kind.KindCluster]) -> None:
        with ThreadPoolExecutor(len(made), thread_name_prefix="kind") as pool:
            list(pool.map(partial(_delete_one, self.run), made.values()))

    def _keep(self, made: Mapping[str, pytest_kind.KindCluster]) -> None:
        for name, one in made.items():
            self.binaries.workshop.progress.say(
                f"{name} is kept: `kind export kubeconfig --name {one.name}` leads there, `holdback clean` removes it"
            )


def _log(run: Run, full: str) -> Path:
    return run.logs / f"kind-{full}.log"


def _delete_one(run: Run, made: pytest_kind.KindCluster) -> None:
    with _explained(run, made.name):
        made.delete()


@contextmanager
def _explained(run: Run, full: str, *, image: str = "") -> Iterator[None]:
    """Around a call of pytest-kind: a command that failed becomes an error with its words."""
    log = _log(run, full)
    before = log.stat().st_size if log.exists() else 0
    try:
        yield
    except subprocess.CalledProcessError as error:
        text = log.read_bytes()[before:].decode(errors="replace")
        raise explain(full, text, log, image=image) from error


def _server_of(kubeconfig: Path) -> tuple[str, str]:
    """URL and CA (PEM) of the cluster in a kubeconfig that kind wrote."""
    (cluster,) = yaml.safe_load(kubeconfig.read_text())["clusters"]
    found = cluster["cluster"]
    return found["server"], base64.b64decode(found["certificate-authority-data"]).decode()


def _end_creations(run: Run, names: Sequence[str]) -> None:
    """End every process of the run that works on one of these clusters: kinds, and the docker commands they started."""
    for process in members(run.id):
        with suppress(psutil.Error):
            if any(name in word for word in process.cmdline() for name in names):
                process.terminate()


@dataclass(frozen=True, slots=True)
class Leftover:
    """A cluster of a run that is over, or on another machine, in which case it is not `ours` to judge."""

    cluster: str
    run: str
    ours: bool

    def remove(self, docker: Docker) -> None:
        """Remove its nodes, and what they had on disk.

        Raises:
            ClusterError: the engine refuses.
        """
        nodes = docker("ps", "--all", "--quiet", f"--filter=label={_LABEL}={self.cluster}").split()
        if nodes:
            docker("rm", "--force", "--volumes", *nodes)


def leftovers(docker: Docker) -> list[Leftover]:
    """The kind clusters of holdback that no living run of this machine has.

    Raises:
        ConfigurationError, ClusterError: the engine cannot be asked.
    """
    docker.check()
    listed = docker(
        "ps", "--all", "--filter=label=io.x-k8s.kind.cluster", '--format={{.Label "io.x-k8s.kind.cluster"}}'
    )
    found = {name: match for name in listed.split() if (match := _NAME.fullmatch(name))}
    alive = living()
    return [
        Leftover(name, match["run"], match["machine"] == _machine())
        for name, match in sorted(found.items())
        if match["run"] not in alive
    ]
