"""What every way to run a Kueue has in common: its objects in a cluster, and its configuration."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from holdback.certificates import Authority
from holdback.clock import poll
from holdback.clusters.api import Api
from holdback.clusters.kinds import Kind, kind_of
from holdback.controllers.kueue import manifests as kueue_manifests
from holdback.controllers.kueue.hosting import Wanted
from holdback.controllers.kueue.kinds import WORKLOADS
from holdback.controllers.kueue.manifests import merge
from holdback.errors import ClusterError

__all__ = ["LOG_LEVEL", "configuration", "install", "papers", "secret"]

LOG_LEVEL = 3
"""At which Kueue says why a reconcile did what it did."""

_SERVED_WITHIN = 60.0
_AT_ONCE = 8
"""Objects that are created at the same time."""


def install(api: Api, objects: Sequence[dict[str, Any]], *, client: str) -> None:
    """Create a Kueue's objects, the first of which is its namespace, and wait until its resources are served.

    Raises:
        ClusterError: an object was refused, or a CRD was not served in time.
    """
    namespace, *rest = objects
    _create(api, namespace)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"install-{client}") as pool:
        list(pool.map(partial(_create, api), rest))
    _await_served(api, [found for found in objects if found["kind"] == "CustomResourceDefinition"])


def configuration(wanted: Wanted, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Kueue's Configuration: what its version ships, `ours`, the world's settings, the variant's, each on the last."""
    variant = wanted.build.variant
    common = {
        "integrations": {"frameworks": list(wanted.settings.frameworks)},
        # A hold of its lease would end it, and there is no other one to lead.
        "leaderElection": {"leaderElect": False},
        # The visibility API needs a pod behind an APIService, which would be a way round the lanes.
        "featureGates": {"VisibilityOnDemand": False, **variant.feature_gates},
    }
    shipped = merge(merge(wanted.manifests.configuration, ours), common)
    return merge(merge(shipped, wanted.settings.configuration), variant.configuration)


def papers(*addresses: str) -> dict[str, str]:
    """The files with which Kueue serves its webhooks, in a pod or at these IP addresses: certificate, key, their CA.

    Kueue's own rotation of certificates finds nothing to do with them: a CA called `kueue-ca` is what it would make.
    """
    authority = Authority.create("kueue-ca", dns=["kueue-ca"])
    name = kueue_manifests.WEBHOOK_DNS
    leaf = authority.issue(name, dns=[name], ips=addresses)
    return {"tls.crt": leaf.pem, "tls.key": leaf.key_pem, "ca.crt": authority.pem, "ca.key": authority.key_pem}


def secret(name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """A Secret of Kueue's namespace with these files."""
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

    The first list of a resource makes the API server start a cache for it, and is refused until that is there. Who
    is refused, as Kueue is, is told to come back after a second, though it takes a tenth of one.
    """
    group, version = WORKLOADS.group, WORKLOADS.version
    waiting = {crd["spec"]["names"]["plural"] for crd in crds}
    discovery = Kind(group, version, "APIResourceList", plural="")  # /apis/GROUP/VERSION itself

    def probe() -> bool:
        known = {found["name"] for found in (api.get(discovery, "") or {}).get("resources", ())}
        for plural in waiting & known:
            if api.serves(Kind(group, version, "", plural)):
                waiting.discard(plural)
        return not waiting

    if not poll(probe, within=_SERVED_WITHIN, every=0.1):
        raise ClusterError(
            f"not served as {group}/{version} after {_SERVED_WITHIN:g} s: {', '.join(sorted(waiting))}",
            remedy="see the API server's log",
        )
