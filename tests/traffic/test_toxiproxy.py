from __future__ import annotations

import itertools
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import toxiproxy
from urllib3 import HTTPConnectionPool

from holdback.binaries import Binaries
from holdback.errors import FaultError, ProcessExited, TrafficError
from holdback.process import Run
from holdback.traffic.effects import Toxics
from holdback.traffic.inforce import UNOWNED, InForce
from holdback.traffic.toxiproxy import Toxic, Toxiproxy, toxiproxy_server

NOWHERE = "127.0.0.1:9"


@pytest.fixture(scope="module")
def server(run: Run, binaries: Binaries) -> Iterator[Toxiproxy]:
    with toxiproxy_server(run, binaries.get("toxiproxy-server")["toxiproxy-server"]) as started:
        for name in ("one", "two"):
            started.create(name, NOWHERE)
        yield started


def _slow(proxy: str, name: str = "slow") -> Toxic:
    return Toxic(proxy, name, "latency", {"latency": 5})


def test_removing_tells_what_was_not_there(server: Toxiproxy) -> None:
    """`remove` takes off what is there and gives back the rest."""
    server.add([_slow("one")])
    assert server.toxics() == {"one": {"slow": "latency"}, "two": {}}
    assert server.remove([_slow("one"), _slow("two")]) == [_slow("two")]
    assert server.toxics() == {"one": {}, "two": {}}


@pytest.mark.parametrize("bad", [Toxic("one", "x", "nonsense", {}), Toxic("none", "x", "latency", {})])
def test_a_refusal_of_toxiproxy_is_ours(server: Toxiproxy, bad: Toxic) -> None:
    """What Toxiproxy refuses is a TrafficError with its words and the path of its log."""
    with pytest.raises(TrafficError, match="refused") as caught:
        server.add([bad])
    assert str(server.process.log) in caught.value.remedy


def test_a_fault_is_in_force_on_all_its_lanes_or_on_none(server: Toxiproxy) -> None:
    """When one toxic is refused the others are taken off again."""
    fault = InForce("a fault", Toxics(server, [_slow("one"), Toxic("two", "slow", "nonsense", {})]), UNOWNED)
    with pytest.raises(TrafficError, match="nonsense"):
        fault.start()
    assert server.toxics() == {"one": {}, "two": {}}


def test_a_fault_that_somebody_else_ended_is_reported(server: Toxiproxy) -> None:
    """A toxic that was taken off from outside is a FaultError at the fault's end, naming fault and lane."""
    fault = InForce("a fault", Toxics(server, [_slow("one"), _slow("two")]), UNOWNED)
    fault.start()
    server.remove([_slow("two")])
    with pytest.raises(FaultError, match="a fault: somebody else ended it before, on two"):
        fault.end()
    assert server.toxics() == {"one": {}, "two": {}}


def test_a_fault_that_does_not_go_is_reported(server: Toxiproxy) -> None:
    """A toxic that Toxiproxy still lists after its removal is a FaultError."""
    fault = InForce("a fault", Toxics(_Clinging(server), [_slow("one")]), UNOWNED)
    fault.start()
    with pytest.raises(FaultError, match="still in force on one"):
        fault.end()
    server.remove([_slow("one")])


class _Clinging(Toxiproxy):
    """A Toxiproxy that says it removed a toxic and did not, which the real one cannot be made to do."""

    def __init__(self, server: Toxiproxy) -> None:
        self.__dict__.update(server.__dict__)

    def remove(self, toxics: object) -> list[Toxic]:
        return []


def test_the_users_http_proxy_is_not_asked(
    run: Run, binaries: Binaries, monkeypatch: pytest.MonkeyPatch, server: Toxiproxy
) -> None:
    """HTTP_PROXY in the environment does not come between us and Toxiproxy."""
    monkeypatch.setenv("HTTP_PROXY", f"http://{NOWHERE}")
    with toxiproxy_server(run, binaries.get("toxiproxy-server")["toxiproxy-server"]) as second:
        assert second.toxics() == {}
        assert server.toxics() == {"one": {}, "two": {}}


def test_others_use_toxiproxy_python_as_ever(server: Toxiproxy) -> None:
    """Code of others that uses the library in this process asks the address that it set itself, without our token."""
    theirs = toxiproxy.Toxiproxy()
    theirs.update_api_consumer("127.0.0.1", server.port)
    assert b"token is needed" in theirs.version()
    theirs.update_api_consumer("127.0.0.1", 9)
    assert sorted(server.toxics()) == ["one", "two"]


def test_a_server_without_its_port_is_reported_as_that(
    run: Run, binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Toxiproxy whose port is taken is an error with its own words at once, though the port's owner answers."""
    executable = binaries.get("toxiproxy-server")["toxiproxy-server"]
    with toxiproxy_server(run, executable) as first:
        monkeypatch.setattr(run, "port", lambda: first.port)
        with pytest.raises(ProcessExited, match="address already in use"), toxiproxy_server(run, executable):
            pytest.fail("two servers cannot have one port")


def _told(server: Toxiproxy) -> str:
    """The token, from the file that the server was told."""
    return Path(psutil.Process(server.process.pid).cmdline()[-1]).read_text()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/proxies/one/toxics", {"name": "theirs", "type": "latency", "attributes": {"latency": 5}}),
        ("POST", "/proxies", {"name": "theirs", "listen": "127.0.0.1:0", "upstream": NOWHERE}),
        ("PATCH", "/proxies/one", {"enabled": False}),
        ("DELETE", "/proxies/one", None),
        ("DELETE", "/proxies/one/toxics/slow", None),
        ("POST", "/reset", None),
        ("GET", "/proxies", None),
        ("GET", "/no/such/path", None),
    ],
)
def test_who_lacks_the_token_can_do_nothing(server: Toxiproxy, method: str, path: str, body: object) -> None:
    """A request with no token, another one, or ours not as a bearer's is answered 401 and changes nothing."""
    server.add([_slow("one")])
    before = server.toxics()
    token = _told(server)
    for header in ("", "Bearer", "Bearer ", f"Bearer {token[:-1]}", f"Bearer {token}x", f"Basic {token}", token):
        headers = {"Authorization": header} if header else {}
        with HTTPConnectionPool("127.0.0.1", server.port, retries=False) as stranger:
            answer = stranger.request(method, path, json=body, headers=headers)
        assert answer.status == 401
        assert token.encode() not in answer.data
    assert server.toxics() == before
    assert server.disabled() == []
    server.remove([_slow("one")])


def test_the_token_is_private(server: Toxiproxy) -> None:
    """Each server has a token of its own, in a file for us alone; no command line, log or repr has it."""
    argv = psutil.Process(server.process.pid).cmdline()
    file, token = Path(argv[-1]), _told(server)
    assert len(token) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert token not in " ".join(argv) + server.process.log.read_text() + repr(vars(server))
    assert token not in psutil.Process(server.process.pid).environ().values()


KNOWS_NONE = """#!/bin/sh
echo 'flag provided but not defined: -token-file' >&2
for line in $(seq 40); do echo "  -usage $line" >&2; done
exit 2
"""
ASKS_FOR_NONE = f"""#!{sys.executable}
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("-port") + 1])), Handler).serve_forever()
"""


@pytest.mark.parametrize("text", [KNOWS_NONE, ASKS_FOR_NONE], ids=["knows none", "asks for none"])
def test_a_toxiproxy_that_asks_for_no_token_is_not_used(run: Run, tmp_path: Path, text: str) -> None:
    """An executable of somebody else's, that any user of the machine could command, is refused with what to do."""
    executable = tmp_path / "toxiproxy-server"
    executable.write_text(text)
    executable.chmod(0o755)
    refused = pytest.raises(TrafficError, match="does not ask for the run's token")
    with refused as caught, toxiproxy_server(run, executable) as started:
        pytest.fail(f"{started} must not be used")
    assert "HOLDBACK_TOXIPROXY_SERVER" in caught.value.remedy


def test_an_interrupt_leaves_nothing_under_way(server: Toxiproxy) -> None:
    """After a Ctrl-C while many proxies are changed no change is going on or still to come."""
    begun, done = itertools.count(), []
    main = threading.main_thread().ident
    assert main is not None

    def act(number: int) -> bool:
        if next(begun) == 0:
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.05)
        done.append(number)
        return True

    with pytest.raises(KeyboardInterrupt):
        server._for_all(range(1000), act)
    finished = list(done)
    server._for_all([0], lambda _: True)  # whatever were still to come would come before this
    assert done == finished
    assert len(done) == next(begun) < 1000
