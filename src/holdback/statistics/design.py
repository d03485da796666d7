"""How a run was made, as far as its figures depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdback.faults.dosing import SEARCH

__all__ = ["Design", "design_of"]


@dataclass(frozen=True, slots=True)
class Design:
    """The plan of a run.

    `adaptive`: what was made later depends on what was seen before, so p-values and intervals must hold at every look.
    `most`: the trials an arm at which an experiment ends though it is not decided (`--until-decided`); None where it
    has that many whatever they show. `doses`: at how many `--count` trials each are made.
    """

    adaptive: bool = False
    most: int | None = None
    doses: int = 1


def design_of(run: Mapping[str, Any]) -> Design:
    """The design that a run.json tells, of a merged report that of all its runs together."""
    runs = run.get("merged") or (run,)
    stopping = [bool(each.get("until_decided")) for each in runs]
    searching = [each.get("doses") == SEARCH for each in runs]
    return Design(
        adaptive=any((*stopping, *searching)),
        most=sum(_asked(each) for each in runs) if all(stopping) else None,
        doses=max(_doses(each) for each in runs),
    )


def _asked(run: Mapping[str, Any]) -> int:
    return int(run.get("count", 1)) * _doses(run)


def _doses(run: Mapping[str, Any]) -> int:
    doses = run.get("doses")
    return len(doses) if isinstance(doses, list) and doses else 1
