"""Whether a cluster's API server reaches what listens here: it is made to ask a webhook of ours about a dry run."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from holdback.certificates import Authority
from holdback.clock import poll
from holdback.clusters.api import Api
from holdback.clusters.kinds import CONFIG_MAPS, VALIDATING_WEBHOOKS
from holdback.errors import ClusterError, ConfigurationError
from holdback.process import Run

__all__ = ["check_reach"]

_LABEL = "holdback/probe"
_ASKED_WITHIN = 15.0
_ANSWERED_WITHIN = 5


def check_reach(run: Run, api: Api, address: str, *, context: str) -> None:
    """Prove that the API server reaches a port of `address`. What is made for that is removed again.

    Raises:
        ConfigurationError: it does not, or we cannot listen there.
        ClusterError: the probe could not be made.
    """
    name = f"holdback-probe-{run.id}"
    with _listening(run, address) as (url, authority, asked):
        api.create(VALIDATING_WEBHOOKS, _configuration(name, run.id, url, authority))
        try:
            _ask(api, run.id, asked, url, context)
        finally:
            api.delete(VALIDATING_WEBHOOKS, name)


def _ask(api: Api, run: str, asked: threading.Event, url: str, context: str) -> None:
    """Let it look at an object that is never made, until the webhook is asked about it."""
    probe = {"metadata": {"generateName": "holdback-probe-", "labels": {_LABEL: run}}}

    def was_asked() -> bool:
        api.create(CONFIG_MAPS, probe, "default", dry_run=True)
        return asked.is_set()

    try:
        reached = poll(was_asked, within=_ASKED_WITHIN, every=0.2)
    except ClusterError as error:
        if "webhook" not in error.message:
            raise
        raise _unreachable(context, url, error.message) from error
    if not reached:
        raise _unreachable(context, url, f"it asked nobody within {_ASKED_WITHIN:g} s")


def _unreachable(context: str, url: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"the API server of context {context} does not reach {url}: {reason}",
        remedy="name an address of this machine that it does reach with --router-address; a cluster behind a "
        "firewall or a network of its own may have none",
    )


def _configuration(name: str, run: str, url: str, authority: str) -> dict[str, object]:
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "probe.holdback.local",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": _ANSWERED_WITHIN,
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.encode()).decode()},
                "objectSelector": {"matchLabels": {_LABEL: run}},
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
                ],
            }
        ],
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], asked: threading.Event) -> None:
        super().__init__(address, _Handler)
        self.asked = asked


class _Handler(BaseHTTPRequestHandler):
    """Allows whatever it is asked about."""

    server: _Server

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        answer = json.dumps(review).encode()
        self.server.asked.set()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Not on the terminal."""


@contextmanager
def _listening(run: Run, address: str) -> Iterator[tuple[str, str, threading.Event]]:
    """A webhook at the address: its URL, the authority to trust, and whether it was asked."""
    asked, port = threading.Event(), run.port()
    authority = Authority.create("holdback-probe")
    directory = run.folder("probe")
    certificate, key = authority.issue("holdback-probe", ips=[address]).write(directory, "probe")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    try:
        server = _Server((address, port), asked)
    except OSError as error:
        raise ConfigurationError(
            f"nothing of ours can listen on {address}:{port}: {error.strerror}",
            remedy="--router-address takes an IPv4 address of this machine; `ip -4 addr` shows them",
        ) from error
    # The handshake is made where the request is read, in the request's own thread.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="probe", daemon=True)
    thread.start()
    try:
        yield f"https://{address}:{port}/", authority.pem, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
