from __future__ import annotations

import pytest

from holdback.traffic.lanes import Lane, Link

LINK = Link("kueue", "worker1", ("workloads", "jobs"), ("pods",))


def test_a_link_has_a_lane_for_each_kind_of_traffic() -> None:
    """The lanes of a link are its watched resources, other watches, reads, the writes to a resource, other writes."""
    assert [lane.name for lane in LINK.lanes] == [
        "kueue>worker1/watch:workloads",
        "kueue>worker1/watch:jobs",
        "kueue>worker1/watches",
        "kueue>worker1/reads",
        "kueue>worker1/writes:pods",
        "kueue>worker1/writes",
    ]


@pytest.mark.parametrize(
    "lane",
    [
        LINK.watch("workloads"),
        LINK.watch("pods"),
        LINK.watches,
        LINK.reads,
        LINK.write("pods"),
        LINK.write("jobs"),
        LINK.writes,
    ],
)
def test_every_lane_one_can_name_is_among_them(lane: Lane) -> None:
    """What a link's attributes give are lanes that the link has, whether a resource has one of its own or not."""
    assert lane in LINK.lanes
    assert lane.lanes == (lane,)


def test_links_with_other_watches_are_not_the_same() -> None:
    """Two links between the same ends with other lanes differ, so that a fault never misses a lane in silence."""
    assert Link("kueue", "worker1") != LINK


def test_lanes_of_watches_are_known() -> None:
    """The lanes of a watched resource and of all other watches carry watches, reads and writes do not."""
    assert [lane.kind for lane in LINK.lanes if lane.is_watch] == ["watch:workloads", "watch:jobs", "watches"]
