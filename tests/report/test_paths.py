from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdback.history.events import Event, ObjectChange, Step
from holdback.history.history import History
from holdback.report.paths import Kinds, Path, choose, compare
from holdback.trials.outcome import Outcome
from tests.report.sample import history, row
from tests.report.stories import START, workload

CONTROL = [row("control", index, Outcome.VIOLATED) for index in range(4)]
TREATMENT = [row("treatment", index, Outcome.HOLDS) for index in range(4)]

Happening = tuple[str, dict[str, Any]]
"""Where, and the parts of the Workload as it is then."""


def told(arm: str, first: str, *happened: Happening) -> History:
    """A trial whose Workload was on `first` at the beginning, and then went through these states."""
    manager = f"manager-{arm}"
    events: list[Event] = [Step(START, "evict", {"manager": manager, "on": first})]
    for number, (cluster, status) in enumerate(happened):
        made = workload(number, metadata={"namespace": arm, "name": f"job-{arm}"}, **status)
        where = manager if cluster == "manager" else cluster
        events.append(ObjectChange(START + number, "truth", where, "workloads", "MODIFIED", made))
    return History(tuple(events), scope={"trial": f"{arm}-1", "arm": arm, "namespaces": [arm]})


def compared(held: Sequence[History], violated: Sequence[History]) -> tuple[Path, Path]:
    kinds = Kinds()
    for each in held:
        kinds.add(Outcome.HOLDS, each)
    for each in violated:
        kinds.add(Outcome.VIOLATED, each)
    return compare((TREATMENT[0], held[0]), (CONTROL[0], violated[0]), kinds)


RESERVED: Happening = ("manager", {"true": ("QuotaReserved",)})
NOMINATED: Happening = ("manager", {"true": ("QuotaReserved",), "nominatedClusterNames": ["worker1", "worker2"]})
COPY: Happening = ("worker2", {"true": ("Admitted",)})


def test_the_step_that_one_kind_leaves_out_is_where_they_part() -> None:
    """Held trials nominate before there is a copy, violated ones do not: both paths are marked there."""
    happy, unhappy = compared(
        [told("treatment", "worker1", RESERVED, NOMINATED, COPY)] * 3, [told("control", "worker1", RESERVED, COPY)] * 3
    )
    assert happy.parting is not None
    assert "nominated" in happy.parting.entry.text
    assert happy.missing is None
    assert unhappy.parts == 2  # after the eviction and the reservation
    assert unhappy.missing is not None
    assert "nominated" in unhappy.missing.entry.text
    assert (unhappy.missing.mine, unhappy.missing.of_mine, unhappy.missing.theirs) == (3, 3, 0)


def test_which_worker_it_was_makes_no_difference() -> None:
    """A worker is told by the part it plays: paths that mirror each other are alike."""
    gone, elsewhere = ("worker2", {"true": ("Evicted",)}), ("worker1", {"true": ("Admitted",)})
    mirrored = told("control", "worker2", gone, RESERVED, elsewhere)
    plain = told("treatment", "worker1", ("worker1", gone[1]), RESERVED, ("worker2", elsewhere[1]))
    happy, unhappy = compared([plain], [mirrored])
    assert happy.parts is None
    assert unhappy.parts is None


def test_what_differs_by_chance_is_not_marked() -> None:
    """A line that half of either kind has says nothing, though these two trials differ in it."""
    noise: Happening = ("worker1", {"true": ("Requeued",)})
    held = [told("treatment", "worker1", RESERVED, *([noise] if odd else [])) for odd in (1, 0, 1, 0)]
    violated = [told("control", "worker1", RESERVED, *([noise] if odd else [])) for odd in (0, 1, 0, 1)]
    assert [path.parts for path in compared(held, violated)] == [None, None]


def test_the_second_time_is_another_thing_than_the_first() -> None:
    """Admitted once is not admitted again."""
    again: list[Happening] = [RESERVED, NOMINATED, RESERVED, NOMINATED]
    happy, _ = compared([told("treatment", "worker1", *again)], [told("control", "worker1", *again[:2])])
    assert happy.parts == 3


def test_times_and_versions_make_no_difference() -> None:
    """What every trial says in numbers of its own is the same in all of them."""
    held, violated = (
        History((*told(arm, "worker1", RESERVED).events, Step(START + 9, "added", {"version": version})))
        for arm, version in (("treatment", 357), ("control", 1042))
    )
    assert [path.parts for path in compared([held], [violated])] == [None, None]


def test_order_within_a_change_does_not_count() -> None:
    """Two conditions set at once are the same in either order."""
    one = ("manager", {"true": ("QuotaReserved", "Evicted")})
    other = ("manager", {"true": ("Evicted", "QuotaReserved")})
    happy, unhappy = compared([told("treatment", "worker1", one)], [told("control", "worker1", other)])
    assert (happy.parts, unhappy.parts) == (None, None)


def test_a_long_path_is_folded_around_what_matters() -> None:
    """Before, shown and after make up the whole path, and the parting line is shown."""
    kinds = Kinds()
    happy, unhappy = ((each, history(each, events=90)) for each in (TREATMENT[0], CONTROL[0]))
    for each, happened in (happy, unhappy):
        kinds.add(each.outcome, happened)
    for path in compare(happy, unhappy, kinds):
        assert path.before + path.shown + path.after == path.lines
        assert path.parting in path.shown
        assert path.before
        assert len(path.shown) < len(path.lines)


def test_the_pair_is_of_one_block_and_of_both_arms() -> None:
    """A violated control and the held treatment beside it are chosen before any other pair."""
    strangers = [replace(CONTROL[3], outcome=Outcome.HOLDS), replace(TREATMENT[3], outcome=Outcome.VIOLATED)]
    rows = [*strangers, *CONTROL[1:3], *TREATMENT[2:3]]
    assert choose(rows, lambda _: True) == (TREATMENT[2], CONTROL[2])


def test_any_pair_is_better_than_none() -> None:
    """Two trials of one arm will do; unusable ones will not; one kind alone has no pair."""
    held = replace(CONTROL[1], outcome=Outcome.HOLDS)
    assert choose([CONTROL[0], held], lambda _: True) == (held, CONTROL[0])
    assert choose(CONTROL, lambda _: True) is None
    assert choose([*CONTROL, *TREATMENT], lambda each: each.arm == "control") is None
