"""What must hold of a Job that MultiKueue dispatches: pure judgements on a trial's history.

The history of a MultiKueue trial has these steps: `submit` (workload, namespace, manager, workers, client),
`admitted`, `evict` (workload, on, by), `settle` (deadline), `delete` and `cleaned` (left).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdback.controllers.kueue.workloads import cluster_name, is_true, nominated
from holdback.errors import Undecidable
from holdback.history.events import ObjectChange, Step
from holdback.history.history import History
from holdback.oracles import Finding, Judgement

__all__ = ["no_copy_without_nomination", "no_orphan", "readmitted"]

_ORDER_SLACK = 0.5
"""Seconds by which a nomination may reach us later than the copy it led to: each watch is stamped as it arrives.

Up to 0.17 s in 99 cases at load averages of 5 to 21; where there was no nomination it took a second or never came.
"""

_SUBMIT = "the scenario must submit a Job: `multikueue.submit(...)`"
_WORST_FIRST = (Judgement.VIOLATED, Judgement.UNKNOWN, Judgement.HOLDS)


def readmitted(history: History) -> Finding:
    """A Workload evicted by its worker is admitted again, by the deadline that the next `settle` set.

    Admitted again means: after the eviction, and before the clean-up, the manager shows it as admitted with a worker's
    name, and either has shown it as not admitted before or names another worker. The worst of several evictions counts.
    """
    evictions = history.steps("evict")
    if not evictions:
        raise Undecidable(
            "the history has no step 'evict'", remedy="the scenario must evict: `multikueue.evict(...)`, or `preempt`"
        )
    found = [_readmission(history, index, evict) for index, evict in evictions]
    return min(found, key=lambda finding: _WORST_FIRST.index(finding.judgement))


def no_copy_without_nomination(history: History) -> Finding:
    """A copy appears on a worker only while the manager's Workload nominates that worker or runs there.

    A round of nominations ends when the manager takes the Workload back from its worker or gives up its quota: what
    was nominated before does not count after, except what still stood when it ended, whose copy may be on its way.
    Judged at the end only, so that a trial goes on and shows what becomes of such a copy.
    """
    name = "no_copy_without_nomination"
    if not history.closed:
        return Finding(name, Judgement.HOLDS, "judged at the end")
    submits = [step for _, step in history.steps("submit")]
    if not submits:
        raise Undecidable("nothing was submitted", remedy=_SUBMIT)
    for submit in submits:
        workload, workers = str(submit.detail["workload"]), set(submit.detail["workers"])
        states = [change for _, change in _manager_states(history, workload)]
        if not states:
            raise Undecidable(
                f"nothing of {workload} on its manager was recorded",
                remedy="the world's recorder must watch the manager's Workloads",
            )
        for index, copy in _copies_created(history, workload, workers):
            if copy.cluster not in _allowed(states, copy.at):
                reason = f"a copy of {workload} appeared on {copy.cluster}, which was not nominated in that round"
                return Finding(name, Judgement.VIOLATED, reason, (index,))
    return Finding(name, Judgement.HOLDS, "every copy was on a nominated worker")


def no_orphan(history: History) -> Finding:
    """Once the Job is deleted on the manager, no copy of it is left on a worker."""
    name = "no_orphan"
    found = history.steps("cleaned")
    if not found:
        return Finding(name, Judgement.UNKNOWN if history.closed else Judgement.HOLDS, "nothing was cleaned up yet")
    index, cleaned = found[-1]
    left = [str(entry) for entry in cleaned.detail["left"]]
    if left:
        return Finding(name, Judgement.VIOLATED, f"left after the end: {', '.join(left)}", (index,))
    return Finding(name, Judgement.HOLDS, "manager and workers were clean after the end", (index,))


def _readmission(history: History, index: int, evict: Step) -> Finding:
    name = "readmitted"
    deadline, ended = _deadline(history, index), _ended(history)
    was_open = False
    for at, change in _manager_states(history, str(evict.detail["workload"])):
        if at < index or change.at > ended or change.change == "DELETED":
            continue
        chosen = cluster_name(change.object)
        if not is_true(change.object, "Admitted"):
            was_open = True
        elif chosen and (was_open or chosen != evict.detail["on"]):
            took = change.at - evict.at
            if deadline is None or change.at <= deadline:
                reason = f"admitted again on {chosen} {took:.1f} s after the eviction"
                return Finding(name, Judgement.HOLDS, reason, (index, at))
            late = f"only {took:.1f} s after the eviction, {change.at - deadline:.1f} s past the deadline"
            return Finding(name, Judgement.VIOLATED, f"admitted again on {chosen} {late}", (index, at))
    if history.closed and deadline is not None and ended >= deadline:
        seen = "not admitted again" if was_open else "still shown as admitted on the worker that evicted it"
        reason = f"{seen} {deadline - evict.at:.1f} s after the eviction on {evict.detail['on']}"
        return Finding(name, Judgement.VIOLATED, reason, (index,))
    waiting = "not admitted again yet" if not history.closed else "the trial ended before its deadline"
    return Finding(name, Judgement.UNKNOWN, waiting, (index,))


def _deadline(history: History, after: int) -> float | None:
    """That of the first `settle` after the event with that index."""
    found = (settle for index, settle in history.steps("settle") if index > after)
    settle = next(found, None)
    return None if settle is None else float(settle.detail["deadline"])


def _ended(history: History) -> float:
    """When waiting ended: cleaning up comes later and could be mistaken for having waited."""
    deleted = history.steps("delete")
    return deleted[0][1].at if deleted else history.events[-1].at


def _manager_states(history: History, workload: str) -> Iterator[tuple[int, ObjectChange]]:
    submits = history.steps("submit")
    if not submits:
        raise Undecidable("the history has no step 'submit'", remedy=_SUBMIT)
    manager = str(submits[-1][1].detail["manager"])
    return iter(history.objects(cluster=manager, resource="workloads", name=workload))


def _copies_created(history: History, workload: str, workers: set[str]) -> Iterator[tuple[int, ObjectChange]]:
    for worker in sorted(workers):
        for index, change in history.objects(cluster=worker, resource="workloads", name=workload):
            if change.change == "ADDED":
                yield index, change


def _allowed(states: list[ObjectChange], at: float) -> set[str]:
    """The workers nominated or chosen in the round that was on at that time, and shortly after.

    Nominations are cleared once a worker is chosen, so those that stand at the end of a round are of dispatches that
    were under way.
    """
    allowed: set[str] = set()
    before: Mapping[str, Any] = {}
    for change in states:
        if change.at > at + _ORDER_SLACK:
            break
        taken_back = cluster_name(before) and not cluster_name(change.object)
        gave_up = is_true(before, "QuotaReserved") and not is_true(change.object, "QuotaReserved")
        if (taken_back or gave_up) and change.at <= at:
            allowed = _workers(before)
        before = change.object
        allowed |= _workers(before)
    return allowed


def _workers(workload: Mapping[str, Any]) -> set[str]:
    chosen = cluster_name(workload)
    return {*nominated(workload), *([chosen] if chosen else [])}
