"""One HTTP GET whose answer is read as it comes and can be left at any moment without losing a byte.

The usual clients cannot do both: a read that timed out breaks their connection, and without a timeout a
silent watch blocks its thread until the server speaks. Here only the socket has a short timeout; the
protocol (h11) keeps its state.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import h11
import httpx

from holdback.clusters.access import Access
from holdback.clusters.refusals import refusal

__all__ = ["Stream", "open_stream"]

_LOOK_EVERY = 0.15
_CONNECT_WITHIN = 5.0
_AT_ONCE = 256 * 1024


class Stream:
    """The answer to one GET, made by `open_stream`."""

    def __init__(self, connection: socket.socket, path: str, stop: threading.Event) -> None:
        self._socket = connection
        self._path = path
        self._stop = stop
        self._http = h11.Connection(h11.CLIENT)

    def ask(self, headers: list[tuple[str, str]]) -> None:
        """Send the request."""
        request = self._http.send(h11.Request(method="GET", target=self._path, headers=headers))
        assert request is not None
        self._socket.sendall(request)
        self._http.send(h11.EndOfMessage())

    def body(self) -> bytes | None:
        """The whole answer; None when `stop` came first.

        Raises:
            ClusterError: the server refuses.
            OSError: the connection broke.
        """
        body = b"".join(self._pieces())
        return None if self._stop.is_set() else body

    def lines(self) -> Iterator[bytes]:
        """The answer line by line, each as soon as it is complete, until its end or `stop`.

        Raises:
            ClusterError: the server refuses.
            OSError: the connection broke.
        """
        parts: list[bytes] = []
        for piece in self._pieces():
            *complete, rest = piece.split(b"\n")
            for line in complete:
                yield b"".join([*parts, line])
                parts.clear()
            if rest:
                parts.append(rest)

    def _pieces(self) -> Iterator[bytes]:
        status = 0
        refused = b""
        while (event := self._next()) is not None:
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                if status == httpx.codes.OK:
                    yield bytes(event.data)
                else:
                    refused += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError("closed before the answer")
        if status not in (0, httpx.codes.OK) and not self._stop.is_set():
            raise refusal(status, refused, "GET", self._path)

    def _next(self) -> h11.Event | None:
        """The next event; None when `stop` is set."""
        while not self._stop.is_set():
            try:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    self._http.receive_data(self._socket.recv(_AT_ONCE))
                elif isinstance(event, h11.Event):
                    return event
            except TimeoutError:
                continue
            except h11.RemoteProtocolError as error:  # it ended in the middle
                raise ConnectionResetError(str(error)) from error
        return None


@contextmanager
def open_stream(
    access: Access, tls: ssl.SSLContext, path: str, *, agent: str, stop: threading.Event
) -> Iterator[Stream]:
    """Ask for `path` and give the answer as a stream.

    Args:
        access: the way in.
        tls: trusts the server.
        path: with its query.
        agent: the User-Agent.
        stop: ends every reading within 0.2 s.

    Raises:
        OSError: no connection.
    """
    url = httpx.URL(access.server)
    address = (url.host, url.port or 443)
    with (
        socket.create_connection(address, timeout=_CONNECT_WITHIN) as plain,
        tls.wrap_socket(plain, server_hostname=url.host, do_handshake_on_connect=False) as connection,
    ):
        connection.settimeout(_LOOK_EVERY)
        stream = Stream(connection, path, stop)
        if _shake_hands(connection, stop):
            stream.ask(
                [
                    ("Host", url.netloc.decode()),
                    *access.headers().items(),
                    ("User-Agent", agent),
                    ("Accept", "application/json"),
                ]
            )
        yield stream


def _shake_hands(connection: ssl.SSLSocket, stop: threading.Event) -> bool:
    """Complete the TLS handshake, in looks short enough to notice `stop`; False when that came first."""
    deadline = time.monotonic() + _CONNECT_WITHIN
    while not stop.is_set():
        try:
            connection.do_handshake()
        except TimeoutError:  # a paused server's kernel accepts connections that the server does not answer
            if time.monotonic() >= deadline:
                raise
        else:
            return True
    return False
