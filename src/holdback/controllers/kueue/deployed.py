"""A Kueue that runs as a pod, for faults and checks: its process is found and signalled in the node.

A kill is a SIGKILL of its process, with the Deployment scaled to nothing so that nobody starts it again before `start`
does. A pause is a SIGSTOP; after a minute of it the kubelet would find it unhealthy and start it anew, as it would at
its users'. Its log is followed from its container into a file of the run, for a pod's log goes when the pod does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdback import process
from holdback.clock import poll
from holdback.clusters.kinds import DEPLOYMENTS, PODS
from holdback.clusters.protocols import Cluster, Housing
from holdback.controllers.kueue.kinds import RESOURCE_FLAVORS
from holdback.controllers.kueue.manifests import DEPLOYMENT, NAMESPACE
from holdback.errors import ClusterError, NotReady, ProcessError, ProcessExited

__all__ = ["Deployed", "ending"]

_READY_WITHIN = 180.0
_ANSWERS_WITHIN = 30.0
_GONE_WITHIN = 30.0
_STOPPED_WITHIN = 5.0
_LABELS = "control-plane=controller-manager"
_CONTAINER = "manager"
_TAIL_LINES = 20


def ending(pod: Mapping[str, Any]) -> str:
    """How the container of a pod has ended, empty if it has not.

    The kubelet starts one that ended again, which must not go unnoticed.
    """
    for status in pod.get("status", {}).get("containerStatuses") or ():
        ended = status.get("lastState", {}).get("terminated") or status.get("state", {}).get("terminated")
        if ended:
            return f"ended with exit code {ended.get('exitCode', '?')} ({ended.get('reason') or 'no reason given'})"
        if status.get("restartCount"):
            return "was started again by its cluster"
    return ""


class Deployed:
    """The Kueue of one cluster. Safe to use from several threads; leaving the context ends what follows its log.

    Args:
        run: owns what follows its log.
        cluster: where it runs.
        house: the same cluster's node.
        name: what messages and its log call it.
        log: where its log goes.
    """

    def __init__(self, run: process.Run, cluster: Cluster, house: Housing, name: str, *, log: Path) -> None:
        self.name = name
        self.log = log
        self._run = run
        self._api = cluster.api
        self._house = house
        self._container = ""
        self._killed: set[str] = set()
        self._followers: list[process.Child] = []
        self._down = False
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for follower in self._followers:
            follower.kill()

    def __repr__(self) -> str:
        return f"Deployed({self.name!r})"

    def __str__(self) -> str:
        return self.name

    def check(self) -> None:
        """Say so if it is gone, or was started anew, unless we killed it ourselves.

        Raises:
            ProcessExited: with the end of its log.
        """
        with self._lock:
            if not self._down:
                self._refuse_restarts(self._pod())

    def await_ready(self) -> None:
        """Wait until it is ready in the kubelet's eyes, and the API server reaches its webhooks.

        Raises:
            ProcessExited: it ended; with the end of its log.
            NotReady: it took too long.
        """
        self._await(self._ready, _READY_WITHIN, "its pod")
        # The API server reaches it by a Service, whose rules come after the pod is ready.
        self._await(self._answers, _ANSWERS_WITHIN, "its webhooks")

    def pause(self) -> None:
        """SIGSTOP; when this returns it has stopped.

        Raises:
            ProcessError: it is gone or does not stop.
        """
        self._signal("STOP")
        if not poll(self.paused, within=_STOPPED_WITHIN, every=0.02):
            raise ProcessError(f"{self.name} does not stop", remedy="it hangs in the kernel")

    def resume(self) -> None:
        """Let a paused one go on.

        Raises:
            ProcessError: it is gone.
        """
        self._signal("CONT")

    def paused(self) -> bool:
        """Whether its process is stopped, as the node's kernel tells it."""
        with suppress(ClusterError):
            status = self._house.run_in_node("cat", f"/proc/{self._pid()}/status")
            return any(line.split()[:2] == ["State:", "T"] for line in status.splitlines())
        return False

    def down(self) -> bool:
        """Whether no container of it runs."""
        return not self._crictl("ps", "--quiet", "--state=running", f"--name=^{_CONTAINER}$").strip()

    def kill(self) -> None:
        """SIGKILL, and none in its place until `start`; returns when it is gone.

        Raises:
            ProcessError: it is not gone in time.
        """
        with self._lock:
            self._down = True
            if not self.down():
                self._signal("KILL")
            self._killed.add(self._container)
            self._scale(0)
            if not poll(self._gone, within=_GONE_WITHIN, every=0.1):
                raise ProcessError(f"{self.name} does not go", remedy="see `kubectl -n kueue-system get pods`")

    def start(self) -> None:
        """Have a pod for it again; one that runs already is left alone.

        Raises:
            ProcessError: its cluster refuses.
        """
        with self._lock:
            if self._down:
                self._container = ""
                self._scale(1)
            self._down = False

    def _ready(self) -> bool:
        self._follow()
        pod = self._pod()  # asked after the container: where that is, the pod is as well
        self._refuse_restarts(pod)
        conditions = (pod or {}).get("status", {}).get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _answers(self) -> bool:
        """Whether an object that webhooks have a say in would be accepted."""
        try:
            self._api.create(RESOURCE_FLAVORS, {"metadata": {"name": "holdback-asks"}, "spec": {}}, dry_run=True)
        except ClusterError:
            return False
        return True

    def _await(self, probe: Callable[[], bool], seconds: float, what: str) -> None:
        if poll(probe, within=seconds, every=0.25) is None:
            raise NotReady(
                f"{self.name} was not ready ({what}) within {seconds:g} s: {self._state()}\n{self._tail()}",
                remedy=f"the machine may be overloaded; its log is {self.log}",
            )

    def _pod(self) -> dict[str, Any] | None:
        pods = self._api.list(PODS, NAMESPACE, _LABELS)
        return next((pod for pod in pods if "deletionTimestamp" not in pod["metadata"]), None)

    def _gone(self) -> bool:
        return not self._api.list(PODS, NAMESPACE, _LABELS) and self.down()

    def _state(self) -> str:
        """What its cluster says of its container, in short."""
        status = ((self._pod() or {}).get("status", {}).get("containerStatuses") or [{}])[0]
        return str(status.get("state", "there is no container yet"))

    def _refuse_restarts(self, pod: dict[str, Any] | None) -> None:
        how = ending(pod) if pod else "has no pod any more" if self._container else ""
        if how:
            raise ProcessExited(
                f"{self.name} {how}; the end of its log:\n{self._tail()}",
                remedy=f"its whole log is {self.log}; an executable that is not static cannot run in its image",
            )

    def _follow(self) -> None:
        """Have everything that the newest container writes in our log."""
        with self._lock:
            newest = self._newest()
            if newest and newest not in {self._container, *self._killed}:
                self._container = newest
                argv = self._house.in_node("crictl", "logs", "--follow", newest)
                self._followers.append(process.start(self._run, self.name, argv))

    def _newest(self) -> str:
        return self._crictl("ps", "--quiet", "--latest", f"--name=^{_CONTAINER}$").strip()

    def _pid(self) -> str:
        """Of its process, as the node numbers it.

        Raises:
            ClusterError: it does not run.
        """
        pid = self._crictl("inspect", "--output=go-template", "--template={{.info.pid}}", self._container).strip()
        if pid in {"", "0"}:  # to the kill command, 0 is whoever calls it
            raise ClusterError(f"the container of {self.name} has no process", remedy=f"its log, {self.log}, says why")
        return pid

    def _signal(self, signal: str) -> None:
        try:
            self._house.run_in_node("kill", f"-{signal}", self._pid())
        except ClusterError as error:
            raise ProcessExited(f"{self.name} is gone: {error.message}", remedy=f"its log is {self.log}") from error

    def _scale(self, replicas: int) -> None:
        try:
            self._api.patch(DEPLOYMENTS, DEPLOYMENT, {"spec": {"replicas": replicas}}, NAMESPACE)
        except ClusterError as error:
            raise ProcessError(
                f"{self.name} cannot be scaled to {replicas}: {error.message}",
                remedy=error.remedy or "ask its API server",
            ) from error

    def _crictl(self, *words: str) -> str:
        return self._house.run_in_node("crictl", *words)

    def _tail(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-_TAIL_LINES:]) or "(empty)"
