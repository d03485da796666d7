"""One Kueue as a child process next to its cluster: installed, configured and started.

It runs under the permissions of its own manifests: its token is that of the service account
`kueue-controller-manager`, so RBAC refuses whatever the manifests forget to grant.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import yaml

from holdback import process
from holdback.certificates import Authority
from holdback.clock import poll
from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.kinds import Kind, kind_of
from holdback.controllers.kueue import manifests as kueue_manifests
from holdback.controllers.kueue.kinds import WORKLOADS
from holdback.controllers.kueue.manifests import Manifests, merge
from holdback.controllers.kueue.source import KueueBuild
from holdback.errors import ClusterError

__all__ = ["Settings", "installed", "started"]

_SERVED_WITHIN = 60.0
_READY_WITHIN = 120.0
_AT_ONCE = 8
"""Objects that are created at the same time."""
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


def installed(
    run: process.Run,
    api: Api,
    build: KueueBuild,
    manifests: Manifests,
    settings: Settings,
    *,
    name: str,
    webhooks: Callable[[int], int] = lambda port: port,
) -> Installation:
    """Install the objects of `build`'s version, its parsed `manifests`, into the new cluster behind `api`.

    `webhooks` is told the port on which Kueue will serve its webhooks, and says on which one the API server asks them.

    Raises:
        ClusterError: an object was refused, or a CRD was not served in time.
    """
    port, health = run.port(), run.port()
    authority = Authority.create("kueue-ca", dns=["kueue-ca"])
    leaf = authority.issue(kueue_manifests.WEBHOOK_DNS, dns=[kueue_manifests.WEBHOOK_DNS])
    objects = manifests.outside(port=webhooks(port), ca=authority.pem, frameworks=settings.frameworks)
    files = {"tls.crt": leaf.pem, "tls.key": leaf.key_pem, "ca.crt": authority.pem, "ca.key": authority.key_pem}
    namespace, *rest = [*objects, _secret(kueue_manifests.WEBHOOK_SECRET, files)]
    _create(api, namespace)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"install-{name}") as pool:
        list(pool.map(partial(_create, api), rest))
    _await_served(api, [found for found in objects if found["kind"] == "CustomResourceDefinition"])
    directory = run.folder(f"{name}-webhook")
    for file, text in files.items():
        path = directory / file
        path.touch(mode=0o600)
        path.write_text(text)
    token = api.token(kueue_manifests.SERVICE_ACCOUNT, kueue_manifests.NAMESPACE)
    return Installation(build, settings, manifests, port, health, directory, token)


@contextmanager
def started(run: process.Run, installation: Installation, access: Access, *, name: str) -> Iterator[process.Program]:
    """Start the Kueue, reaching its cluster by `access`; ready when it serves its webhooks.

    Raises:
        ProcessExited: it ended; with the end of its log.
        NotReady: it did not become ready in time.
    """
    configuration = run.directory / f"{name}.yaml"
    configuration.write_text(yaml.safe_dump(_configuration(installation)))
    kubeconfig = access.write(run.directory / f"{name}.kubeconfig")
    argv: list[str | Path] = [installation.build.binary, f"--config={configuration}", f"--zap-log-level={_LOG_LEVEL}"]
    program = process.Program(
        lambda: process.start(run, name, argv, env={"KUBECONFIG": str(kubeconfig)}),
        lambda child: _await_serving(child, installation),
    )
    try:
        program.await_ready()
        yield program
    finally:
        program.kill()  # it writes its log unbuffered, and its cluster is thrown away: there is nothing to end in order


def _await_serving(child: process.Child, installation: Installation) -> None:
    trust = ssl.create_default_context(cafile=str(installation.certificates / "ca.crt"))
    health = f"http://127.0.0.1:{installation.health_port}/readyz"
    webhook = f"https://127.0.0.1:{installation.webhook_port}/"
    # One client for all questions: a new one each time would spend more on reading certificates than on asking.
    with httpx.Client(verify=trust, timeout=1, trust_env=False) as client:

        def serves() -> bool:
            try:
                # any answer of the webhook server will do: what it serves at / is its own business
                return client.get(health).is_success and bool(client.get(webhook).status_code)
            except httpx.HTTPError:
                return False

        process.await_ready(child, serves, within=_READY_WITHIN, what="Kueue's webhooks")


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


def _create(api: Api, found: dict[str, Any]) -> None:
    api.create(kind_of(found), found)


def _await_served(api: Api, crds: Iterable[Mapping[str, Any]]) -> None:
    """Wait until Kueue can discover its resources, and list them at its first try.

    The first list of a resource makes the API server start a cache for it, and is refused until that is there; a
    Kueue that is refused tries again only after a second.
    """
    group, version = WORKLOADS.group, WORKLOADS.version
    waiting = {crd["spec"]["names"]["plural"] for crd in crds}
    discovery = Kind(group, version, "APIResourceList", plural="")  # /apis/GROUP/VERSION itself

    def probe() -> bool:
        known = {found["name"] for found in (api.get(discovery, "") or {}).get("resources", ())}
        for plural in waiting & known:
            if _lists(api, Kind(group, version, "", plural)):
                waiting.discard(plural)
        return not waiting

    if not poll(probe, within=_SERVED_WITHIN, every=0.1):
        raise ClusterError(
            f"not served as {group}/{version} after {_SERVED_WITHIN:g} s: {', '.join(sorted(waiting))}",
            remedy="see the API server's log",
        )


def _lists(api: Api, kind: Kind) -> bool:
    try:
        api.list(kind)
    except ClusterError as error:
        if error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS}:
            return False
        raise
    return True
