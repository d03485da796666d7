"""What an API server says when it refuses, as an error."""

from __future__ import annotations

import json

from holdback.errors import ClusterError

__all__ = ["refusal"]

_REMEDIES = {
    401: "the token is wrong or has expired",
    403: "the account lacks this permission, or an admission webhook refused",
    404: "check the name, and that the kind's CustomResourceDefinition is installed",
    409: "it exists already, or somebody changed it meanwhile",
    422: "the object is not valid; the server's words say where",
}


def refusal(status: int, body: bytes, method: str, path: str) -> ClusterError:
    """The error for an answer that is a refusal, in the server's own words."""
    try:
        words = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        words = body.decode(errors="replace")[:500] or "no reason given"
    return ClusterError(
        f"{method} {path}: HTTP {status}: {words}",
        remedy=_REMEDIES.get(status, "the server's words above name the cause; its log may say more"),
        status=status,
    )
