"""A TLS server that answers as a test tells it, down to single bytes of a chunk."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from holdback.certificates import Authority, write_private
from holdback.clusters import Access


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Answer(BaseHTTPRequestHandler):
    """What a reply uses to answer."""

    protocol_version = "HTTP/1.1"
    scripted: Scripted

    def reply(self) -> None:
        """Note the request and let the test's next reply answer."""
        url = urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = Asked(
            self.command, url.path, dict(parse_qsl(url.query)), dict(self.headers), json.loads(data) if data else None
        )
        self.scripted.asked.append(asked)
        try:
            self.scripted.replies.pop(0)(self)
        except OSError:
            self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = reply  # noqa: N815 -- names that http.server asks for

    def say(self, body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer."""
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """What an API server says when it refuses."""
        self.say({"kind": "Status", "code": status, "message": message}, status, headers)

    def begin(self) -> None:
        """The head of a chunked answer."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        """One chunk."""
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, change: str, body: object) -> None:
        """One event of a watch, in a chunk of its own."""
        self.chunk(json.dumps({"type": change, "object": body}).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self.wfile.write(data)
        self.wfile.flush()

    def hang_up(self) -> None:
        """End the connection, whatever was promised."""
        self.close_connection = True

    def wait(self) -> None:
        """Say nothing until the test is over."""
        self.scripted.over.wait(30)
        self.hang_up()

    def log_message(self, format: str, *args: object) -> None:
        """Not on the terminal."""


Reply = Callable[[Answer], None]


@dataclass
class Scripted:
    """The server: `replies` are used up in order, `asked` has every request."""

    access: Access
    replies: list[Reply] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def scripted(directory: Path, *, certified: bool = False) -> Iterator[Scripted]:
    """Run one; where clients must be `certified` it lets in those with a certificate, as its access has one."""
    authority = Authority.create("scripted")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("server").write(directory, "server"))
    token, certificate = "s3cret", None
    if certified:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(cadata=authority.pem)
        leaf = authority.issue("client")
        token, certificate = "", write_private(directory / "client.pem", leaf.pem + leaf.key_pem)

    class Handler(Answer):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        Handler.scripted = Scripted(
            Access(f"https://127.0.0.1:{server.server_port}", authority.pem, token, certificate)
        )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield Handler.scripted
        finally:
            Handler.scripted.over.set()
            server.shutdown()
            thread.join()
