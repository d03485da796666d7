"""Local clusters: an etcd and a kube-apiserver each, as our own child processes.

There is no node, no scheduler and no controller manager: Jobs make no pods, owners' deletion is not
followed by the garbage collector, and a deleted namespace stays Terminating. Everything of etcd is on unix
sockets in the run's private directory; the API server listens on one loopback port with TLS.

A cluster that is to have a second API server has its etcd on a loopback port as well, for those with a certificate:
the second one's way to its data must be one that can be held.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree

from holdback.binaries import Binaries
from holdback.certificates import Authority, new_key_pem, write_private
from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.kinds import NAMESPACES
from holdback.clusters.protocols import LOOPBACK, Cluster, SecondServer
from holdback.errors import ConfigurationError
from holdback.process import Child, Program, Run, await_ready, start

__all__ = ["LocalCluster", "LocalProvider", "local_clusters"]

_READY_WITHIN = 180.0
"""Seconds; an API server needs five, and more than sixty where twenty programs want each processor."""
_SOCKET = "etcd.sock"

# Without a controller manager nobody makes the service account that this plugin insists on, so that no
# plain pod could be made.
_UNWANTED_ADMISSION = ("ServiceAccount",)


@dataclass(frozen=True, slots=True)
class _Door:
    """A loopback port of an etcd, and the files with which one gets in."""

    port: int
    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def make(cls, run: Run, name: str, home: Path) -> _Door:
        authority = Authority.create(f"holdback {name} etcd")
        certificate, key = authority.issue("etcd").write(home, "etcd")
        return cls(run.port(), write_private(home / "etcd-ca.crt", authority.pem), certificate, key)

    def of_etcd(self) -> list[str]:
        return [
            f"--cert-file={self.certificate}",
            f"--key-file={self.key}",
            f"--trusted-ca-file={self.authority}",
            "--client-cert-auth",
        ]

    def of_server(self) -> list[str]:
        return [
            f"--etcd-cafile={self.authority}",
            f"--etcd-certfile={self.certificate}",
            f"--etcd-keyfile={self.key}",
        ]


def _start_etcd(run: Run, executable: Path, name: str, home: Path, door: _Door | None) -> Child:
    urls = [f"unix://{home}/{_SOCKET}", *([f"https://127.0.0.1:{door.port}"] if door else [])]
    flags = [
        f"--name={name}",
        "--data-dir=etcd",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={','.join(urls)}",
        # A peer socket takes only a host as its name, hence relative to the working directory.
        "--listen-peer-urls=unix://peer.sock",
        # Advertised URLs must look like TCP; nobody listens there and nobody asks.
        "--advertise-client-urls=http://localhost:2379",
        "--initial-advertise-peer-urls=http://localhost:2380",
        f"--initial-cluster={name}=http://localhost:2380",
        *(door.of_etcd() if door else []),
    ]
    return start(run, f"{name}-etcd", [executable, *flags], cwd=home)


class LocalCluster:
    """One local cluster; made by `local_clusters`."""

    def __init__(self, name: str, run: Run, home: Path, *, etcd: Child, apiserver: Path, door: _Door | None) -> None:
        self.name = name
        self.etcd = etcd
        self._run = run
        self._home = home
        self._apiserver = apiserver
        self._door = door
        authority = Authority.create(f"holdback {name}")
        port = run.port()
        self.access = Access(f"https://127.0.0.1:{port}", authority.pem, secrets.token_urlsafe(32))
        self.api = Api(self.access)
        self._flags = self._common_flags(authority)
        self.program = self._start(f"{name}-apiserver", self.api, [f"--etcd-servers=unix://{home}/{_SOCKET}"])

    def __repr__(self) -> str:
        return f"LocalCluster({self.name!r}, {self.access.server})"

    @property
    def server(self) -> Child:
        """The API server as it is now; another process after a restart."""
        return self.program.child

    @property
    def children(self) -> tuple[Child, ...]:
        """The API server and its etcd."""
        return (self.server, self.etcd)

    def _open_door(self) -> _Door:
        if self._door is None:
            raise ConfigurationError(
                f"the etcd of {self.name} is on a socket only",
                remedy=f"start it with `local_clusters(..., doubled=[{self.name!r}])`",
            )
        return self._door

    def check(self) -> None:
        """Say so if a process is gone that nobody killed on purpose.

        Raises:
            ProcessExited: with the end of its log.
        """
        self.program.check()
        self.etcd.check()

    def await_ready(self) -> None:
        """Wait until the API server is ready.

        Raises:
            ProcessExited: a process ended.
            NotReady: it took longer than three minutes.
        """
        self.program.await_ready()

    def restart_server(self) -> None:
        self.program.kill()
        self.program.start()
        self.program.await_ready()

    @contextmanager
    def second_server(self, way: Callable[[int], int]) -> Iterator[SecondServer]:
        door = self._open_door()
        access = self.access.via(f"https://127.0.0.1:{self._run.port()}", self.access.ca)
        data = [f"--etcd-servers=https://127.0.0.1:{way(door.port)}", *door.of_server()]
        with closing(Api(access)) as api:
            program = self._start(f"{self.name}-second-apiserver", api, data)
            try:
                program.await_ready()
                yield SecondServer(program, access)
            finally:
                program.kill()

    def close(self) -> None:
        """Kill the API server: the data is thrown away anyhow."""
        self.api.close()
        self.program.kill()

    def _start(self, name: str, api: Api, data: Sequence[str]) -> Program:
        """An API server that is asked through `api` and has its data by the flags `data`."""

        def ready() -> bool:
            self.etcd.check()
            return api.ready()

        port = api.access.server.rpartition(":")[2]
        argv: list[str | Path] = [self._apiserver, *self._flags, f"--secure-port={port}", *data]
        return Program(
            lambda: start(self._run, name, argv, cwd=self._home),
            lambda server: await_ready(server, ready, within=_READY_WITHIN, what="/readyz"),
        )

    def _common_flags(self, authority: Authority) -> list[str]:
        """What all API servers of the cluster have in common."""
        here = self._home
        certificate, key = authority.issue(
            "kube-apiserver", dns=["localhost", "kubernetes", "kubernetes.default.svc"], ips=["127.0.0.1"]
        ).write(here, "apiserver")
        accounts = write_private(here / "accounts.key", new_key_pem())
        tokens = write_private(here / "tokens.csv", f'{self.access.token},holdback,holdback,"system:masters"\n')
        return [
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",  # else it insists on a default route, which an offline machine lacks
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--token-auth-file={tokens}",
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={accounts}",
            f"--service-account-key-file={accounts}",
            f"--disable-admission-plugins={','.join(_UNWANTED_ADMISSION)}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            "--profiling=false",
        ]


@contextmanager
def local_clusters(
    run: Run, binaries: Binaries, names: Sequence[str], *, doubled: Collection[str] = ()
) -> Iterator[dict[str, LocalCluster]]:
    """Start clusters, all at once, and give them when all are ready.

    Args:
        run: owns the processes and the files.
        binaries: has etcd and kube-apiserver.
        names: what they are called; part of file names.
        doubled: those of them that may get a second API server.

    Raises:
        BinaryError: an executable cannot be had.
        ProcessExited: a process ended; with the end of its log.
        NotReady: one took longer than three minutes.
    """
    found = binaries.get("etcd", "kube-apiserver")
    with ExitStack() as stack:
        homes = {name: run.folder(name) for name in names}
        for home in homes.values():
            stack.callback(rmtree, home, ignore_errors=True)  # a run of many worlds would keep the data of all
        doors = {name: _Door.make(run, name, homes[name]) if name in doubled else None for name in names}
        etcds = {name: _start_etcd(run, found["etcd"], name, homes[name], doors[name]) for name in names}
        for etcd in etcds.values():
            stack.callback(etcd.kill)
        for name, etcd in etcds.items():
            # A server that comes before its etcd waits a whole second before it tries again.
            socket = homes[name] / _SOCKET
            await_ready(etcd, socket.is_socket, within=_READY_WITHIN, what="its socket", every=0.01)
        clusters: dict[str, LocalCluster] = {}
        for name, etcd in etcds.items():
            clusters[name] = LocalCluster(
                name, run, homes[name], etcd=etcd, apiserver=found["kube-apiserver"], door=doors[name]
            )
            stack.callback(clusters[name].close)
        for cluster in clusters.values():
            cluster.await_ready()
            # The server itself makes it, and is ready before it has.
            await_ready(cluster.server, partial(_has_default, cluster.api), within=_READY_WITHIN, what="its namespaces")
        yield clusters


def _has_default(api: Api) -> bool:
    return api.get(NAMESPACES, "default") is not None


@dataclass(frozen=True, slots=True)
class LocalProvider:
    """Local clusters, of which everything is on loopback."""

    run: Run
    binaries: Binaries

    @property
    def name(self) -> str:
        return "local"

    @property
    def address(self) -> str:
        return LOOPBACK

    def clusters(
        self, managers: Sequence[str], workers: Sequence[str] = ()
    ) -> AbstractContextManager[Mapping[str, Cluster]]:
        return local_clusters(self.run, self.binaries, [*managers, *workers])
