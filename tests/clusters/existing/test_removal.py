"""What is ours is found and goes in an order that works, whatever stands in its way; nothing else goes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, cast

import pytest

from holdback.clusters.api import Api
from holdback.clusters.existing import removal
from holdback.clusters.existing.removal import RUN_LABEL, leftovers, remove
from holdback.clusters.kinds import Kind
from holdback.errors import ClusterError

GROUPS = {
    "/api/v1": [("Namespace", "namespaces", False), ("ConfigMap", "configmaps", True)],
    "/apis/admissionregistration.k8s.io/v1": [
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False),
    ],
    "/apis/apiextensions.k8s.io/v1": [("CustomResourceDefinition", "customresourcedefinitions", False)],
    "/apis/rbac.authorization.k8s.io/v1": [("ClusterRole", "clusterroles", False)],
    "/apis/kueue.x-k8s.io/v1beta2": [("Workload", "workloads", True)],
}
CRD_SPEC = {"group": "kueue.x-k8s.io", "names": {"plural": "workloads"}, "conversion": {"strategy": "Webhook"}}


class FakeCluster:
    """Objects, finalizers that nobody takes off, and a webhook that stands in the way while it is there."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.log: list[str] = []

    def add(self, plural: str, name: str, namespace: str = "", run: str = "r1", **rest: Any) -> None:
        metadata: dict[str, Any] = {"name": name, "labels": {RUN_LABEL: run} if run else {}}
        if namespace:
            metadata["namespace"] = namespace
        if "finalizers" in rest:
            metadata["finalizers"] = rest.pop("finalizers")
        self.objects[plural, namespace, name] = {"metadata": metadata, **rest}

    def read(self, path: str) -> dict[str, Any]:
        if path == "/apis":
            names = [each.removeprefix("/apis/") for each in GROUPS if each != "/api/v1"]
            return {"groups": [{"preferredVersion": {"groupVersion": name}} for name in (*names, "metrics.k8s.io/v1")]}
        if path == "/apis/metrics.k8s.io/v1":
            raise ClusterError("its server is away", status=503)
        return {
            "groupVersion": path.removeprefix("/apis/").removeprefix("/api/"),
            "resources": [
                *({"name": p, "kind": k, "namespaced": n, "verbs": ["list", "delete"]} for k, p, n in GROUPS[path]),
                {"name": "never/status", "kind": "Never", "namespaced": True, "verbs": ["list", "delete"]},
                {"name": "reviews", "kind": "Review", "namespaced": False, "verbs": ["create"]},
            ],
        }

    def list(self, kind: Kind, labels: str = "") -> list[dict[str, Any]]:
        wanted = labels.partition("=")[2]
        found = [each for (plural, _, _), each in self.objects.items() if plural == kind.plural]
        if not labels:
            return found
        marked = [each for each in found if RUN_LABEL in each["metadata"]["labels"]]
        return [each for each in marked if wanted in {"", each["metadata"]["labels"][RUN_LABEL]}]

    def _refuse_while_a_webhook_is_there(self) -> None:
        if any(plural.endswith("webhookconfigurations") for plural, _, _ in self.objects):
            raise ClusterError("failed calling webhook", status=HTTPStatus.INTERNAL_SERVER_ERROR)

    def patch(self, kind: Kind, name: str, patch: dict[str, Any], namespace: str = "") -> None:
        found = self.objects.get((kind.plural, namespace, name))
        if found is None:
            raise ClusterError("not found", status=404)
        if "spec" in patch:
            found["spec"]["conversion"] = patch["spec"]["conversion"]
            return
        self._refuse_while_a_webhook_is_there()
        del found["metadata"]["finalizers"]
        if found.pop("deleted", False):
            del self.objects[kind.plural, namespace, name]

    def delete(self, kind: Kind, name: str, namespace: str = "") -> bool:
        found = self.objects.get((kind.plural, namespace, name))
        if found is None:
            return False
        self.log.append(f"{kind.plural} {name}")
        if name == "part":
            assert ("clusterroles", "", "whole") not in self.objects, "a controller would make the whole anew"
        if kind.plural == "customresourcedefinitions":
            assert found["spec"]["conversion"]["strategy"] == "None", "its objects cannot be read without the webhook"
            if any(plural == "workloads" for plural, _, _ in self.objects):
                return True  # it stays until its objects are gone
        if found["metadata"].get("finalizers"):
            found["deleted"] = True
        else:
            del self.objects[kind.plural, namespace, name]
        return True


@pytest.fixture
def cluster() -> FakeCluster:
    """Another's namespace and object, and all that a run of ours left."""
    made = FakeCluster()
    made.add("namespaces", "theirs", run="")
    made.add("configmaps", "theirs", "theirs", run="")
    made.add("namespaces", "ours")
    made.add("configmaps", "ours", "theirs", finalizers=["holds"])
    made.add("clusterroles", "part")
    made.add("clusterroles", "whole", aggregationRule={})
    made.add("mutatingwebhookconfigurations", "ours")
    made.add("customresourcedefinitions", "workloads.kueue.x-k8s.io", spec=dict(CRD_SPEC))
    made.add("workloads", "unlabelled", "ours", run="", finalizers=["kueue"])
    return made


def test_everything_of_ours_is_found(cluster: FakeCluster) -> None:
    """Labelled objects of any kind, and all objects of a kind that we brought, also with an aggregated API away."""
    found = leftovers(cast("Api", cluster))
    assert sorted(map(str, found)) == [
        "ClusterRole part",
        "ClusterRole whole",
        "ConfigMap theirs/ours",
        "CustomResourceDefinition workloads.kueue.x-k8s.io",
        "MutatingWebhookConfiguration ours",
        "Namespace ours",
        "Workload ours/unlabelled",
    ]
    assert leftovers(cast("Api", cluster), "another") == []


def test_all_of_it_goes_and_nothing_else(cluster: FakeCluster) -> None:
    """Webhooks and roles made of others go first, finalizers are taken off, and what is not ours is not asked to go."""
    remove(cast("Api", cluster), "r1")
    assert {name for _, _, name in cluster.objects} == {"theirs"}
    assert set(cluster.log[:2]) == {"mutatingwebhookconfigurations ours", "clusterroles whole"}


def test_what_does_not_go_is_named(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """When time is up the error has the objects that are left, and what tells why."""
    monkeypatch.setattr(removal, "_GONE_WITHIN", 0.0)
    monkeypatch.setattr(cluster, "delete", lambda *_: True)
    with pytest.raises(ClusterError, match=r"7 objects do not go: .*Namespace ours") as error:
        remove(cast("Api", cluster))
    assert "kubectl describe" in error.value.remedy


def test_a_refusal_that_stays_is_an_error(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to delete nothing is tried again and again."""

    def refuse(*_: object) -> bool:
        raise ClusterError("forbidden", status=403)

    monkeypatch.setattr(cluster, "delete", refuse)
    with pytest.raises(ClusterError, match="forbidden"):
        remove(cast("Api", cluster))
