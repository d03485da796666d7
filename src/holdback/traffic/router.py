"""The router: Caddy in front of the lanes, because under HTTP/2 all traffic of a client shares one connection.

It ends TLS on one port for each link, on loopback unless clients elsewhere must reach it, and hands every request to
its lane by method, path and `watch` parameter. Behind it each request has an HTTP/1.1 connection of its own, so that a
lane's Toxiproxy can hold back one kind of traffic without touching another. Its access log (see `config`) is the
complete record of what the clients asked.

Its configuration never changes, because a reload would end open watches. What does change it looks up in a folder of
files at each request: which tokens are the run's, and on which lanes `holdback.traffic.answers` has a say.
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

from holdback.clusters.protocols import LOOPBACK
from holdback.errors import ConfigurationError
from holdback.process import Child, Run, await_ready, child
from holdback.traffic.answers import PASS, Answers, Files, serving
from holdback.traffic.lanes import READS, WATCHES, WRITES, Lane, Link, watch_of, writes_of
from holdback.traffic.listening import listens

__all__ = ["Entrance", "Home", "Router", "config", "router"]

# The end of a token stands for the whole: it is a signature or random, and whole tokens are too long for file names.
_TOKEN = "([A-Za-z0-9_-]{1,64})$"  # noqa: S105
_COLLECTION = "(?:api/[^/]+|apis/[^/]+/[^/]+)"
_ASKS_TO_WATCH = {"watch": ["*"]}
_ASKS_NOT_TO = {"watch": ["false", "False", "FALSE", "0"]}  # the API server's own reading of the parameter


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where a link's client comes in, and where its lanes lead.

    `port` is the router's on `address`, `upstreams` are the ports of the lanes' proxies, `proxies` their names, `host`
    is the name for which the API server's certificate must be good, `ca` the PEM bundle that must have signed it.
    """

    link: Link
    port: int
    upstreams: Mapping[Lane, int]
    proxies: Mapping[Lane, str]
    host: str
    ca: str
    address: str = LOOPBACK


@dataclass(frozen=True, slots=True)
class Home:
    """The router's private directory: sockets, and the folders that it looks into."""

    path: Path

    @property
    def answerer(self) -> Path:
        """The socket of the server that answers in a cluster's place."""
        return self.path / "answer.sock"

    @property
    def state(self) -> Path:
        """The socket on which the router tells which files it sees in `answered`."""
        return self.path / "state.sock"

    @property
    def answered(self) -> Path:
        """Has a file for each lane on which the answerer is asked."""
        return self.path / "answered"

    @property
    def tokens(self) -> Path:
        """Has a file for each token of the run."""
        return self.path / "tokens"


def config(entrances: Sequence[Entrance], *, certificate: Path, key: Path, log: Path, home: Home) -> dict[str, Any]:
    """Caddy's configuration as data.

    `log` gets one JSON object a line for each request when it is over: `ts` (when that was) and `duration`, both
    seconds; `status`; `request.method` and `request.uri`; and our own `client`, `cluster`, `lane` (the kind; absent
    for a refused request) and `agent` (the User-Agent). An answer that broke off in the middle has duration 0, one
    that never began has status 0. No header is written, so no token is.
    """
    return {
        "admin": {"disabled": True, "config": {"persist": False}},
        "storage": {"module": "file_system", "root": str(home.path / "storage")},
        "logging": {"logs": {"default": _own_log(), "access": _access_log(log)}},
        "apps": {
            "http": {
                # Watches never end by themselves: without a limit they would keep a stopping router alive.
                "grace_period": "200ms",
                "servers": {
                    "state": _state(home),
                    **{f"link-{index}": _server(entrance, home) for index, entrance in enumerate(entrances)},
                },
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


def _state(home: Home) -> dict[str, Any]:
    """Says of any name whether there is such a file in `answered`."""
    return {
        "listen": [f"unix/{home.state}|0600"],
        "automatic_https": {"disable": True},
        "routes": [
            {"match": [_there(home.answered, "{http.request.uri.path}")], "handle": [_static(200)], "terminal": True},
            {"handle": [_static(404)]},
        ],
    }


def _there(folder: Path, name: str) -> dict[str, Any]:
    return {"file": {"root": str(folder), "try_files": [name]}}


def _static(status: int) -> dict[str, Any]:
    return {"handler": "static_response", "status_code": status}


def _server(entrance: Entrance, home: Home) -> dict[str, Any]:
    link = entrance.link
    labels = {"client": link.client, "cluster": link.cluster, "agent": "{http.request.header.User-Agent}"}
    return {
        "listen": [f"{entrance.address}:{entrance.port}"],
        "automatic_https": {"disable": True},
        "tls_connection_policies": [{}],
        "protocols": ["h1", "h2"],
        "logs": {"default_logger_name": link.name},
        "routes": [
            {"handle": [_label(name, value) for name, value in labels.items()]},
            {
                "match": [{"header_regexp": {"Authorization": {"name": "token", "pattern": f"^Bearer .*?{_TOKEN}"}}}],
                "handle": [{"handler": "vars", "token": "{http.regexp.token.1}"}],
            },
            {
                # Without a token the name is that of no file: all of them are longer than the letter before them.
                "match": [{"not": [_there(home.tokens, "t{http.vars.token}")]}],
                "handle": [_static(401)],
                "terminal": True,
            },
            *(_route(entrance, lane, home) for lane in link.lanes),
        ],
        # A lane that is cut must look like a broken connection, not like a gateway that apologises.
        "errors": {"routes": [{"handle": [{"handler": "static_response", "abort": True}]}]},
    }


def _label(key: str, value: str) -> dict[str, Any]:
    # Early, because a stream that is torn takes the way back out of every handler, but is logged all the same.
    return {"handler": "log_append", "key": key, "value": value, "early": True}


def _route(entrance: Entrance, lane: Lane, home: Home) -> dict[str, Any]:
    name = entrance.proxies[lane]
    asking = {"match": [_there(home.answered, name)], "handle": [_answerer(home, name)]}
    return {
        "match": _matchers(lane.kind),
        "handle": [
            _label("lane", lane.kind),
            {"handler": "subroute", "routes": [asking]},
            _proxy(entrance, lane),
        ],
        "terminal": True,
    }


def _answerer(home: Home, lane: str) -> dict[str, Any]:
    """Asks the answerer, and goes on to the lane if that lets the request pass."""
    asked = {"X-Asked-Method": ["{http.request.method}"], "X-Asked-Uri": ["{http.request.uri}"]}
    return {
        "handler": "reverse_proxy",
        "upstreams": [{"dial": f"unix/{home.answerer}"}],
        # As a GET, so that the request's body is left for the lane; its token is nobody's business but the cluster's.
        "rewrite": {"method": "GET", "uri": f"/{lane}"},
        "headers": {"request": {"set": asked, "delete": ["Authorization"]}},
        "handle_response": [{"match": {"status_code": [PASS]}, "routes": [{"handle": [{"handler": "vars"}]}]}],
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


def _proxy(entrance: Entrance, lane: Lane) -> dict[str, Any]:
    # Shorter than the API server's 90 s: a write must not meet a connection that it is just closing.
    kept = {"idle_timeout": "30s", "max_idle_conns_per_host": 64}
    authorities = x509.load_pem_x509_certificates(entrance.ca.encode())
    trusted = [base64.b64encode(each.public_bytes(Encoding.DER)).decode() for each in authorities]
    return {
        "handler": "reverse_proxy",
        "flush_interval": -1,
        "upstreams": [{"dial": f"127.0.0.1:{entrance.upstreams[lane]}"}],
        "transport": {
            "protocol": "http",
            "versions": ["1.1"],
            "compression": False,
            # Who counts the connections of a watch lane counts its watches: one that has ended leaves none behind.
            "keep_alive": {"enabled": False} if lane.is_watch else kept,
            "tls": {"server_name": entrance.host, "ca": {"provider": "inline", "trusted_ca_certs": trusted}},
        },
    }


class Router:
    """The running Caddy; made by `router`."""

    def __init__(self, process: Child, answers: Answers, tokens: Files) -> None:
        self.process = process
        self.answers = answers
        self._tokens = tokens

    def admit(self, token: str) -> None:
        """Let requests with this bearer token in.

        Raises:
            ConfigurationError: it does not end as tokens do.
        """
        end = re.search(_TOKEN, token)
        if end is None:
            raise ConfigurationError(
                "a token that does not end in a letter, a digit, - or _",
                remedy="take a service account's token, or one made of these characters",
            )
        self._tokens.add(f"t{end[1]}")


@contextmanager
def router(
    run: Run, executable: Path, entrances: Sequence[Entrance], *, certificate: Path, key: Path, log: Path
) -> Iterator[Router]:
    """Caddy with these entrances for as long as the context lasts; it writes nowhere but to the run and to `log`.

    Raises:
        ProcessExited, NotReady: it did not come up.
    """
    home = Home(run.directory / f"router-{entrances[0].port}")
    home.path.mkdir(mode=0o700)
    tokens, answers = Files(home.tokens), Answers(Files(home.answered), home.state)
    file = home.path / "config.json"
    file.write_text(json.dumps(config(entrances, certificate=certificate, key=key, log=log, home=home), indent=1))
    environment = {name: str(home.path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    argv: list[str | Path] = [executable, "run", "--config", file]
    with serving(home.answerer, answers), child(run, home.path.name, argv, env=environment) as process:
        ports = [each.port for each in entrances]
        await_ready(process, lambda: listens(process, ports), within=60.0, what="Caddy listens")
        yield Router(process, answers, tokens)
