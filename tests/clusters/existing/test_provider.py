"""Existing clusters are lent to one world at a time, and all of them given back whatever becomes of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from holdback.clusters.access import Access
from holdback.clusters.existing import provider as module
from holdback.clusters.existing.contexts import Contexts
from holdback.clusters.existing.provider import ExistingProvider
from holdback.errors import ClusterError, ConfigurationError
from holdback.process import Run, open_run

NAMES = ("a", "b", "c")
CONTEXTS = Contexts(NAMES[:2], NAMES[2:], NAMES)


class FakeCluster:
    """A cluster of its own behind each context, unless told otherwise."""

    same = False
    broken: tuple[str, ...] = ()
    given_back: ClassVar[list[str]]
    lent = True

    def __init__(self, name: str, context: str, *_: object, **__: object) -> None:
        self.name = name
        self.context = context
        self.api = SimpleNamespace(close=lambda: None)

    def identity(self) -> str:
        return "one" if self.same else self.context

    def give_back(self) -> None:
        if self.context in self.broken:
            raise ClusterError(f"{self.context} is not as it was")
        self.given_back.append(self.context)


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> type[FakeCluster]:
    """What the provider takes for existing clusters."""

    class Fresh(FakeCluster):
        given_back: ClassVar[list[str]] = []

    monkeypatch.setattr(module, "ExistingCluster", Fresh)
    monkeypatch.setattr(module, "access_to", lambda *_: Access("https://127.0.0.1:6443", "", "t"))
    return Fresh


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with open_run(logs=tmp_path) as opened:
        yield opened


def make(run: Run, **rest: Any) -> ExistingProvider:
    return ExistingProvider(run, CONTEXTS, say=lambda _: None, **rest)


def test_the_address_is_the_one_that_leads_there(
    run: Run, clusters: type[FakeCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one given it is ours on the way to the first cluster; a name that nobody knows is told."""
    assert make(run).address == "127.0.0.1"
    assert make(run, address="192.0.2.7").address == "192.0.2.7"
    monkeypatch.setattr(module, "access_to", lambda *_: Access("https://nowhere.invalid", "", "t"))
    with pytest.raises(ConfigurationError, match=r"no way to https://nowhere.invalid"):
        make(run)


def test_one_world_at_a_time(run: Run, clusters: type[FakeCluster]) -> None:
    """A second world is refused while the first lasts, and welcome afterwards, also when the first one failed."""
    provider = make(run)
    with pytest.raises(ZeroDivisionError), provider.clusters(["x"]) as lent:
        assert list(lent) == ["x"]
        with pytest.raises(ConfigurationError, match="another world"), provider.clusters(["y"]):
            pass
        raise ZeroDivisionError
    with provider.clusters(["x", "y"], ["z"]):
        pass
    assert clusters.given_back[0] == "a"
    assert sorted(clusters.given_back[1:]) == list(NAMES)


def test_two_contexts_of_one_cluster(run: Run, clusters: type[FakeCluster]) -> None:
    """They are told apart by what is in the cluster, not by their names; nothing was lent."""
    clusters.same = True
    provider = make(run)
    with (
        pytest.raises(ConfigurationError, match="contexts a and b are the same cluster"),
        provider.clusters(["x", "y"]),
    ):
        pass
    assert clusters.given_back == []
    with provider.clusters(["x"]):
        pass


@pytest.mark.parametrize("broken", [("b",), ("a", "b")])
def test_all_are_given_back(run: Run, clusters: type[FakeCluster], broken: tuple[str, ...]) -> None:
    """One that cannot be given back keeps none of the others, and every failure is told."""
    clusters.broken = broken
    expected = ClusterError if len(broken) == 1 else ExceptionGroup
    with pytest.raises(expected) as error, make(run).clusters(["x", "y"], ["z"]):
        pass
    told = error.value.exceptions if isinstance(error.value, ExceptionGroup) else [error.value]
    assert [str(each) for each in told] == [f"{name} is not as it was" for name in broken]
    assert set(clusters.given_back) == set(NAMES) - set(broken)
