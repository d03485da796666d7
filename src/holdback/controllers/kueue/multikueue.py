"""What a scenario does with MultiKueue: submit Jobs, see them admitted, evict them on a worker, clean up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from holdback.clock import poll
from holdback.clusters.api import Api
from holdback.clusters.kinds import JOBS, Kind
from holdback.controllers.kueue import objects
from holdback.controllers.kueue.kinds import CLUSTER_QUEUES, WORKLOADS
from holdback.controllers.kueue.steps import Steps
from holdback.controllers.kueue.workloads import cluster_name, is_true, owner_uid
from holdback.controllers.kueue.world import MultiKueueWorld
from holdback.errors import ClusterError, ConfigurationError, FaultError
from holdback.history.events import Event, ObjectChange, Request
from holdback.traffic.lanes import Link

__all__ = ["Job", "MultiKueue"]

_EVICTED_WITHIN = 15.0
_GONE_WITHIN = 20.0


@dataclass(frozen=True, slots=True)
class Job:
    """A submitted Job; `workload` is the name of its Workload on the manager and of its copies on the workers."""

    name: str
    namespace: str
    workload: str


class MultiKueue:
    """Drives one arm of a `MultiKueueWorld` for one trial."""

    def __init__(self, world: MultiKueueWorld, trial: Steps) -> None:
        self._world = world
        self._trial = trial
        self._manager = world.managers[trial.arm]
        self._jobs: list[Job] = []
        self._drained: list[str] = []
        self._preemptors: list[tuple[str, str]] = []
        self._mark: int | None = None
        self.is_clean = True
        """Whether nothing of the trial is left; False from the first Job until `clean` has succeeded."""

    @property
    def links(self) -> tuple[Link, ...]:
        """From this arm's manager to each worker."""
        return self._world.links(self._trial.arm)

    def link(self, worker: str) -> Link:
        """From this arm's manager to that worker."""
        return next(link for link in self.links if link.cluster == worker)

    @property
    def own_link(self) -> Link:
        """From this arm's manager to its own API server."""
        client = self.links[0].client
        return next(link for link in self._world.network.links if (link.client, link.cluster) == (client, self.manager))

    @property
    def manager(self) -> str:
        """The name of this arm's manager cluster."""
        return self._manager.name

    def submit(self, *, cpu: int = 1) -> Job:
        """Create a Job that MultiKueue dispatches; returns once its Workload is there.

        Raises:
            ClusterError: refused, or Kueue made no Workload within 15 s.
        """
        arm = self._trial.arm
        self.is_clean = False
        if self._mark is None:
            self._mark = self._world.recorder.mark()
        name = objects.short_name(self._trial.id, len(self._jobs))
        made = self._manager.api.create(JOBS, objects.job(name, arm, cpu=cpu, managed=True), arm)
        uid = made["metadata"]["uid"]
        workload = self._await(
            lambda change: change.cluster == self.manager and owner_uid(change.object) == uid,
            within=_EVICTED_WITHIN,
            what="a Workload for the Job",
        )
        job = Job(name, arm, workload.name)
        self._jobs.append(job)
        self._trial.step(
            "submit",
            job=name,
            workload=job.workload,
            namespace=arm,
            manager=self.manager,
            workers=sorted(self._world.workers),
            client=self.links[0].client,
        )
        return job

    def admitted(self, job: Job, *, within: float) -> str:
        """Wait until a worker has admitted the Job and the manager knows; returns that worker's name.

        Raises:
            ClusterError: not within that many seconds.
        """
        change = self._await(
            lambda change: (
                change.cluster == self.manager
                and change.name == job.workload
                and is_true(change.object, "Admitted")
                and bool(cluster_name(change.object))
            ),
            within=within,
            what="the Job's admission",
        )
        worker = cluster_name(change.object)
        self._trial.step("admitted", workload=job.workload, worker=worker)
        return worker

    def await_idle(self, *, seconds: float = 0.5, within: float = 15.0) -> None:
        """Wait until the manager's Kueue has asked no worker for anything for that many seconds.

        Raises:
            ClusterError: it went on for longer than `within` seconds.
        """
        recorder, client = self._world.recorder, self.own_link.client

        def asks(event: Event) -> bool:
            return isinstance(event, Request) and event.client == client and event.cluster in self._world.workers

        def idle() -> bool:
            mark = recorder.mark()
            try:
                return recorder.await_event(asks, within=seconds, mark=mark) is None
            finally:
                recorder.forget(mark)

        if not poll(idle, within=within, every=0):
            raise ClusterError(
                f"the manager's Kueue was never idle for {seconds:g} s within {within:g} s",
                remedy="see in its log what keeps it busy; allow more time, or ask for a shorter silence",
            )
        self._trial.step("idle", seconds=seconds)

    def evict(self, job: Job, *, on: str) -> None:
        """Evict by draining the worker's ClusterQueue (`stopPolicy: HoldAndDrain`); it stays stopped for the trial.

        Raises:
            FaultError: the worker did not evict the Job within 15 s.
        """
        self._drained.append(on)
        self._evict(job, on, by="drain", do=lambda api: self._stop_policy(api, "HoldAndDrain"))

    def preempt(self, job: Job, *, on: str) -> None:
        """Evict by a Job of higher priority that needs the worker's whole quota.

        Raises:
            FaultError: the worker did not evict the Job within 15 s.
        """
        name = f"{job.name}-preemptor"
        body = objects.job(name, job.namespace, cpu=objects.WORKER_CPU, priority=objects.HIGH_PRIORITY, managed=False)
        self._preemptors.append((on, name))
        self._evict(job, on, by="preemption", do=lambda api: api.create(JOBS, body, job.namespace))

    def deactivate(self, job: Job, *, on: str) -> None:
        """Evict by deactivating the worker's copy (`spec.active: false`).

        Raises:
            FaultError: the worker did not evict the Job within 15 s.
        """
        patch = {"spec": {"active": False}}
        self._evict(job, on, by="deactivation", do=lambda api: api.patch(WORKLOADS, job.workload, patch, job.namespace))

    def _evict(self, job: Job, on: str, *, by: str, do: Callable[[Api], object]) -> None:
        mark = self._world.recorder.mark()
        self._trial.step("evict", workload=job.workload, on=on, by=by)
        do(self._world.workers[on].api)
        try:
            self._await(
                lambda change: (
                    change.cluster == on
                    and change.name == job.workload
                    and (change.change == "DELETED" or is_true(change.object, "Evicted"))
                ),
                within=_EVICTED_WITHIN,
                what=f"the Job's eviction on {on} by {by}",
                mark=mark,
            )
        except ClusterError as error:
            raise FaultError(error.message, remedy=error.remedy) from error
        finally:
            self._world.recorder.forget(mark)

    def _await(
        self, wanted: Callable[[ObjectChange], bool], *, within: float, what: str, mark: int | None = None
    ) -> ObjectChange:
        def matches(event: Event) -> bool:
            return (
                isinstance(event, ObjectChange)
                and event.view == "truth"
                and event.resource == WORKLOADS.plural
                and event.namespace == self._trial.arm
                and wanted(event)
            )

        since = mark or self._mark
        if since is None:
            raise ConfigurationError(
                f"{what} was awaited before any Job was submitted", remedy="call `multikueue.submit(...)` before"
            )
        found = self._world.recorder.await_event(matches, within=within, mark=since, check=self._world.check)
        if not isinstance(found, ObjectChange):
            raise ClusterError(
                f"{what} was not seen within {within:g} s", remedy="see the trial's timeline and Kueue's log"
            )
        return found

    def clean(self) -> None:
        """Take back everything the trial made, and wait until manager and workers are clean.

        There is no garbage collector in these clusters, so a Job's Workload is deleted along with it.

        Raises:
            ClusterError: what was left after 20 s (the oracle `no_orphan` judges that) could not even be
                removed by force.
            HoldbackError: the world is dead; it is not waited for.
        """
        self._world.check()
        if self._mark is not None:
            self._world.recorder.forget(self._mark)
        # First the step: whatever gets better from here on is due to the clean-up.
        self._trial.step("delete", jobs=[job.name for job in self._jobs], within=_GONE_WITHIN)
        for worker in self._drained:
            self._stop_policy(self._world.workers[worker].api, "None")
        for worker, name in self._preemptors:
            self._delete_job(self._world.workers[worker].api, name)
        for kind in (JOBS, WORKLOADS):
            self._manager.api.delete_all(kind, self._trial.arm)
        left = self._await_clean(_GONE_WITHIN)
        self._trial.step("cleaned", left=left)
        if left:
            self._remove_by_force()
            if still := self._await_clean(_GONE_WITHIN):
                raise ClusterError(f"resists removal: {', '.join(still)}", remedy="the world is started anew")
        self.is_clean = True

    def _await_clean(self, within: float) -> list[str]:
        def clean() -> bool:
            self._world.check()
            return not self._left()

        poll(clean, within=within, every=0.1)
        return self._left()

    def _left(self) -> list[str]:
        return [f"{cluster} {kind.plural} {found['metadata']['name']}" for cluster, _, kind, found in self._existing()]

    def _existing(self) -> Iterator[tuple[str, Api, Kind, dict[str, Any]]]:
        for cluster in (self._manager, *self._world.workers.values()):
            for kind in (WORKLOADS, JOBS):
                for found in cluster.api.list(kind, self._trial.arm):
                    yield cluster.name, cluster.api, kind, found

    def _remove_by_force(self) -> None:
        for _, api, kind, found in list(self._existing()):
            name = found["metadata"]["name"]
            api.delete(kind, name, self._trial.arm)
            try:
                api.patch(kind, name, {"metadata": {"finalizers": None}}, self._trial.arm)
            except ClusterError as error:
                if error.status != HTTPStatus.NOT_FOUND:  # it had no finalizer, or went by itself
                    raise

    def _delete_job(self, api: Api, name: str) -> None:
        made = api.get(JOBS, name, self._trial.arm)
        if made is None:
            return
        api.delete(JOBS, name, self._trial.arm)
        for workload in api.list(WORKLOADS, self._trial.arm):
            if owner_uid(workload) == made["metadata"]["uid"]:
                api.delete(WORKLOADS, workload["metadata"]["name"], self._trial.arm)

    def _stop_policy(self, api: Api, policy: str) -> None:
        api.patch(CLUSTER_QUEUES, self._trial.arm, {"spec": {"stopPolicy": policy}})
