from dataclasses import replace

from holdback.history.events import FaultChange, Note, Request, Step
from holdback.history.history import History
from holdback.report.kueue import DESCRIBERS
from holdback.report.timeline import timeline
from tests.report.stories import CLIENT, MANAGER, START, change, stuck, workload


def told(history: History, **options: bool) -> list[tuple[float, str, str]]:
    return [(round(each.seconds, 3), each.lane, each.text) for each in timeline(history, DESCRIBERS, **options)]


def test_a_stuck_trial_reads_as_it_happened() -> None:
    """Steps, faults, both copies' changes and the refused writes stand in one order, each in its lane."""
    assert told(stuck()) == [
        (0.0, "step", "submit workload=job-a workers=worker1,worker2 dose=0.5"),
        (0.1, MANAGER, "Workload: appears; nominated: worker1, worker2"),
        (
            0.5,
            MANAGER,
            "Workload: QuotaReserved=True (WasQuotaReserved); Admitted=True (WasAdmitted); "
            "nomination cleared; clusterName = worker1",
        ),
        (1.0, "fault", "delay 100 ms on kueue>worker1 started"),
        (
            1.2,
            MANAGER,
            "Workload: Evicted=True (WasEvicted); QuotaReserved=False (NotQuotaReserved); Admitted=False (NotAdmitted)",
        ),
        (1.5, "worker2", "Workload: appears"),
        (2.005, "request", f"{CLIENT} > {MANAGER}: 403 PATCH workloads/job-a/status, 9 times over 1.3 s"),
        (4.0, "step", "settle deadline=in 17.0 s"),
        (4.5, "worker2", "Workload: deleted"),
        (5.0, "request", f"{CLIENT} > {MANAGER}: 403 PATCH workloads/job-a/status"),
        (6.0, "fault", "delay 100 ms on kueue>worker1 ended"),
    ]


def test_collapsed_requests_stand_for_each_of_their_events() -> None:
    """The entry of nine refusals names nine events, so that a finding that cites one of them is found in it."""
    (entry, _) = (each for each in timeline(stuck(), DESCRIBERS) if each.tone == "refused")
    assert len(entry.events) == 9


def test_the_shadow_says_who_saw_it_and_how_late() -> None:
    """With `shadow` what the controller was told is shown with its delay against the truth."""
    shown = [text for _, lane, text in told(stuck(), shadow=True) if lane == f"{MANAGER} (shadow)"]
    assert len(shown) == 1
    assert shown[0].endswith(f"[seen by {CLIENT}, 800 ms late]")
    assert not [lane for _, lane, _ in told(stuck()) if "shadow" in lane]


def test_reads_and_accepted_writes_are_shown_when_asked_for() -> None:
    """With `requests` all of the controller's requests appear, and still none of another controller."""
    ours = Request(START + 7, CLIENT, "worker1", "GET", "/apis/batch/v1/jobs", 200, 0.1, watch=True)
    others = replace(ours, client="kueue-manager-treatment")
    history = replace(stuck(), events=(*stuck().events, ours, others))
    assert [text for _, lane, text in told(history, requests=True) if lane == "request"][2:] == [
        f"{CLIENT} > worker1: 200 WATCH jobs"
    ]
    assert told(history) == told(stuck())


def test_deleting_what_is_gone_is_no_refusal() -> None:
    """A 404 for a DELETE is how a controller makes sure: shown with all requests, not with the refused writes."""
    gone = Request(START + 7, CLIENT, "worker1", "DELETE", "/apis/batch/v1/namespaces/control/jobs/a", 404, 0.1)
    history = replace(stuck(), events=(*stuck().events, gone))
    assert told(history) == told(stuck())
    assert told(history, requests=True)[-1][2] == f"{CLIENT} > worker1: 404 DELETE jobs/a"


def test_a_triggered_fault_says_what_brought_it_about() -> None:
    """A fault that started or ended at an event names it, and how many milliseconds later it was complete."""
    seen = "workloads on worker*: status.conditions[Evicted].status=True + 0.5 s"
    events = [
        FaultChange(START, "hold a>b", "started", blocks=True, trigger=seen, reaction=0.0034),
        FaultChange(START + 2, "hold a>b", "ended", blocks=True, trigger="end of cut a>b"),
    ]
    assert [text for _, _, text in told(replace(stuck(), events=tuple(events)))] == [
        f"hold a>b started, 3 ms after {seen}",
        "hold a>b ended, end of cut a>b",
    ]


def test_long_names_lose_their_middle() -> None:
    """Names in steps and paths are cut in the middle, so that a line holds more than one of them."""
    name = "job-an-evicted-workload-is-admitted-again-control-001-ae9e2"
    refusal = Request(
        START + 7, CLIENT, MANAGER, "PATCH", f"/apis/g/v1/namespaces/control/workloads/{name}/status", 403, 0.1
    )
    history = replace(stuck(), events=(Step(START, "submit", {"workload": name}), refusal))
    assert [text for _, _, text in told(history)] == [
        "submit workload=job-an-evicted-w...ol-001-ae9e2",
        f"{CLIENT} > {MANAGER}: 403 PATCH workloads/job-an-evicted-w...ol-001-ae9e2/status",
    ]


def test_objects_of_other_namespaces_are_left_out() -> None:
    """Another arm's Workload on a shared worker is no part of the story."""
    foreign = change(7, "worker1", workload(metadata={"namespace": "treatment", "name": "job-b"}), "ADDED")
    assert told(replace(stuck(), events=(*stuck().events, foreign))) == told(stuck())


def test_several_objects_of_a_kind_are_told_apart() -> None:
    """With a second Workload in the namespace each line names its own."""
    second = change(7, "worker1", workload(metadata={"name": "job-b"}), "ADDED")
    texts = [text for _, _, text in told(replace(stuck(), events=(*stuck().events, second)))]
    assert "Workload job-b: appears" in texts
    assert "Workload job-a: deleted" in texts


def test_a_state_that_says_nothing_new_is_left_out() -> None:
    """Only a resource version or a timestamp moved: no entry, and refusals around it stay one group."""
    events = list(stuck().events)
    events.insert(11, change(2.1, "worker2", workload(99)))
    assert told(replace(stuck(), events=tuple(events))) == told(stuck())


def test_notes_and_empty_histories() -> None:
    """A note is told under its source; a history without events has no entries."""
    assert told(History((Note(START, "kueue", "exited with 2", fatal=True),))) == [(0.0, "kueue", "exited with 2")]
    assert told(History(())) == []
