"""What a cluster has of some kinds, to be compared with later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any

from holdback.clusters.api import Api
from holdback.clusters.existing.resources import AT_ONCE
from holdback.clusters.kinds import Kind
from holdback.errors import ClusterError

__all__ = ["Snapshot", "difference", "snapshot"]

Snapshot = Mapping[str, str]
"""From `Kind name` to a digest of the object."""
_BOOKKEEPING = {"resourceVersion", "generation", "managedFields"}
"""Metadata that change with every write, also with one that leaves everything as it was."""


def snapshot(api: Api, kinds: Iterable[Kind]) -> Snapshot:
    """All objects of these kinds, which are not namespaced; status does not count, for it is nobody's wish.

    Raises:
        ClusterError: they cannot be listed.
    """
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="snapshot") as pool:
        found = list(pool.map(partial(_list, api), kinds))
    return {f"{each['kind']} {each['metadata']['name']}": _digest(each) for objects in found for each in objects}


def _list(api: Api, kind: Kind) -> list[dict[str, Any]]:
    try:
        return api.list(kind)
    except ClusterError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return []  # a kind that is not known there
        raise


def _digest(found: Mapping[str, Any]) -> str:
    metadata = {key: value for key, value in found["metadata"].items() if key not in _BOOKKEEPING}
    kept = {key: value for key, value in found.items() if key not in {"metadata", "status"}}
    return hashlib.sha256(json.dumps([metadata, kept], sort_keys=True).encode()).hexdigest()[:16]


def difference(before: Snapshot, after: Snapshot) -> list[str]:
    """What is not as it was, in words; empty if all is."""
    return [
        *(f"{name} is new" for name in sorted(after.keys() - before.keys())),
        *(f"{name} is gone" for name in sorted(before.keys() - after.keys())),
        *(f"{name} was changed" for name in sorted(before.keys() & after.keys()) if before[name] != after[name]),
    ]
