"""A Kueue as a child process next to its cluster, of which only the objects are inside.

It runs under the permissions of its own manifests: its token is that of the service account
`kueue-controller-manager`, so RBAC refuses whatever the manifests forget to grant.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from holdback import process
from holdback.certificates import write_private
from holdback.clusters.access import Access
from holdback.clusters.protocols import LOOPBACK, Cluster
from holdback.controllers.kueue import manifests as kueue_manifests
from holdback.controllers.kueue.hosting import Wanted
from holdback.controllers.kueue.installing import LOG_LEVEL, configuration, install, papers, secret
from holdback.errors import ConfigurationError

__all__ = ["Installation", "Outside"]

_READY_WITHIN = 120.0


@dataclass(frozen=True, slots=True)
class Installation:
    """Kueue's objects are in a cluster; what is needed to start it there."""

    webhook_port: int
    health_port: int
    certificates: Path
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outside:
    """Runs Kueues as children of the run; API servers reach their webhooks at this machine's IPv4 `address`."""

    run: process.Run
    address: str = LOOPBACK

    @property
    def name(self) -> str:
        return "outside"

    def objects(self, wanted: Wanted) -> list[dict[str, Any]]:
        return _objects(wanted, server=f"https://{self.address}", files={})

    @contextmanager
    def running(
        self,
        cluster: Cluster,
        wanted: Wanted,
        *,
        reach: Callable[[str], Access],
        pipe: Callable[[int], int] | None = None,
    ) -> Iterator[process.Program]:
        installation = self.install(cluster, wanted, pipe)
        argv = self._command(wanted, installation)
        kubeconfig = reach(installation.token).write(self.run.directory / f"{wanted.client}.kubeconfig")
        program = process.Program(
            lambda: process.start(self.run, wanted.client, argv, env={"KUBECONFIG": str(kubeconfig)}),
            lambda child: self._await_serving(child, installation),
        )
        try:
            program.await_ready()
            yield program
        finally:
            # It writes its log unbuffered, and leaves nothing in its cluster that ought to be put in order.
            program.kill()

    def install(self, cluster: Cluster, wanted: Wanted, pipe: Callable[[int], int] | None) -> Installation:
        """Put Kueue's objects into the cluster, and its certificates into private files.

        Raises:
            ClusterError: an object was refused, or a CRD was not served in time.
            ConfigurationError: there can be no pipe.
        """
        if pipe and self.address != LOOPBACK:
            raise ConfigurationError(
                f"the webhooks of {wanted.client} cannot have a lane: lanes are on loopback, the API server elsewhere",
                remedy="run this experiment with `--clusters local`",
            )
        port, health = self.run.port(), self.run.port()
        files = papers(*sorted({LOOPBACK, self.address}))
        server = f"https://{self.address}:{pipe(port) if pipe else port}"
        objects = _objects(wanted, server=server, files=files)
        install(cluster.api, objects, client=wanted.client)
        directory = self.run.folder(f"{wanted.client}-webhook")
        for file, text in files.items():
            write_private(directory / file, text)
        token = cluster.api.token(kueue_manifests.SERVICE_ACCOUNT, kueue_manifests.NAMESPACE)
        return Installation(port, health, directory, token)

    def _command(self, wanted: Wanted, installation: Installation) -> list[str | Path]:
        ours: dict[str, Any] = {
            "health": {"healthProbeBindAddress": f"{LOOPBACK}:{installation.health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {
                "host": self.address,
                "port": installation.webhook_port,
                "certDir": str(installation.certificates),
            },
        }
        file = self.run.directory / f"{wanted.client}.yaml"
        file.write_text(yaml.safe_dump(configuration(wanted, ours)))
        return [wanted.build.binary, f"--config={file}", f"--zap-log-level={LOG_LEVEL}"]

    def _await_serving(self, child: process.Child, installation: Installation) -> None:
        trust = ssl.create_default_context(cafile=str(installation.certificates / "ca.crt"))
        health = f"http://{LOOPBACK}:{installation.health_port}/readyz"
        webhook = f"https://{self.address}:{installation.webhook_port}/"
        # One client for all questions: a new one each time would spend more on reading certificates than on asking.
        with httpx.Client(verify=trust, timeout=1, trust_env=False) as client:

            def serves() -> bool:
                try:
                    # any answer of the webhook server will do: what it serves at / is its own business
                    return client.get(health).is_success and bool(client.get(webhook).status_code)
                except httpx.HTTPError:
                    return False

            process.await_ready(child, serves, within=_READY_WITHIN, what="Kueue's webhooks")


def _objects(wanted: Wanted, *, server: str, files: dict[str, str]) -> list[dict[str, Any]]:
    settings = wanted.settings
    objects = wanted.manifests.outside(
        server=server, ca=files.get("ca.crt", ""), frameworks=settings.frameworks, namespaces=settings.namespaces
    )
    return [*objects, secret(kueue_manifests.WEBHOOK_SECRET, files)]
