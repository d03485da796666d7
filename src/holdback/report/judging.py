"""`holdback judge`: outcomes and verdict computed again from stored histories, perhaps with changed oracles."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from holdback.errors import ConfigurationError, EvidenceError
from holdback.history.history import History
from holdback.history.store import Damage, Store
from holdback.oracles.judgement import Oracle, judge
from holdback.report.project import find_root, parts_of
from holdback.report.terminal import print_summary
from holdback.statistics import Summary, summarise
from holdback.statistics.design import Design, design_of
from holdback.trials.arms import MARK
from holdback.trials.outcome import Row, conclude, read_rows
from holdback.wording import counted

__all__ = ["Rejudged", "judge_again", "load_oracles", "print_judgement"]

_MODULE = "holdback_judged"
OraclesOf = Callable[[str], Sequence[Oracle]]


@dataclass(frozen=True, slots=True)
class Rejudged:
    """Every trial of a report: as it was judged when it was made, and as it is judged now."""

    before: tuple[Row, ...]
    now: tuple[Row, ...]
    damages: tuple[Damage, ...]
    kept: tuple[str, ...]
    """Why a trial kept its earlier judgement, one sentence each."""
    design: Design

    @property
    def changed(self) -> tuple[tuple[Row, Row], ...]:
        """The trials whose outcome is another one now."""
        pairs = zip(self.before, self.now, strict=True)
        return tuple((before, now) for before, now in pairs if before.outcome is not now.outcome)


def judge_again(store: Store, oracles_of: OraclesOf) -> Rejudged:
    """Judge every stored history again; nothing is written.

    A trial whose history is missing (its world never stood) or damaged (a lost event could turn the judgement)
    keeps the outcome of its row.
    """
    rows, damages = read_rows(store)
    oracles = {name: oracles_of(name) for name in dict.fromkeys(row.experiment for row in rows)}
    now: list[Row] = []
    found: list[Damage] = list(damages)
    kept: list[str] = []
    for row in rows:
        history = _whole_history(store, row.id, found, kept)
        if history is None:
            now.append(row)
            continue
        findings = judge(history, oracles[row.experiment])
        outcome, reason = conclude(history, findings)
        now.append(replace(row, outcome=outcome, reason=reason, findings=findings))
    return Rejudged(rows, tuple(now), tuple(found), tuple(kept), design_of(store.run()))


def _whole_history(store: Store, trial: str, found: list[Damage], kept: list[str]) -> History | None:
    """A trial's history, or None with the reason in `kept`, and the lines that are damaged in `found`."""
    if not store.history_path(trial).exists():
        kept.append(f"{trial} has no history")
        return None
    try:
        history, torn = store.history(trial)
    except EvidenceError as error:
        kept.append(f"the history of {trial} cannot be read: {error.message}")
        return None
    if torn:
        found += torn
        kept.append(f"the history of {trial} is damaged")
        return None
    return history


def load_oracles(experiment: str, *, run: Mapping[str, Any], root: Path | None = None) -> Sequence[Oracle]:
    """The oracles that a test function names today; `experiment` is its node id.

    Where its file is `root` says, else what is recorded of its `run`.

    Raises:
        ConfigurationError: the file, the function or its mark is not there, or the file cannot be imported.
    """
    root = find_root(run, experiment, root)
    file, name = parts_of(experiment)
    path = root / file
    target: object = _import(path, root)
    for part in name.split("::"):
        target = getattr(target, part, None)
    for mark in getattr(target, "pytestmark", ()):
        if mark.name == MARK:
            oracles: Sequence[Oracle] = mark.kwargs["oracles"]
            return oracles
    raise ConfigurationError(f"{path} has no experiment {name}", remedy="give it the name back that it had in the run")


def print_judgement(rejudged: Rejudged, console: Console) -> Summary:
    """Print what changed and the verdict as it is now; returns its summary."""
    for damage in rejudged.damages:
        console.print(Text(f"A damaged line was skipped: {damage}", style="yellow"))
    for reason in rejudged.kept:
        console.print(Text(f"Not judged again: {reason}.", style="yellow"))
    for before, now in rejudged.changed:
        console.print(Text(f"{now.id}: {before.outcome.value} -> {now.outcome.value} ({now.reason})"))
    if not rejudged.before:
        raise EvidenceError("the report holds no judged trial", remedy="name the report of a run")
    judged = counted(len(rejudged.now), "trial")
    console.print(Text(f"{judged} judged again, {len(rejudged.changed)} with another outcome."))
    console.print()
    summary = summarise(rejudged.now, rejudged.design)
    print_summary(summary, console)
    return summary


def _import(path: Path, root: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"{_MODULE}.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(root))  # as pytest's `pythonpath`: experiments import from their own project
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigurationError(
            f"{path} cannot be imported: {type(error).__name__}: {error}",
            remedy="run it in the environment that runs the experiments, and give their folder with --root",
        ) from error
    finally:
        sys.path.remove(str(root))
    return module
