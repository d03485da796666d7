"""How long things took: seconds between the first and the last event by which an oracle says that it holds.

For `readmitted` that is from the eviction to the moment at which the Workload is admitted again. Trials in which the
property is violated have no such moment, and no time.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdback.history.events import Step
from holdback.history.history import History
from holdback.oracles import Judgement
from holdback.trials.outcome import Row

__all__ = ["Timing", "timings"]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one trial took to satisfy one oracle; `since` says from when on, in words."""

    oracle: str
    since: str
    seconds: float
    row: Row


def timings(row: Row, history: History) -> list[Timing]:
    """One for each oracle that cites two events or more; `history` must be complete, for they are cited by index."""
    found = []
    for finding in row.findings:
        cited = [index for index in finding.events if index < len(history.events)]
        if finding.judgement is Judgement.HOLDS and len(cited) > 1 and len(cited) == len(finding.events):
            first, last = history.events[min(cited)], history.events[max(cited)]
            since = f"the step {first.name}" if isinstance(first, Step) else "the first event it cites"
            found.append(Timing(finding.oracle, since, last.at - first.at, row))
    return found
