"""The probe is asked for real, and its absence is told; whatever comes of it, it is taken away again."""

from __future__ import annotations

import ssl
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from holdback.clusters.api import Api
from holdback.clusters.existing import reachability
from holdback.clusters.existing.reachability import check_reach
from holdback.clusters.kinds import VALIDATING_WEBHOOKS, Kind
from holdback.errors import ClusterError, ConfigurationError
from holdback.process import Run, open_run


class FakeCluster:
    """An API server that asks webhooks as a real one does, if it can reach them and knows of them."""

    def __init__(self, *, blind: bool = False, error: str = "") -> None:
        self.webhooks: dict[str, dict[str, Any]] = {}
        self.made: list[str] = []
        self.blind = blind
        self.error = error

    def create(self, kind: Kind, body: dict[str, Any], _namespace: str = "", *, dry_run: bool = False) -> None:
        if kind == VALIDATING_WEBHOOKS:
            self.webhooks[body["metadata"]["name"]] = body["webhooks"][0]
            return
        if not dry_run:
            self.made.append(kind.kind)
        if self.error:
            raise ClusterError(self.error, status=500)
        for hook in [] if self.blind else self.webhooks.values():
            assert hook["objectSelector"]["matchLabels"] == body["metadata"]["labels"]
            trust = ssl.create_default_context(cadata=b64decode(hook["clientConfig"]["caBundle"]).decode())
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}
            answer = httpx.post(hook["clientConfig"]["url"], json=review, verify=trust, trust_env=False)
            assert answer.json()["response"] == {"uid": "u", "allowed": True}

    def delete(self, kind: Kind, name: str) -> None:
        assert kind == VALIDATING_WEBHOOKS
        del self.webhooks[name]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with open_run(logs=tmp_path) as opened:
        yield opened


def test_a_cluster_that_reaches_us(run: Run) -> None:
    """It asks the webhook about an object that is not made, and the webhook's configuration is gone afterwards."""
    cluster = FakeCluster()
    check_reach(run, cast("Api", cluster), "127.0.0.1", context="mine")
    assert (cluster.made, cluster.webhooks) == ([], {})


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (FakeCluster(error="failed calling webhook: connection refused"), "connection refused"),
        (FakeCluster(blind=True), "it asked nobody within 0 s"),
    ],
)
def test_a_cluster_that_does_not(run: Run, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, words: str) -> None:
    """The error has the context, the address and the API server's own words."""
    monkeypatch.setattr(reachability, "_ASKED_WITHIN", 0.0)
    with pytest.raises(
        ConfigurationError, match=f"of context mine does not reach https://127.0.0.1:.*{words}"
    ) as error:
        check_reach(run, cast("Api", cluster), "127.0.0.1", context="mine")
    assert "--router-address" in error.value.remedy
    assert cluster.webhooks == {}


def test_another_refusal_is_not_taken_for_that(run: Run) -> None:
    """A quota or a policy that refuses the dry run is told as what it is."""
    cluster = FakeCluster(error="exceeded quota")
    with pytest.raises(ClusterError, match="exceeded quota"):
        check_reach(run, cast("Api", cluster), "127.0.0.1", context="mine")
    assert cluster.webhooks == {}


def test_an_address_that_is_not_ours(run: Run) -> None:
    """Where we cannot listen nothing is made at all."""
    cluster = FakeCluster()
    with pytest.raises(ConfigurationError, match=r"nothing of ours can listen on 192.0.2.1"):
        check_reach(run, cast("Api", cluster), "192.0.2.1", context="mine")
    assert cluster.webhooks == {}
