"""The driver of pods writes as a careful controller does, waits for what it says, and leaves nothing behind.

The cluster is a dictionary here that refuses writes made for an older version, as a real one does; that the real
Kueue behaves as expected is what the experiments show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdback.clusters.kinds import PODS, Kind
from holdback.controllers.kueue import Pods, PodsWorld, pods
from holdback.controllers.kueue.kinds import WORKLOADS
from holdback.controllers.kueue.pods import GATE, KUEUE_FINALIZER, Pod
from holdback.errors import ClusterError, HoldbackError, ProcessExited
from holdback.history.events import ObjectChange, Request
from holdback.history.recorder import Recorder
from holdback.traffic.lanes import Link

ARM, CLUSTER, CLIENT = "control", "pods-control", "kueue-pods-control"
OURS, ANOTHER = "example/ours", "example/another"
Object = dict[str, Any]


class Cluster:
    """Objects with versions; whatever somebody does `meanwhile` happens between our reading and our writing."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.meanwhile: Iterator[Callable[[], object]] = iter(())
        self.log: list[str] = []
        self._version = 0

    def change(self, kind: Kind, name: str, **metadata: Any) -> Object:
        """As anybody may."""
        self._version += 1
        found = self.objects.setdefault((kind.plural, name), {"metadata": {"name": name, "uid": f"uid-{name}"}})
        found["metadata"] |= {**metadata, "resourceVersion": str(self._version)}
        if found["metadata"].get("deletionTimestamp") and not found["metadata"].get("finalizers"):
            del self.objects[kind.plural, name]
        return _copy(found)

    def finalizers(self, name: str) -> list[str]:
        return list(self.objects[PODS.plural, name]["metadata"].get("finalizers") or ())

    def create(self, kind: Kind, body: Object) -> Object:
        self.objects[kind.plural, body["metadata"]["name"]] = _copy(body)
        name = body["metadata"]["name"]
        return self.change(kind, name, uid=f"uid-{name}", finalizers=[KUEUE_FINALIZER])

    def get(self, kind: Kind, name: str, _namespace: str) -> Object | None:
        found = self.objects.get((kind.plural, name))
        return _copy(found) if found else None

    def list(self, kind: Kind, _namespace: str) -> list[Object]:
        return [_copy(found) for (plural, _), found in self.objects.items() if plural == kind.plural]

    def patch(self, kind: Kind, name: str, patch: Object, _namespace: str, subresource: str = "") -> Object:
        self.log.append(f"patch {name} {subresource}".strip())
        next(self.meanwhile, lambda: None)()
        found = self.objects.get((kind.plural, name))
        if found is None:
            raise ClusterError("not found", status=404)
        metadata = dict(patch.get("metadata", {}))
        if metadata.pop("resourceVersion", None) not in {None, found["metadata"]["resourceVersion"]}:
            raise ClusterError("the object has been modified", status=409)
        found |= {key: value for key, value in patch.items() if key != "metadata"}
        return self.change(kind, name, **metadata)

    def delete(self, kind: Kind, name: str, _namespace: str) -> bool:
        self.change(kind, name, deletionTimestamp="now")
        return True

    def delete_all(self, kind: Kind, _namespace: str) -> None:
        for plural, name in list(self.objects):
            if plural == kind.plural:
                self.change(kind, name, deletionTimestamp="now")


def _copy(found: Object) -> Object:
    return {**found, "metadata": dict(found["metadata"])}


class World:
    """One arm, its driver, and the steps that it wrote with what had been asked until then."""

    id, arm = "trial-of-a-long-name-001", ARM

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.recorder = Recorder()
        self.steps: list[tuple[str, Object, int]] = []
        world = SimpleNamespace(
            clusters={ARM: SimpleNamespace(api=self.cluster)},
            links={ARM: Link(CLIENT, CLUSTER)},
            recorder=self.recorder,
            check=self.check,
        )
        self.death: HoldbackError | None = None
        self.driver = Pods(cast("PodsWorld", world), self)

    def check(self) -> None:
        if self.death:
            raise self.death

    def step(self, name: str, **detail: Any) -> None:
        self.steps.append((name, detail, len(self.cluster.log)))

    def told(self, name: str) -> Object:
        return next(detail for each, detail, _ in reversed(self.steps) if each == name)

    def sees(self, kind: Kind, name: str, namespace: str = ARM, **rest: Any) -> None:
        """Our watch shows an object."""
        metadata = {"name": name, "namespace": namespace, **rest.pop("metadata", {})}
        found = {"metadata": metadata, "spec": {}, **rest}
        self.recorder.record(ObjectChange(1.0, "truth", CLUSTER, kind.plural, "MODIFIED", found))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(pods, "_QUIET", 0.05)
    return World()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is awaited in vain. Whatever comes may take its time, for a busy machine does."""
    for patience in ("_GONE_WITHIN", "_WRITTEN_WITHIN"):
        monkeypatch.setattr(pods, patience, 0.05)


@pytest.fixture
def pod(world: World) -> Pod:
    return world.driver.submit()[0]


def test_pods_have_short_names_of_their_own_and_a_group_shares_a_label(world: World) -> None:
    """Pods of one trial never share a name, and those of a group say which group it is and how large."""
    alone, group = world.driver.submit(2), world.driver.submit(3, grouped=True)
    assert len({pod.name for pod in (*alone, *group)}) == 5
    assert all(len(pod.name) < 20 for pod in (*alone, *group))
    assert {pod.group for pod in alone} == {""}
    (name,) = {pod.group for pod in group}
    for pod in group:
        metadata = world.cluster.objects[PODS.plural, pod.name]["metadata"]
        assert metadata["labels"]["kueue.x-k8s.io/pod-group-name"] == name
        assert metadata["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "3"


def test_an_owner_touches_its_own_finalizer_alone(world: World, pod: Pod) -> None:
    """Adding twice adds once, and removing leaves Kueue's finalizer and another owner's."""
    for finalizer in (OURS, OURS, ANOTHER):
        world.driver.add([pod], finalizer)
    assert world.cluster.finalizers(pod.name) == [KUEUE_FINALIZER, OURS, ANOTHER]
    world.driver.remove([pod], OURS)
    assert world.cluster.finalizers(pod.name) == [KUEUE_FINALIZER, ANOTHER]


def test_a_conflict_is_answered_by_looking_again(world: World, pod: Pod) -> None:
    """What others wrote between our reading and our writing stays, and the conflicts are counted."""
    world.cluster.meanwhile = iter(
        [lambda: world.cluster.change(PODS, pod.name, finalizers=[KUEUE_FINALIZER, ANOTHER])] * 2
    )
    world.driver.add([pod], OURS)
    assert world.cluster.finalizers(pod.name) == [KUEUE_FINALIZER, ANOTHER, OURS]
    version = world.cluster.objects[PODS.plural, pod.name]["metadata"]["resourceVersion"]
    assert world.told("add-done") == {"pod": pod.name, "finalizer": OURS, "version": version, "conflicts": 2}


def test_what_is_asked_is_written_down_first(world: World, pod: Pod) -> None:
    """The step of a request comes before the request, so that no watch shows its effect earlier."""
    world.driver.add([pod], OURS)
    world.driver.finish([pod])
    asked = {name: requests for name, _, requests in world.steps}
    assert asked == {"submit": 0, "add": 0, "add-done": 1, "finish": 1}
    assert world.cluster.log == [f"patch {pod.name}", f"patch {pod.name} status"]


def test_what_is_not_there_needs_no_removal(world: World, pod: Pod) -> None:
    """Removing a finalizer that is not there, or from a pod that is gone, writes nothing and says which it was."""
    world.driver.remove([pod], OURS)
    assert world.told("remove-done")["version"] == "unchanged"
    world.cluster.objects.clear()
    world.driver.remove([pod], OURS)
    assert world.told("remove-done")["version"] == "gone"
    assert world.cluster.log == []


@pytest.mark.usefixtures("impatient")
def test_endless_conflicts_are_an_error(world: World, pod: Pod) -> None:
    """A write that meets nothing but conflicts ends with an error."""
    world.cluster.meanwhile = iter(lambda: lambda: world.cluster.change(PODS, pod.name), None)
    with pytest.raises(ClusterError, match="nothing but conflicts"):
        world.driver.add([pod], OURS)


def test_admitted_means_all_of_them(world: World) -> None:
    """One pod whose gate is gone does not stand for another, nor does one of another namespace."""
    first, second = world.driver.submit(2)
    world.sees(PODS, first.name)
    world.sees(PODS, second.name, spec={"schedulingGates": [{"name": GATE}]})
    world.sees(PODS, second.name, namespace="another")
    with pytest.raises(ClusterError, match="1 of 2 pods were not admitted"):
        world.driver.admitted([first, second], within=0.05)
    world.sees(PODS, second.name)
    world.driver.admitted([first, second], within=1)


def test_a_dead_world_is_not_waited_for(world: World, pod: Pod) -> None:
    """Once a process of the world is gone no pod is awaited and nothing is cleaned: the world is thrown away."""
    world.death = ProcessExited("kueue died")
    began = time.monotonic()
    with pytest.raises(ProcessExited):
        world.driver.admitted([pod], within=60)
    with pytest.raises(ProcessExited):
        world.driver.clean()
    assert time.monotonic() - began < 10
    assert not world.driver.is_clean


def test_admitted_waits_until_kueue_rests(world: World, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as Kueue goes on writing to pods, up to the deadline, the scenario does not go on."""
    world.sees(PODS, pod.name)
    asked: list[int] = []
    original = world.recorder.await_event

    def busy(*arguments: Any, within: float, mark: int, **more: Any) -> Any:
        if within == pods._QUIET and len(asked) < 3:
            asked.append(mark)
            path = f"/api/v1/namespaces/{ARM}/pods/{pod.name}"
            world.recorder.record(Request(1.0, CLIENT, CLUSTER, "PATCH", path, 200, 0.1))
        return original(*arguments, within=within, mark=mark, **more)

    monkeypatch.setattr(world.recorder, "await_event", busy)
    world.driver.admitted([pod], within=60)
    assert len(asked) == 3


@pytest.mark.parametrize("grouped", [False, True])
def test_declared_finished_is_about_the_pods_own_workload(world: World, grouped: bool) -> None:
    """A lone pod's Workload is the one that it owns, a group's the one of its name; others say nothing."""
    pod = world.driver.submit(grouped=grouped)[0]
    done: Object = {"status": {"conditions": [{"type": "Finished", "status": "True"}]}}
    mine: Object = {"metadata": {"ownerReferences": [{"uid": pod.uid}]}}
    world.sees(WORKLOADS, "another", metadata={"ownerReferences": [{"uid": "uid-another"}]}, **done)
    world.sees(WORKLOADS, pod.group or "pod-a", **mine)
    with pytest.raises(ClusterError, match="not declared finished"):
        world.driver.declared_finished([pod], within=0.05)
    world.sees(WORKLOADS, pod.group or "pod-a", **mine, **done)
    world.driver.declared_finished([pod], within=1)


def test_clean_up_removes_foreign_finalizers_again_and_again(
    world: World, pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finalizer that a careless Kueue brings back during the clean-up does not keep the pod."""
    world.driver.add([pod], OURS)
    returns = iter([[OURS], [OURS], []])
    listed = world.cluster.list

    def careless(kind: Kind, namespace: str) -> list[Object]:
        found = world.cluster.objects.get((PODS.plural, pod.name))
        if kind is PODS and found and found["metadata"].get("deletionTimestamp"):
            world.cluster.change(PODS, pod.name, finalizers=next(returns))
        return listed(kind, namespace)

    monkeypatch.setattr(world.cluster, "list", careless)
    world.driver.clean()
    assert world.told("cleaned") == {"left": []}
    assert world.driver.is_clean


@pytest.mark.usefixtures("impatient")
def test_what_kueue_never_lets_go_of_is_removed_by_force_and_told(world: World, pod: Pod) -> None:
    """What is left after the clean-up is written down before it is removed by force."""
    assert not world.driver.is_clean
    world.driver.clean()
    assert world.told("cleaned") == {"left": [f"pods {pod.name}"]}
    assert world.cluster.objects == {}
    assert world.driver.is_clean


@pytest.mark.usefixtures("impatient")
def test_what_resists_is_an_error(world: World, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that not even force removes leaves the driver unclean, so that the world is given up."""
    monkeypatch.setattr(world.cluster, "patch", lambda *_: {})
    with pytest.raises(ClusterError, match=f"resists removal: pods {pod.name}"):
        world.driver.clean()
    assert not world.driver.is_clean


def test_clean_up_begins_once_kueue_is_done(world: World, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Kueue does about a finished pod is awaited before anything is deleted."""
    world.driver.finish([pod])
    patient = iter([False, False, True])
    listed = world.cluster.list

    def releasing(kind: Kind, namespace: str) -> list[Object]:
        if next(patient, False):
            world.cluster.change(PODS, pod.name, finalizers=[])
        return listed(kind, namespace)

    monkeypatch.setattr(world.cluster, "list", releasing)
    monkeypatch.setattr(pods, "_LET_GO_WITHIN", 60.0)
    world.driver.clean()
    assert world.told("cleaned") == {"left": []}


def test_a_pause_is_a_step(world: World) -> None:
    """Time that a scenario lets pass is part of its history."""
    world.driver.pause(0.001)
    assert world.told("pause") == {"seconds": 0.001}
