"""The world itself: who may do what in it, and that every controller's traffic goes through the router."""

from __future__ import annotations

import psutil
import pytest

from holdback.clusters import Api, Kind
from holdback.controllers.kueue import MultiKueueWorld
from holdback.controllers.kueue.manifests import NAMESPACE, SERVICE_ACCOUNT
from holdback.process import Program
from holdback.trials.keeper import Keeper

pytestmark = pytest.mark.repeat(1)

REVIEWS = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
KUEUE = f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"


def may(api: Api, user: str, verb: str, group: str, resource: str) -> bool:
    """Ask the cluster's own authorizer."""
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": "control", "name": "any"}
    review = {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "metadata": {},
        "spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes},
    }
    return bool(api.create(REVIEWS, review)["status"]["allowed"])


def test_kueue_runs_under_its_own_permissions(multikueue_keeper: Keeper[MultiKueueWorld]) -> None:
    """Each Kueue may do what its manifests grant, and what cluster-admin may beyond that is refused."""
    world = multikueue_keeper.world()
    for cluster in (*world.managers.values(), *world.workers.values()):
        assert may(cluster.api, KUEUE, "update", "kueue.x-k8s.io", "workloads")
        assert not may(cluster.api, KUEUE, "get", "", "secrets")
        assert not may(cluster.api, KUEUE, "create", "rbac.authorization.k8s.io", "clusterrolebindings")


@pytest.mark.parametrize("arm", ["control", "treatment"])
def test_multikueue_reaches_workers_with_no_more_than_it_needs(
    multikueue_keeper: Keeper[MultiKueueWorld], arm: str
) -> None:
    """A manager's account on a worker handles Jobs and Workloads, and nothing else."""
    account = f"system:serviceaccount:{NAMESPACE}:multikueue-{arm}"
    for worker in multikueue_keeper.world().workers.values():
        assert may(worker.api, account, "create", "batch", "jobs")
        assert may(worker.api, account, "delete", "kueue.x-k8s.io", "workloads")
        assert not may(worker.api, account, "update", "kueue.x-k8s.io", "clusterqueues")
        assert not may(worker.api, account, "create", "", "pods")
        assert not may(worker.api, account, "get", "", "secrets")


def test_every_controller_talks_through_the_router(multikueue_keeper: Keeper[MultiKueueWorld]) -> None:
    """No Kueue has a connection to an API server: all of its connections to clusters end at the router."""
    world = multikueue_keeper.world()
    direct = {int(c.access.server.rpartition(":")[2]) for c in (*world.managers.values(), *world.workers.values())}
    for name, kueue in world.kueues.items():
        assert isinstance(kueue, Program), "this test looks at processes next to us"
        peers = {
            connection.raddr.port for connection in psutil.Process(kueue.pid).net_connections() if connection.raddr
        }
        assert peers, f"{name} is connected to nothing"
        assert not peers & direct, f"{name} has a connection of its own to an API server"
