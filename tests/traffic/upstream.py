"""A real HTTPS server that plays a cluster: it answers, and streams what is published to whoever watches."""

from __future__ import annotations

import json
import queue
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from holdback.certificates import Authority
from holdback.clusters.access import Access

END = None


class Upstream(ThreadingHTTPServer):
    """Every path answers with what was asked; with `watch=true` it streams one line for each `publish`."""

    daemon_threads = True

    def __init__(self, directory: Path, authority: Authority) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.authority = authority
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("upstream").write(directory, "upstream"))
        # The handshake must happen in the connection's own thread: a held one would block every other client.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.requests: list[tuple[str, str, str]] = []
        self.bodies: list[bytes] = []
        self.watchers: list[queue.SimpleQueue[int | None]] = []
        self.revision = 100
        self.lock = threading.Lock()

    @property
    def access(self) -> Access:
        return Access(server=f"https://127.0.0.1:{self.server_address[1]}", ca=self.authority.pem, token="direct")

    def publish(self, number: int | None) -> None:
        with self.lock:
            for watcher in self.watchers:
                watcher.put(number)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Broken connections are what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer in one packet, as real servers send it
    server: Upstream

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.server.bodies.append(self.rfile.read(length))
        self.server.requests.append((self.command, self.path, self.headers.get("Authorization", "")))
        if "watch=true" in self.path:
            self._stream()
            return
        answer = {"metadata": {"resourceVersion": str(self.server.revision)}, "path": self.path}
        body = b"" if self.command == "HEAD" else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_HEAD = do_OPTIONS = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

    def _stream(self) -> None:
        numbers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        with self.server.lock:
            self.server.watchers.append(numbers)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for number in iter(numbers.get, END):
            line = f"{number}\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def upstream(directory: Path, authority: Authority | None = None) -> Iterator[Upstream]:
    """Such a server for as long as the context lasts, with a certificate of its own authority or of this one."""
    with Upstream(directory, authority or Authority.create("upstream")) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.publish(END)
            server.shutdown()
            thread.join()
