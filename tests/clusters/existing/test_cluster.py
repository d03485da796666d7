"""An existing cluster is given back as it was, also where Kubernetes makes something of ours anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdback.certificates import Authority
from holdback.clusters.access import Access
from holdback.clusters.existing import cluster as module
from holdback.clusters.existing.cluster import ExistingCluster
from holdback.clusters.kinds import Kind
from holdback.errors import ClusterError, ConfigurationError
from holdback.process import Run, open_run

ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "ours"}}


class FakeApi:
    """Cluster roles, and nothing else; `after` is done when ours was removed."""

    def __init__(self) -> None:
        self.roles = {"theirs": "get"}
        self.deleted: list[str] = []

    def read(self, _path: str) -> dict[str, Any]:
        return {"gitVersion": "v1.35.4"}

    def list(self, _kind: Kind, *_: str, **__: str) -> list[dict[str, Any]]:
        return [{"kind": "ClusterRole", "metadata": {"name": name}, "rules": rule} for name, rule in self.roles.items()]

    def get(self, _kind: Kind, name: str, _namespace: str = "") -> dict[str, Any] | None:
        return {"metadata": {"name": name}} if name in self.roles else None

    def delete(self, _kind: Kind, name: str) -> None:
        self.deleted.append(name)
        del self.roles[name]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The cluster's; what other tests are about is taken for granted."""
    made = FakeApi()
    monkeypatch.setattr(module, "Api", lambda *_, **__: made)
    monkeypatch.setattr(module, "leftovers", lambda _: [])
    monkeypatch.setattr(module, "missing", lambda *_: [])
    monkeypatch.setattr(module, "check_reach", lambda *_, **__: None)
    monkeypatch.setattr(module, "remove", lambda *_, **__: made.roles.pop("ours", None))
    return made


@pytest.fixture
def told() -> list[str]:
    """What the user was told."""
    return []


@pytest.fixture
def cluster(api: FakeApi, told: list[str], tmp_path: Path) -> Iterator[ExistingCluster]:
    with open_run(logs=tmp_path) as run:
        yield made(run, told)


def made(run: Run, told: list[str]) -> ExistingCluster:
    access = Access("https://a", Authority.create("a").pem, "t")
    return ExistingCluster("one", "mine", access, run=run, address="127.0.0.1", say=told.append)


def test_it_is_given_back_as_it_was(cluster: ExistingCluster, api: FakeApi, told: list[str]) -> None:
    """What is to be made is told before, and at the end that all is as it was found; a second time is silent."""
    cluster.announce("a Kueue", [ROLE])
    assert told[0] == "one: context mine, Kubernetes v1.35.4, https://a, gets a Kueue"
    assert "1 ClusterRole" in told[1]
    api.roles["ours"] = "get"
    cluster.give_back()
    assert told[-1] == "one: context mine is as it was found (1 objects compared)"
    assert not cluster.lent
    cluster.give_back()
    assert api.roles == {"theirs": "get"}


def test_what_comes_back_goes_again(cluster: ExistingCluster, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object under a name of ours that a controller made anew, without our label, is removed as well."""
    cluster.announce("a Kueue", [ROLE])
    monkeypatch.setattr(module, "remove", lambda *_, **__: api.roles.update(ours="made anew"))
    cluster.give_back()
    assert api.deleted == ["ours"]
    assert api.roles == {"theirs": "get"}


def test_a_change_of_others_is_named(cluster: ExistingCluster, api: FakeApi) -> None:
    """What others have is compared, not touched; the cluster stays lent, for it was not given back as it was."""
    cluster.announce("a Kueue", [ROLE])
    api.roles |= {"theirs": "list", "new": "get"}
    with pytest.raises(ClusterError, match=r"context mine is not as it was found: ClusterRole new is new; .*changed"):
        cluster.give_back()
    assert api.deleted == []
    assert api.roles == {"theirs": "list", "new": "get"}


def test_what_is_there_already_is_not_touched(cluster: ExistingCluster, api: FakeApi) -> None:
    """An object of that name refuses the run, and nothing is removed at its end."""
    api.roles["ours"] = "somebody's"
    with pytest.raises(ConfigurationError, match="has 1 objects already that this run would make: ClusterRole ours"):
        cluster.announce("a Kueue", [ROLE])
    cluster.give_back()
    assert api.roles == {"theirs": "get", "ours": "somebody's"}
