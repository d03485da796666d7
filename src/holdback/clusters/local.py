"""Local clusters: an etcd and a kube-apiserver each, as our own child processes.

There is no node, no scheduler and no controller manager: Jobs make no pods, owners' deletion is not
followed by the garbage collector, and a deleted namespace stays Terminating. Everything of etcd is on unix
sockets in the run's private directory; the API server listens on one loopback port with TLS.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import rmtree

from holdback.binaries import Binaries
from holdback.certificates import Authority, new_key_pem, write_private
from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.process import Child, Run, await_ready, start

__all__ = ["LocalCluster", "local_clusters"]

_READY_WITHIN = 60.0
_SOCKET = "etcd.sock"

# Without a controller manager nobody makes the service account that this plugin insists on, so that no
# plain pod could be made.
_UNWANTED_ADMISSION = ("ServiceAccount",)


def _start_etcd(run: Run, executable: Path, name: str, home: Path) -> Child:
    flags = [
        f"--name={name}",
        "--data-dir=etcd",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls=unix://{home}/{_SOCKET}",
        # A peer socket takes only a host as its name, hence relative to the working directory.
        "--listen-peer-urls=unix://peer.sock",
        # Advertised URLs must look like TCP; nobody listens there and nobody asks.
        "--advertise-client-urls=http://localhost:2379",
        "--initial-advertise-peer-urls=http://localhost:2380",
        f"--initial-cluster={name}=http://localhost:2380",
    ]
    return start(run, f"{name}-etcd", [executable, *flags], cwd=home)


class LocalCluster:
    """One local cluster; made by `local_clusters`."""

    def __init__(self, name: str, run: Run, home: Path, etcd: Child, apiserver: Path) -> None:
        self.name = name
        self.etcd = etcd
        self._run = run
        self._home = home
        authority = Authority.create(f"holdback {name}")
        port = run.port()
        self.access = Access(f"https://127.0.0.1:{port}", authority.pem, secrets.token_urlsafe(32))
        self.api = Api(self.access)
        self._server_argv: list[str | Path] = [apiserver, *self._server_flags(authority, port)]
        self.server = self._start_server()

    def __repr__(self) -> str:
        return f"LocalCluster({self.name!r}, {self.access.server})"

    @property
    def children(self) -> tuple[Child, ...]:
        """The API server and its etcd."""
        return (self.server, self.etcd)

    def check(self) -> None:
        """Say so if a process is gone.

        Raises:
            ProcessExited: with the end of its log.
        """
        for child in self.children:
            child.check()

    def await_ready(self, within: float = _READY_WITHIN) -> None:
        """Wait until the API server is ready.

        Raises:
            ProcessExited: a process ended.
            NotReady: it took longer than `within` seconds.
        """

        def ready() -> bool:
            self.etcd.check()
            return self.api.ready()

        await_ready(self.server, ready, within=within, what="/readyz")

    def restart_server(self, within: float = _READY_WITHIN) -> None:
        """Kill the API server and start it again on the same data; everyone's connections break."""
        self.server.kill()
        self.server = self._start_server()
        self.await_ready(within)

    def close(self) -> None:
        """Kill the API server: the data is thrown away anyhow."""
        self.api.close()
        self.server.kill()

    def _start_server(self) -> Child:
        return start(self._run, f"{self.name}-apiserver", self._server_argv, cwd=self._home)

    def _server_flags(self, authority: Authority, port: int) -> list[str]:
        here = self._home
        certificate, key = authority.issue(
            "kube-apiserver", dns=["localhost", "kubernetes", "kubernetes.default.svc"], ips=["127.0.0.1"]
        ).write(here, "apiserver")
        accounts = write_private(here / "accounts.key", new_key_pem())
        tokens = write_private(here / "tokens.csv", f'{self.access.token},holdback,holdback,"system:masters"\n')
        return [
            f"--etcd-servers=unix://{here}/{_SOCKET}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",  # else it insists on a default route, which an offline machine lacks
            f"--secure-port={port}",
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
def local_clusters(run: Run, binaries: Binaries, names: Sequence[str]) -> Iterator[dict[str, LocalCluster]]:
    """Start clusters, all at once, and give them when all are ready.

    Args:
        run: owns the processes and the files.
        binaries: has etcd and kube-apiserver.
        names: what they are called; part of file names.

    Raises:
        BinaryError: an executable cannot be had.
        ProcessExited: a process ended; with the end of its log.
        NotReady: one took longer than a minute.
    """
    found = binaries.get("etcd", "kube-apiserver")
    with ExitStack() as stack:
        homes = {name: run.folder(name) for name in names}
        for home in homes.values():
            stack.callback(rmtree, home, ignore_errors=True)  # a run of many worlds would keep the data of all
        etcds = {name: _start_etcd(run, found["etcd"], name, homes[name]) for name in names}
        for etcd in etcds.values():
            stack.callback(etcd.kill)
        for name, etcd in etcds.items():
            # A server that comes before its etcd waits a whole second before it tries again.
            socket = homes[name] / _SOCKET
            await_ready(etcd, socket.is_socket, within=_READY_WITHIN, what="its socket", every=0.01)
        clusters: dict[str, LocalCluster] = {}
        for name, etcd in etcds.items():
            clusters[name] = LocalCluster(name, run, homes[name], etcd, found["kube-apiserver"])
            stack.callback(clusters[name].close)
        for cluster in clusters.values():
            cluster.await_ready()
        yield clusters
