from __future__ import annotations

from collections.abc import Iterator

import pytest
import toxiproxy

from holdback.binaries import Binaries
from holdback.errors import FaultError, TrafficError
from holdback.process import Run
from holdback.traffic.effects import Toxics
from holdback.traffic.inforce import InForce
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
    fault = InForce("a fault", Toxics(server, [_slow("one"), Toxic("two", "slow", "nonsense", {})]), 60)
    with pytest.raises(TrafficError, match="nonsense"):
        fault.start()
    assert server.toxics() == {"one": {}, "two": {}}


def test_a_fault_that_somebody_else_ended_is_reported(server: Toxiproxy) -> None:
    """A toxic that was taken off from outside is a FaultError at the fault's end, naming fault and lane."""
    fault = InForce("a fault", Toxics(server, [_slow("one"), _slow("two")]), 60)
    fault.start()
    server.remove([_slow("two")])
    with pytest.raises(FaultError, match="a fault: somebody else ended it before, on two"):
        fault.end()
    assert server.toxics() == {"one": {}, "two": {}}


def test_a_fault_that_does_not_go_is_reported(server: Toxiproxy) -> None:
    """A toxic that Toxiproxy still lists after its removal is a FaultError."""
    fault = InForce("a fault", Toxics(_Clinging(server), [_slow("one")]), 60)
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
    """Code of others that uses the library in this process asks the address that it set itself."""
    theirs = toxiproxy.Toxiproxy()
    theirs.update_api_consumer("127.0.0.1", int(server.process.name.rpartition("-")[2]))
    assert sorted(theirs.proxies()) == ["one", "two"]
    theirs.update_api_consumer("127.0.0.1", 9)
    assert sorted(server.toxics()) == ["one", "two"]


def test_a_server_without_its_port_is_reported_as_that(
    run: Run, binaries: Binaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Toxiproxy whose port is taken is an error with its own words at once, though the port's owner answers."""
    executable = binaries.get("toxiproxy-server")["toxiproxy-server"]
    with toxiproxy_server(run, executable) as first:
        taken = int(first.process.name.rpartition("-")[2])
        monkeypatch.setattr(run, "port", lambda: taken)
        with pytest.raises(TrafficError, match="address already in use"), toxiproxy_server(run, executable):
            pytest.fail("two servers cannot have one port")
