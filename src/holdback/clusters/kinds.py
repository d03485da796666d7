"""The kinds of objects that holdback handles, and where the API has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "ACCESS_REVIEWS",
    "CONFIG_MAPS",
    "CRDS",
    "DEPLOYMENTS",
    "EVENTS",
    "JOBS",
    "MUTATING_WEBHOOKS",
    "NAMESPACES",
    "NODES",
    "PODS",
    "SECRETS",
    "SERVICE_ACCOUNTS",
    "VALIDATING_WEBHOOKS",
    "Kind",
    "kind_of",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object; `group` is empty for the core API, `plural` is its name in paths."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects have it: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where the API has the collection, the object, or a part of it."""
        parts = ["apis" if self.group else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, name, subresource]
        return "/" + "/".join(part for part in parts if part)


NAMESPACES = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODES = Kind("", "v1", "Node", "nodes", namespaced=False)
PODS = Kind("", "v1", "Pod", "pods")
SECRETS = Kind("", "v1", "Secret", "secrets")
CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")
SERVICE_ACCOUNTS = Kind("", "v1", "ServiceAccount", "serviceaccounts")
EVENTS = Kind("", "v1", "Event", "events")
DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
JOBS = Kind("batch", "v1", "Job", "jobs")
DEPLOYMENTS = Kind("apps", "v1", "Deployment", "deployments")
CRDS = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
_ADMISSION = "admissionregistration.k8s.io"
MUTATING_WEBHOOKS = Kind(
    _ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
VALIDATING_WEBHOOKS = Kind(
    _ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)


def kind_of(body: dict[str, Any], plural: str | None = None) -> Kind:
    """The kind of an object, from its own words.

    Asking the server would cost a request for each group, so the plural is derived as the API conventions
    have it; give it where a kind does not follow them. An object without a namespace counts as one of the cluster.
    """
    group, _, version = body["apiVersion"].rpartition("/")
    namespaced = bool(body["metadata"].get("namespace"))
    return Kind(group, version, body["kind"], plural or _plural(body["kind"].lower()), namespaced=namespaced)


def _plural(word: str) -> str:
    if word == "endpoints":
        return word
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"
