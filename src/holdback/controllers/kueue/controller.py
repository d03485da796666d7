"""One Kueue as a child process next to its cluster: installed, configured and started.

It runs under the permissions of its own manifests: its token is that of the service account
`kueue-controller-manager`, so RBAC refuses whatever the manifests forget to grant.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from holdback import process
from holdback.certificates import Authority
from holdback.clock import poll
from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.kinds import CRDS
from holdback.controllers.kueue import manifests as kueue_manifests
from holdback.controllers.kueue.manifests import Manifests, merge
from holdback.controllers.kueue.source import KueueBuild
from holdback.errors import ClusterError

__all__ = ["Settings", "installed", "started"]

_ESTABLISHED_WITHIN = 60.0
_READY_WITHIN = 120.0
_LOG_LEVEL = 3  # the level at which Kueue says why a reconcile did what it did


@dataclass(frozen=True, slots=True)
class Settings:
    """What a world wants of a Kueue beyond what its variant says.

    `frameworks` are the integrations that are on; `configuration` is laid on the shipped configuration, the
    variant's own on top of it.
    """

    frameworks: tuple[str, ...] = ("batch/job",)
    configuration: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Installation:
    """Kueue's objects are in a cluster; what is needed to start it there."""

    build: KueueBuild
    settings: Settings
    manifests: Manifests
    webhook_port: int
    health_port: int
    certificates: Path
    token: str = field(repr=False)


def installed(run: process.Run, api: Api, build: KueueBuild, settings: Settings, *, name: str) -> Installation:
    """Install the objects of `build`'s version into the cluster behind `api`.

    Raises:
        ClusterError: an object was refused, or a CRD was not established in time.
    """
    manifests = Manifests.parse(build.manifests.read_text())
    port, health = run.port(), run.port()
    authority = Authority.create("kueue-ca", dns=["kueue-ca"])
    leaf = authority.issue(kueue_manifests.WEBHOOK_DNS, dns=[kueue_manifests.WEBHOOK_DNS])
    objects = manifests.outside(port=port, ca=authority.pem, frameworks=settings.frameworks)
    crds = [found for found in objects if found["kind"] == "CustomResourceDefinition"]
    api.apply(objects[0])
    with ThreadPoolExecutor(4, thread_name_prefix=f"install-{name}") as pool:
        list(pool.map(api.apply, objects[1:]))
    _await_established(api, [crd["metadata"]["name"] for crd in crds])
    files = {"tls.crt": leaf.pem, "tls.key": leaf.key_pem, "ca.crt": authority.pem, "ca.key": authority.key_pem}
    api.apply(_secret(kueue_manifests.WEBHOOK_SECRET, files))
    directory = run.directory / f"{name}-webhook"
    directory.mkdir(mode=0o700)
    for file, text in files.items():
        path = directory / file
        path.touch(mode=0o600)
        path.write_text(text)
    token = api.token(kueue_manifests.SERVICE_ACCOUNT, kueue_manifests.NAMESPACE)
    return Installation(build, settings, manifests, port, health, directory, token)


@contextmanager
def started(run: process.Run, installation: Installation, access: Access, *, name: str) -> Iterator[process.Child]:
    """Start the Kueue, reaching its cluster by `access`; ready when it serves its webhooks.

    Raises:
        ProcessExited: it ended; with the end of its log.
        NotReady: it did not become ready in time.
    """
    configuration = run.directory / f"{name}.yaml"
    configuration.write_text(yaml.safe_dump(_configuration(installation)))
    kubeconfig = access.write(run.directory / f"{name}.kubeconfig")
    argv: list[str | Path] = [installation.build.binary, f"--config={configuration}", f"--zap-log-level={_LOG_LEVEL}"]
    with process.child(run, name, argv, env={"KUBECONFIG": str(kubeconfig)}) as child:
        process.await_ready(child, _serves(installation), within=_READY_WITHIN, what="Kueue's webhooks")
        yield child


def _serves(installation: Installation) -> Callable[[], bool]:
    health = f"http://127.0.0.1:{installation.health_port}/readyz"
    webhook = f"https://127.0.0.1:{installation.webhook_port}/"
    trust = ssl.create_default_context(cafile=str(installation.certificates / "ca.crt"))

    def probe() -> bool:
        try:
            # any answer of the webhook server will do: what it serves at / is its own business
            return httpx.get(health, timeout=1, trust_env=False).is_success and bool(
                httpx.get(webhook, timeout=1, verify=trust, trust_env=False).status_code
            )
        except httpx.HTTPError:
            return False

    return probe


def _configuration(installation: Installation) -> dict[str, Any]:
    variant = installation.build.variant
    ours: dict[str, Any] = {
        "health": {"healthProbeBindAddress": f"127.0.0.1:{installation.health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {
            "host": "127.0.0.1",
            "port": installation.webhook_port,
            "certDir": str(installation.certificates),
        },
        "leaderElection": {"leaderElect": False},
        "integrations": {"frameworks": list(installation.settings.frameworks)},
        # the visibility server wants an APIService in front of it, which needs a pod
        "featureGates": {"VisibilityOnDemand": False, **variant.feature_gates},
    }
    shipped = merge(installation.manifests.configuration, ours)
    return merge(merge(shipped, installation.settings.configuration), variant.configuration)


def _secret(name: str, files: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": kueue_manifests.NAMESPACE},
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in files.items()},
    }


def _await_established(api: Api, names: list[str]) -> None:
    waiting = set(names)

    def probe() -> bool:
        for crd in api.list(CRDS):
            conditions = crd.get("status", {}).get("conditions") or ()  # null at first
            if any(found["type"] == "Established" and found["status"] == "True" for found in conditions):
                waiting.discard(crd["metadata"]["name"])
        return not waiting

    if not poll(probe, within=_ESTABLISHED_WITHIN, every=0.2):
        raise ClusterError(
            f"not established after {_ESTABLISHED_WITHIN:g} s: {', '.join(sorted(waiting))}",
            remedy="see the API server's log",
        )
