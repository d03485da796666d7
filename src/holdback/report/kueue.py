"""Kueue's Workloads, and the Jobs and pods that it runs, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdback.controllers.kueue.pods import is_gated
from holdback.controllers.kueue.workloads import cluster_name, nominated
from holdback.report.describing import Describer, describe_conditions, describe_deletion

__all__ = ["DESCRIBERS", "describe_job", "describe_pod", "describe_workload"]

_State = Mapping[str, Any]
_LONGEST = 100
"""Characters of a controller's message that are shown."""


def describe_workload(old: _State | None, new: _State) -> list[str]:
    """Conditions, admission checks, nomination, the chosen worker, activity, deletion."""
    return [
        *_activity(old, new),
        *describe_conditions(old, new),
        *_checks(old or {}, new),
        *_nomination(old or {}, new),
        *_cluster(old or {}, new),
        *describe_deletion(old, new),
    ]


def describe_job(old: _State | None, new: _State) -> list[str]:
    """Suspension, conditions, deletion."""
    said = []
    suspended = bool((new.get("spec") or {}).get("suspend"))
    if old is None or bool((old.get("spec") or {}).get("suspend")) != suspended:
        said.append("suspended" if suspended else "running")
    return [*said, *describe_conditions(old, new), *describe_deletion(old, new)]


def describe_pod(old: _State | None, new: _State) -> list[str]:
    """Whether Kueue lets it run, its phase, every change of its finalizers, deletion."""
    said = []
    gated = is_gated(new)
    if (is_gated(old) if old else None) != gated:
        said.append("gated" if gated else "admitted")
    before, after = _phase(old or {}), _phase(new)
    if before != after:
        said.append(after)
    came, went = _finalizers(new) - _finalizers(old or {}), _finalizers(old or {}) - _finalizers(new)
    said += [f"finalizer {name} added" for name in sorted(came)]
    said += [f"finalizer {name} GONE" for name in sorted(went)]
    return [*said, *describe_deletion(old, new)]


DESCRIBERS: Mapping[str, Describer] = {"workloads": describe_workload, "jobs": describe_job, "pods": describe_pod}
"""By resource."""


def _phase(state: _State) -> str:
    return str((state.get("status") or {}).get("phase") or "")


def _finalizers(state: _State) -> set[str]:
    return set((state.get("metadata") or {}).get("finalizers") or ())


def _activity(old: _State | None, new: _State) -> list[str]:
    def active(state: _State) -> bool:
        return (state.get("spec") or {}).get("active") is not False

    if active(new) == (True if old is None else active(old)):
        return []
    return ["activated" if active(new) else "deactivated"]


def _checks(old: _State, new: _State) -> list[str]:
    before, after = _check_states(old), _check_states(new)
    said = []
    for name, (state, message) in after.items():
        known = before.get(name)
        if known == (state, message):
            continue
        moved = state if known is None or known[0] == state else f"{known[0]} -> {state}"
        said.append(f"check {name}: {moved}" + (f" ({_short(message)})" if message else ""))
    return said + [f"check {name} gone" for name in before if name not in after]


def _check_states(state: _State) -> dict[str, tuple[str, str]]:
    found = (state.get("status") or {}).get("admissionChecks") or ()
    return {str(each["name"]): (str(each.get("state") or "-"), str(each.get("message") or "")) for each in found}


def _nomination(old: _State, new: _State) -> list[str]:
    before, after = nominated(old), nominated(new)
    if before == after:
        return []
    return [f"nominated: {', '.join(sorted(after))}" if after else "nomination cleared"]


def _cluster(old: _State, new: _State) -> list[str]:
    before, after = cluster_name(old), cluster_name(new)
    if before == after:
        return []
    return [f"clusterName = {after}" if after else f"clusterName cleared (was {before})"]


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
