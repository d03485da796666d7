"""The finalizer oracles on histories written by hand, after recorded ones: lost, come back, kept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdback.controllers.kueue import deleted_pods_go, kueue_lets_go, no_finalizer_lost, no_finalizer_returns
from holdback.history.events import Event, ObjectChange, Request, Step
from holdback.history.history import History
from holdback.oracles import Finding, Judgement
from holdback.oracles.judgement import Oracle, judge

HOLDS, VIOLATED, UNKNOWN = Judgement.HOLDS, Judgement.VIOLATED, Judgement.UNKNOWN
CLUSTER, NAMESPACE, CLIENT = "pods-control", "control", "kueue-pods-control"
KUEUE, OURS, ANOTHER = "kueue.x-k8s.io/managed", "example/ours", "example/another"
ALL: list[Oracle] = [no_finalizer_lost, no_finalizer_returns, kueue_lets_go, deleted_pods_go]


def pod(at: float, version: int, *finalizers: str, name: str = "a", deleting: bool = False) -> ObjectChange:
    """The pod as it is now."""
    metadata: dict[str, object] = {"name": name, "namespace": NAMESPACE, "resourceVersion": str(version)}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    return ObjectChange(at, "truth", CLUSTER, "pods", "MODIFIED", {"metadata": metadata})


def gone(at: float, version: int, *finalizers: str, name: str = "a") -> ObjectChange:
    """Its deletion; the API server shows the pod as it was before, finalizers and all."""
    last = pod(at, version, *finalizers, name=name, deleting=True)
    return ObjectChange(at, "truth", CLUSTER, "pods", "DELETED", last.object)


def patch(at: float, *, status: int = 200, seconds: float = 0.01, name: str = "a", client: str = CLIENT) -> Request:
    """A write of Kueue to the pod."""
    return Request(at, client, CLUSTER, "PATCH", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", status, seconds)


def submit(*names: str) -> Step:
    return Step(0.0, "submit", {"pods": list(names or "a"), "namespace": NAMESPACE, "cluster": CLUSTER})


def finish(at: float, *names: str) -> Step:
    return Step(at, "finish", {"pods": list(names or "a")})


def wrote(what: str, at: float, version: int | str, finalizer: str = OURS, name: str = "a") -> list[Event]:
    """The owner's write: asked, and done 10 ms later."""
    detail = {"pod": name, "finalizer": finalizer}
    return [Step(at, what, detail), Step(at + 0.01, f"{what}-done", {**detail, "version": str(version)})]


def history(events: Sequence[Event], *, closed: bool = True) -> History:
    ordered = tuple(sorted(events, key=lambda event: event.at))
    return History(ordered, closed=closed, scope={"clients": [CLIENT]})


def found(oracle: Oracle, events: Sequence[Event], *, closed: bool = True) -> Finding:
    (finding,) = judge(history(events, closed=closed), [oracle])
    return finding


SETTLE = Step(2.2, "settle", {"deadline": 7.2})
ENDED = [Step(3.0, "delete", {"pods": ["a"]}), Step(3.5, "cleaned", {"left": []})]
WAITED = [Step(7.3, "delete", {"pods": ["a"]}), Step(7.5, "cleaned", {"left": []})]
# The pod finishes; a finalizer is added while Kueue's removal, which knows nothing of it, is on its way.
ADDED: list[Event] = [
    submit(),
    pod(0.1, 10, KUEUE),
    finish(1.0),
    pod(1.1, 12, KUEUE),
    *wrote("add", 1.5, 14),
    pod(1.505, 14, KUEUE, OURS),
    SETTLE,
]
CONFLICT = [patch(2.1, status=409, seconds=1.0)]
KEPT = [*ADDED, *CONFLICT, pod(2.3, 16, OURS), patch(2.31), *wrote("remove", 3.1, 18), pod(3.2, 18), gone(3.3, 19)]
LOST = [*ADDED, pod(2.1, 16), patch(2.11, seconds=1.0), gone(3.3, 19)]
DELETION = [pod(1.8, 15, KUEUE, OURS, deleting=True)]


def test_a_careful_kueue_violates_nothing() -> None:
    """Where Kueue is refused, looks again and takes off its own alone, every oracle holds."""
    findings = judge(history([*KEPT, *ENDED]), ALL)
    assert [finding.judgement for finding in findings] == [HOLDS] * 4, [finding.reason for finding in findings]


def test_a_lost_finalizer_is_told_with_the_write_that_took_it() -> None:
    """The finding names pod, finalizer and Kueue's write, and cites both states and the request."""
    finding = found(no_finalizer_lost, [*LOST, *ENDED])
    assert finding.judgement is VIOLATED
    assert f"1 lost, first {OURS} of a, by {CLIENT}'s PATCH" in finding.reason
    assert "(200, 1000 ms)" in finding.reason
    events = history([*LOST, *ENDED]).events
    before, after, writer = (events[index] for index in finding.events)
    assert isinstance(before, ObjectChange)
    assert before.object["metadata"]["finalizers"] == [KUEUE, OURS]
    assert isinstance(after, ObjectChange)
    assert "finalizers" not in after.object["metadata"]
    assert writer == patch(2.11, seconds=1.0)


def test_a_loss_is_final_while_the_trial_goes_on() -> None:
    """A loss is VIOLATED at once, even before the request that did it is logged."""
    finding = found(no_finalizer_lost, [*ADDED, pod(2.1, 16)], closed=False)
    assert finding.judgement is VIOLATED
    assert "on record yet" in finding.reason


@pytest.mark.parametrize(
    "others",
    [
        [patch(2.11, status=409)],
        [patch(2.11, name="b")],
        [patch(2.11, client="kueue-of-somebody-else")],
        [patch(1.2)],
        [patch(5.0, seconds=0.1)],
    ],
)
def test_no_other_write_is_blamed(others: list[Event]) -> None:
    """A refused write, one to another pod, of another client, or of another time is not the one that lost it."""
    finding = found(no_finalizer_lost, [*ADDED, pod(2.1, 16), *others, *ENDED])
    assert finding.judgement is VIOLATED
    assert "no request of Kueue is on record" in finding.reason


def test_the_nearest_of_several_writes_is_blamed() -> None:
    """Of two writes that were under way, the one that ended when the finalizer went is named."""
    writes = [patch(1.95, seconds=0.011), patch(2.11, seconds=0.022)]
    assert "22 ms" in found(no_finalizer_lost, [*ADDED, pod(2.1, 16), *writes, *ENDED]).reason


def test_a_write_whose_answer_was_late_is_blamed_all_the_same() -> None:
    """A write is under way from its begin to its answer, and may have been done at any moment between."""
    assert "(200, 900 ms)" in found(no_finalizer_lost, [*ADDED, pod(2.1, 16), patch(2.9, seconds=0.9), *ENDED]).reason


def test_an_owner_may_remove_its_own() -> None:
    """A finalizer that goes by its owner's write is not lost, and one that the owner adds again did not come back."""
    again = [*wrote("remove", 1.6, 15), pod(1.605, 15, KUEUE), *wrote("add", 1.7, 16), pod(1.705, 16, KUEUE, OURS)]
    events = [*ADDED, *again, pod(2.3, 17, OURS), *ENDED]
    assert found(no_finalizer_lost, events).judgement is HOLDS
    assert found(no_finalizer_returns, events).judgement is HOLDS


def test_a_removal_explains_only_the_state_it_made() -> None:
    """A finalizer that Kueue loses is lost although its owner removes it at another time."""
    earlier = [*wrote("add", 0.5, 11), pod(0.505, 11, KUEUE, OURS), *wrote("remove", 0.6, 12), pod(0.605, 12, KUEUE)]
    again = [*wrote("add", 2.5, 17), pod(2.505, 17, OURS), *wrote("remove", 2.6, 18), pod(2.605, 18)]
    later = [*ADDED[2:], pod(2.1, 16), *again]
    assert found(no_finalizer_lost, [*ADDED[:2], *earlier, *later, *ENDED]).judgement is VIOLATED


def test_a_removal_that_is_not_answered_yet_is_waited_for() -> None:
    """The watch may show the owner's removal before its answer is there: that is no loss."""
    asked = Step(2.0, "remove", {"pod": "a", "finalizer": OURS})
    assert found(no_finalizer_lost, [*ADDED, asked, pod(2.1, 16, KUEUE)], closed=False).judgement is HOLDS


def test_a_watch_that_skipped_states_blames_nobody() -> None:
    """When a watch began anew and shows two writes as one change, the owner's one among them explains its part."""
    events = [*ADDED, *wrote("remove", 2.0, 15), pod(2.3, 17), *ENDED]
    assert found(no_finalizer_lost, events).judgement is HOLDS


def test_a_pod_that_goes_with_a_finalizer_on_it_has_lost_it() -> None:
    """A pod being deleted that vanishes before the owner removed its finalizer is a loss, by the write that did it."""
    finding = found(no_finalizer_lost, [*ADDED, *DELETION, gone(2.1, 16, KUEUE, OURS), patch(2.11), *ENDED])
    assert finding.judgement is VIOLATED
    assert f"{OURS} of a, by {CLIENT}'s PATCH" in finding.reason


def test_a_pod_that_goes_after_its_owner_agreed_has_lost_nothing() -> None:
    """Removing the last finalizer deletes the pod at once, so that no state without it is ever seen."""
    removed = [pod(2.3, 16, OURS, deleting=True), *wrote("remove", 2.5, 17), gone(2.51, 18, OURS)]
    events = [*ADDED, *DELETION, *removed, *ENDED]
    assert found(no_finalizer_lost, events).judgement is HOLDS
    assert found(deleted_pods_go, events).judgement is HOLDS


def test_who_is_quicker_does_not_matter_once_the_owner_has_asked() -> None:
    """A pod may go by Kueue's write while its owner's, which asks for the same, is on its way and finds nothing."""
    events = [*ADDED, *DELETION, Step(2.05, "remove", {"pod": "a", "finalizer": OURS}), gone(2.1, 16, KUEUE, OURS)]
    answered = Step(2.2, "remove-done", {"pod": "a", "finalizer": OURS, "version": "gone"})
    assert found(no_finalizer_lost, events, closed=False).judgement is HOLDS
    assert found(no_finalizer_lost, [*events, answered, *ENDED]).judgement is HOLDS


def test_a_removal_long_ago_is_no_agreement() -> None:
    """An owner that removed its finalizer and added it again has not agreed that the pod goes."""
    again = [*wrote("remove", 1.6, 14), pod(1.605, 14, KUEUE), *wrote("add", 1.7, 15), pod(1.705, 15, KUEUE, OURS)]
    events = [*ADDED, *again, gone(2.1, 16, KUEUE, OURS), *ENDED]
    assert found(no_finalizer_lost, events).judgement is VIOLATED


def test_a_removed_finalizer_that_returns_is_told() -> None:
    """A finalizer that its owner removed and another write brings back is VIOLATED, with that write."""
    known = [submit(), pod(0.1, 10, KUEUE), *wrote("add", 0.5, 11), pod(0.505, 11, KUEUE, OURS), finish(1.0)]
    events = [*known, *wrote("remove", 1.5, 13), pod(1.505, 13, KUEUE), pod(2.1, 14, OURS), patch(2.11), SETTLE, *ENDED]
    finding = found(no_finalizer_returns, events)
    assert finding.judgement is VIOLATED
    assert f"1 came back, first {OURS} of a, by {CLIENT}'s PATCH" in finding.reason
    assert found(no_finalizer_lost, events).judgement is HOLDS


def test_every_lapse_counts() -> None:
    """Several losses are counted, of one pod and of several."""
    pods = [
        event
        for name in "ab"
        for event in (
            pod(0.1, 10, KUEUE, name=name),
            *wrote("add", 1.0, 11, OURS, name),
            *wrote("add", 1.1, 12, ANOTHER, name),
            pod(1.2, 12, OURS, ANOTHER, name=name),
            pod(2.0, 13, name=name),
        )
    ]
    assert "4 lost" in found(no_finalizer_lost, [submit("a", "b"), *pods]).reason


def test_letting_go_tells_how_long_it_took_and_how_often_it_was_refused() -> None:
    """Conflicts are no violation: they are counted in the reason, and the finding cites begin and end."""
    finding = found(kueue_lets_go, [*KEPT, *ENDED])
    assert finding.judgement is HOLDS
    assert "1 pod within 1.3 s; 1 conflict" in finding.reason
    begin, end = (history([*KEPT, *ENDED]).events[index] for index in finding.events)
    assert (begin.at, end.at) == (1.0, 2.3)


@pytest.mark.parametrize(
    ("events", "closed", "judgement"),
    [
        ([*ADDED], False, UNKNOWN),  # it has time
        ([*ADDED, *ENDED], True, UNKNOWN),  # nobody waited until the deadline
        ([*ADDED, ENDED[0], Step(8.0, "cleaned", {"left": []})], True, UNKNOWN),  # it was the clean-up that took long
        ([*ADDED, Step(0.5, "settle", {"deadline": 0.6})], True, UNKNOWN),  # that was before it finished
        ([*ADDED, *WAITED], True, VIOLATED),
        ([*ADDED, *WAITED, pod(7.4, 16, OURS)], True, VIOLATED),  # only the clean-up made it go
        ([*ADDED, pod(7.25, 16, OURS), *WAITED], True, VIOLATED),  # late
        ([*ADDED, pod(7.1, 16, OURS), *WAITED], True, HOLDS),
        ([*ADDED, gone(7.1, 16, KUEUE), *WAITED], True, HOLDS),
    ],
)
def test_letting_go_has_a_deadline(events: list[Event], closed: bool, judgement: Judgement) -> None:
    """Kueue's finalizer must be gone by the deadline of the next `settle`, and nothing is said before."""
    assert found(kueue_lets_go, events, closed=closed).judgement is judgement


def test_letting_go_is_asked_of_every_pod_that_finished() -> None:
    """One pod that is let go of does not speak for another; one that never finished is not asked about."""
    two: list[Event] = [submit("a", "b"), pod(0.1, 10, KUEUE), pod(0.1, 11, KUEUE, name="b"), SETTLE, pod(2.3, 12)]
    assert found(kueue_lets_go, [*two, finish(1.0, "a", "b"), *WAITED]).judgement is VIOLATED
    assert found(kueue_lets_go, [*two, finish(1.0), *WAITED]).judgement is HOLDS


def test_a_pod_that_nothing_holds_must_go() -> None:
    """A pod that is being deleted without finalizers and stays is VIOLATED at the end, and waited for before."""
    events = [*ADDED, pod(2.3, 16, deleting=True)]
    assert found(deleted_pods_go, events, closed=False).judgement is UNKNOWN
    assert found(deleted_pods_go, events).judgement is VIOLATED
    assert found(deleted_pods_go, [*events, gone(2.4, 17)]).judgement is HOLDS
    assert found(deleted_pods_go, [*ADDED, *DELETION]).judgement is HOLDS  # held, rightly
    assert found(deleted_pods_go, [*ADDED, pod(2.3, 16)]).judgement is HOLDS  # nobody wants it to go


@pytest.mark.parametrize("oracle", ALL)
@pytest.mark.parametrize("events", [[], [submit(), finish(1.0)]])
def test_a_history_that_shows_no_pod_decides_nothing(oracle: Oracle, events: list[Event]) -> None:
    """Without a pod in it a history is UNKNOWN, never a property that holds."""
    assert found(oracle, events).judgement is UNKNOWN


def test_only_our_own_view_of_that_cluster_counts() -> None:
    """A pod of the same name elsewhere, and what Kueue's own watch was told, are not this pod's states."""
    elsewhere = ObjectChange(2.1, "truth", "another", "pods", "MODIFIED", pod(2.1, 16).object)
    told = ObjectChange(2.1, "shadow", CLUSTER, "pods", "MODIFIED", pod(2.1, 16).object, client=CLIENT)
    assert found(no_finalizer_lost, [*KEPT, elsewhere, told, *ENDED]).judgement is HOLDS
