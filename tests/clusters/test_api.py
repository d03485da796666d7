"""The client asks what it means and tells what the server said."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from holdback.clock import FakeClock
from holdback.clusters import Access, Api
from holdback.clusters.kinds import JOBS, NAMESPACES, PODS
from holdback.errors import ClusterError
from tests.clusters.server import Answer, Scripted


def _yes(answer: Answer) -> None:
    answer.say({"kind": "Status", "status": "Success"})


def test_absence_is_no_error(server: Scripted) -> None:
    """What is not there is None to get and False to delete; any other refusal is an error with its status."""
    api = Api(server.access)
    server.replies += [lambda answer: answer.refuse(404, "not found")] * 2
    assert api.get(JOBS, "a", "x") is None
    assert api.delete(JOBS, "a", "x") is False
    for method in (api.get, api.delete):
        server.replies.append(lambda answer: answer.refuse(403, "jobs is forbidden"))
        with pytest.raises(
            ClusterError, match=r"/apis/batch/v1/namespaces/x/jobs/a: HTTP 403: jobs is forbidden"
        ) as error:
            method(JOBS, "a", "x")
        assert error.value.status == 403


def test_who_asks(server: Scripted) -> None:
    """Every request carries the token and the agent's name."""
    server.replies.append(_yes)
    Api(server.access, agent="shadow").get(PODS, "a", "x")
    assert server.asked[0].headers["Authorization"] == "Bearer s3cret"
    assert server.asked[0].headers["User-Agent"] == "shadow"


def test_a_token_that_is_renewed(server: Scripted) -> None:
    """Every request carries the token of its moment, a watch's connections too."""
    tokens = iter(["first", "second", "third", "fourth"])
    api = Api(replace(server.access, renew=lambda: next(tokens)))
    server.replies += [_yes, _yes, lambda answer: answer.say({"items": [], "metadata": {"resourceVersion": "5"}})]
    stop = threading.Event()

    def end(answer: Answer) -> None:
        stop.set()
        answer.hang_up()

    server.replies.append(end)
    for _ in range(2):
        api.get(PODS, "a", "x")
    assert list(api.watch(PODS, stop=stop)) == []
    told = [asked.headers["Authorization"] for asked in server.asked]
    assert told == ["Bearer first", "Bearer second", "Bearer third", "Bearer fourth"]


def test_no_answer(server: Scripted) -> None:
    """A server that does not answer is an error of ours with status 0, and never asked twice by itself."""
    server.replies.append(lambda answer: answer.hang_up())
    with pytest.raises(ClusterError, match="no answer from") as error:
        Api(server.access).create(NAMESPACES, {"metadata": {"name": "a"}})
    assert error.value.status == 0
    assert len(server.asked) == 1


def _later(answer: Answer) -> None:
    answer.refuse(429, "storage is (re)initializing", {"Retry-After": "2"})


def test_a_server_that_asks_for_a_later_try(server: Scripted) -> None:
    """Whatever the request, it comes back when the server says so; one that asks for more than patience is an error."""
    clock = FakeClock()
    api = Api(server.access, clock=clock)
    for ask in (
        lambda: api.list(PODS),
        lambda: api.create(NAMESPACES, {"metadata": {"name": "a"}}),
        lambda: api.patch(PODS, "a", {"a": 1}, "x"),
        lambda: api.delete(PODS, "a", "x"),
    ):
        began, asked = clock.monotonic(), len(server.asked)
        server.replies += [_later, _later, lambda answer: answer.say({"items": []})]
        ask()
        first, *others = server.asked[asked:]
        assert others == [first, first]
        assert clock.monotonic() - began == 4
    server.replies += [_later] * 50
    with pytest.raises(ClusterError, match="HTTP 429: storage is") as error:
        api.list(PODS)
    assert error.value.status == 429


def test_whether_a_kind_is_served_is_not_waited_for(server: Scripted) -> None:
    """A kind that is not known or not ready is not served, and that is told at once; another refusal is an error."""
    clock = FakeClock()
    api = Api(server.access, clock=clock)
    began = clock.monotonic()
    server.replies += [_later, lambda answer: answer.refuse(404, "not found"), lambda answer: answer.say({"items": []})]
    assert [api.serves(PODS) for _ in range(3)] == [False, False, True]
    server.replies.append(lambda answer: answer.refuse(403, "pods is forbidden"))
    with pytest.raises(ClusterError, match=r"GET /api/v1/pods: HTTP 403: pods is forbidden"):
        api.serves(PODS)
    assert len(server.asked) == 4
    assert clock.monotonic() == began


def test_a_server_that_only_refuses(server: Scripted) -> None:
    """A 429 that does not say when to come back (an eviction that a budget forbids) is an error at once."""
    server.replies.append(lambda answer: answer.refuse(429, "cannot evict"))
    with pytest.raises(ClusterError, match="HTTP 429: cannot evict"):
        Api(server.access).list(PODS)
    assert len(server.asked) == 1


def test_an_answer_that_is_no_status(server: Scripted) -> None:
    """A refusal by something that is no API server (a proxy, say) is quoted as it is."""

    def gateway(answer: Answer) -> None:
        answer.send_response(502)
        answer.send_header("Content-Length", "11")
        answer.end_headers()
        answer.wfile.write(b"bad gateway")

    server.replies.append(gateway)
    with pytest.raises(ClusterError, match="HTTP 502: bad gateway"):
        Api(server.access).list(PODS)


@pytest.mark.parametrize(
    ("patch", "content"),
    [({"a": 1}, "application/merge-patch+json"), ([{"op": "remove", "path": "/a"}], "application/json-patch+json")],
)
def test_patches(server: Scripted, patch: Any, content: str) -> None:
    """A dict goes as a merge patch, a list as a JSON patch, to the part that is named."""
    server.replies.append(_yes)
    Api(server.access).patch(PODS, "a", patch, "x", "status")
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("PATCH", "/api/v1/namespaces/x/pods/a/status")
    assert asked.headers["Content-Type"] == content
    assert asked.body == patch


@pytest.mark.parametrize(
    ("api_version", "kind", "namespace", "plural", "path"),
    [
        ("v1", "ConfigMap", "x", None, "/api/v1/namespaces/x/configmaps/a"),
        ("kueue.x-k8s.io/v1beta2", "ClusterQueue", "", None, "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/a"),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "x",
            None,
            "/apis/networking.k8s.io/v1/namespaces/x/networkpolicies/a",
        ),
        ("networking.k8s.io/v1", "IngressClass", "", None, "/apis/networking.k8s.io/v1/ingressclasses/a"),
        ("g.io/v1", "Gateway", "x", None, "/apis/g.io/v1/namespaces/x/gateways/a"),
        ("g.io/v1", "Fish", "x", "fish", "/apis/g.io/v1/namespaces/x/fish/a"),
    ],
)
def test_apply_goes_to_the_kinds_path(  # noqa: PLR0917
    server: Scripted, api_version: str, kind: str, namespace: str, plural: str | None, path: str
) -> None:
    """Server-side apply finds the path from the object alone, and is forced."""
    server.replies.append(_yes)
    metadata = {"name": "a", **({"namespace": namespace} if namespace else {})}
    Api(server.access).apply({"apiVersion": api_version, "kind": kind, "metadata": metadata}, plural=plural)
    asked = server.asked[0]
    assert (asked.path, asked.query) == (path, {"fieldManager": "holdback", "force": "true"})
    assert asked.headers["Content-Type"] == "application/apply-patch+yaml"


def test_delete_all_goes_through_the_namespaces(server: Scripted) -> None:
    """Without a namespace, a namespaced kind is deleted in each namespace that has one, by its labels."""
    found = [{"metadata": {"name": name, "namespace": namespace}} for name, namespace in ("ax", "bx", "ay")]
    server.replies += [lambda answer: answer.say({"items": found}), _yes, _yes]
    Api(server.access).delete_all(PODS, labels="a=b")
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("GET", "/api/v1/pods"),
        ("DELETE", "/api/v1/namespaces/x/pods"),
        ("DELETE", "/api/v1/namespaces/y/pods"),
    ]
    assert {asked.query["labelSelector"] for asked in server.asked} == {"a=b"}


def test_listed_objects_say_what_they_are(server: Scripted) -> None:
    """The API leaves kind and version out of listed objects; we do not."""
    server.replies.append(lambda answer: answer.say({"items": [{"metadata": {"name": "a"}}]}))
    assert Api(server.access).list(JOBS) == [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}]


def test_a_proxy_of_the_environment_is_not_used(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests to clusters never go through HTTPS_PROXY."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    server.replies.append(_yes)
    assert Api(server.access).get(PODS, "a", "x")


def test_ready(server: Scripted) -> None:
    """Ready means that the server says so; a refusal or silence is a plain no."""
    api = Api(server.access)
    server.replies += [_yes, lambda answer: answer.refuse(500, "not yet"), lambda answer: answer.hang_up()]
    assert [api.ready() for _ in range(3)] == [True, False, False]
    assert not Api(Access("https://127.0.0.1:9", server.access.ca, "")).ready()


def test_labels_of_what_we_make(server: Scripted) -> None:
    """Every object that is created or applied carries them beside its own; a question to the server does not."""
    api = Api(server.access, labels={"ours": "yes"})
    server.replies += [_yes] * 3
    api.create(PODS, {"metadata": {"name": "a", "labels": {"app": "b"}}}, "x")
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    api.create(PODS, {"metadata": {}}, "x")
    labels = [asked.body["metadata"].get("labels") for asked in server.asked]
    assert labels == [{"app": "b", "ours": "yes"}, {"ours": "yes"}, None]


def test_a_dry_run(server: Scripted) -> None:
    """The server is told to keep nothing."""
    server.replies += [_yes] * 2
    api = Api(server.access)
    api.create(NAMESPACES, {"metadata": {"name": "a"}}, dry_run=True)
    api.create(NAMESPACES, {"metadata": {"name": "a"}})
    assert [asked.query.get("dryRun") for asked in server.asked] == ["All", None]
