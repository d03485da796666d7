"""A watch misses nothing that lasts and can be left at any moment."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from holdback.certificates import Authority
from holdback.clusters import Access, Api, watching
from holdback.clusters.kinds import PODS
from holdback.clusters.stream import _CONNECT_WITHIN
from holdback.clusters.watching import Store
from holdback.errors import ClusterError
from tests.clusters.server import Answer, Scripted


def pod(name: str, version: int, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "x", "uid": uid or name, "resourceVersion": str(version)}}


def pods(*items: dict[str, Any], version: int) -> Callable[[Answer], None]:
    return lambda answer: answer.say({"metadata": {"resourceVersion": str(version)}, "items": list(items)})


def take(server: Scripted, count: int) -> list[tuple[str, str, str]]:
    """The first changes: what happened, to whom, and its version."""
    stop = threading.Event()
    changes = islice(Api(server.access).watch(PODS, stop=stop), count)
    return [(change, item["metadata"]["name"], item["metadata"]["resourceVersion"]) for change, item in changes]


def test_an_event_in_pieces_is_whole(server: Scripted) -> None:
    """Events that come in pieces, slower than the reader's patience for one look, arrive whole and in order."""

    def in_pieces(answer: Answer) -> None:
        answer.begin()
        line = (
            b'{"type": "MODIFIED", "object": {"metadata": {"name": "a", "namespace": "x", "resourceVersion": "8"}}}\n'
        )
        whole = b"%x\r\n%s\r\n" % (2 * len(line), line + line.replace(b'"8"', b'"9"'))
        for begin, end in ((0, 1), (1, 40), (40, len(line) + 20), (len(line) + 20, len(whole))):
            answer.raw(whole[begin:end])
            time.sleep(0.2)
        answer.wait()

    server.replies += [pods(pod("a", 5), version=7), in_pieces]
    assert take(server, 3) == [("ADDED", "a", "5"), ("MODIFIED", "a", "8"), ("MODIFIED", "a", "9")]
    assert server.asked[1].query["resourceVersion"] == "7"


def test_a_broken_connection_goes_on_where_it_was(server: Scripted) -> None:
    """After a break in the middle of an event the watch goes on after the last whole one, a bookmark included."""

    def breaks(answer: Answer) -> None:
        answer.begin()
        answer.event("ADDED", pod("b", 8))
        answer.event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})
        answer.raw(b'ff\r\n{"type": "ADDED", "obj')
        answer.hang_up()

    def goes_on(answer: Answer) -> None:
        answer.begin()
        answer.event("DELETED", pod("b", 21))
        answer.wait()

    server.replies += [pods(version=7), breaks, lambda answer: answer.hang_up(), goes_on]
    assert take(server, 2) == [("ADDED", "b", "8"), ("DELETED", "b", "21")]
    assert [asked.query.get("resourceVersion") for asked in server.asked] == [None, "7", "20", "20"]


@pytest.mark.parametrize("how", ["status", "event"])
def test_an_expired_version_is_listed_again(server: Scripted, how: str) -> None:
    """When the server has forgotten our version, a new list tells what was missed, as an informer would."""

    def expired(answer: Answer) -> None:
        if how == "status":
            answer.refuse(410, "too old")
        else:
            answer.begin()
            answer.event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
            answer.wait()

    before = [pod("stays", 1), pod("changes", 2), pod("goes", 3), pod("reborn", 4, uid="first")]
    after = [pod("stays", 1), pod("changes", 12), pod("reborn", 14, uid="second"), pod("comes", 15)]
    server.replies += [pods(*before, version=7), expired, pods(*after, version=20), lambda answer: answer.wait()]
    assert take(server, 9)[4:] == [
        ("DELETED", "goes", "3"),
        ("MODIFIED", "changes", "12"),
        ("DELETED", "reborn", "4"),
        ("ADDED", "reborn", "14"),
        ("ADDED", "comes", "15"),
    ]


def test_a_stream_keeps_nothing_and_refuses_a_gap(server: Scripted) -> None:
    """A stream shows the same changes as a watch, and ends with an error where it would have to list again."""

    def expires(answer: Answer) -> None:
        answer.begin()
        answer.event("MODIFIED", pod("a", 8))
        answer.event("DELETED", pod("a", 9))
        answer.event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
        answer.wait()

    server.replies += [pods(pod("a", 5), version=7), expires]
    seen = []
    with pytest.raises(ClusterError, match="missed changes"):
        for change, item in Api(server.access).stream(PODS, stop=threading.Event()):
            seen.append((change, item["metadata"]["resourceVersion"]))
    assert seen == [("ADDED", "5"), ("MODIFIED", "8"), ("DELETED", "9")]


def _silent(answer: Answer) -> None:
    answer.begin()
    answer.wait()


def _in_mid_chunk(answer: Answer) -> None:
    answer.begin()
    answer.raw(b"ff\r\n{")
    answer.wait()


@pytest.mark.parametrize("silence", [_silent, _in_mid_chunk, lambda answer: answer.wait()])
@pytest.mark.parametrize("listed", [True, False])
def test_stop_is_noticed(server: Scripted, silence: Callable[[Answer], None], *, listed: bool) -> None:
    """A watch ends soon after `stop`, wherever the server fell silent, in the list as well."""
    server.replies += [pods(version=7), silence] if listed else [silence]
    stop = threading.Event()
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.extend(Api(server.access).watch(PODS, stop=stop)))
    thread.start()
    while len(server.asked) < (2 if listed else 1):
        time.sleep(0.01)
    time.sleep(0.05)
    stop.set()
    thread.join(20)
    assert not thread.is_alive(), "the server hangs up only after 30 s"
    assert seen == []


def test_stop_is_noticed_before_the_first_byte() -> None:
    """A watch ends soon after `stop` when the server does not even shake hands, as a paused one."""
    with socket.create_server(("127.0.0.1", 0)) as paused:
        access = Access(f"https://127.0.0.1:{paused.getsockname()[1]}", Authority.create("paused").pem, "")
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        begun = time.monotonic()
        assert list(Api(access).watch(PODS, stop=stop)) == []
        assert 0.3 <= time.monotonic() - begun < _CONNECT_WITHIN, "before it gives up by itself"


def test_a_refusal_at_the_start_is_an_error(server: Scripted) -> None:
    """A list that was never allowed raises at once, with the server's words and status."""
    server.replies += [lambda answer: answer.refuse(403, "pods is forbidden")]
    with pytest.raises(ClusterError, match="pods is forbidden") as error:
        take(server, 1)
    assert error.value.status == 403


def test_a_passing_refusal_is_waited_out(server: Scripted) -> None:
    """A server that allowed the list may refuse for a moment, as one does that is just starting."""

    def event(answer: Answer) -> None:
        answer.begin()
        answer.event("ADDED", pod("b", 8))
        answer.wait()

    server.replies += [
        pods(version=7),
        lambda answer: answer.refuse(401, "not yet"),
        lambda answer: answer.refuse(503, "not yet"),
        event,
    ]
    assert take(server, 1) == [("ADDED", "b", "8")]


def test_a_refusal_after_a_long_silence_is_waited_out(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a watch was silent before its server went away and came back does not count against the server."""
    monkeypatch.setattr(watching, "_PATIENCE", 0.3)

    def silent_for_longer(answer: Answer) -> None:
        answer.begin()
        time.sleep(0.5)
        answer.hang_up()

    def event(answer: Answer) -> None:
        answer.begin()
        answer.event("ADDED", pod("b", 8))
        answer.wait()

    server.replies += [pods(version=7), silent_for_longer, lambda answer: answer.refuse(403, "not yet"), event]
    assert take(server, 1) == [("ADDED", "b", "8")]


def test_a_refusal_that_lasts_is_an_error(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that allowed the list and then refuses again and again is not asked for ever."""
    monkeypatch.setattr(watching, "_PATIENCE", 0.0)
    server.replies += [pods(version=7), *[lambda answer: answer.refuse(403, "no longer")] * 2]
    with pytest.raises(ClusterError, match="no longer"):
        take(server, 1)


def test_a_wrong_server_is_an_error(server: Scripted) -> None:
    """A server with a certificate of another authority is not asked again and again, but reported."""
    wrong = replace(server.access, ca=Authority.create("another").pem)
    with pytest.raises(ClusterError, match="not who it should be"):
        next(iter(Api(wrong).watch(PODS, stop=threading.Event())))
    assert server.asked == []


def test_a_store_forgets_what_is_deleted() -> None:
    """An object that a watch saw deleted is new when a later list has it again."""
    store = Store()
    assert list(store.replace([pod("a", 1)])) == [("ADDED", pod("a", 1))]
    assert store.note("DELETED", pod("a", 2)) == ("DELETED", pod("a", 2))
    assert list(store.replace([pod("a", 3)])) == [("ADDED", pod("a", 3))]
    assert list(store.replace([pod("a", 3)])) == []
