"""The router: Caddy in front of the lanes, because under HTTP/2 all traffic of a client shares one connection.

It ends TLS on loopback, on one port for each link, and hands every request to its lane by method, path and
`watch` parameter. Behind it each request has an HTTP/1.1 connection of its own, so that a lane's Toxiproxy can
hold back one kind of traffic without touching another. Its access log (see `config`) is the complete record of
what the clients asked.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from holdback.process import Child, Run, await_ready, child
from holdback.traffic.lanes import READS, WATCHES, WRITES, Lane, Link, watch_of, writes_of
from holdback.traffic.listening import listens

__all__ = ["Entrance", "config", "router"]

_COLLECTION = "(?:api/[^/]+|apis/[^/]+/[^/]+)"
_ASKS_TO_WATCH = {"watch": ["*"]}
_ASKS_NOT_TO = {"watch": ["false", "False", "FALSE", "0"]}  # the API server's own reading of the parameter


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where a link's client comes in, and where its lanes lead.

    `port` is the router's, `upstreams` the ports of the lanes' proxies, `host` the name for which the API
    server's certificate must be good, `ca` the PEM bundle that must have signed it.
    """

    link: Link
    port: int
    upstreams: Mapping[Lane, int]
    host: str
    ca: str


def config(entrances: Sequence[Entrance], *, certificate: Path, key: Path, log: Path, storage: Path) -> dict[str, Any]:
    """Caddy's configuration as data.

    `log` gets one JSON object a line for each request when it is over: `ts` (when that was) and `duration`, both
    seconds; `status`; `request.method` and `request.uri`; and our own `client`, `cluster`, `lane` (the kind; absent
    for a refused request) and `agent` (the User-Agent). An answer that broke off in the middle has duration 0, one
    that never began has status 0. No header is written, so no token is.
    """
    return {
        "admin": {"disabled": True, "config": {"persist": False}},
        "storage": {"module": "file_system", "root": str(storage)},
        "logging": {"logs": {"default": _own_log(), "access": _access_log(log)}},
        "apps": {
            "http": {
                # Watches never end by themselves: without a limit they would keep a stopping router alive.
                "grace_period": "200ms",
                "servers": {f"link-{index}": _server(entrance) for index, entrance in enumerate(entrances)},
            },
            "tls": {
                "certificates": {"load_files": [{"certificate": str(certificate), "key": str(key)}]},
                "disable_ocsp_stapling": True,
            },
        },
    }


def _own_log() -> dict[str, Any]:
    return {
        "level": "WARN",
        "exclude": ["http.log.access"],
        "encoder": {"format": "filter", "wrap": {"format": "json"}, "fields": _without("request>headers")},
    }


def _access_log(path: Path) -> dict[str, Any]:
    noise = ("remote_ip", "remote_port", "client_ip", "proto", "host", "headers", "tls")
    fields = _without(*(f"request>{name}" for name in noise), "resp_headers", "user_id", "bytes_read", "size")
    return {
        "include": ["http.log.access"],
        "writer": {"output": "file", "filename": str(path), "mode": "0600", "roll": False},
        "encoder": {"format": "filter", "wrap": {"format": "json"}, "fields": fields},
    }


def _without(*fields: str) -> dict[str, Any]:
    return {field: {"filter": "delete"} for field in fields}


def _server(entrance: Entrance) -> dict[str, Any]:
    link = entrance.link
    labels = {"client": link.client, "cluster": link.cluster, "agent": "{http.request.header.User-Agent}"}
    return {
        "listen": [f"127.0.0.1:{entrance.port}"],
        "automatic_https": {"disable": True},
        "tls_connection_policies": [{}],
        "protocols": ["h1", "h2"],
        "logs": {"default_logger_name": link.name},
        "routes": [
            {"handle": [_label(name, value) for name, value in labels.items()]},
            {
                "match": [{"not": [{"header": {"Authorization": ["Bearer *"]}}]}],
                "handle": [{"handler": "static_response", "status_code": 401}],
                "terminal": True,
            },
            *(_route(entrance, lane) for lane in link.lanes),
        ],
        # A lane that is cut must look like a broken connection, not like a gateway that apologises.
        "errors": {"routes": [{"handle": [{"handler": "static_response", "abort": True}]}]},
    }


def _label(key: str, value: str) -> dict[str, Any]:
    # Early, because a stream that is torn takes the way back out of every handler, but is logged all the same.
    return {"handler": "log_append", "key": key, "value": value, "early": True}


def _route(entrance: Entrance, lane: Lane) -> dict[str, Any]:
    return {
        "match": _matchers(lane.kind),
        "handle": [_label("lane", lane.kind), _proxy(entrance, entrance.upstreams[lane])],
        "terminal": True,
    }


def _matchers(kind: str) -> list[dict[str, Any]]:
    """What belongs to a kind of traffic, given that the kinds before it (`Link.lanes`) took theirs; any of these."""
    reading = {"method": ["GET", "HEAD", "OPTIONS"]}
    if kind == READS:
        return [reading]
    if kind == WRITES:
        return [{}]
    if kind.startswith(writes_of("")):
        written = re.escape(kind.removeprefix(writes_of("")))
        return [{"path_regexp": {"pattern": f"^/{_COLLECTION}/(?:namespaces/[^/]+/)?{written}(?:/.*)?$"}}]
    resource = "[^/]+" if kind == WATCHES else re.escape(kind.removeprefix(watch_of("")))
    scope = f"(?:namespaces/[^/]+/)?{resource}"
    return [
        reading
        | {
            "query": _ASKS_TO_WATCH,
            "not": [{"query": _ASKS_NOT_TO}],
            # A single object asked to be watched by its path is a plain get to the API server.
            "path_regexp": {"pattern": f"^/{_COLLECTION}/{scope}/?$"},
        },
        reading | {"path_regexp": {"pattern": f"^/{_COLLECTION}/watch/{scope}(?:/[^/]+)?/?$"}},
    ]


def _proxy(entrance: Entrance, port: int) -> dict[str, Any]:
    authorities = x509.load_pem_x509_certificates(entrance.ca.encode())
    trusted = [base64.b64encode(each.public_bytes(Encoding.DER)).decode() for each in authorities]
    return {
        "handler": "reverse_proxy",
        "flush_interval": -1,
        "upstreams": [{"dial": f"127.0.0.1:{port}"}],
        "transport": {
            "protocol": "http",
            "versions": ["1.1"],
            "compression": False,
            # Shorter than the API server's 90 s: a write must not meet a connection that it is just closing.
            "keep_alive": {"idle_timeout": "30s", "max_idle_conns_per_host": 64},
            "tls": {"server_name": entrance.host, "ca": {"provider": "inline", "trusted_ca_certs": trusted}},
        },
    }


@contextmanager
def router(
    run: Run, executable: Path, entrances: Sequence[Entrance], *, certificate: Path, key: Path, log: Path
) -> Iterator[Child]:
    """Caddy with these entrances for as long as the context lasts; it writes nowhere but to the run and to `log`.

    Raises:
        ProcessExited, NotReady: it did not come up.
    """
    home = run.directory / f"router-{entrances[0].port}"
    home.mkdir(mode=0o700)
    file = home / "config.json"
    settings = config(entrances, certificate=certificate, key=key, log=log, storage=home / "storage")
    file.write_text(json.dumps(settings, indent=1))
    environment = {name: str(home) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    argv: list[str | Path] = [executable, "run", "--config", file]
    with child(run, home.name, argv, env=environment) as process:
        ports = [each.port for each in entrances]
        await_ready(process, lambda: listens(process, ports), within=15.0, what="Caddy listens")
        yield process
