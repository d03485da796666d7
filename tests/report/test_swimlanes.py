from dataclasses import replace
from typing import Any

from holdback.history.events import FaultChange, ObjectChange, Request, Step
from holdback.history.history import History
from holdback.report.swimlanes import BLOCKED, DELAYED, Swimlanes, swimlanes
from tests.report.stories import CLIENT, MANAGER, START, STATUS_PATH, change, refused, stuck, workload


def drawn(*events: Any, **scope: Any) -> Swimlanes:
    return swimlanes(History(events, scope=scope))


def spans(picture: Swimlanes, kind: str) -> list[tuple[str, float, float, str]]:
    return [
        (span.lane.cluster or span.lane.name, round(span.start, 3), round(span.end, 3), span.state)
        for span in picture.spans
        if span.lane.kind == kind
    ]


def test_a_bar_is_a_state_from_its_change_to_the_next() -> None:
    """Bars follow each other without gap or overlap, and end with the object or with the trial."""
    picture = drawn(
        change(0, MANAGER, workload(1), "ADDED"),
        change(1, MANAGER, workload(2, true=("QuotaReserved",))),
        change(2, MANAGER, workload(3, true=("QuotaReserved", "Admitted"))),
        change(3, MANAGER, workload(3, true=("QuotaReserved", "Admitted")), "DELETED"),
        change(4, "worker1", workload(1), "ADDED"),
        Step(START + 6, "end"),
    )
    assert spans(picture, "truth") == [
        (MANAGER, 0, 1, "pending"),
        (MANAGER, 1, 2, "quota reserved"),
        (MANAGER, 2, 3, "admitted"),
        ("worker1", 4, 6, "pending"),
    ]


def test_a_change_without_another_state_does_not_break_the_bar() -> None:
    """Many writes in one state are one bar."""
    picture = drawn(*(change(at, MANAGER, workload(at, true=("Admitted",))) for at in range(5)))
    assert spans(picture, "truth") == [(MANAGER, 0, 4, "admitted")]


def test_states_of_a_workload() -> None:
    """Finished, admitted and reserved come before evicted, which a Workload stays on record as."""
    one = workload(1, true=("Evicted",))
    others = [workload(2, true=("Evicted", "QuotaReserved")), workload(3, true=("Finished", "Admitted"))]
    inactive = workload(4, spec={"active": False})
    going = workload(5, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    objects = [one, *others, inactive, going]
    picture = drawn(*(change(at, MANAGER, each) for at, each in enumerate(objects)), Step(START + 5, "end"))
    assert [state for *_, state in spans(picture, "truth")] == [
        "evicted",
        "quota reserved",
        "finished",
        "deactivated",
        "being deleted",
    ]


def test_faults_are_bands_and_blocking_ones_differ() -> None:
    """A fault lasts from its start to its verified end, or to the end of what was recorded."""
    picture = drawn(
        FaultChange(START, "delay", "started", ("a",), 100),
        FaultChange(START + 1, "hold", "started", ("a",), blocks=True),
        FaultChange(START + 2, "delay", "ended", ("a",), 100),
        Step(START + 5, "end"),
    )
    assert spans(picture, "fault") == [("delay", 0, 2, DELAYED), ("hold", 1, 5, BLOCKED)]


def test_every_refusal_has_its_mark_though_one_entry_tells_them_all() -> None:
    """Nine refusals are nine marks on the line of requests, all of one entry."""
    picture = swimlanes(stuck())
    entry = next(number for number, each in enumerate(picture.entries) if "9 times" in each.text)
    marks = [mark for mark in picture.marks if mark.entry == entry]
    assert len(marks) == 9
    assert {mark.lane.kind for mark in marks} == {"requests"}
    assert picture.tones[entry] == "refused"


def test_a_conflict_is_no_refusal() -> None:
    """A write that came too late is not red: every controller meets that."""
    picture = drawn(
        replace(refused(0), status=409), refused(1), Request(START + 2, CLIENT, MANAGER, "PATCH", STATUS_PATH, 200, 0.1)
    )
    assert picture.tones == ("passing", "refused", "request")


def test_lanes_from_top_to_bottom() -> None:
    """Scenario, faults, then each cluster's objects with what the controller was told below them, then requests."""
    kinds = [(lane.kind, lane.cluster) for lane in swimlanes(stuck()).lanes]
    assert kinds == [
        ("scenario", ""),
        ("fault", ""),
        ("truth", MANAGER),
        ("shadow", MANAGER),
        ("truth", "worker2"),
        ("requests", MANAGER),
    ]


def test_other_trials_of_the_world_are_not_drawn() -> None:
    """What another arm does in its own namespace, and other controllers' requests, have no lane."""
    foreign = workload(1, metadata={"namespace": "treatment"})
    picture = drawn(
        change(0, MANAGER, workload(1), "ADDED"),
        ObjectChange(START + 1, "truth", "manager-treatment", "workloads", "ADDED", foreign),
        Request(START + 2, "kueue-manager-treatment", MANAGER, "PATCH", STATUS_PATH, 403, 0.1),
        namespaces=["control"],
        clients=[CLIENT],
    )
    assert [lane.cluster for lane in picture.lanes] == [MANAGER]


def test_shadows_of_controllers_that_are_not_under_test_are_not_drawn() -> None:
    """What the other arm's controller was told of an object of this trial, on a shared worker, has no lane."""
    seen = [
        change(0, "worker1", workload(1), "ADDED"),
        change(0.1, "worker1", workload(1), "ADDED", view="shadow", client=CLIENT),
        change(0.2, "worker1", workload(1), "ADDED", view="shadow", client="kueue-manager-treatment"),
    ]
    assert [lane.client for lane in drawn(*seen, clients=[CLIENT]).lanes] == ["", CLIENT]
    titles = [title for title, _ in drawn(*seen).to_json()["lanes"]]
    assert titles[1:] == [f"worker1 workloads, as {who} was told" for who in (CLIENT, "kueue-manager-treatment")]


def test_json_refers_by_index() -> None:
    """Each bar and mark of the page's data points at a lane and an entry that exist."""
    data = swimlanes(stuck()).to_json()
    assert {lane for lane, *_ in data["spans"] + data["marks"]} <= set(range(len(data["lanes"])))
    assert {entry for *_, entry in data["marks"]} == set(range(len(data["entries"])))
    assert [name for name, kind in data["lanes"] if kind == "shadow"] == [
        f"{MANAGER} workloads, as the controller was told"
    ]


def test_an_empty_history_has_no_lanes() -> None:
    """A trial that recorded nothing is drawn as nothing."""
    assert drawn().to_json() == {"seconds": 0.0, "lanes": [], "spans": [], "marks": [], "entries": []}
