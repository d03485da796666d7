from __future__ import annotations

import pytest

from holdback.errors import ConfigurationError
from holdback.faults.triggers import After, FaultEnded, Injection, ObjectSeen, RequestSeen, steps_of
from holdback.faults.values import Hold
from holdback.traffic.lanes import Link

LINK = Link("kueue", "worker1")


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("status.clusterName", ("status", "clusterName")),
        ("status.conditions[Ready].status", ("status", "conditions", "[Ready", "status")),
        ("metadata.labels[example.com/a.b]", ("metadata", "labels", "[example.com/a.b")),
        ("checks[*].state", ("checks", "[*", "state")),
    ],
)
def test_paths_are_taken_apart(path: str, steps: tuple[str, ...]) -> None:
    """Dots part the steps, except in brackets, which are steps of their own."""
    assert steps_of(path) == steps


@pytest.mark.parametrize("path", ["", ".status", "a..b", "a[b", "a]b", "a[]"])
def test_what_is_no_path_is_refused_at_once(path: str) -> None:
    """A mistake in a path is an error where the trigger is made, not a trigger that never fires."""
    with pytest.raises(ConfigurationError, match="no path"):
        ObjectSeen("pods", on="worker1", where={path: "x"})


def test_impossible_triggers_are_refused() -> None:
    """Negative times and changes that no watch tells are errors."""
    for make in (
        lambda: ObjectSeen("pods", on="w", within=-1),
        lambda: RequestSeen(later=-0.1),
        lambda: FaultEnded("hold x", within=-1),
        lambda: After(-1),
        lambda: ObjectSeen("pods", on="w", change="GONE"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigurationError):
            make()


def test_a_trigger_tells_what_it_waits_for() -> None:
    """Errors and timelines name the event in words."""
    retry = ObjectSeen("workloads", on="m", name="w", where={"status.state": "Retry", "status.x": None}, later=1)
    assert str(retry) == "workloads w on m: status.state=Retry, status.x=nothing + 1 s"
    assert str(RequestSeen("PATCH", "*/status", 409, on="m")) == "the controller's PATCH */status on m answered 409"
    assert str(Injection((Hold(LINK),), retry, After(2))) == f"hold kueue>worker1 from {retry} to 2 s"
    assert str(FaultEnded(Hold(LINK))) == "end of hold kueue>worker1"
