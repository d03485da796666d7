"""What counts as a change of a cluster."""

from __future__ import annotations

from typing import Any, cast

from holdback.clusters.api import Api
from holdback.clusters.existing.snapshot import Snapshot, difference, snapshot
from holdback.clusters.kinds import NAMESPACES, Kind
from holdback.errors import ClusterError

ROLES = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)


class FakeApi:
    """Lists what it was given."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = objects

    def list(self, kind: Kind) -> list[dict[str, Any]]:
        if kind == NAMESPACES:
            raise ClusterError("unknown", status=404)
        return [{"kind": kind.kind, **each} for each in self.objects]


def of(*objects: dict[str, Any]) -> Snapshot:
    return snapshot(cast("Api", FakeApi(*objects)), [ROLES, NAMESPACES])


def role(name: str = "a", uid: str = "1", version: str = "1", verb: str = "get", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": uid, "resourceVersion": version, "managedFields": [version], **rest}
    return {"metadata": metadata, "rules": [{"verbs": [verb]}], "status": version}


def test_what_every_write_changes_does_not_count() -> None:
    """A version, its bookkeeping and a status are no difference; nor is a kind that is not there."""
    assert difference(of(role(version="1")), of(role(version="2"))) == []


def test_every_other_change_is_named() -> None:
    """New, gone, changed in content or label, or another object of the same name: each is told by kind and name."""
    before = of(role("a"), role("b"), role("c"), role("d"))
    after = of(role("b", verb="list"), role("c", uid="2"), role("d", labels={"x": "y"}), role("e"))
    assert difference(before, after) == [
        "ClusterRole e is new",
        "ClusterRole a is gone",
        "ClusterRole b was changed",
        "ClusterRole c was changed",
        "ClusterRole d was changed",
    ]
