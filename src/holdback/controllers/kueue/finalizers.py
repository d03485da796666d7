"""What must hold of finalizers while Kueue removes its own: pure judgements on a trial's history.

They follow each pod through our own watch of it, state by state, and compare with what the owner of the foreign
finalizers did. The history has these steps (see `holdback.controllers.kueue.pods`): `submit` (pods, namespace,
cluster), `finish` (pods), and for each write of the owner `add` or `remove` (pod, finalizer) before it, `add-done` or
`remove-done` with the pod's `version` after it. By its version a state is known to be the owner's doing or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from typing import Literal

from holdback.controllers.kueue.pods import KUEUE_FINALIZER
from holdback.errors import Undecidable
from holdback.history.events import ObjectChange, Request
from holdback.history.history import History
from holdback.oracles import Finding, Judgement
from holdback.wording import counted

__all__ = ["deleted_pods_go", "kueue_lets_go", "no_finalizer_lost", "no_finalizer_returns"]

_SLACK = 0.25
"""Seconds by which the end of a request and the watch's word of it may differ: each is stamped as it reaches us."""


def no_finalizer_lost(history: History) -> Finding:
    """No foreign finalizer disappears without its owner's request."""
    lost = _lapses(history, lambda before, after: before.foreign - after.foreign, _Owner(history).removed)
    said = "of the foreign finalizers {} lost, first"
    return _finding(history, "no_finalizer_lost", lost, said) or Finding(
        "no_finalizer_lost", Judgement.HOLDS, "every foreign finalizer stayed until its owner removed it"
    )


def no_finalizer_returns(history: History) -> Finding:
    """No foreign finalizer comes back that its owner removed."""
    back = _lapses(history, lambda before, after: after.foreign - before.foreign, _Owner(history).added)
    said = "of the removed finalizers {} came back, first"
    return _finding(history, "no_finalizer_returns", back, said) or Finding(
        "no_finalizer_returns", Judgement.HOLDS, "no finalizer came back that its owner had removed"
    )


def kueue_lets_go(history: History) -> Finding:
    """Kueue's own finalizer is gone from every pod that finished, by the deadline that the next `settle` set.

    A write that is refused because the pod has changed is no violation: conflicts are counted.
    """
    name = "kueue_lets_go"
    finishes = history.steps("finish")
    if not finishes:
        raise Undecidable(
            "the history has no step 'finish'", remedy="the scenario must let pods finish: `pods.finish(...)`"
        )
    start, finish = finishes[0]
    finished = {pod for _, step in finishes for pod in step.detail["pods"]}
    free = {
        pod: next((s for s in states if KUEUE_FINALIZER not in s.finalizers), None) for pod, states in _lives(history)
    }
    deadline = next((float(step.detail["deadline"]) for at, step in history.steps("settle") if at > start), None)
    waiting = [pod for pod in sorted(finished) if not _by(free[pod], deadline)]
    if not waiting:
        states = [state for pod in finished if (state := free[pod])]
        last = max(states, key=lambda state: state.at)
        pods, conflicts = counted(len(states), "pod"), counted(_conflicts(history), "conflict")
        reason = f"Kueue let go of {pods} within {last.at - finish.at:.1f} s; {conflicts}"
        return Finding(name, Judgement.HOLDS, reason, (start, last.index))
    reason = f"Kueue's finalizer is still on {', '.join(waiting)}"
    if deadline is not None and _ended(history) >= deadline:
        return Finding(name, Judgement.VIOLATED, f"{reason} {deadline - finish.at:.1f} s after they finished", (start,))
    return Finding(name, Judgement.UNKNOWN, reason, (start,))


def deleted_pods_go(history: History) -> Finding:
    """A pod that is being deleted and has no finalizer left is gone."""
    name = "deleted_pods_go"
    ends = [(pod, states[-1]) for pod, states in _lives(history)]
    stuck = [(pod, state) for pod, state in ends if state.deleting and not state.finalizers and not state.gone]
    if stuck:
        pod, state = stuck[0]
        judgement = Judgement.VIOLATED if history.closed else Judgement.UNKNOWN
        return Finding(name, judgement, f"{pod} is being deleted, nothing holds it, and it is there", (state.index,))
    gone = counted(sum(state.gone for _, state in ends), "pod")
    return Finding(name, Judgement.HOLDS, f"{gone} went, as nothing held them")


@dataclass(frozen=True, slots=True)
class _State:
    """A pod as our watch showed it: `index` of the event, `version` of the pod; `gone` has no finalizers."""

    index: int
    at: float
    version: int
    finalizers: frozenset[str]
    deleting: bool
    gone: bool

    @property
    def foreign(self) -> frozenset[str]:
        return self.finalizers - {KUEUE_FINALIZER}


class _Owner:
    """What the owner of the foreign finalizers did."""

    def __init__(self, history: History) -> None:
        self._history = history

    def removed(self, pod: str, finalizer: str, before: _State, after: _State) -> bool:
        """Whether the owner's doing explains that the finalizer went between two states."""
        if after.gone:
            # Deletion shows no version of the owner's; after its request it does not mind who was quicker.
            asked = [step.name for _, step in self._history.steps() if self._is_about(step.detail, pod, finalizer)]
            return bool(asked) and asked[-1].startswith("remove")
        return self._wrote("remove", pod, finalizer, before, after)

    def added(self, pod: str, finalizer: str, before: _State, after: _State) -> bool:
        """Whether the owner's doing explains that the finalizer came between two states."""
        return self._wrote("add", pod, finalizer, before, after)

    def _wrote(self, what: Literal["add", "remove"], pod: str, finalizer: str, before: _State, after: _State) -> bool:
        asked = [step for _, step in self._history.steps(what) if self._is_about(step.detail, pod, finalizer)]
        done = [step for _, step in self._history.steps(f"{what}-done") if self._is_about(step.detail, pod, finalizer)]
        if len(done) < len(asked):
            return True  # its answer is not there yet, so this may be it
        versions = (str(step.detail["version"]) for step in done)
        # A watch that began anew may have skipped states, hence not only the state's own version.
        return any(version.isdigit() and before.version < int(version) <= after.version for version in versions)

    @staticmethod
    def _is_about(detail: dict[str, object], pod: str, finalizer: str) -> bool:
        return (detail.get("pod"), detail.get("finalizer")) == (pod, finalizer)


_Lapse = tuple[str, str, _State, _State]
"""Pod, finalizer, and the states between which it went or came."""


def _lapses(
    history: History,
    changed: Callable[[_State, _State], frozenset[str]],
    explained: Callable[[str, str, _State, _State], bool],
) -> list[_Lapse]:
    """The finalizers that changed so from one state of a pod to the next with no owner to explain it."""
    return [
        (pod, finalizer, before, after)
        for pod, states in _lives(history)
        for before, after in pairwise(states)
        for finalizer in sorted(changed(before, after))
        if not explained(pod, finalizer, before, after)
    ]


def _finding(history: History, name: str, lapses: list[_Lapse], said: str) -> Finding | None:
    """VIOLATED with the first of the lapses and the write that did it; None without any."""
    if not lapses:
        return None
    pod, finalizer, before, after = lapses[0]
    writer = _writer(history, pod, after)
    reason = f"{said.format(len(lapses))} {finalizer} of {pod}, by {_words(history, writer)}"
    events = (before.index, after.index, *([writer[0]] if writer else []))
    return Finding(name, Judgement.VIOLATED, reason, tuple(sorted(events)))


def _words(history: History, writer: tuple[int, Request] | None) -> str:
    if writer is None:
        return "a write of which no request of Kueue is on record" + ("" if history.closed else " yet")
    _, request = writer
    return f"{request.client}'s {request.method} {request.path} ({request.status}, {request.seconds * 1000:.0f} ms)"


def _writer(history: History, pod: str, state: _State) -> tuple[int, Request] | None:
    """The controller's write that made that state: it had begun by then, and ended close to it."""
    found = [
        (index, request)
        for index, request in history.requests()
        if request.method in {"PATCH", "PUT", "DELETE"}
        and request.status < HTTPStatus.BAD_REQUEST
        and f"{request.path}/".endswith(f"/pods/{pod}/")
        and request.at - request.seconds - _SLACK <= state.at <= request.at + _SLACK
    ]
    return min(found, key=lambda each: abs(each[1].at - state.at), default=None)


def _lives(history: History) -> Iterator[tuple[str, list[_State]]]:
    """Every submitted pod and its states, oldest first."""
    submits = history.steps("submit")
    if not submits:
        raise Undecidable(
            "the history has no step 'submit'", remedy="the scenario must submit pods: `pods.submit(...)`"
        )
    for _, submit in submits:
        place = {"cluster": submit.detail["cluster"], "namespace": submit.detail["namespace"], "resource": "pods"}
        for pod in submit.detail["pods"]:
            states = [_state(index, change) for index, change in history.objects(name=pod, **place)]
            if not states:
                raise Undecidable(
                    f"nothing of the pod {pod} was recorded", remedy="the world's recorder must watch pods"
                )
            yield pod, states


def _state(index: int, change: ObjectChange) -> _State:
    metadata = change.object["metadata"]
    gone = change.change == "DELETED"
    return _State(
        index=index,
        at=change.at,
        version=int(metadata["resourceVersion"]),
        finalizers=frozenset() if gone else frozenset(metadata.get("finalizers") or ()),
        deleting="deletionTimestamp" in metadata,
        gone=gone,
    )


def _by(state: _State | None, deadline: float | None) -> bool:
    return state is not None and (deadline is None or state.at <= deadline)


def _ended(history: History) -> float:
    """When waiting ended: what comes after is due to the clean-up."""
    deleted = history.steps("delete")
    return deleted[0][1].at if deleted else history.events[-1].at


def _conflicts(history: History) -> int:
    return sum(request.status == HTTPStatus.CONFLICT and "/pods/" in request.path for _, request in history.requests())
