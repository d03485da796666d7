"""What is said of a whole run."""

from __future__ import annotations

from typing import Any

import pytest

from holdback.report.words import run_facts


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ({}, {}),
        ({"worker1": "v1.35.4", "worker2": "v1.35.4"}, {"Kubernetes": "v1.35.4"}),
        (
            {"worker1": "v1.35.4", "worker2": "v1.34.1"},
            {"Kubernetes of worker1": "v1.35.4", "Kubernetes of worker2": "v1.34.1"},
        ),
    ],
)
def test_the_version_of_kubernetes_is_told_once_where_there_is_but_one(
    servers: dict[str, str], told: dict[str, str]
) -> None:
    """Otherwise that of each cluster."""
    run: dict[str, Any] = {"servers": [{"cluster": name, "version": each} for name, each in servers.items()]}
    assert dict(run_facts(run)) == told


def test_executables_are_told_with_their_versions() -> None:
    """Whoever took another one than ours reads where from."""
    caddy = {"name": "caddy", "version": "v2.11.0", "from": "cache"}
    etcd = {"name": "etcd", "version": "v3.5.0", "from": "KUBEBUILDER_ASSETS"}
    assert run_facts({"executables": [caddy, etcd]}) == [("caddy", "v2.11.0"), ("etcd", "v3.5.0 (KUBEBUILDER_ASSETS)")]


def test_a_run_of_before_has_neither() -> None:
    """An older run.json tells what it has."""
    assert run_facts({"seed": 7}) == [("seed", "7")]
