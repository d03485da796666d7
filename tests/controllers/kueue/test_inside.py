"""What is changed in Kueue's Deployment, and what its pod tells; that it works is for e2e/ to show."""

from __future__ import annotations

from typing import Any

import pytest

from holdback.controllers.kueue.deployed import ending
from holdback.controllers.kueue.inside import _changed


def deployment() -> dict[str, Any]:
    container = {
        "name": "manager",
        "image": "shipped:v1",
        "args": ["--config=/controller_manager_config.yaml", "--zap-log-level=2"],
        "volumeMounts": [{"name": "cert", "mountPath": "/certs"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "cert", "secret": {"secretName": "certs"}}]}
    return {"kind": "Deployment", "spec": {"replicas": 1, "template": {"spec": spec}}}


def test_a_deployment_gets_our_image_and_the_way_through_the_lanes() -> None:
    """Image, kubeconfig and log level are ours; all else is as shipped."""
    spec = _changed(deployment(), "holdback/kueue:abc")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("holdback/kueue:abc", "Never")
    assert container["args"] == ["--config=/controller_manager_config.yaml", "--zap-log-level=3"]
    (variable,) = container["env"]
    cert, kubeconfig = container["volumeMounts"]
    assert cert == {"name": "cert", "mountPath": "/certs"}
    assert variable["name"] == "KUBECONFIG"
    assert variable["value"].startswith(kubeconfig["mountPath"] + "/")
    assert {each["name"] for each in spec["volumes"]} == {"cert", kubeconfig["name"]}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ([], ""),
        ([{"state": {"running": {}}, "restartCount": 0}], ""),
        ([{"state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}], ""),
        (
            [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}, "restartCount": 0}],
            "ended with exit code 1 (Error)",
        ),
        (
            [{"state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137}}, "restartCount": 1}],
            "ended with exit code 137 (no reason given)",
        ),
        ([{"state": {"running": {}}, "lastState": {}, "restartCount": 1}], "was started again by its cluster"),
    ],
)
def test_an_end_is_noticed_though_the_kubelet_starts_it_again(status: list[dict[str, Any]], told: str) -> None:
    """One that runs now but did not all the time has ended, and how is told."""
    assert ending({"status": {"containerStatuses": status}}) == told
    assert not ending({})
