"""What kinds of objects a cluster has."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any

from holdback.clusters.api import Api
from holdback.clusters.kinds import Kind
from holdback.errors import ClusterError

__all__ = ["AT_ONCE", "kinds"]

AT_ONCE = 8
"""Requests to one cluster at the same time."""
_NEEDED = {"list", "delete"}


def kinds(api: Api) -> list[Kind]:
    """Every kind whose objects can be listed and deleted, each in its group's preferred version.

    An aggregated API whose server is away is passed over.

    Raises:
        ClusterError: the cluster does not tell.
    """
    groups = [group["preferredVersion"]["groupVersion"] for group in api.read("/apis")["groups"]]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="discovery") as pool:
        lists = list(pool.map(partial(_resources, api), ["/api/v1", *(f"/apis/{group}" for group in groups)]))
    return [kind for found in lists for kind in _kinds(found)]


def _resources(api: Api, path: str) -> dict[str, Any]:
    try:
        return api.read(path)
    except ClusterError as error:
        if error.status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.NOT_FOUND}:
            return {"groupVersion": "", "resources": []}
        raise


def _kinds(found: dict[str, Any]) -> Iterator[Kind]:
    group, _, version = found["groupVersion"].rpartition("/")
    for resource in found["resources"]:
        if "/" not in resource["name"] and set(resource["verbs"]) >= _NEEDED:
            yield Kind(group, version, resource["kind"], resource["name"], namespaced=resource["namespaced"])
