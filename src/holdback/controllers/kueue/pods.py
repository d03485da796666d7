"""What a scenario does with pods that Kueue manages: submit, finish, delete, and own finalizers on them.

The scenario plays two parts: the kubelet, which sets a pod's phase, and a controller other than Kueue, which adds and
removes finalizers of its own. It writes as a careful controller does: each write names the version of the pod that it
was made for, and is made anew after a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from holdback.clock import Clock, SystemClock, poll
from holdback.clusters.api import Api
from holdback.clusters.kinds import PODS
from holdback.controllers.kueue import objects
from holdback.controllers.kueue.kinds import WORKLOADS
from holdback.controllers.kueue.pods_world import PodsWorld
from holdback.controllers.kueue.steps import Steps
from holdback.controllers.kueue.workloads import is_true, owner_uid
from holdback.errors import ClusterError
from holdback.history.events import Event, ObjectChange, Request
from holdback.traffic.lanes import Link
from holdback.wording import counted

__all__ = ["GATE", "KUEUE_FINALIZER", "Pod", "Pods", "is_gated", "write_finalizers"]

GATE = "kueue.x-k8s.io/admission"
"""The scheduling gate that Kueue removes when it admits a pod."""
KUEUE_FINALIZER = "kueue.x-k8s.io/managed"
"""The finalizer that Kueue puts on every pod that it manages."""
Change = Callable[[list[str]], list[str]]
"""From a pod's finalizers to what they should be."""
_GONE_WITHIN = 20.0
_WRITTEN_WITHIN = 15.0
_LET_GO_WITHIN = 3.0
_QUIET = 0.2
"""Seconds without a write, after which a controller that was busy is taken to be done."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A submitted pod; `group` is the name of its pod group, empty for one that stands alone."""

    name: str
    uid: str
    group: str


class Pods:
    """Drives one arm of a `PodsWorld` for one trial.

    Every step that asks for something is recorded before the request, so that nothing can be observed before it.
    """

    def __init__(self, world: PodsWorld, trial: Steps, clock: Clock | None = None) -> None:
        self._world = world
        self._trial = trial
        self._api = world.clusters[trial.arm].api
        self._clock = clock or SystemClock()
        self._pods: list[Pod] = []
        self._mark: int | None = None
        self.is_clean = True
        """Whether nothing of the trial is left; False from the first pod until `clean` has succeeded."""

    @property
    def link(self) -> Link:
        """From this arm's Kueue to its API server."""
        return self._world.links[self._trial.arm]

    @property
    def namespace(self) -> str:
        """Where the pods are."""
        return self._trial.arm

    def submit(self, count: int = 1, *, grouped: bool = False) -> tuple[Pod, ...]:
        """Create pods in the queue, each alone or all of them as one pod group.

        Raises:
            ClusterError: refused.
        """
        self.is_clean = False
        if self._mark is None:
            self._mark = self._world.recorder.mark()
        names = [objects.short_name(self._trial.id, len(self._pods) + number) for number in range(count)]
        group = f"{names[0]}-group" if grouped else ""
        self._trial.step("submit", pods=names, group=group, namespace=self.namespace, cluster=self.link.cluster)
        pods = []
        for name in names:
            made = self._api.create(PODS, objects.pod(name, self.namespace, group=group, size=count))
            pods.append(Pod(name, made["metadata"]["uid"], group))
            self._pods.append(pods[-1])
        return tuple(pods)

    def admitted(self, pods: Sequence[Pod], *, within: float) -> None:
        """Wait until Kueue has admitted all of them, and does nothing more to pods.

        It may admit a pod twice before it learns that it has; a scenario that holds its next write must not catch
        that one, behind which it would do nothing else.

        Raises:
            ClusterError: not within that many seconds.
        """
        names = {pod.name for pod in pods}
        self._await(
            names, PODS.plural, lambda change: "" if is_gated(change.object) else change.name, "admitted", within
        )
        self._await_quiet(within)
        self._trial.step("admitted", pods=sorted(names))

    def finish(self, pods: Sequence[Pod]) -> None:
        """Set their phase to Succeeded, as a kubelet would.

        Raises:
            ClusterError: refused.
        """
        self._trial.step("finish", pods=[pod.name for pod in pods])
        for pod in pods:
            self._api.patch(PODS, pod.name, {"status": {"phase": "Succeeded"}}, self.namespace, "status")

    def declared_finished(self, pods: Sequence[Pod], *, within: float) -> None:
        """Wait until Kueue has written of all of them that they are finished.

        What it does next, in the same breath and with the pod as it knows it by then, is to remove its finalizer.

        Raises:
            ClusterError: not within that many seconds.
        """
        keys = {pod.group or pod.uid for pod in pods}

        def finished(change: ObjectChange) -> str:
            if not is_true(change.object, "Finished"):
                return ""
            return change.name if change.name in keys else owner_uid(change.object)  # a group's Workload has its name

        self._await(keys, WORKLOADS.plural, finished, "declared finished", within)
        self._trial.step("declared-finished", pods=[pod.name for pod in pods])

    def delete(self, pods: Sequence[Pod]) -> None:
        """Ask for their deletion; they stay until their finalizers are gone.

        Raises:
            ClusterError: refused.
        """
        self._trial.step("delete-pods", pods=[pod.name for pod in pods])
        for pod in pods:
            self._api.delete(PODS, pod.name, self.namespace)

    def add(self, pods: Sequence[Pod], finalizer: str) -> None:
        """As another controller, add a finalizer of ours to each.

        Raises:
            ClusterError: refused, for instance because the pod is being deleted.
        """
        for pod in pods:
            self._write("add", pod.name, finalizer, lambda there: [*_without(there, finalizer), finalizer])

    def remove(self, pods: Sequence[Pod], finalizer: str) -> None:
        """As another controller, remove a finalizer of ours from each; one that is not there stays so.

        Raises:
            ClusterError: refused.
        """
        for pod in pods:
            self._remove(pod.name, finalizer)

    def pause(self, seconds: float) -> None:
        """Let that many seconds pass: for scenarios that act at random moments."""
        self._trial.step("pause", seconds=round(seconds, 3))
        self._clock.sleep(seconds)

    def clean(self) -> None:
        """Take back everything the trial made, and wait until nothing is left.

        The owner of the foreign finalizers removes them, so that only Kueue can still hold a pod.

        Raises:
            ClusterError: something resists even removal by force.
            HoldbackError: the world is dead; it is not waited for.
        """
        self._world.check()
        # What is under way should end first: cleaning up is not what the oracles are to judge.
        poll(lambda: not self._unreleased(), within=_LET_GO_WITHIN, every=0.02)
        if self._mark is not None:
            self._world.recorder.forget(self._mark)
        self._trial.step("delete", pods=[pod.name for pod in self._pods], within=_GONE_WITHIN)
        self._disown()
        for kind in (PODS, WORKLOADS):
            self._api.delete_all(kind, self.namespace)
        left = self._await_clean()
        self._trial.step("cleaned", left=left)
        if left:
            self._remove_by_force()
            if still := self._await_clean():
                raise ClusterError(f"resists removal: {', '.join(still)}", remedy="the world is started anew")
        self.is_clean = True

    def _remove(self, name: str, finalizer: str) -> None:
        self._write("remove", name, finalizer, lambda there: _without(there, finalizer))

    def _write(self, what: str, name: str, finalizer: str, change: Change) -> None:
        detail = {"pod": name, "finalizer": finalizer}
        self._trial.step(what, **detail)
        version, conflicts = write_finalizers(self._api, name, self.namespace, change)
        self._trial.step(f"{what}-done", **detail, version=version, conflicts=conflicts)

    def _await(
        self,
        wanted: set[str],
        resource: str,
        key: Callable[[ObjectChange], str],
        what: str,
        within: float,
    ) -> None:
        """Wait until `key` has given each of the wanted words for a change of that resource in our namespace."""
        left = set(wanted)

        def complete(event: Event) -> bool:
            if (
                isinstance(event, ObjectChange)
                and (event.view, event.resource) == ("truth", resource)
                and (event.cluster, event.namespace) == (self.link.cluster, self.namespace)
                and event.change != "DELETED"
            ):
                left.discard(key(event))
            return not left

        assert self._mark is not None, "nothing was submitted"
        seen = self._world.recorder.await_event(complete, within=within, mark=self._mark, check=self._world.check)
        if seen is None:
            raise ClusterError(
                f"{len(left)} of {counted(len(wanted), 'pod')} were not {what} within {within:g} s",
                remedy="see the trial's timeline and Kueue's log",
            )

    def _await_quiet(self, within: float) -> None:
        """Return when Kueue has written to no pod for a moment."""
        recorder = self._world.recorder

        def writes(event: Event) -> bool:
            return (
                isinstance(event, Request)
                and (event.client, event.cluster) == (self.link.client, self.link.cluster)
                and event.method != "GET"
                and "/pods/" in event.path
            )

        def quiet() -> bool:
            mark = recorder.mark()
            try:
                return recorder.await_event(writes, within=_QUIET, mark=mark) is None
            finally:
                recorder.forget(mark)

        poll(quiet, within=within, every=0)

    def _unreleased(self) -> list[str]:
        """The finished pods that Kueue has not let go of."""
        return [
            found["metadata"]["name"]
            for found in self._api.list(PODS, self.namespace)
            if found.get("status", {}).get("phase") == "Succeeded" and KUEUE_FINALIZER in _finalizers(found)
        ]

    def _disown(self) -> None:
        """As their owner, remove all foreign finalizers."""
        for found in self._api.list(PODS, self.namespace):
            for finalizer in _finalizers(found):
                if finalizer != KUEUE_FINALIZER:
                    self._remove(found["metadata"]["name"], finalizer)

    def _await_clean(self) -> list[str]:
        def clean() -> bool:
            self._world.check()
            self._disown()  # again: without the fix Kueue may bring one back
            return not self._left()

        poll(clean, within=_GONE_WITHIN, every=0.02)
        return self._left()

    def _left(self) -> list[str]:
        return [
            f"{kind.plural} {found['metadata']['name']}"
            for kind in (PODS, WORKLOADS)
            for found in self._api.list(kind, self.namespace)
        ]

    def _remove_by_force(self) -> None:
        for kind in (PODS, WORKLOADS):
            for found in self._api.list(kind, self.namespace):
                try:
                    self._api.patch(kind, found["metadata"]["name"], {"metadata": {"finalizers": None}}, self.namespace)
                except ClusterError as error:
                    if error.status != HTTPStatus.NOT_FOUND:  # it went by itself
                        raise


def _without(there: list[str], finalizer: str) -> list[str]:
    return [each for each in there if each != finalizer]


def _finalizers(found: dict[str, Any]) -> list[str]:
    return list(found["metadata"].get("finalizers") or ())


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Whether the pod still waits for Kueue to admit it."""
    gates: Iterable[Mapping[str, Any]] = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(gate["name"] == GATE for gate in gates)


def write_finalizers(api: Api, name: str, namespace: str, change: Change) -> tuple[str, int]:
    """Change the finalizers of a pod, testing that it is what was read; again after a conflict.

    Returns:
        The pod's version after the write, `unchanged` where none was needed, `gone` for a pod that is; and how many
        conflicts there were.

    Raises:
        ClusterError: refused, or nothing but conflicts for 15 s.
    """
    conflicts = 0

    def attempt() -> str | None:
        nonlocal conflicts
        version = _try_to_write(api, name, namespace, change)
        conflicts += version is None
        return version

    version = poll(attempt, within=_WRITTEN_WITHIN, every=0.002)
    if version is None:
        raise ClusterError(
            f"the finalizers of {name}: nothing but conflicts for {_WRITTEN_WITHIN:g} s",
            remedy="somebody writes this pod again and again: `holdback show TRIAL --requests` tells who",
        )
    return version, conflicts


def _try_to_write(api: Api, name: str, namespace: str, change: Change) -> str | None:
    """As `write_finalizers`; None on a conflict."""
    found = api.get(PODS, name, namespace)
    if found is None:
        return "gone"
    before = _finalizers(found)
    after = change(before)
    if after == before:
        return "unchanged"
    metadata = {"resourceVersion": found["metadata"]["resourceVersion"], "finalizers": after}
    try:
        made = api.patch(PODS, name, {"metadata": metadata}, namespace)
    except ClusterError as error:
        if error.status == HTTPStatus.CONFLICT:
            return None
        if error.status == HTTPStatus.NOT_FOUND:
            return "gone"
        raise
    return str(made["metadata"]["resourceVersion"])
