"""The state an object is in, in one or two words: what a bar in a swim lane is coloured by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdback.controllers.kueue.pods import is_gated
from holdback.controllers.kueue.workloads import is_true

__all__ = ["PRESENT", "state"]

PRESENT = "present"
"""For kinds of which nothing better is known."""

_Object = Mapping[str, Any]


def state(resource: str, of: _Object) -> str:
    """The state of an object of that resource (`workloads`, `jobs`, `pods`, or anything)."""
    if of["metadata"].get("deletionTimestamp"):
        return "being deleted"
    known = _STATES.get(resource)
    return known(of) if known else PRESENT


def _workload(of: _Object) -> str:
    if (of.get("spec") or {}).get("active") is False:
        return "deactivated"
    for kind, word in (("Finished", "finished"), ("Admitted", "admitted"), ("QuotaReserved", "quota reserved")):
        if is_true(of, kind):
            return word
    return "evicted" if is_true(of, "Evicted") else "pending"


def _job(of: _Object) -> str:
    if is_true(of, "Complete") or is_true(of, "Failed"):
        return "finished"
    return "suspended" if (of.get("spec") or {}).get("suspend") else "running"


def _pod(of: _Object) -> str:
    phase = (of.get("status") or {}).get("phase")
    if phase in {"Succeeded", "Failed"}:
        return "finished"
    if phase == "Running":
        return "running"
    return "pending" if is_gated(of) else "admitted"


_STATES: Mapping[str, Callable[[_Object], str]] = {"workloads": _workload, "jobs": _job, "pods": _pod}
