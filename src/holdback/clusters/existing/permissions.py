"""Whether we may do what we are going to do, as the cluster's own authorizer says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdback.clusters.api import Api
from holdback.clusters.existing.resources import AT_ONCE
from holdback.clusters.kinds import ACCESS_REVIEWS, Kind, kind_of
from holdback.errors import ClusterError

__all__ = ["missing"]

_VERBS = ("create", "get", "list", "patch", "delete")
_GRANTING = {"ClusterRole", "Role"}


def missing(api: Api, objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """What we would need, to make these objects and remove them again, and may not; in words.

    Whether a role can be made depends on what it grants, which only a dry run tells.

    Raises:
        ClusterError: the cluster does not say.
    """
    if _may(api, "*", Kind("*", "*", "*", "*")):
        return []
    wanted = {(kind_of(dict(each)), each["metadata"].get("namespace", "")) for each in objects}
    questions = [(verb, kind, namespace) for kind, namespace in sorted(wanted, key=str) for verb in _VERBS]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="permissions") as pool:
        answers = list(pool.map(lambda asked: _may(api, asked[0], asked[1], asked[2]), questions))
        refused = [
            f"{verb} {kind.plural}" + (f" in {namespace}" if namespace else "")
            for (verb, kind, namespace), allowed in zip(questions, answers, strict=True)
            if not allowed
        ]
        return refused or [reason for reason in pool.map(lambda each: _dry_run(api, each), _roles(objects)) if reason]


def _may(api: Api, verb: str, kind: Kind, namespace: str = "") -> bool:
    attributes = {"verb": verb, "group": kind.group, "resource": kind.plural, "namespace": namespace}
    review = api.create(ACCESS_REVIEWS, {"metadata": {}, "spec": {"resourceAttributes": attributes}})
    return bool(review["status"]["allowed"])


def _roles(objects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those that belong to no namespace: others cannot be tried before theirs is there."""
    return [dict(each) for each in objects if each["kind"] in _GRANTING and not each["metadata"].get("namespace")]


def _dry_run(api: Api, role: dict[str, Any]) -> str:
    try:
        api.create(kind_of(role), role, dry_run=True)
    except ClusterError as error:
        return f"create {role['kind']} {role['metadata']['name']}: {error.message}"
    return ""
