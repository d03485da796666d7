"""A Kueue in its cluster as users deploy it: its version's manifests, with an image of the variant.

Its Deployment differs from the shipped one in four things: the image; a kubeconfig, which leads it through the lanes
instead of straight to the API server; the level of its log; and no election of a leader, because a hold of its lease
would end it. Its certificates are there before it starts, so that nothing has to wait until its own rotation has made
some and the kubelet has mounted them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdback import process
from holdback.clusters.abilities import housing
from holdback.clusters.access import Access
from holdback.clusters.kinds import DEPLOYMENTS, kind_of
from holdback.clusters.protocols import Cluster, Housing
from holdback.controllers.kueue import manifests as kueue_manifests
from holdback.controllers.kueue.deployed import Deployed
from holdback.controllers.kueue.hosting import Wanted
from holdback.controllers.kueue.installing import LOG_LEVEL, configuration, install, papers, secret
from holdback.controllers.kueue.source import KueueBuild
from holdback.errors import ClusterError, ConfigurationError, TrafficError

__all__ = ["Inside", "image_of"]

_SECRET = "holdback-kubeconfig"  # noqa: S105 - an object's name
_FOLDER = "/etc/holdback"
_FILE = "kubeconfig"
_LEVEL_FLAG = "--zap-log-level="


@dataclass(frozen=True, slots=True)
class Inside:
    """Runs Kueues as pods of their clusters, which must have a node of ours."""

    run: process.Run

    @property
    def name(self) -> str:
        return "inside"

    def objects(self, wanted: Wanted) -> list[dict[str, Any]]:
        return [*_objects(wanted, {}), secret(_SECRET, {})]

    @contextmanager
    def running(
        self,
        cluster: Cluster,
        wanted: Wanted,
        *,
        reach: Callable[[str], Access],
        pipe: Callable[[int], int] | None = None,
    ) -> Iterator[Deployed]:
        house = housing(cluster)
        if pipe:
            raise ConfigurationError(
                f"the webhooks of {wanted.client} cannot have a lane: they are asked within the cluster",
                remedy="run this experiment with `--clusters local`, or with `--controllers outside`",
            )
        image = image_of(wanted.build)
        house.house(image, wanted.build.binary)
        *objects, deployment = _objects(wanted, papers())
        install(cluster.api, objects, client=wanted.client)
        access = reach(cluster.api.token(kueue_manifests.SERVICE_ACCOUNT, kueue_manifests.NAMESPACE))
        _check_way(house, access, wanted.client)
        kubeconfig = secret(_SECRET, {_FILE: access.kubeconfig()})
        cluster.api.create(kind_of(kubeconfig), kubeconfig)
        with Deployed(self.run, cluster, house, wanted.client, log=self.run.logs / f"{wanted.client}.log") as deployed:
            cluster.api.create(DEPLOYMENTS, _changed(deployment, image))
            deployed.await_ready()
            yield deployed


def _objects(wanted: Wanted, files: dict[str, str]) -> list[dict[str, Any]]:
    """All of them, the Deployment last and as shipped."""
    settings = wanted.settings
    *objects, deployment = wanted.manifests.inside(
        ca=files.get("ca.crt", ""),
        frameworks=settings.frameworks,
        configuration=configuration(wanted, {}),
        namespaces=settings.namespaces,
    )
    return [*objects, secret(kueue_manifests.WEBHOOK_SECRET, files), deployment]


def image_of(build: KueueBuild) -> str:
    """The name of the image with this Kueue: the same executable always has the same, and no other one has it."""
    with build.binary.open("rb") as file:
        return f"holdback/kueue:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def _changed(deployment: dict[str, Any], image: str) -> dict[str, Any]:
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    container.update(image=image, imagePullPolicy="Never")
    kept = [word for word in container.get("args", ()) if not word.startswith(_LEVEL_FLAG)]
    container["args"] = [*kept, f"{_LEVEL_FLAG}{LOG_LEVEL}"]
    container.setdefault("env", []).append({"name": "KUBECONFIG", "value": f"{_FOLDER}/{_FILE}"})
    container.setdefault("volumeMounts", []).append({"name": _SECRET, "mountPath": _FOLDER, "readOnly": True})
    # Readable for all in the pod: Kueue is a plain user there, and nobody else is in it.
    volume = {"name": _SECRET, "secret": {"secretName": _SECRET, "defaultMode": 0o444}}
    spec.setdefault("volumes", []).append(volume)
    return deployment


def _check_way(house: Housing, access: Access, client: str) -> None:
    """Whether the router can be reached from the node: a firewall may be between.

    Raises:
        TrafficError: it cannot.
    """
    try:
        house.run_in_node("curl", "--silent", "--insecure", "--max-time", "10", "--output", "/dev/null", access.server)
    except ClusterError as error:
        raise TrafficError(
            f"{client} would not reach the router at {access.server} from its cluster: {error.message}",
            remedy="a firewall of this machine may be in the way of what comes from Docker's networks: "
            "with ufw, `sudo ufw allow in on br-...` (`ip address` shows the bridge with the router's address)",
        ) from error
