"""Answers in a cluster's place: a small server behind the router that it asks only where an answer is in force.

Whether one is in force on a lane is a file in the router's private folder: the router looks for it at each request. So
an answer begins and ends without touching the router's configuration, whose reload would end every open watch. Where
the file is, the router asks our server first; that answers, or lets the request pass to its lane.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from holdback.clusters.api import OWN_AGENT
from holdback.errors import TrafficError

__all__ = ["PASS", "Answered", "Answers", "Asked", "Expired", "Files", "Reply", "Rule", "Times", "status"]

PASS = 204
"""What our server says to the router when it has nothing against a request."""
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the router tells it; `uri` is path and query, `agent` the User-Agent."""

    method: str
    uri: str
    agent: str

    @property
    def ours(self) -> bool:
        """Whether it is our own: a shadow watch gets what the controller gets, but must not use it up."""
        return self.agent.startswith(OWN_AGENT)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer; `retry_after` is for the header of that name, in seconds."""

    status: int
    retry_after: int | None = None

    @property
    def body(self) -> bytes:
        """A `Status`, as API servers send it."""
        return json.dumps(status(self.status, self.retry_after)).encode()


def status(code: int, retry_after: int | None = None) -> dict[str, object]:
    """The `Status` of that HTTP status; it says that holdback made it."""
    details = {} if retry_after is None else {"details": {"retryAfterSeconds": retry_after}}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"holdback answers {code} in the cluster's place",
        "reason": _REASONS.get(code, ""),
        "code": code,
        **details,
    }


class Rule(Protocol):
    """Says what a request gets. Asked for one request at a time."""

    def reply(self, asked: Asked) -> Reply | None:
        """The answer, or None to let it pass."""


class Times:
    """The same answer to every request, or to so many of them."""

    def __init__(self, reply: Reply, times: int | None = None) -> None:
        self.given = 0
        self._reply = reply
        self._times = times

    def reply(self, asked: Asked) -> Reply | None:
        if self._times is not None and self.given >= self._times:
            return None
        self.given += not asked.ours
        return self._reply


class Expired:
    """410 to every watch that wants to go on from before a revision, as if the cluster had compacted up to there."""

    def __init__(self, revision: int) -> None:
        self._revision = revision
        self._refused = 0
        self._passed = 0

    @property
    def back(self) -> int:
        """How many watchers have come at least.

        One that was refused comes again to begin anew, so the two numbers do not add up. Some begin anew at once:
        client-go does so by itself when a watch has lasted less than a second.
        """
        return max(self._refused, self._passed)

    def reply(self, asked: Asked) -> Reply | None:
        query = parse_qs(urlsplit(asked.uri).query)
        version = query.get("resourceVersion", [""])[-1]
        # One that asks for the initial events begins anew, whatever version it names.
        if "sendInitialEvents" in query or not version.isdigit() or not 0 < int(version) < self._revision:
            self._passed += 1
            return None
        self._refused += 1
        return Reply(410)


class Files:
    """A folder of the router's in which a file says yes and no file says no."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self.folder = folder

    def add(self, name: str) -> None:
        (self.folder / name).touch(mode=0o600)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)


class Answers:
    """Which answers are in force on which lane, by the name of the lane's proxy; made by `serving`."""

    def __init__(self, files: Files, state: Path) -> None:
        self._files = files
        self._state = state
        self._rules: dict[str, list[Rule]] = {}
        self._lock = threading.Lock()

    def add(self, lanes: Sequence[str], rule: Rule) -> None:
        """Let a rule speak for these lanes; the newest that has an answer is heard."""
        with self._lock:
            for lane in lanes:
                self._rules.setdefault(lane, []).append(rule)
                self._files.add(lane)

    def remove(self, lanes: Sequence[str], rule: Rule) -> list[str]:
        """Take the rule off these lanes; gives those on which it was not."""
        lost = []
        with self._lock:
            for lane in lanes:
                rules = self._rules.get(lane, [])
                if rule in rules:
                    rules.remove(rule)
                else:
                    lost.append(lane)
                if not rules:
                    self._files.remove(lane)
        return lost

    def others(self, lane: str, rule: Rule) -> bool:
        """Whether another rule speaks for the lane."""
        with self._lock:
            return any(each is not rule for each in self._rules.get(lane, []))

    def reply(self, lane: str, asked: Asked) -> Reply | None:
        """The answer to a request of the lane, or None to let it pass."""
        with self._lock:
            replies = (rule.reply(asked) for rule in reversed(self._rules.get(lane, [])))
            return next((reply for reply in replies if reply is not None), None)

    def in_force(self, lanes: Sequence[str]) -> list[str]:
        """The lanes on which requests are answered, as the router sees it.

        Raises:
            TrafficError: the router does not tell.
        """
        connection = _UnixConnection(self._state)
        try:
            return [lane for lane in lanes if _says_yes(connection, lane)]
        except (OSError, HTTPException) as error:
            raise TrafficError(
                f"the router does not tell what it answers: {error!r}",
                remedy="the lanes are unusable now: start the world again",
            ) from error
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Answered:
    """A rule on lanes, as an effect."""

    answers: Answers
    lanes: Sequence[str]
    rule: Rule

    def begin(self) -> None:
        self.answers.add(self.lanes, self.rule)

    def undo(self) -> Sequence[str]:
        return self.answers.remove(self.lanes, self.rule)

    def left(self) -> Sequence[str]:
        return [lane for lane in self.answers.in_force(self.lanes) if not self.answers.others(lane, self.rule)]


class _UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("router", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket(AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _says_yes(connection: HTTPConnection, lane: str) -> bool:
    connection.request("GET", f"/{lane}")
    answer = connection.getresponse()
    answer.read()
    return answer.status == 200


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, answers: Answers) -> None:
        super().__init__(str(path), _Handler)
        self.answers = answers


class _Handler(BaseHTTPRequestHandler):
    """Answers the router's question, which is `GET /LANE` with the request in headers."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one packet
    server: _Server

    def do_GET(self) -> None:
        asked = Asked(
            self.headers.get("X-Asked-Method", ""),
            self.headers.get("X-Asked-Uri", ""),
            self.headers.get("User-Agent", ""),
        )
        lane = urlsplit(self.path).path.lstrip("/")  # the router leaves the query on it
        reply = self.server.answers.reply(lane, asked)
        if reply is None:
            self.send_response(PASS)
            self.end_headers()
            return
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply.body)))
        if reply.retry_after is not None:
            self.send_header("Retry-After", str(reply.retry_after))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:
        """The router logs each request."""


@contextmanager
def serving(socket_path: Path, answers: Answers) -> Iterator[None]:
    """The server for the router, on a unix socket, for as long as the context lasts."""
    with _Server(socket_path, answers) as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="answers", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
