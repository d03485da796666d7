"""One pass over all histories of a run: what the page shows of each, and what only all together tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from holdback.errors import EvidenceError
from holdback.history.history import History
from holdback.history.store import Damage
from holdback.report.evidence import Evidence
from holdback.report.packing import Parcels
from holdback.report.paths import Kinds, Path, choose, compare
from holdback.report.swimlanes import swimlanes
from holdback.report.timings import Timing, timings
from holdback.trials.outcome import Row

__all__ = ["Told", "read_histories"]


@dataclass(slots=True)
class Told:
    """What the histories told.

    `parcels` hold the swim lanes, `timings` and `paths` are by experiment (a path that held, then one that was
    violated), `damages` are the lines that could not be read and `missing` the trials without a readable history.
    """

    parcels: Parcels
    timings: dict[str, list[Timing]] = field(default_factory=lambda: defaultdict(list))
    paths: dict[str, tuple[Path, Path]] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def read_histories(evidence: Evidence, *, room: int, progress: Callable[[int, int], None]) -> Told:
    """Read every history once, and the few that tell the paths once more.

    Args:
        evidence: the run.
        room: characters that the swim lanes may take. When they need more, those of some trials are left out, of
            each arm and outcome alike.
        progress: told how many histories of how many were read.
    """
    told = Told(Parcels(room))
    kinds: dict[str, Kinds] = defaultdict(Kinds)
    whole: set[str] = set()
    for number, row in enumerate(_by_turns(evidence.rows), start=1):
        progress(number, len(evidence.rows))
        read = _read(evidence, row, told)
        if read is None:
            continue
        history, is_whole = read
        told.parcels.add(row.id, swimlanes(history).to_json())
        if is_whole:
            whole.add(row.id)
            kinds[row.experiment].add(row.outcome, history)
            told.timings[row.experiment] += timings(row, history)
    for experiment, counted in kinds.items():
        rows = [row for row in evidence.rows if row.experiment == experiment]
        if pair := choose(rows, lambda row: row.id in whole):
            held, violated = ((row, evidence.store.history(row.id)[0]) for row in pair)
            told.paths[experiment] = compare(held, violated, counted)
    return told


def _read(evidence: Evidence, row: Row, told: Told) -> tuple[History, bool] | None:
    """A row's history, and whether none of it is damaged; None when there is none to read, which is noted."""
    try:
        history, damages = evidence.store.history(row.id)
    except EvidenceError:
        told.missing.append(row.id)
        return None
    told.damages += damages
    return history, not damages


def _by_turns(rows: Sequence[Row]) -> Iterator[Row]:
    """One of each experiment, arm and outcome, then the next of each: where the room ends, each had its share."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.experiment, row.arm, row.outcome].append(row)
    turns: Iterable[tuple[Row | None, ...]] = zip_longest(*groups.values())
    return (row for row in chain.from_iterable(turns) if row is not None)
