"""The end of a run: the verdict, kept and turned into the exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from holdback.errors import EvidenceError
from holdback.history.store import Damage, Store
from holdback.plugin.settings import REPORTED, SETTINGS
from holdback.plugin.shards import was_made
from holdback.trials.outcome import Row, read_rows

if TYPE_CHECKING:
    from holdback.statistics import Summary
    from holdback.statistics.exposure import ExposureSummary


@dataclass(slots=True)
class Ending:
    """What the controller knows once the run is over."""

    summary: Summary
    rows: tuple[Row, ...]
    damages: tuple[Damage, ...]
    unjudged: int


ENDING = pytest.StashKey[Ending]()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Compute the verdict from what is on disk, keep it, and let it decide the exit code."""
    config = session.config
    settings = config.stash.get(SETTINGS, None)
    if settings is None or hasattr(config, "workerinput"):
        return
    if settings.store.run().get("id") != settings.run:
        if config.stash.get(REPORTED, False):
            sys.stderr.write(f"\n{settings.store.gone()}\n")
            session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
        return
    try:
        ending = _conclude(settings.store, interrupted=_was_cut_short(session, exitstatus))
        config.stash[ENDING] = ending
        settings.store.summarise(
            {
                **ending.summary.to_json(),
                "exposure": [each.to_json() for each in exposures_of(ending.rows)],
                "run": settings.run,
                "seed": settings.seed,
            }
        )
    except EvidenceError as error:
        sys.stderr.write(f"\n{error}\n")
        session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
        return
    # A session of other tests that used a world has no experiment, and nothing to decide.
    if not (ending.rows or ending.unjudged) or exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        return
    if settings.shard is not None:
        well = was_made(ending, session.testsfailed)
    else:
        well = exitstatus == pytest.ExitCode.OK and ending.summary.fixed
    session.exitstatus = pytest.ExitCode.OK if well else pytest.ExitCode.TESTS_FAILED


def _was_cut_short(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> bool:
    return bool(exitstatus == pytest.ExitCode.INTERRUPTED or session.shouldfail or session.shouldstop)


def _conclude(store: Store, *, interrupted: bool) -> Ending:
    from holdback.statistics import summarise  # noqa: PLC0415  brings scipy, which takes a second
    from holdback.statistics.design import design_of  # noqa: PLC0415  likewise

    rows, damages = read_rows(store)
    plans, damaged_plans = store.planned()
    judged = {row.id for row in rows}
    unjudged = sum(1 for _, plan in plans if plan.get("id") not in judged)
    return Ending(
        summarise(rows, design_of(store.run()), interrupted=interrupted), rows, (*damages, *damaged_plans), unjudged
    )


def exposures_of(rows: Sequence[Row]) -> tuple[ExposureSummary, ...]:
    """How stale the controllers' view was, by arm."""
    from holdback.statistics.exposure import exposures  # noqa: PLC0415  brings scipy, which takes a second

    return exposures(rows)
