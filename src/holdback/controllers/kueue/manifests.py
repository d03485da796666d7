"""Kueue's own manifests, made fit for a Kueue that runs in its cluster or outside of it. Pure.

The rendered `config/default` of the version under test is kept as it is: namespace, CRDs, service account, RBAC,
webhooks, the shipped configuration, and, for a Kueue inside, the Deployment and its Services. Every webhook gets the CA
that signed Kueue's serving certificate. For a Kueue outside, what points at a pod is replaced: every webhook's and CRD
conversion's `service` by a `url`; and what cannot exist without pods is left out.

Left out in both cases is the visibility API, which no scenario asks and which would be a way round the lanes, and the
prose in the CRDs' schemas: it means nothing to anybody here, and costs an API server half of its work with them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

from holdback.errors import ClusterError

__all__ = ["DEPLOYMENT", "NAMESPACE", "SERVICE_ACCOUNT", "WEBHOOK_SECRET", "Manifests", "merge"]

NAMESPACE = "kueue-system"
SERVICE_ACCOUNT = DEPLOYMENT = "kueue-controller-manager"
WEBHOOK_SECRET = "kueue-webhook-server-cert"  # noqa: S105 - an object's name
WEBHOOK_DNS = "kueue-webhook-service.kueue-system.svc"

CONFIGURATION_FILE = "controller_manager_config.yaml"

_NEVER = {"APIService", "Secret"}
_ONLY_INSIDE = {"Deployment", "Service"}
_WEBHOOK_CONFIGURATIONS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
# Webhooks on Kubernetes' own resources: with the integration off, Kueue does not serve their path and every such
# object would be refused. Webhooks on resources of other projects never fire where those are not installed.
_FRAMEWORK_OF = {
    "jobs": "batch/job",
    "pods": "pod",
    "deployments": "deployment",
    "statefulsets": "statefulset",
}


@dataclass(frozen=True, slots=True)
class Manifests:
    """The rendered manifests of one Kueue version.

    Raises:
        ClusterError: from `parse`, when they hold no configuration of Kueue.
    """

    objects: tuple[dict[str, Any], ...]
    configuration: dict[str, Any]
    """The configuration that this version ships, before anything is changed."""

    @classmethod
    def parse(cls, text: str) -> Manifests:
        """From the YAML that kustomize rendered."""
        objects = tuple(_without_prose(found) for found in yaml.load_all(text, Loader=_LOADER) if found)
        for found in objects:
            if found["kind"] == "ConfigMap" and CONFIGURATION_FILE in found.get("data", {}):
                shipped = yaml.safe_load(found["data"][CONFIGURATION_FILE])
                return cls(objects, shipped)
        raise ClusterError(
            f"the rendered manifests hold no {CONFIGURATION_FILE}",
            remedy="check that config/default of this Kueue version renders with kustomize",
        )

    def outside(
        self, *, server: str, ca: str, frameworks: Iterable[str], namespaces: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """The objects to install, namespace and CRDs first.

        Args:
            server: URL of Kueue's webhook server, without a path.
            ca: PEM of the authority that signed its certificate.
            frameworks: the integrations that are on; webhooks of Kubernetes' own resources need theirs.
            namespaces: those whose objects the webhooks are asked about, besides objects without one; all if none.
        """
        kept = self._kept(frameworks, namespaces, ca)
        for client in _clients(kept):
            path = client.pop("service").get("path", "/convert")
            client["url"] = f"{server}{path}"
        return [found for found in kept if found["kind"] not in _ONLY_INSIDE]

    def inside(
        self, *, ca: str, frameworks: Iterable[str], configuration: Mapping[str, Any], namespaces: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """The objects to install, namespace and CRDs first, the Deployment last and as shipped.

        Args:
            ca: as for `outside`, as are `frameworks` and `namespaces`.
            frameworks: see there.
            configuration: Kueue's, in place of the shipped one.
            namespaces: see there.
        """
        kept = self._kept(frameworks, namespaces, ca)
        for found in kept:
            if found["kind"] == "ConfigMap" and CONFIGURATION_FILE in found.get("data", {}):
                found["data"][CONFIGURATION_FILE] = yaml.safe_dump(dict(configuration))
        return kept

    def _kept(self, frameworks: Iterable[str], namespaces: Sequence[str], ca: str) -> list[dict[str, Any]]:
        """A copy of what is common, in the order in which it can be made."""
        enabled = set(frameworks)
        kept = [
            _limited(_enabled(deepcopy(found), enabled), namespaces)
            for found in self.objects
            if found["kind"] not in _NEVER and found["metadata"].get("namespace", NAMESPACE) == NAMESPACE
        ]
        for client in _clients(kept):
            client["caBundle"] = base64.b64encode(ca.encode()).decode()
        order = {"Namespace": 0, "CustomResourceDefinition": 1, "Deployment": 3}
        return sorted(kept, key=lambda found: order.get(found["kind"], 2))


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the CRDs are 1 MB: libyaml is ten times quicker


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `over` laid on it: mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        mine = merged.get(key)
        merged[key] = merge(mine, value) if isinstance(value, Mapping) and isinstance(mine, Mapping) else value
    return merged


def _without_prose(found: dict[str, Any]) -> dict[str, Any]:
    if found["kind"] == "CustomResourceDefinition":
        for version in found["spec"].get("versions", ()):
            version["schema"] = _schema_without_prose(version["schema"])
    return found


def _schema_without_prose(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_schema_without_prose(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        # a property may be called `description` as well: its value is a schema; and values are no schemas
        key: value if key in {"default", "enum", "example"} else _schema_without_prose(value)
        for key, value in schema.items()
        if key != "description" or not isinstance(value, str)
    }


def _enabled(found: dict[str, Any], frameworks: set[str]) -> dict[str, Any]:
    if found["kind"] in _WEBHOOK_CONFIGURATIONS:
        found["webhooks"] = [hook for hook in found["webhooks"] if _served(hook, frameworks)]
    return found


def _clients(objects: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Wherever these objects say how Kueue's webhooks are reached."""
    for found in objects:
        if found["kind"] in _WEBHOOK_CONFIGURATIONS:
            yield from (hook["clientConfig"] for hook in found["webhooks"])
        elif found["kind"] == "CustomResourceDefinition":
            conversion = found["spec"].get("conversion") or {}
            if conversion.get("strategy") == "Webhook":
                yield conversion["webhook"]["clientConfig"]


def _limited(found: dict[str, Any], namespaces: Sequence[str]) -> dict[str, Any]:
    """Webhooks that leave alone what others have in the same cluster, and do not harm it should Kueue be gone."""
    if namespaces and found["kind"] in _WEBHOOK_CONFIGURATIONS:
        ours = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
        for hook in found["webhooks"]:
            selector = hook.setdefault("namespaceSelector", {})
            selector["matchExpressions"] = [*selector.get("matchExpressions", ()), ours]
    return found


def _served(hook: Mapping[str, Any], frameworks: set[str]) -> bool:
    resources = {
        resource.split("/")[0]
        for rule in hook.get("rules", ())
        for resource in rule["resources"]
        if set(rule["apiGroups"]) & {"", "apps", "batch"}
    }
    return all(_FRAMEWORK_OF.get(resource, "") in frameworks for resource in resources)
