from __future__ import annotations

from collections.abc import Callable
from functools import partial

import httpx
import pytest

from holdback.clock import poll
from holdback.clusters.api import OWN_AGENT
from holdback.errors import FaultError
from holdback.traffic.answers import Asked, Expired, status
from holdback.traffic.lanes import Pipe
from holdback.traffic.network import Network
from tests.traffic.client import PATIENCE, Watch
from tests.traffic.client import client as connect
from tests.traffic.conftest import LINK, OTHER, TOKEN
from tests.traffic.test_router import _logged
from tests.traffic.upstream import Upstream

PODS = "/api/v1/pods"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/workloads?watch=true"
Begin = Callable[[str], Watch]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (409, "Conflict"),
        (410, "Expired"),
    ],
)
def test_an_answer_is_a_status_as_an_api_server_sends_it(
    net: Network, client: httpx.Client, cluster: Upstream, code: int, reason: str
) -> None:
    """The client gets status, reason and Retry-After by header and body, and the cluster gets nothing."""
    with net.answer([LINK.writes], code, retry_after=7):
        answer = client.post(f"{PODS}?answered={code}", content=b"x" * 5000)
    assert answer.status_code == code
    assert answer.headers["Retry-After"] == "7"
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"holdback answers {code} in the cluster's place",
        "reason": reason,
        "code": code,
        "details": {"retryAfterSeconds": 7},
    }
    assert not [path for _, path, _ in cluster.requests if f"answered={code}" in path]


def test_without_a_time_to_retry_none_is_named(net: Network, client: httpx.Client) -> None:
    """An answer without `retry_after` has no such header and no such detail."""
    with net.answer([LINK.reads], 503):
        answer = client.get(PODS)
    assert "Retry-After" not in answer.headers
    assert answer.json() == status(503)
    assert "details" not in answer.json()


def test_an_answer_speaks_for_its_lane_alone(net: Network, client: httpx.Client) -> None:
    """Other lanes of the link, and the same lane of another link, reach the cluster; after the end this one does."""
    with net.answer([LINK.writes], 500), connect(net.access(OTHER, TOKEN)) as other:
        assert client.post(PODS).status_code == 500
        assert client.get(PODS).status_code == 200
        assert other.post(PODS).status_code == 200
    assert client.post(PODS).status_code == 200


def test_open_watches_do_not_notice(net: Network, watch: Begin, cluster: Upstream) -> None:
    """A watch that was open goes on through fifty answers on its own lane and all others, without losing an event."""
    open_before = watch(WORKLOADS)
    assert open_before.opened()
    with connect(net.access(LINK, TOKEN)) as other:
        for number in range(50):
            with net.answer(LINK.lanes, 410):
                assert other.get(WORKLOADS).status_code == 410
                cluster.publish(number)
    assert open_before.has(50)
    assert open_before.lines == [str(number) for number in range(50)]
    assert len(cluster.watchers) == 1


def test_after_so_many_times_requests_pass(net: Network, client: httpx.Client, cluster: Upstream) -> None:
    """An answer for two requests leaves the third to the cluster, body and all, while it is still in force."""
    with net.answer([LINK.writes], 429, times=2):
        assert [client.post(PODS, content=b"body").status_code for _ in range(3)] == [429, 429, 200]
        assert net.residue() == [f"{LINK.writes.name}: answered"]
    assert cluster.bodies[-1] == b"body"


def test_our_own_requests_are_answered_but_not_counted(net: Network, client: httpx.Client) -> None:
    """A shadow watch meets what the controller would, and does not use it up."""
    ours = {"User-Agent": f"{OWN_AGENT}-shadow"}
    with net.answer([LINK.reads], 503, times=1):
        assert client.get(PODS, headers=ours).status_code == 503
        assert client.get(PODS).status_code == 503
        assert client.get(PODS, headers=ours).status_code == 200


@pytest.mark.parametrize(("times", "message"), [(None, "only 0 of 1"), (2, "only 1 of 2")])
def test_an_answer_that_nobody_asked_for_has_not_happened(
    net: Network, client: httpx.Client, times: int | None, message: str
) -> None:
    """An answer that was given less often than it should is an error at its end, and gone."""
    with pytest.raises(FaultError, match=message), net.answer([LINK.reads], 500, times=times):
        if times:
            client.get(PODS)


def test_a_failing_block_is_not_blamed_on_the_answer(net: Network) -> None:
    """When the block fails, that nobody asked is no news."""
    with pytest.raises(ValueError, match="the scenario's"), net.answer([LINK.reads], 500):
        raise ValueError("the scenario's")


def test_of_two_answers_the_newer_is_given(net: Network, client: httpx.Client) -> None:
    """The newer of two answers on a lane comes first, and the end of one leaves the other in force."""
    with net.answer([LINK.reads], 500):
        with net.answer([LINK.reads], 503):
            assert client.get(PODS).status_code == 503
        assert client.get(PODS).status_code == 500


def test_an_answer_is_logged_as_any_other(net: Network, client: httpx.Client) -> None:
    """The access log has the request once, with its lane and the status that the client got."""
    with net.answer([LINK.reads], 503, times=1):
        client.get(f"{PODS}?answered=logged")
        client.get(f"{PODS}?passed=logged")
    answered, passed = (
        poll(partial(_logged, net.access_log, f"{way}=logged"), within=PATIENCE) for way in ("answered", "passed")
    )
    assert answered is not None
    assert passed is not None
    assert (answered["status"], answered["lane"]) == (503, "reads")
    assert (passed["status"], passed["lane"]) == (200, "reads")


def test_the_router_is_asked_whether_an_answer_is_gone(
    net: Network, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that the router still sees after its end is an error: it is asked, not assumed."""
    files = net._router.answers._files
    with pytest.raises(FaultError, match="still in force"), net.answer([LINK.reads], 500):
        client.get(PODS)
        monkeypatch.setattr(files, "remove", lambda name: None)
    assert net.residue() == [f"{LINK.reads.name}: answered"]
    (files.folder / net._proxies[LINK.reads]).unlink()


def test_pipes_are_not_answered(net: Network, cluster: Upstream) -> None:
    """The router is not in the way of a pipe, so an answer there is refused."""
    pipe = Pipe("worker1", "kueue", "webhooks")
    net.pipe(pipe, cluster.access.server.removeprefix("https://"))
    with pytest.raises(FaultError, match="not in the way"), net.answer(pipe.lanes, 500):
        pytest.fail("the fault must not start")


@pytest.mark.parametrize(
    ("query", "expired"),
    [
        ("watch=true&resourceVersion=99&timeoutSeconds=300", True),
        ("watch=true&resourceVersion=100", False),
        ("watch=true&resourceVersion=0", False),
        ("watch=true", False),
        ("watch=true&resourceVersion=", False),
        ("watch=true&resourceVersion=99&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", False),
    ],
)
def test_only_those_who_would_go_on_from_before_are_expired(query: str, expired: bool) -> None:
    """After revision 100 a watch from 99 is refused; those from 100 on, and those that begin anew, are not."""
    rule = Expired(100)
    reply = rule.reply(Asked("GET", f"{PODS}?{query}", "client-go"))
    assert (reply is not None) == expired


def test_a_watcher_that_was_refused_and_comes_again_is_one() -> None:
    """Of three watchers two are refused and one begins anew at once; all are back when the third has come."""
    rule = Expired(100)
    old, anew = Asked("GET", f"{PODS}?watch=1&resourceVersion=7", ""), Asked("GET", f"{PODS}?watch=1", "")
    back = []
    for asked in (old, anew, old, anew, anew):
        rule.reply(asked)
        back.append(rule.back)
    assert back == [1, 1, 2, 2, 3]
