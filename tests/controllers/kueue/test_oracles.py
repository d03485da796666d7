"""MultiKueue's oracles on histories written by hand, after recorded ones: healthy, stuck in both ways, cut short."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdback.controllers.kueue import no_copy_without_nomination, no_orphan, readmitted
from holdback.history.events import Event, Step
from holdback.history.history import History
from holdback.oracles import Finding, Judgement
from holdback.oracles.judgement import Oracle, judge
from tests.controllers.kueue.moments import (
    MANAGER,
    WORKLOAD,
    cleaned,
    copy,
    delete,
    evict,
    manager,
    settle,
    submit,
    trial,
)

HOLDS, VIOLATED, UNKNOWN = Judgement.HOLDS, Judgement.VIOLATED, Judgement.UNKNOWN
BOTH = ("worker1", "worker2")

# Dispatched to both workers, admitted by the first; the second one's copy shows after the choice was made.
ADMITTED: list[Event] = [
    manager(0.1, change="ADDED"),
    submit(0.1),
    manager(0.2, "QuotaReserved"),
    manager(0.3, "QuotaReserved", nominated=BOTH),
    copy(0.4, "worker1"),
    manager(0.5, "QuotaReserved", on="worker1"),
    copy(0.55, "worker2"),
    manager(0.6, "QuotaReserved", "Admitted", on="worker1"),
    copy(0.7, "worker2", change="DELETED"),
]
# The manager takes the Workload back, gives up its quota and gets it again.
TAKEN_BACK: list[Event] = [
    evict(1.0),
    settle(1.1, deadline=18.1),
    manager(1.2, "QuotaReserved", "Admitted", on="worker1"),
    manager(1.3, "QuotaReserved", "Admitted", "Evicted"),
    manager(1.4, "Evicted"),
    manager(1.5, "QuotaReserved"),
]
AGAIN: list[Event] = [
    manager(1.7, "QuotaReserved", nominated=BOTH),
    copy(1.8, "worker2"),
    manager(2.1, "QuotaReserved", on="worker2"),
    manager(2.2, "QuotaReserved", "Admitted", on="worker2"),
]
ENDED: list[Event] = [delete(2.5), manager(2.6, "QuotaReserved", change="DELETED"), cleaned(2.8)]
WAITED: list[Event] = [delete(18.2), manager(18.3, "QuotaReserved", change="DELETED"), cleaned(18.5)]
HEALTHY = [*ADMITTED, *TAKEN_BACK, *AGAIN, *ENDED]


def asked(oracle: Oracle, history: History) -> Finding:
    """As a trial asks: a crash of the oracle is UNKNOWN."""
    (finding,) = judge(history, [oracle])
    return finding


def without(events: Sequence[Event], name: str) -> list[Event]:
    return [event for event in events if not (isinstance(event, Step) and event.name == name)]


def test_a_healthy_trial_holds_in_everything() -> None:
    """Evicted, taken back, nominated anew, admitted on the other worker, cleaned: every oracle says HOLDS."""
    findings = judge(trial(*HEALTHY), [readmitted, no_copy_without_nomination, no_orphan])
    assert [finding.judgement for finding in findings] == [HOLDS, HOLDS, HOLDS]
    assert findings[0].reason == "admitted again on worker2 1.2 s after the eviction"


# readmitted


def test_a_readmission_cites_its_events() -> None:
    """The finding names the eviction and the state that shows the admission."""
    history = trial(*HEALTHY)
    cited = [history.events[index] for index in asked(readmitted, history).events]
    assert cited == [evict(1.0), manager(2.2, "QuotaReserved", "Admitted", on="worker2")]


def test_never_admitted_again_is_violated_at_the_deadline() -> None:
    """A Workload that stays open until the deadline that `settle` set violates, in words that say since when."""
    finding = asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, *WAITED))
    assert (finding.judgement, finding.reason) == (
        VIOLATED,
        "not admitted again 17.1 s after the eviction on worker1",
    )


def test_a_manager_that_never_reacted_is_told_apart() -> None:
    """A Workload that the manager goes on showing as admitted where it was evicted violates, and is called that."""
    finding = asked(readmitted, trial(*ADMITTED, *TAKEN_BACK[:3], *WAITED))
    assert finding.judgement is VIOLATED
    assert finding.reason.startswith("still shown as admitted on the worker that evicted it")


def test_an_early_end_decides_nothing() -> None:
    """A stuck trial that another oracle ended before the deadline stays UNKNOWN: it was not waited for."""
    finding = asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, *ENDED))
    assert (finding.judgement, finding.reason) == (UNKNOWN, "the trial ended before its deadline")


def test_cleaning_up_is_no_waiting() -> None:
    """A clean-up that goes on past the deadline does not count as having waited for it."""
    finding = asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, delete(10.0), cleaned(19.0)))
    assert finding.judgement is UNKNOWN


def test_an_admission_by_cleaning_up_does_not_count() -> None:
    """Reopening the drained queue may heal a stuck Workload: what comes after `delete` is not a re-admission."""
    healed = manager(18.25, "QuotaReserved", "Admitted", on="worker1")
    assert asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, *WAITED, healed)).judgement is VIOLATED
    early = manager(2.55, "QuotaReserved", "Admitted", on="worker1")
    assert asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, *ENDED, early)).judgement is UNKNOWN


def test_an_open_history_is_waited_for() -> None:
    """As long as the trial goes on, a Workload that is not admitted again is not decided, even past the deadline."""
    waiting = [*ADMITTED, *TAKEN_BACK]
    assert asked(readmitted, trial(*waiting, closed=False)).judgement is UNKNOWN
    past = manager(18.2, "QuotaReserved")
    assert asked(readmitted, trial(*waiting, past, closed=False)).judgement is UNKNOWN
    assert asked(readmitted, trial(*waiting, *AGAIN, closed=False)).judgement is HOLDS


def test_admitted_again_too_late_is_violated() -> None:
    """An admission after the deadline is a violation that tells how late it was."""
    late = manager(18.4, "QuotaReserved", "Admitted", on="worker2")
    finding = asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, late, delete(19.0)))
    assert (finding.judgement, finding.reason) == (
        VIOLATED,
        "admitted again on worker2 only 17.4 s after the eviction, 0.3 s past the deadline",
    )


def test_what_was_before_the_eviction_does_not_count() -> None:
    """Neither an open Workload nor an admission from before the eviction is taken for one after it."""
    before = [manager(0.8, "QuotaReserved"), manager(0.9, "QuotaReserved", "Admitted", on="worker1")]
    assert asked(readmitted, trial(*ADMITTED, *before, *TAKEN_BACK[:3], *WAITED)).judgement is VIOLATED


def test_admitted_without_a_worker_is_not_admitted_again() -> None:
    """The manager shows `Admitted` for a moment after it took the worker's name away: that is no admission."""
    between = manager(1.6, "QuotaReserved", "Admitted")
    assert asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, between, *WAITED)).judgement is VIOLATED


def test_a_state_that_the_watch_left_out_is_not_needed() -> None:
    """Admitted on another worker is admitted again, even if a broken watch skipped the states between."""
    skipped = manager(2.2, "QuotaReserved", "Admitted", on="worker2")
    assert asked(readmitted, trial(*ADMITTED, evict(1.0), settle(1.1, 18.1), skipped, *ENDED)).judgement is HOLDS


def test_the_last_look_of_a_deleted_workload_is_no_admission() -> None:
    """A Workload deleted while it was admitted is not admitted again by the event of its deletion."""
    gone = manager(1.6, "QuotaReserved", "Admitted", on="worker2", change="DELETED")
    assert asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, gone, *WAITED)).judgement is VIOLATED


def test_every_eviction_is_judged() -> None:
    """A second eviction that holds does not hide a first one that did not."""
    second = [evict(18.2, on="worker2"), settle(18.3, deadline=35.0)]
    healed = [manager(19.0, "QuotaReserved"), manager(19.5, "QuotaReserved", "Admitted", on="worker1")]
    finding = asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, *second, *healed, delete(20.0)))
    assert finding.judgement is VIOLATED


def test_a_deadline_belongs_to_the_eviction_before_it() -> None:
    """An eviction after the last `settle` was waited for by nobody, so it is not decided."""
    second: list[Event] = [evict(19.0, on="worker2"), manager(19.5, "QuotaReserved"), delete(20.0)]
    assert asked(readmitted, trial(*ADMITTED, *TAKEN_BACK, *AGAIN, *second)).judgement is UNKNOWN


# no_copy_without_nomination


def judged_with(*copies: Event) -> Finding:
    return asked(no_copy_without_nomination, trial(*ADMITTED, *TAKEN_BACK, *copies, *WAITED))


def test_a_copy_right_after_the_round_ended_is_violated() -> None:
    """Stuck, first way: the Workload was just taken back, and the other worker gets a copy that nobody nominated."""
    finding = judged_with(copy(1.35, "worker2"))
    assert finding.judgement is VIOLATED
    assert finding.reason == f"a copy of {WORKLOAD} appeared on worker2, which was not nominated in that round"
    assert len(finding.events) == 1


def test_a_copy_in_a_new_round_that_nominates_nobody_is_violated() -> None:
    """Stuck, second way: quota is reserved again, no nomination was written, yet a copy appears."""
    assert judged_with(copy(1.6, "worker2")).judgement is VIOLATED


def test_a_nomination_may_reach_us_after_its_copy() -> None:
    """Two watches have no common order: a nomination that arrives 0.4 s after the copy still allows it."""
    late = manager(2.0, "QuotaReserved", nominated=BOTH)
    assert judged_with(copy(1.6, "worker2"), late).judgement is HOLDS


def test_a_nomination_that_comes_much_later_is_none() -> None:
    """A nomination a second after the copy did not lead to it."""
    later = manager(2.6, "QuotaReserved", nominated=BOTH)
    assert judged_with(copy(1.6, "worker2"), later).judgement is VIOLATED


def test_a_copy_on_its_way_when_the_quota_was_lost_is_allowed() -> None:
    """A worker still nominated when the round ended may show its copy after: it was on its way already."""
    lost = [manager(1.6, "QuotaReserved", nominated=BOTH), manager(1.7)]
    assert judged_with(*lost, copy(1.8, "worker2")).judgement is HOLDS


def test_a_nomination_does_not_outlive_two_rounds() -> None:
    """What was nominated in the round before the last one allows nothing."""
    lost = [manager(1.6, "QuotaReserved", nominated=BOTH), manager(1.7), manager(1.8, "QuotaReserved"), manager(1.9)]
    assert judged_with(*lost, copy(2.0, "worker2")).judgement is VIOLATED


def test_a_round_that_ends_after_the_copy_does_not_forbid_it() -> None:
    """The second worker's copy of a finished choice stays allowed when the Workload is taken back right after it."""
    quick = [manager(0.58, "QuotaReserved", "Evicted"), copy(0.59, "worker1", change="DELETED")]
    assert asked(no_copy_without_nomination, trial(*ADMITTED[:7], *quick, delete(1.0))).judgement is HOLDS


def test_the_worker_where_it_runs_may_get_a_copy() -> None:
    """The chosen worker is allowed even if no watch ever showed its nomination."""
    running = manager(0.3, "QuotaReserved", "Admitted", on="worker1")
    assert asked(no_copy_without_nomination, trial(submit(0.1), running, copy(0.4, "worker1"))).judgement is HOLDS


def test_only_a_nominated_worker_may_get_a_copy() -> None:
    """A nomination of one worker does not allow a copy on the other."""
    nominated = manager(1.6, "QuotaReserved", nominated=["worker1"])
    assert judged_with(nominated, copy(1.8, "worker2")).judgement is VIOLATED


def test_copies_are_judged_at_the_end_only() -> None:
    """While the trial goes on a wrong copy does not end it: what becomes of it is to be seen."""
    going_on = trial(*ADMITTED, *TAKEN_BACK, copy(1.6, "worker2"), closed=False)
    assert asked(no_copy_without_nomination, going_on).judgement is HOLDS


def test_copies_without_any_record_of_the_manager_decide_nothing() -> None:
    """When nothing of the manager was recorded, nobody can say what it nominated."""
    unseen = [event for event in HEALTHY if getattr(event, "cluster", "") != MANAGER]
    assert asked(no_copy_without_nomination, trial(*unseen)).judgement is UNKNOWN


# no_orphan


def test_what_is_left_is_an_orphan() -> None:
    """Anything left after the clean-up violates, by name."""
    finding = asked(no_orphan, trial(submit(0), delete(1), cleaned(21, "worker1 workloads job-a")))
    assert (finding.judgement, finding.reason) == (VIOLATED, "left after the end: worker1 workloads job-a")
    assert finding.events == (2,)


def test_nothing_cleaned_up_decides_nothing_at_the_end() -> None:
    """Orphans cannot be excluded where nobody looked; while the trial goes on there is nothing to wait for."""
    assert asked(no_orphan, trial(submit(0))).judgement is UNKNOWN
    assert asked(no_orphan, trial(submit(0), closed=False)).judgement is HOLDS


# evidence with holes


@pytest.mark.parametrize(
    ("oracle", "step"),
    [
        (readmitted, "submit"),
        (readmitted, "evict"),
        (no_copy_without_nomination, "submit"),
        (no_orphan, "cleaned"),
    ],
)
def test_a_missing_or_damaged_step_decides_nothing(oracle: Oracle, step: str) -> None:
    """Without a step that it needs, or with one that lacks its details, an oracle says UNKNOWN and never HOLDS."""
    rest = without(HEALTHY, step)
    assert asked(oracle, trial(*rest)).judgement is UNKNOWN
    (damaged,) = [Step(event.at, step) for event in HEALTHY if isinstance(event, Step) and event.name == step]
    assert asked(oracle, trial(*rest, damaged)).judgement is UNKNOWN


def test_without_its_deadline_a_stuck_trial_is_not_decided() -> None:
    """No `settle`, or one without a deadline: not admitted again is UNKNOWN then."""
    rest = without([*ADMITTED, *TAKEN_BACK, *WAITED], "settle")
    assert asked(readmitted, trial(*rest)).judgement is UNKNOWN
    assert asked(readmitted, trial(*rest, Step(1.1, "settle"))).judgement is UNKNOWN
