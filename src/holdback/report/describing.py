"""What changed between two states of an object, in words: the protocol, and a describer for any object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

__all__ = ["Describer", "describe_any", "describe_conditions", "describe_deletion"]


class Describer(Protocol):
    """Says how a state differs from the one before, one phrase a difference; nothing when nobody would care."""

    def __call__(self, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[str]:
        """`old` is None for the first state that is known."""


def describe_any(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[str]:
    """For kinds without a describer of their own: conditions, deletion, and which other parts changed."""
    said = [*describe_conditions(old, new), *describe_deletion(old, new)]
    if old is not None:
        status = _without_conditions(old), _without_conditions(new)
        said += [part for part, before, after in _parts(old, new, status) if before != after]
    return said


def describe_conditions(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[str]:
    """`Admitted=True (Admitted)` for each condition whose status or reason changed, and for those that went."""
    before, after = _conditions(old or {}), _conditions(new)
    said = []
    for kind, (status, reason) in after.items():
        if before.get(kind) != (status, reason):
            said.append(f"{kind}={status}" + (f" ({reason})" if reason and reason != kind else ""))
    return said + [f"{kind} gone" for kind in before if kind not in after]


def describe_deletion(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> list[str]:
    """Deletion that began, and finalizers that went or came while it lasts."""
    before, after = _metadata(old or {}), _metadata(new)
    finalizers = [str(each) for each in after.get("finalizers") or ()]
    held = f"held by {', '.join(finalizers)}" if finalizers else "nothing holds it"
    if after.get("deletionTimestamp") and not before.get("deletionTimestamp"):
        return [f"being deleted, {held}"]
    if after.get("deletionTimestamp") and before.get("finalizers") != after.get("finalizers"):
        return [held]
    return []


def _conditions(object_: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    found: Iterable[Mapping[str, Any]] = (object_.get("status") or {}).get("conditions") or ()
    return {str(each["type"]): (str(each["status"]), str(each.get("reason") or "")) for each in found}


def _metadata(object_: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata: Mapping[str, Any] = object_.get("metadata") or {}
    return metadata


def _without_conditions(object_: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in (object_.get("status") or {}).items() if key != "conditions"}


def _parts(
    old: Mapping[str, Any], new: Mapping[str, Any], status: tuple[object, object]
) -> list[tuple[str, object, object]]:
    names = sorted((old.keys() | new.keys()) - {"metadata", "status", "apiVersion", "kind"})
    return [(f"{name} changed", old.get(name), new.get(name)) for name in names] + [("status changed", *status)]
