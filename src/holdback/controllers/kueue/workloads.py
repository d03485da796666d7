"""Reading a Workload's state. Pure: oracles, the driver and the timeline share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["cluster_name", "condition", "is_true", "nominated", "owner_uid"]


def condition(workload: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """The condition of that type, empty where there is none."""
    found = (entry for entry in _status(workload).get("conditions") or () if entry["type"] == kind)
    return next(found, {})


def is_true(workload: Mapping[str, Any], kind: str) -> bool:
    """Whether the condition of that type is True."""
    return condition(workload, kind).get("status") == "True"


def cluster_name(workload: Mapping[str, Any]) -> str:
    """The worker that runs it, as the manager has it; empty for none."""
    return str(_status(workload).get("clusterName") or "")


def nominated(workload: Mapping[str, Any]) -> frozenset[str]:
    """The workers to which it may be dispatched now."""
    return frozenset(_status(workload).get("nominatedClusterNames") or ())


def owner_uid(workload: Mapping[str, Any]) -> str:
    """The UID of the Job that owns it; empty for none."""
    owners = workload["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid", ""))


def _status(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    return workload.get("status") or {}
