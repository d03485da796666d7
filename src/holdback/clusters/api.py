"""A small Kubernetes client: plain dicts, no discovery, many threads; asked again is only what the server asks for.

It speaks HTTP by itself rather than through the official client, whose models, discovery and retries
are in the way here and whose low-level interface changes between versions.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from holdback.clock import Clock, SystemClock
from holdback.clusters.access import Access
from holdback.clusters.kinds import NAMESPACES, SERVICE_ACCOUNTS, Kind, kind_of
from holdback.clusters.refusals import refusal
from holdback.clusters.watching import Passing, follow
from holdback.errors import ClusterError

__all__ = ["OWN_AGENT", "Api"]

Object = dict[str, Any]
Objects = list[Object]
MANAGER = "holdback"
OWN_AGENT = "holdback"
"""How our own clients call themselves: a shadow watch goes through the controller's lane and is not its request."""

_TIMEOUT = httpx.Timeout(30.0, connect=15.0)  # a busy server may take seconds to shake hands
_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=32)
_PATIENCE = 30.0
"""Seconds for which a server may go on asking for a later try."""


class Api:
    """One client of one cluster; safe to use from many threads.

    Every method raises ClusterError with the server's own message; its `status` is the HTTP status, or 0
    when there was no answer. A server that is too busy, or still reads what it stores, refuses with 429 and
    says when to come back: it has done nothing, so every request comes back then, for at most 30 s.

    Args:
        access: the way in.
        agent: the User-Agent under which the server knows us.
        labels: put on every object that is created or applied.
        clock: for the time until a request comes back.
    """

    def __init__(
        self,
        access: Access,
        *,
        agent: str = OWN_AGENT,
        labels: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.access = access
        self._clock = clock or SystemClock()
        self._agent = agent
        self._labels = dict(labels or {})
        self._tls = access.tls()
        self._http = httpx.Client(
            base_url=access.server,
            headers={"User-Agent": agent, "Accept": "application/json"},
            auth=self._identify,
            verify=self._tls,
            trust_env=False,  # a proxy from the environment has no business between us and loopback
            timeout=_TIMEOUT,
            limits=_LIMITS,
        )

    def _identify(self, request: httpx.Request) -> httpx.Request:
        request.headers.update(self.access.headers())
        return request

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def ready(self) -> bool:
        """Whether the API server says that it is ready."""
        try:
            return self._http.get("/readyz", timeout=2.0).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def serves(self, kind: Kind) -> bool:
        """Whether a list of this kind would be answered now: asked once, also of a server that says when to come back.

        A kind that is not known there yet is not, nor is one whose storage the server is still reading.
        """
        answer = self._send(self._http.build_request("GET", kind.path()))
        if answer.status_code in {httpx.codes.NOT_FOUND, httpx.codes.TOO_MANY_REQUESTS}:
            return False
        _refuse(answer)
        return True

    def revision(self) -> int:
        """How far the cluster's data has come: the resource version of everything at this moment."""
        answer = self._request("GET", NAMESPACES.path(), params={"limit": "1"})
        return int(answer["metadata"]["resourceVersion"])

    def read(self, path: str) -> Object:
        """What the server has at a path that is no object's: its version, what it serves."""
        return self._request("GET", path)

    def get(self, kind: Kind, name: str, namespace: str = "") -> Object | None:
        """The object, or None."""
        try:
            return self._request("GET", kind.path(namespace, name))
        except ClusterError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return None
            raise

    def list(self, kind: Kind, namespace: str = "", labels: str = "") -> Objects:
        """The objects of a kind; of all namespaces without one; with these labels, as a selector."""
        answer = self._request("GET", kind.path(namespace), params=_selector(labels))
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in answer["items"]]

    def create(self, kind: Kind, body: Object, namespace: str = "", *, dry_run: bool = False) -> Object:
        """Create an object; what the server made of it. The namespace may be in the body.

        With `dry_run` the server does all that it would, and keeps nothing.
        """
        namespace = namespace or body["metadata"].get("namespace", "")
        full = {"apiVersion": kind.api_version, "kind": kind.kind, **self._labelled(body)}
        params = {"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self._request("POST", kind.path(namespace), params=params, body=full)

    def apply(self, body: Object, *, plural: str | None = None) -> Object:
        """Server-side apply, forced: afterwards what the body says is so. See `kind_of` for `plural`."""
        metadata = body["metadata"]
        return self._request(
            "PATCH",
            kind_of(body, plural).path(metadata.get("namespace", ""), metadata["name"]),
            params={"fieldManager": MANAGER, "force": "true"},
            body=self._labelled(body),
            content="application/apply-patch+yaml",
        )

    def patch(
        self, kind: Kind, name: str, patch: Object | Objects, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Patch an object: a dict is a merge patch, a list a JSON patch."""
        return self._request(
            "PATCH",
            kind.path(namespace, name, subresource),
            params={"fieldManager": MANAGER},
            body=patch,
            content="application/json-patch+json" if isinstance(patch, list) else "application/merge-patch+json",
        )

    def delete(self, kind: Kind, name: str, namespace: str = "", propagation: str = "Background") -> bool:
        """Ask for an object's deletion; False if it was not there."""
        try:
            self._request("DELETE", kind.path(namespace, name), body={"propagationPolicy": propagation})
        except ClusterError as error:
            if error.status == httpx.codes.NOT_FOUND:
                return False
            raise
        return True

    def delete_all(self, kind: Kind, namespace: str = "", labels: str = "") -> None:
        """Ask for the deletion of all objects of a kind; in every namespace where none is named."""
        namespaces = {namespace}
        if kind.namespaced and not namespace:  # the API deletes collections one namespace at a time
            namespaces = {item["metadata"]["namespace"] for item in self.list(kind, labels=labels)}
        for one in sorted(namespaces):
            body = {"propagationPolicy": "Background"}
            self._request("DELETE", kind.path(one), params=_selector(labels), body=body)

    def watch(self, kind: Kind, namespace: str = "", *, stop: threading.Event) -> Iterator[tuple[str, Object]]:
        """What an informer would see: ADDED for all that is there, then each change, until `stop` is set.

        Broken connections and expired versions are made good by listing again; what was missed then comes
        as ADDED, MODIFIED or DELETED. It blocks for at most 0.2 s once `stop` is set.

        Yields:
            The change (ADDED, MODIFIED, DELETED) and the object.

        Raises:
            ClusterError: the server refuses the list or the watch (at the start at once, later when it lasts).
        """
        return follow(self.access, self._tls, kind, namespace, agent=self._agent, stop=stop)

    def stream(self, kind: Kind, namespace: str = "", *, stop: threading.Event) -> Iterator[tuple[str, Object]]:
        """As `watch`, but nothing is kept between changes: for more objects than should be in memory.

        A gap therefore cannot be made good, and is an error.

        Raises:
            ClusterError: as `watch`; or changes were missed.
        """
        return follow(self.access, self._tls, kind, namespace, agent=self._agent, stop=stop, store=Passing())

    def token(self, account: str, namespace: str, seconds: int = 86400) -> str:
        """A token of a service account, valid that long."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        answer = self._request("POST", SERVICE_ACCOUNTS.path(namespace, account, "token"), body=body)
        return str(answer["status"]["token"])

    def ensure_namespace(self, name: str) -> None:
        """Make the namespace if it is not there."""
        try:
            self.create(NAMESPACES, {"metadata": {"name": name}})
        except ClusterError as error:
            if error.status != httpx.codes.CONFLICT:
                raise

    def _labelled(self, body: Object) -> Object:
        metadata = body["metadata"]
        if not self._labels or not {"name", "generateName"} & metadata.keys():
            return body  # a question to the server, which is not kept, and must not have any
        return {**body, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **self._labels}}}

    def _request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: object = None,
        content: str = "application/json",
    ) -> Object:
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": content}
        request = self._http.build_request(method, path, params=params or {}, content=data, headers=headers)
        deadline = self._clock.monotonic() + _PATIENCE
        while (pause := _asked_to_wait(answer := self._send(request))) is not None:
            if self._clock.monotonic() + pause > deadline:
                break
            self._clock.sleep(pause)
        _refuse(answer)
        result: Object = answer.json()
        return result

    def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._http.send(request)
        except httpx.HTTPError as error:
            raise ClusterError(
                f"{request.method} {request.url.path}: no answer from {self.access.server}: "
                f"{error or type(error).__name__}",
                remedy="see whether its API server still runs, and the end of its log",
            ) from error


def _refuse(answer: httpx.Response) -> None:
    """Raise what a refusal says."""
    if answer.is_error:
        raise refusal(answer.status_code, answer.content, answer.request.method, answer.request.url.path)


def _asked_to_wait(answer: httpx.Response) -> float | None:
    """Seconds after which the server wants to be asked again; None where it does not say so."""
    if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
        return None
    seconds = answer.headers.get("Retry-After", "")
    return float(seconds) if seconds.isdecimal() else None


def _selector(labels: str) -> dict[str, str]:
    return {"labelSelector": labels} if labels else {}
