from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdback.certificates import Authority
from holdback.clock import poll
from holdback.errors import ConfigurationError
from holdback.traffic.lanes import WATCHES, Lane, Link
from holdback.traffic.network import Network
from holdback.traffic.router import Entrance, Home, config
from tests.traffic.client import PATIENCE
from tests.traffic.client import client as connect
from tests.traffic.conftest import LINK, OTHER, TOKEN
from tests.traffic.upstream import Upstream

WORKLOADS = LINK.watch("workloads")
V1BETA1 = "/apis/kueue.x-k8s.io/v1beta1"

TABLE = [
    ("GET", f"{V1BETA1}/workloads?watch=true", WORKLOADS),
    ("GET", f"{V1BETA1}/namespaces/ns/workloads?watch=true", WORKLOADS),
    ("GET", f"{V1BETA1}/namespaces/ns/workloads?fieldSelector=metadata.name%3Da&watch=true", WORKLOADS),
    ("GET", f"{V1BETA1}/namespaces/ns/workloads?allowWatchBookmarks=true&watch=1", WORKLOADS),
    ("GET", f"{V1BETA1}/workloads?watch", WORKLOADS),
    ("GET", f"{V1BETA1}/watch/workloads", WORKLOADS),
    ("GET", f"{V1BETA1}/watch/namespaces/ns/workloads/a", WORKLOADS),
    ("GET", "/apis/batch/v1/jobs?watch=true", LINK.watch("jobs")),
    ("GET", "/apis/batch/v1/namespaces/jobs/jobs?watch=true", LINK.watch("jobs")),
    ("GET", "/api/v1/pods?watch=true", LINK.watches),
    ("GET", "/api/v1/namespaces/jobs/pods?watch=true", LINK.watches),
    ("GET", "/api/v1/namespaces?watch=true", LINK.watches),
    ("GET", "/api/v1/watch/namespaces/jobs", LINK.watches),
    ("GET", "/apis/batch/v1/cronjobs?watch=true", LINK.watches),
    ("GET", f"{V1BETA1}/workloads", LINK.reads),
    ("GET", f"{V1BETA1}/workloads?watch=false", LINK.reads),
    ("GET", f"{V1BETA1}/workloads?watch=0&limit=5", LINK.reads),
    ("GET", f"{V1BETA1}/namespaces/ns/workloads/a", LINK.reads),
    ("GET", f"{V1BETA1}/namespaces/ns/workloads/a/status", LINK.reads),
    ("GET", "/apis/batch/v1", LINK.reads),
    ("GET", "/api", LINK.reads),
    ("GET", "/openapi/v3", LINK.reads),
    ("GET", "/readyz", LINK.reads),
    ("GET", "/version", LINK.reads),
    ("HEAD", "/apis/batch/v1/jobs", LINK.reads),
    ("POST", "/apis/batch/v1/namespaces/ns/jobs", LINK.write("jobs")),
    ("PATCH", "/apis/batch/v1/namespaces/ns/jobs/a", LINK.write("jobs")),
    ("PATCH", "/apis/batch/v1/namespaces/ns/jobs/a/status", LINK.write("jobs")),
    ("DELETE", "/apis/batch/v1/namespaces/jobs/jobs?watch=true", LINK.write("jobs")),
    ("POST", "/apis/batch/v1/namespaces/jobs/cronjobs", LINK.writes),
    ("PATCH", "/api/v1/namespaces/jobs", LINK.writes),
    ("POST", "/api/v1/namespaces/jobs/events", LINK.writes),
    ("PUT", f"{V1BETA1}/namespaces/ns/workloads/a/status", LINK.writes),
    ("PATCH", f"{V1BETA1}/namespaces/ns/workloads/a", LINK.writes),
    ("DELETE", f"{V1BETA1}/namespaces/ns/workloads/a", LINK.writes),
    ("DELETE", f"{V1BETA1}/workloads?watch=true", LINK.writes),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", LINK.writes),
]


def _answered(client: httpx.Client, method: str, path: str) -> bool:
    try:
        with client.stream(method, path) as response:
            return response.status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(("method", "path", "lane"), TABLE, ids=lambda value: str(value).replace("/", "_"))
def test_a_request_takes_its_lane_and_no_other(
    net: Network, client: httpx.Client, method: str, path: str, lane: Lane
) -> None:
    """A request is answered when every lane but its own is cut, and is not when its own is."""
    with net.cut([other for other in LINK.lanes if other != lane]):
        assert _answered(client, method, path)
    with net.cut([lane]):
        assert not _answered(client, method, path)


def test_a_resource_without_a_lane_of_its_own_shares_the_watches() -> None:
    """`Link.watch` of a resource that is not watched apart is the lane of all other watches."""
    assert OTHER.watch("jobs").kind == WATCHES


def test_the_cluster_gets_the_clients_own_token(client: httpx.Client, cluster: Upstream) -> None:
    """The bearer token passes through the router unchanged."""
    client.get("/api/v1/pods?who=me")
    assert ("GET", "/api/v1/pods?who=me", f"Bearer {TOKEN}") in cluster.requests


@pytest.mark.parametrize("header", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer"}])
def test_no_token_no_way_in(net: Network, cluster: Upstream, header: dict[str, str]) -> None:
    """A request without a bearer token is refused by the router and never reaches the cluster."""
    access = net.access(LINK, "")
    with connect(access) as stranger:
        assert stranger.get("/api/v1/secrets?who=stranger", headers=header).status_code == 401
    assert not [path for _, path, _ in cluster.requests if "who=stranger" in path]


@pytest.mark.parametrize("token", ["another-token", "t", f"x{TOKEN}", f"{TOKEN}x", f"{TOKEN}.", "../tokens"])
def test_tokens_of_others_are_refused(net: Network, cluster: Upstream, token: str) -> None:
    """A bearer token that the network was not told of is refused by the router and never reaches the cluster."""
    access = replace(net.access(LINK, TOKEN), token=token)
    with connect(access) as stranger:
        assert stranger.get("/api/v1/secrets?who=other").status_code == 401
    assert not [path for _, path, _ in cluster.requests if "who=other" in path]


def test_a_long_token_is_let_in(net: Network) -> None:
    """A token of a thousand characters and dots, as service accounts have, opens the link."""
    token = f"{'a' * 500}.{'b' * 500}.{'c' * 86}"
    with connect(net.access(LINK, token)) as ours:
        assert ours.get("/api/v1/pods").status_code == 200


def test_a_token_without_an_end_is_refused(net: Network) -> None:
    """A token that the router could not know again is an error of configuration."""
    with pytest.raises(ConfigurationError, match="does not end"):
        net.access(LINK, "abc.")


def test_the_log_tells_who_asked_what_and_holds_no_token(net: Network, client: httpx.Client) -> None:
    """A request appears with client, cluster, lane, agent, status and duration; no log of the run has the token."""
    client.post("/api/v1/pods?marked=yes", headers={"User-Agent": "the-controller/1"}, content=b"x")
    line = poll(lambda: _logged(net.access_log, "marked=yes"), within=PATIENCE)
    assert line is not None
    told = {key: line[key] for key in ("client", "cluster", "lane", "agent", "status")}
    assert told == {
        "client": "kueue",
        "cluster": "worker1",
        "lane": "writes",
        "agent": "the-controller/1",
        "status": 200,
    }
    assert line["request"] == {"method": "POST", "uri": "/api/v1/pods?marked=yes"}
    assert 0 < line["duration"] < PATIENCE
    assert not [log.name for log in net.access_log.parent.iterdir() if TOKEN in log.read_text()]


def test_a_torn_answer_is_logged_with_its_lane(net: Network, client: httpx.Client) -> None:
    """A watch that broke off in the middle is in the log, with duration 0 and everything else."""
    path = "/api/v1/pods?watch=true&torn=yes"
    with pytest.raises(httpx.TransportError), client.stream("GET", path) as response, net.cut([LINK.watches]):
        response.read()
    line = poll(lambda: _logged(net.access_log, "torn=yes"), within=PATIENCE)
    assert line is not None
    assert (line["lane"], line["client"], line["duration"]) == (WATCHES, "kueue", 0)


def _logged(log: Path, mark: str) -> dict[str, Any] | None:
    """The first line with the mark; the last one of the log may be being written."""
    lines = [json.loads(line) for line in log.read_text().split("\n")[:-1] if mark in line]
    return lines[0] if lines else None


def test_only_the_owner_reads_the_log(net: Network) -> None:
    """The access log has mode 0600."""
    assert net.access_log.stat().st_mode & 0o777 == 0o600


def _config(*links: Link) -> dict[str, Any]:
    ca = Authority.create("one").pem + Authority.create("two").pem
    entrances = [
        Entrance(
            link,
            100 + index,
            {lane: 1000 * index + at for at, lane in enumerate(link.lanes)},
            {lane: f"{index}-{at}" for at, lane in enumerate(link.lanes)},
            "api.example",
            ca,
        )
        for index, link in enumerate(links)
    ]
    made = config(entrances, certificate=Path("/c"), key=Path("/k"), log=Path("/l"), home=Home(Path("/h")))
    assert json.loads(json.dumps(made)) == made
    return made


def test_nothing_listens_but_the_entrances_on_loopback() -> None:
    """There is no admin endpoint, and each server listens on its own loopback port alone, or on a private socket."""
    made = _config(LINK, OTHER)
    assert made["admin"]["disabled"]
    servers = made["apps"]["http"]["servers"].values()
    assert [server["listen"] for server in servers] == [
        ["unix//h/state.sock|0600"],
        ["127.0.0.1:100"],
        ["127.0.0.1:101"],
    ]
    assert all(server["automatic_https"] == {"disable": True} for server in servers)


def test_each_lane_leads_to_its_own_proxy_and_trusts_the_clusters_authorities() -> None:
    """Every route dials its lane's port, checks the cluster's name, and trusts each certificate of the bundle."""
    server = _config(LINK)["apps"]["http"]["servers"]["link-0"]
    proxies = [handler for route in server["routes"] for handler in route["handle"] if "upstreams" in handler]
    assert [proxy["upstreams"] for proxy in proxies] == [[{"dial": f"127.0.0.1:{at}"}] for at in range(6)]
    for proxy in proxies:
        tls = proxy["transport"]["tls"]
        assert tls["server_name"] == "api.example"
        assert len(set(tls["ca"]["trusted_ca_certs"])) == 2
