"""One cluster that is somebody's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdback.clock import Clock, SystemClock, poll
from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.existing.permissions import missing
from holdback.clusters.existing.reachability import check_reach
from holdback.clusters.existing.removal import RUN_LABEL, leftovers, remove
from holdback.clusters.existing.snapshot import Snapshot, difference, snapshot
from holdback.clusters.kinds import CRDS, DEPLOYMENTS, NAMESPACES, Kind, kind_of
from holdback.errors import ClusterError, ConfigurationError
from holdback.process import Run

__all__ = ["ExistingCluster"]

_ASKED_EVERY = 1.0
_SETTLED_WITHIN = 15.0
_ANSWERS_WITHIN = 10.0
"""Seconds for which a busy API server may not say that it is ready."""
_TOLD = ("app.kubernetes.io/version", "helm.sh/chart")
"""Labels by which an installation tells its version."""
Objects = Sequence[Mapping[str, Any]]


class ExistingCluster:
    """A cluster behind a context of the user's kubeconfig. All that is made through `api` carries the run's label."""

    def __init__(
        self,
        name: str,
        context: str,
        access: Access,
        *,
        run: Run,
        address: str,
        say: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.context = context
        self.access = access
        self.api = Api(access, labels={RUN_LABEL: run.id})
        self._run = run
        self._address = address
        self._say = say
        self._clock = clock or SystemClock()
        self._planned: list[tuple[Kind, str]] = []
        self._before: Snapshot | None = None
        self._asked = 0.0

    def __repr__(self) -> str:
        return f"ExistingCluster({self.name!r}, context {self.context!r}, {self.access.server})"

    def check(self) -> None:
        now = self._clock.monotonic()
        if now - self._asked < _ASKED_EVERY and self._asked:
            return  # it is a request over a network, and trials check their world all the time
        if not poll(self.api.ready, within=_ANSWERS_WITHIN, every=0.5, clock=self._clock):
            raise ClusterError(
                f"the API server of context {self.context} is not ready ({self.access.server})",
                remedy="see whether it runs, and whether the network to it does",
            )
        self._asked = now

    def identity(self) -> str:
        """What no other cluster has.

        Raises:
            ClusterError: it does not let us in.
        """
        found = self.api.get(NAMESPACES, "kube-system")
        return str(found["metadata"]["uid"]) if found else self.access.server

    def announce(self, what: str, objects: Objects) -> None:
        """See `Borrowed`. The checks that need nothing to be made come first."""
        version = self.api.read("/version")["gitVersion"]
        self._planned = [(kind_of(dict(each)), each["metadata"]["name"]) for each in objects if not _namespace(each)]
        before = self._snapshot()
        self._refuse_leftovers()
        self._refuse_what_is_there(objects, before)
        if refused := missing(self.api, objects):
            raise ConfigurationError(
                f"context {self.context}: its user may not {'; '.join(refused[:10])}",
                remedy="installing a controller needs an administrator's rights: have them granted for this cluster",
            )
        check_reach(self._run, self.api, self._address, context=self.context)
        self._before = before
        self._say(f"{self.name}: context {self.context}, Kubernetes {version}, {self.access.server}, gets {what}")
        for line in _describe(objects):
            self._say(f"{self.name}: {line}")

    @property
    def lent(self) -> bool:
        """Whether something may have been made in it."""
        return self._before is not None

    def _refuse_leftovers(self) -> None:
        if left := leftovers(self.api):
            runs = sorted({each.run for each in left if each.run})
            raise ConfigurationError(
                f"context {self.context} still has {len(left)} objects of holdback's run {', '.join(runs)}: "
                f"{', '.join(map(str, left[:5]))}",
                remedy=f"if that run is over: holdback clean --context {self.context}",
            )

    def _refuse_what_is_there(self, objects: Objects, before: Snapshot) -> None:
        there = [each for each in objects if f"{each['kind']} {each['metadata']['name']}" in before]
        new = {each["metadata"]["name"] for each in objects if each["kind"] == NAMESPACES.kind}
        beside = [each for each in objects if _namespace(each) not in {"", *new}]  # in a namespace that is not ours
        there += [each for each in beside if self._get(each)]
        if there:
            names = ", ".join(self._words(each) for each in there[:5])
            raise ConfigurationError(
                f"context {self.context} has {len(there)} objects already that this run would make: {names}",
                remedy="somebody else's installation is left alone: take a cluster without it, or remove it yourself",
            )

    def _words(self, planned: Mapping[str, Any]) -> str:
        """An object that is there, with what tells the version of the installation that it belongs to."""
        metadata = (self._get(planned) or {}).get("metadata", {})
        told = [metadata["labels"][key] for key in _TOLD if key in metadata.get("labels", {})]
        if planned["kind"] == NAMESPACES.kind:
            told += [
                container["image"]
                for deployment in self.api.list(DEPLOYMENTS, planned["metadata"]["name"])
                for container in deployment["spec"]["template"]["spec"]["containers"]
            ]
        return f"{planned['kind']} {planned['metadata']['name']}" + (f" ({', '.join(told)})" if told else "")

    def _get(self, planned: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.api.get(kind_of(dict(planned)), planned["metadata"]["name"], _namespace(planned))

    def give_back(self) -> None:
        """Remove what this run made, and prove that the cluster is as it was found.

        Raises:
            ClusterError: something does not go, or is not as it was; the message names it.
        """
        if self._before is None:
            return
        before = self._before
        remove(self.api, self._run.id, say=lambda text: self._say(f"{self.name}: {text}"))
        poll(self._none_came_back, within=_SETTLED_WITHIN, every=0.5)
        if changed := difference(before, self._snapshot()):
            raise ClusterError(
                f"context {self.context} is not as it was found: {'; '.join(changed[:10])}",
                remedy="all that holdback made is gone; see who else worked there meanwhile",
            )
        self._before = None
        self._say(f"{self.name}: context {self.context} is as it was found ({len(before)} objects compared)")

    def _snapshot(self) -> Snapshot:
        """All objects of the kinds that we make something of outside of namespaces."""
        return snapshot(self.api, {kind for kind, _ in self._planned})

    def _none_came_back(self) -> bool:
        """Whether nothing is there under a name of ours; if it is, it is asked to go.

        A controller of Kubernetes' own may make anew what it had just seen, without our label: a role that is made of
        others, for one.
        """
        found = self._snapshot()
        back = [(kind, name) for kind, name in self._planned if f"{kind.kind} {name}" in found]
        for kind, name in back:
            self.api.delete(kind, name)
        return not back


def _namespace(each: Mapping[str, Any]) -> str:
    return str(each["metadata"].get("namespace", ""))


def _describe(objects: Objects) -> list[str]:
    """What is going to be made, kind by kind."""
    counts = Counter(each["kind"] for each in objects)
    namespaces = sorted({each["metadata"]["name"] for each in objects if each["kind"] == NAMESPACES.kind})
    groups = sorted({each["spec"]["group"] for each in objects if each["kind"] == CRDS.kind})
    made = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    return [
        f"will be made, and removed at the end: {made}",
        f"namespaces: {', '.join(namespaces)}; new kinds of objects: {', '.join(groups) or 'none'}",
    ]
