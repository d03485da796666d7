"""The driver cleans up after a trial whatever became of it, and says so when it cannot.

The clusters are dictionaries here, because the driver's decisions are the point; that real clusters get clean is
what every experiment shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdback.clusters.kinds import JOBS, Kind
from holdback.controllers.kueue import MultiKueue, MultiKueueWorld, multikueue
from holdback.controllers.kueue.kinds import CLUSTER_QUEUES, WORKLOADS
from holdback.errors import ClusterError, FaultError, HoldbackError, ProcessExited
from holdback.history.events import Event
from holdback.history.recorder import Recorder
from holdback.traffic.lanes import Link
from tests.controllers.kueue.moments import MANAGER, copy, manager

ARM = "control"
Object = dict[str, Any]


class FakeApi:
    """A cluster's objects; a finalizer keeps one until it is patched away, as in a real one."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.done: list[str] = []
        self.on_delete: Callable[[str, str], object] = lambda _plural, _name: None

    def put(self, kind: Kind, name: str, *, finalizer: str = "", owner: str = "") -> None:
        owners = [{"uid": owner}] if owner else []
        metadata = {"name": name, "uid": f"uid-{name}", "finalizers": [finalizer] * bool(finalizer)}
        self.objects[kind.plural, name] = {"metadata": {**metadata, "ownerReferences": owners}}

    def create(self, kind: Kind, body: Object, _namespace: str = "") -> Object:
        self.put(kind, body["metadata"]["name"])
        return self.objects[kind.plural, body["metadata"]["name"]]

    def get(self, kind: Kind, name: str, _namespace: str = "") -> Object | None:
        return self.objects.get((kind.plural, name))

    def list(self, kind: Kind, _namespace: str = "") -> list[Object]:
        return [found for (plural, _), found in self.objects.items() if plural == kind.plural]

    def patch(self, kind: Kind, name: str, patch: Object, _namespace: str = "") -> Object:
        self.done.append(f"patch {kind.plural} {name} {patch.get('spec', '')}")
        if kind is CLUSTER_QUEUES:
            return {}
        if (kind.plural, name) not in self.objects:
            raise ClusterError("not found", status=404)
        if patch.get("metadata") == {"finalizers": None}:
            self.objects[kind.plural, name]["metadata"]["finalizers"] = []
            self._delete(kind.plural, name)
        return {}

    def delete(self, kind: Kind, name: str, _namespace: str = "") -> bool:
        return self._delete(kind.plural, name)

    def delete_all(self, kind: Kind, _namespace: str) -> None:
        for plural, name in list(self.objects):
            if plural == kind.plural:
                self._delete(plural, name)

    def _delete(self, plural: str, name: str) -> bool:
        self.done.append(f"delete {plural} {name}")
        found = self.objects.get((plural, name))
        if found and not found["metadata"]["finalizers"]:
            del self.objects[plural, name]
            self.on_delete(plural, name)
        return found is not None


class FakeTrial:
    """Notes the steps, and what the clusters had been asked until then."""

    def __init__(self, world: World) -> None:
        self.id, self.arm = "t", ARM
        self.steps: dict[str, Object] = {}
        self.asked_before: dict[str, list[str]] = {}
        self._world = world

    def step(self, name: str, **detail: Any) -> None:
        self.steps[name] = detail
        self.asked_before[name] = [each for api in self._world.apis.values() for each in api.done]


class World:
    """A manager and two workers."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.apis = {name: FakeApi() for name in (MANAGER, "worker1", "worker2")}
        clusters = {name: SimpleNamespace(name=name, api=api) for name, api in self.apis.items()}
        links = (*(Link("kueue", worker) for worker in ("worker1", "worker2")), Link("kueue", MANAGER))
        self.trial = FakeTrial(self)
        world = SimpleNamespace(
            managers={ARM: clusters.pop(MANAGER)},
            workers=clusters,
            recorder=self.recorder,
            network=SimpleNamespace(links=links),
            links=lambda _arm: links[:2],
            check=self.check,
        )
        self.death: HoldbackError | None = None
        self.driver = MultiKueue(cast("MultiKueueWorld", world), self.trial)

    def check(self) -> None:
        if self.death:
            raise self.death

    def submit(self) -> multikueue.Job:
        """As `MultiKueue.submit`, with a Kueue that makes the Workload `job-a` at once."""
        api = self.apis[MANAGER]

        def create(kind: Kind, body: Object, _namespace: str = "") -> Object:
            made = FakeApi.create(api, kind, body)
            api.put(WORKLOADS, "job-a", owner=made["metadata"]["uid"])
            event = manager(1.0, change="ADDED")
            event.object["metadata"]["ownerReferences"] = [{"uid": made["metadata"]["uid"]}]
            self.recorder.record(event)
            return made

        setattr(api, "create", create)  # noqa: B010  only for this cluster
        return self.driver.submit()

    def when_asked(self, cluster: str, what: str, event: Event) -> None:
        """Whenever that cluster is asked to do that, this is seen."""
        original = getattr(self.apis[cluster], what)

        def asked(*arguments: Any) -> Object:
            self.recorder.record(event)
            done: Object = original(*arguments)
            return done

        setattr(self.apis[cluster], what, asked)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Nothing that is awaited comes later here, so nobody waits for it."""
    monkeypatch.setattr(multikueue, "_GONE_WITHIN", 0.0)
    monkeypatch.setattr(multikueue, "_EVICTED_WITHIN", 0.0)
    return World()


def test_a_job_is_followed_from_submission_to_a_worker(world: World) -> None:
    """The driver learns the Workload's name from its owner, and the worker from the manager alone."""
    job = world.submit()
    assert (job.namespace, job.workload) == (ARM, "job-a")
    assert ("jobs", job.name) in world.apis[MANAGER].objects
    elsewhere = copy(1.2, "worker2", "Admitted")
    elsewhere.object["status"]["clusterName"] = "worker2"
    world.recorder.record(elsewhere)
    world.recorder.record(manager(1.3, "Admitted"))
    with pytest.raises(ClusterError, match="admission was not seen within 0 s"):
        world.driver.admitted(job, within=0)
    world.recorder.record(manager(1.4, "Admitted", on="worker1"))
    assert world.driver.admitted(job, within=0) == "worker1"
    assert world.trial.steps["submit"]["client"] == "kueue"


def test_an_eviction_that_does_not_come_is_a_fault_that_did_not_fire(world: World) -> None:
    """Without its eviction a trial shows nothing, and one on another worker is not the one that was asked for."""
    job = world.submit()
    world.recorder.record(copy(1.2, "worker1", "Evicted"))  # from before
    world.when_asked("worker1", "patch", copy(2.0, "worker2", "Evicted"))
    with pytest.raises(FaultError, match="eviction on worker1 by drain was not seen"):
        world.driver.evict(job, on="worker1")


@pytest.mark.parametrize("how", ["evict", "preempt", "deactivate"])
def test_an_eviction_is_seen_on_its_worker(world: World, how: str) -> None:
    """Each way asks the named worker and returns once that worker shows the copy as evicted."""
    job = world.submit()
    ask = {"evict": "patch", "preempt": "create", "deactivate": "patch"}[how]
    world.apis["worker1"].put(WORKLOADS, "job-a")
    world.when_asked("worker1", ask, copy(2.0, "worker1", "Evicted", change="MODIFIED"))
    getattr(world.driver, how)(job, on="worker1")
    assert world.trial.steps["evict"]["on"] == "worker1"


def test_a_clean_world_is_called_clean(world: World) -> None:
    """When the controllers remove the copies with the Job, nothing is left and nothing is forced."""
    world.submit()
    assert not world.driver.is_clean
    worker = world.apis["worker1"]
    worker.put(WORKLOADS, "job-a")
    world.apis[MANAGER].on_delete = lambda _plural, _name: worker.objects.clear()
    world.driver.clean()
    assert world.driver.is_clean
    assert world.trial.steps["cleaned"] == {"left": []}
    assert worker.done == []


def test_a_dead_world_is_not_waited_for(world: World) -> None:
    """Once a process of the world is gone nothing is awaited and nothing cleaned: the world is thrown away."""
    job = world.submit()
    world.death = ProcessExited("kueue died")
    began = time.monotonic()
    with pytest.raises(ProcessExited):
        world.driver.admitted(job, within=60)
    asked = len(world.apis[MANAGER].done)
    with pytest.raises(ProcessExited):
        world.driver.clean()
    assert time.monotonic() - began < 10
    assert len(world.apis[MANAGER].done) == asked
    assert not world.driver.is_clean


def test_what_is_left_is_told_and_forced(world: World) -> None:
    """A copy that stays is named in the history, for `no_orphan`, and then removed with its finalizers."""
    world.submit()
    world.apis["worker2"].put(WORKLOADS, "job-a", finalizer="kueue.x-k8s.io/resource-in-use")
    world.driver.clean()
    assert world.trial.steps["cleaned"] == {"left": ["worker2 workloads job-a"]}
    assert world.apis["worker2"].objects == {}
    assert world.driver.is_clean


def test_what_goes_by_itself_meanwhile_is_no_failure(world: World) -> None:
    """An object that vanishes while it is being forced is as gone as any."""
    world.submit()
    worker = world.apis["worker2"]
    worker.put(WORKLOADS, "job-a")
    worker.put(JOBS, "a-job")
    worker.on_delete = lambda _plural, _name: worker.objects.clear()
    world.driver.clean()
    assert world.driver.is_clean


def test_what_resists_makes_the_world_dirty(world: World) -> None:
    """A copy that somebody makes again and again is an error that names it, and the driver is not clean."""
    world.submit()
    worker = world.apis["worker1"]
    worker.put(WORKLOADS, "job-a")
    worker.on_delete = lambda _plural, name: worker.put(WORKLOADS, name)
    with pytest.raises(ClusterError, match="resists removal: worker1 workloads job-a"):
        world.driver.clean()
    assert not world.driver.is_clean


def test_a_job_whose_workload_never_came_is_cleaned_up_too(world: World) -> None:
    """A submission that failed half-way leaves no Job behind."""
    with pytest.raises(ClusterError, match="a Workload for the Job was not seen"):
        world.driver.submit()
    assert world.apis[MANAGER].objects
    world.driver.clean()
    assert world.apis[MANAGER].objects == {}
    assert world.trial.steps["cleaned"] == {"left": []}
    assert world.driver.is_clean


def test_cleaning_begins_with_its_step(world: World) -> None:
    """The history says that the clean-up began before anything is taken back: what heals after is not its merit."""
    job = world.submit()
    with pytest.raises(FaultError):
        world.driver.evict(job, on="worker1")
    drained = [f"patch clusterqueues {ARM} {{'stopPolicy': 'HoldAndDrain'}}"]
    world.driver.clean()
    assert world.trial.asked_before["delete"] == drained
    assert world.apis["worker1"].done == [*drained, f"patch clusterqueues {ARM} {{'stopPolicy': 'None'}}"]


def test_a_preemptor_goes_with_its_workload(world: World) -> None:
    """No garbage collector runs: the preempting Job's own Workload is deleted with it, by its owner, and no other."""
    job = world.submit()
    with pytest.raises(FaultError):
        world.driver.preempt(job, on="worker1")
    worker = world.apis["worker1"]
    worker.put(WORKLOADS, "job-preemptor", owner=f"uid-{job.name}-preemptor")
    worker.put(WORKLOADS, "job-a", owner=f"uid-{job.name}")
    world.driver.clean()
    assert world.trial.steps["cleaned"] == {"left": ["worker1 workloads job-a"]}
