"""holdback proves whether a fix removes a flake in a Kubernetes controller.

What a scenario needs is here: `import holdback`, then `@holdback.experiment(oracles=[...])`, `holdback.Trial`, and
the faults (`holdback.Delay`, `holdback.Hold`, `holdback.Cut` and those in docs/faults.md), and what they start and end
at: `holdback.ObjectSeen`, `holdback.RequestSeen`, `holdback.FaultEnded`, `holdback.After`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdback.errors import HoldbackError, Undecidable
    from holdback.faults.patterns import stale_state, time_travel, unobserved_state
    from holdback.faults.triggers import After, FaultEnded, ObjectSeen, RequestSeen
    from holdback.faults.values import (
        Answer,
        Cut,
        Delay,
        Fault,
        Hold,
        Kill,
        Pause,
        Restart,
        Slow,
        TimeTravel,
        Toxic,
        Unobserved,
    )
    from holdback.history.history import History
    from holdback.oracles.judgement import Finding, Judgement, Oracle
    from holdback.oracles.rejections import no_endless_rejection
    from holdback.traffic.lanes import Lane, Link
    from holdback.trials.arms import experiment
    from holdback.trials.outcome import Outcome
    from holdback.trials.trial import Trial

__all__ = [
    "After",
    "Answer",
    "Cut",
    "Delay",
    "Fault",
    "FaultEnded",
    "Finding",
    "History",
    "Hold",
    "HoldbackError",
    "Judgement",
    "Kill",
    "Lane",
    "Link",
    "ObjectSeen",
    "Oracle",
    "Outcome",
    "Pause",
    "RequestSeen",
    "Restart",
    "Slow",
    "TimeTravel",
    "Toxic",
    "Trial",
    "Undecidable",
    "Unobserved",
    "experiment",
    "no_endless_rejection",
    "stale_state",
    "time_travel",
    "unobserved_state",
]

_HOMES = {
    "holdback.errors": ("HoldbackError", "Undecidable"),
    "holdback.faults.patterns": ("stale_state", "time_travel", "unobserved_state"),
    "holdback.faults.triggers": ("After", "FaultEnded", "ObjectSeen", "RequestSeen"),
    "holdback.faults.values": (
        "Answer",
        "Cut",
        "Delay",
        "Fault",
        "Hold",
        "Kill",
        "Pause",
        "Restart",
        "Slow",
        "TimeTravel",
        "Toxic",
        "Unobserved",
    ),
    "holdback.history.history": ("History",),
    "holdback.oracles.judgement": ("Finding", "Judgement", "Oracle"),
    "holdback.oracles.rejections": ("no_endless_rejection",),
    "holdback.traffic.lanes": ("Lane", "Link"),
    "holdback.trials.arms": ("experiment",),
    "holdback.trials.outcome": ("Outcome",),
    "holdback.trials.trial": ("Trial",),
}


def __getattr__(name: str) -> object:
    """Import what is asked for, when it is asked for: the reaper and `holdback --help` need next to nothing of it."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
