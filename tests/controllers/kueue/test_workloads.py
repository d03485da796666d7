"""Reading a Workload never fails on what a young one does not have yet."""

from __future__ import annotations

from typing import Any

import pytest

from holdback.controllers.kueue.workloads import cluster_name, condition, is_true, nominated, owner_uid

YOUNG: list[dict[str, Any]] = [
    {"metadata": {}},
    {"metadata": {}, "status": {}},
    {"metadata": {}, "status": None},
    {
        "metadata": {"ownerReferences": None},
        "status": {"conditions": None, "clusterName": None, "nominatedClusterNames": None},
    },
]


@pytest.mark.parametrize("workload", YOUNG)
def test_a_young_workload_has_nothing_yet(workload: dict[str, Any]) -> None:
    """Absent and null read the same: no condition, no worker, no nomination, no owner."""
    assert condition(workload, "Admitted") == {}
    assert not is_true(workload, "Admitted")
    assert cluster_name(workload) == ""
    assert nominated(workload) == frozenset()
    assert owner_uid(workload) == ""


def test_an_admitted_workload_tells_where_and_for_whom() -> None:
    """Each condition is read by its own type, False is not True, and worker, nomination and owner are found."""
    conditions = [{"type": "Evicted", "status": "False"}, {"type": "Admitted", "status": "True", "reason": "Fits"}]
    workload = {
        "metadata": {"ownerReferences": [{"kind": "Job", "uid": "u-1"}]},
        "status": {"conditions": conditions, "clusterName": "worker1", "nominatedClusterNames": ["worker2"]},
    }
    assert is_true(workload, "Admitted")
    assert not is_true(workload, "Evicted")
    assert condition(workload, "Admitted")["reason"] == "Fits"
    assert (cluster_name(workload), nominated(workload), owner_uid(workload)) == (
        "worker1",
        frozenset({"worker2"}),
        "u-1",
    )
