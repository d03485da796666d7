"""What is changed in Kueue's manifests, on a small set of them; everything else stays as it is."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from holdback.controllers.kueue.manifests import Manifests, merge
from holdback.errors import ClusterError

SERVER = "https://127.0.0.1:9443"
CONFIGURATION = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "integrations": {"frameworks": ["batch/job", "pod"]}}
MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: kueue-controller-manager, namespace: kueue-system}
---
apiVersion: v1
kind: Service
metadata: {name: kueue-webhook-service, namespace: kueue-system}
---
apiVersion: v1
kind: Secret
metadata: {name: kueue-webhook-server-cert, namespace: kueue-system}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta2.visibility.kueue.x-k8s.io}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: kueue-visibility-server-auth-reader, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kueue-manager-role}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kueue-mutating-webhook-configuration}
webhooks:
- name: mjob.kb.io
  clientConfig: {service: {name: kueue-webhook-service, namespace: kueue-system, path: /mutate-batch-v1-job}}
  rules: [{apiGroups: [batch], apiVersions: [v1], operations: [CREATE], resources: [jobs]}]
- name: mpod.kb.io
  clientConfig: {service: {name: kueue-webhook-service, namespace: kueue-system, path: /mutate--v1-pod}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
- name: mjobset.kb.io
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  clientConfig: {service: {name: kueue-webhook-service, namespace: kueue-system, path: /mutate-jobset}}
  rules: [{apiGroups: [jobset.x-k8s.io], apiVersions: [v1alpha2], operations: [CREATE], resources: [jobsets]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kueue-validating-webhook-configuration}
webhooks:
- name: vdeployment.kb.io
  clientConfig: {service: {name: kueue-webhook-service, namespace: kueue-system, path: /validate-apps-v1-deployment}}
  rules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments/scale]}]
- name: vworkload.kb.io
  clientConfig: {service: {name: kueue-webhook-service, namespace: kueue-system, path: /validate-workload}}
  rules: [{apiGroups: [kueue.x-k8s.io], apiVersions: [v1beta2], operations: [CREATE], resources: [workloads]}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workloads.kueue.x-k8s.io}
spec:
  conversion:
    strategy: Webhook
    webhook:
      clientConfig: {service: {name: kueue-webhook-service, namespace: kueue-system, path: /convert}}
      conversionReviewVersions: [v1]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: plain.kueue.x-k8s.io}
spec:
  scope: Cluster
  versions:
  - name: v1beta2
    schema:
      openAPIV3Schema:
        description: What it is.
        type: object
        required: [description]
        properties:
          description: {type: string, description: What it is for.}
          options:
            type: array
            items: {type: object, description: One of them., default: {description: none}}
        x-kubernetes-validations: [{rule: self.description != "", message: say what it is}]
---
apiVersion: v1
kind: Namespace
metadata: {name: kueue-system}
---
"""


def rendered(configuration: str = "controller_manager_config.yaml") -> str:
    data = {configuration: yaml.safe_dump(CONFIGURATION)}
    metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    return MANIFESTS + yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def outside(*frameworks: str) -> list[dict[str, Any]]:
    return Manifests.parse(rendered()).outside(server=SERVER, ca="the CA", frameworks=frameworks)


def find(objects: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    (found,) = (each for each in objects if each["kind"] == kind and name in {"", each["metadata"]["name"]})
    return found


def hooks(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {hook["name"]: hook["clientConfig"] for hook in find(objects, kind)["webhooks"]}


def test_the_namespace_comes_first_then_the_definitions() -> None:
    """Objects can be installed in the order in which they are given."""
    assert [found["kind"] for found in outside("batch/job")] == [
        "Namespace",
        "CustomResourceDefinition",
        "CustomResourceDefinition",
        "ClusterRole",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ConfigMap",
    ]


def test_webhooks_lead_to_loopback() -> None:
    """A webhook's service becomes a URL with its path and the CA; what else it says stays."""
    mutating = hooks(outside("batch/job"), "MutatingWebhookConfiguration")
    bundle = base64.b64encode(b"the CA").decode()
    assert mutating["mjob.kb.io"] == {"url": "https://127.0.0.1:9443/mutate-batch-v1-job", "caBundle": bundle}
    found = find(outside("batch/job"), "MutatingWebhookConfiguration")["webhooks"][0]
    assert found["rules"] == [
        {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    ]


def test_conversions_lead_to_loopback() -> None:
    """A CRD's conversion webhook is pointed at loopback too; a CRD without one is left as it is."""
    objects = outside("batch/job")
    conversion = find(objects, "CustomResourceDefinition", "workloads.kueue.x-k8s.io")["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["url"] == "https://127.0.0.1:9443/convert"
    assert conversion["webhook"]["conversionReviewVersions"] == ["v1"]
    assert "conversion" not in find(objects, "CustomResourceDefinition", "plain.kueue.x-k8s.io")["spec"]


def test_schemas_lose_their_prose_and_nothing_else() -> None:
    """Descriptions go at every depth; a property of that name, defaults and rules stay."""
    (version,) = find(outside("batch/job"), "CustomResourceDefinition", "plain.kueue.x-k8s.io")["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "required": ["description"],
        "properties": {
            "description": {"type": "string"},
            "options": {"type": "array", "items": {"type": "object", "default": {"description": "none"}}},
        },
        "x-kubernetes-validations": [{"rule": 'self.description != ""', "message": "say what it is"}],
    }


@pytest.mark.parametrize(
    ("frameworks", "served"),
    [
        (["batch/job"], {"mjob.kb.io", "mjobset.kb.io", "vworkload.kb.io"}),
        (["batch/job", "pod"], {"mjob.kb.io", "mpod.kb.io", "mjobset.kb.io", "vworkload.kb.io"}),
        (["deployment"], {"mjobset.kb.io", "vdeployment.kb.io", "vworkload.kb.io"}),
    ],
)
def test_webhooks_of_integrations_that_are_off_are_left_out(frameworks: list[str], served: set[str]) -> None:
    """A webhook on a resource of Kubernetes stays only if its integration is on; those of other groups always stay."""
    objects = outside(*frameworks)
    kept = {**hooks(objects, "MutatingWebhookConfiguration"), **hooks(objects, "ValidatingWebhookConfiguration")}
    assert kept.keys() == served


def test_webhooks_leave_other_namespaces_alone() -> None:
    """Limited to namespaces, every webhook is asked about theirs only, within what it was limited to before."""
    parsed = Manifests.parse(rendered())
    limited = parsed.outside(server=SERVER, ca="the CA", frameworks=["batch/job"], namespaces=["a", "b"])
    ours = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
    selectors = {
        hook["name"]: hook["namespaceSelector"]["matchExpressions"]
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for hook in find(limited, kind)["webhooks"]
    }
    not_system = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    assert selectors == {"mjob.kb.io": [ours], "mjobset.kb.io": [not_system, ours], "vworkload.kb.io": [ours]}


def test_the_shipped_manifests_stay_as_they_are() -> None:
    """They serve several clusters with ports of their own, so nothing is changed in place."""
    manifests = Manifests.parse(rendered())
    manifests.outside(server="https://a", ca="one", frameworks=["batch/job"], namespaces=["ours"])
    assert manifests == Manifests.parse(rendered())


def test_the_shipped_configuration_is_found() -> None:
    """The configuration is read out of its ConfigMap, whatever that is called."""
    assert Manifests.parse(rendered()).configuration == CONFIGURATION


def test_without_a_configuration_there_is_no_kueue() -> None:
    """Manifests without a configuration are refused, with what to check."""
    with pytest.raises(ClusterError, match=r"hold no controller_manager_config.yaml") as error:
        Manifests.parse(rendered("something-else.yaml"))
    assert "kustomize" in error.value.remedy


def test_merging_goes_deep_and_replaces_the_rest() -> None:
    """Mappings are merged at every depth, lists and values replaced, and neither argument is changed."""
    base = {"a": {"b": 1, "list": [1, 2], "deep": {"x": 1}}, "kept": True}
    over = {"a": {"b": 2, "list": [3], "deep": {"y": 2}}, "new": {"z": 1}}
    assert merge(base, over) == {
        "a": {"b": 2, "list": [3], "deep": {"x": 1, "y": 2}},
        "kept": True,
        "new": {"z": 1},
    }
    assert merge({"a": 1}, {"a": {"b": 1}}) == {"a": {"b": 1}}
    assert base == {"a": {"b": 1, "list": [1, 2], "deep": {"x": 1}}, "kept": True}


def inside(*frameworks: str) -> list[dict[str, Any]]:
    return Manifests.parse(rendered()).inside(
        ca="the CA", frameworks=frameworks, configuration={"some": "thing"}, namespaces=["control"]
    )


def test_inside_what_runs_comes_last() -> None:
    """A Kueue in its cluster has its Deployment, after all that it needs; the visibility API is left out there too."""
    kinds = [found["kind"] for found in inside("batch/job")]
    assert kinds[0] == "Namespace"
    assert kinds[-1] == "Deployment"
    assert "Service" in kinds
    assert not {"APIService", "Secret"} & set(kinds)


def test_inside_webhooks_stay_services() -> None:
    """They get the CA, and lead where they led as shipped; those of integrations that are off are left out."""
    mutating = hooks(inside("batch/job"), "MutatingWebhookConfiguration")
    bundle = base64.b64encode(b"the CA").decode()
    service = {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/mutate-batch-v1-job"}
    assert mutating["mjob.kb.io"] == {"service": service, "caBundle": bundle}
    assert "mpod.kb.io" not in mutating
    conversion = find(inside(), "CustomResourceDefinition", "workloads.kueue.x-k8s.io")["spec"]["conversion"]
    assert conversion["webhook"]["clientConfig"]["caBundle"] == bundle
    assert conversion["webhook"]["clientConfig"]["service"]["path"] == "/convert"


def test_inside_the_configuration_is_ours_and_the_shipped_one_unharmed() -> None:
    """What Kueue is to do comes with its manifests; they serve again for the next Kueue."""
    manifests = Manifests.parse(rendered())
    for wanted in ({"origin": "one"}, {"origin": "other"}):
        objects = manifests.inside(ca="", frameworks=[], configuration=wanted)
        text = find(objects, "ConfigMap")["data"]["controller_manager_config.yaml"]
        assert yaml.safe_load(text) == wanted
    assert manifests.configuration == CONFIGURATION
