"""Several reports become one: the shards of a run, or the same experiments on several machines.

Trials are numbered anew, arms side by side as they were: the blocks of one report stay blocks and never mix with
those of another, so the test within blocks stays exact.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from holdback.errors import EvidenceError
from holdback.history.store import Damage, Store
from holdback.trials.outcome import Row, read_rows
from holdback.trials.shards import Shard, missing_shards, shards_of
from holdback.wording import counted

__all__ = ["Merged", "merge"]

_MEANINGS = {"id": "they are one run", "seed": "they made the same trials"}


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge made.

    `rows` are as they are now, `damages` the lines of the sources that could not be read. `missing` are the shards
    that are not among the sources although others of the same run are.
    """

    store: Store
    rows: tuple[Row, ...]
    damages: tuple[Damage, ...]
    missing: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """A report to be merged; `runs` are the runs it consists of, more than one when it was merged before."""

    store: Store
    run: Mapping[str, Any]
    runs: tuple[Mapping[str, Any], ...]
    rows: tuple[Row, ...]
    planned: tuple[Mapping[str, Any], ...]
    damages: tuple[Damage, ...]

    @property
    def experiments(self) -> set[str]:
        return {row.experiment for row in self.rows}

    @property
    def variants(self) -> set[tuple[str, str, str]]:
        """Experiment, arm, and what it ran; a trial whose world never stood ran nothing."""
        return {(row.experiment, row.arm, row.variant) for row in self.rows if row.variant}

    @property
    def parts_of(self) -> set[tuple[int, int]]:
        """The runs it has shards of."""
        return {(shard.of, shard.seed) for shard in shards_of(self.runs)}

    @property
    def fingerprints(self) -> dict[tuple[str, str], set[str]]:
        """Of what its arms ran, by arm and description: two checkouts of one name may differ."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for each in (variant for run in self.runs for variant in run.get("variants") or ()):
            found[str(each["arm"]), str(each["description"])].add(str(each["fingerprint"]))
        return found

    def facts(self, key: str) -> set[Any]:
        """What its runs say under a key."""
        return {run[key] for run in self.runs if key in run}

    def __str__(self) -> str:
        return str(self.store.directory)


def merge(
    out: Path, sources: Sequence[Path], *, progress: Callable[[int, int], None] = lambda _done, _of: None
) -> Merged:
    """Join reports into the new directory `out`; the sources stay as they are. Logs are not copied.

    Raises:
        EvidenceError: `out` exists or is inside a source, a source is no report, or they must not be joined: the same
            run or seed twice, a trial counted twice, other experiments, other variants.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise EvidenceError(f"{out} is there already", remedy="name a new directory for the merged report")
    if around := [each for each in sources if each.resolve() in out.resolve().parents]:
        raise EvidenceError(
            f"{out} would be inside {around[0]}, which stays as it is", remedy="name a directory outside the sources"
        )
    read = [_read(source) for source in sources]
    _check(read)
    missing = missing_shards(run for source in read for run in source.runs)
    store = Store(out)
    store.begin(_run(read, missing))
    merged = [part for offsets, source in _numbered(read) for part in _renumbered(source, offsets)]
    if twice := _repeated([row.id for _, _, row in merged]):
        raise EvidenceError(f"two trials would be named {twice}", remedy="the reports come from different projects")
    for done, (source, old, new) in enumerate(merged, start=1):
        _copy_history(source.store.history_path(old.id), store.history_path(new.id), old.id, new.id)
        _copy_plan(source.store.plan_path(old.id), store.plan_path(new.id))
        progress(done, len(merged))
    rows = tuple(row for _, _, row in merged)
    _write_lines(store.planned_path, [line for offsets, source in _numbered(read) for line in _plans(source, offsets)])
    _write_lines(store.trials_path, [row.to_json() for row in rows])
    return Merged(store, rows, tuple(damage for source in read for damage in source.damages), missing)


def _read(source: Path) -> _Source:
    store = Store(source)
    run = store.run()
    if not run:
        raise EvidenceError(
            f"{source} has no readable run.json, so its seed is unknown", remedy="name directories that runs wrote"
        )
    runs = _runs_of(source, run)
    rows, damages = read_rows(store)
    if not rows:
        raise EvidenceError(f"{source} has no judged trial", remedy="leave it out")
    planned, more = store.planned()
    return _Source(
        store,
        run,
        runs,
        rows,
        tuple(line for _, line in planned),
        (*damages, *more),
    )


def _runs_of(source: Path, run: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The runs of a report, each proven to tell what says whether reports belong together."""
    try:
        runs = tuple(dict(each) for each in run.get("merged") or (run,))
        intact = all(map(_intact, runs))
    except (LookupError, TypeError, ValueError):
        intact = False
    if not intact:
        raise EvidenceError(
            f"the run.json of {source} is damaged: its id, seed, shard or variants are not what a run writes",
            remedy="give the file back as the run wrote it, or leave that report out",
        )
    return runs


def _intact(run: Mapping[str, Any]) -> bool:
    told = [run.get(fact) for fact in _MEANINGS]
    parts = [part for shard in shards_of([run]) for part in astuple(shard)]
    variants = [each[fact] for each in run.get("variants") or () for fact in ("arm", "description", "fingerprint")]
    return all(isinstance(each, int | str | None) for each in (*told, *variants)) and all(
        isinstance(each, int) for each in parts
    )


def _check(sources: Sequence[_Source]) -> None:
    """Refuse what would count a trial twice, or different things as one."""
    if len(sources) < 2 and not any(source.parts_of for source in sources):
        raise EvidenceError("one report alone is merged already", remedy="name two or more")
    for source in sources:
        if twice := _repeated([(row.experiment, row.arm, row.index) for row in source.rows]):
            raise EvidenceError(
                f"{source} has trial {twice[2]} of {twice[1]} of {twice[0]} twice",
                remedy="somebody copied rows into it: leave it out",
            )
    for one, other in combinations(sources, 2):
        _check_pair(one, other)


def _check_pair(one: _Source, other: _Source) -> None:
    for fact, meaning in _MEANINGS.items():
        if same := one.facts(fact) & other.facts(fact):
            raise EvidenceError(
                f"{one} and {other} have the same {fact} {same.pop()}: {meaning}",
                remedy="leave one of them out; parts of one run are made with --shard, or each with a seed of its own",
            )
    # Shards of one run were asked for the same experiments; one that ended early has not come to all of them.
    if (differ := one.experiments ^ other.experiments) and not one.parts_of & other.parts_of:
        raise EvidenceError(
            f"only one of {one} and {other} has trials of {', '.join(sorted(differ))}",
            remedy="merge reports of the same experiments",
        )
    if ran_differently := _told_differently(one.variants, other.variants):
        told = "; ".join(f"{arm}: {variant}" for _, arm, variant in sorted(ran_differently))
        raise EvidenceError(
            f"{one} and {other} ran different variants ({told})",
            remedy="merge reports of the same variants; `holdback compare` tells different ones apart",
        )
    ours, theirs = one.fingerprints, other.fingerprints
    if odd := sorted(each for each in ours.keys() & theirs.keys() if ours[each] != theirs[each]):
        told = "; ".join(f"{arm}: {description}" for arm, description in odd)
        raise EvidenceError(
            f"{one} and {other} call what they ran the same, and it was not ({told})",
            remedy="a checkout, patch or executable was changed between them: run both again from one state",
        )
    seeds = [{(row.experiment, row.arm, row.seed) for row in source.rows} for source in (one, other)]
    if twice := seeds[0] & seeds[1]:
        raise EvidenceError(
            f"{counted(len(twice), 'trial is', 'trials are')} both in {one} and in {other}",
            remedy="leave one of them out",
        )


def _told_differently(one: set[tuple[str, str, str]], other: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """The variants that differ in what both of them made."""
    both = {each[:2] for each in one} & {each[:2] for each in other}
    return {each for each in one ^ other if each[:2] in both}


def _run(sources: Sequence[_Source], missing: Sequence[Shard]) -> dict[str, Any]:
    """The run.json of all together; that of each, with its damaged lines, is kept inside."""
    runs = [run for source in sources for run in source.runs]
    damaged = [str(damage) for source in sources for damage in source.damages]
    return {
        "id": uuid.uuid4().hex,
        "started": min(source.rows[0].started for source in sources),
        "merged": [dict(run) for run in runs],
        **({"damaged": damaged} if damaged else {}),
        **({"missing": [str(shard) for shard in missing]} if missing else {}),
    }


Offsets = Mapping[str, int]
"""What is added to the numbers of an experiment's trials and blocks."""


def _numbered(sources: Sequence[_Source]) -> Iterator[tuple[Offsets, _Source]]:
    """Each source with its offsets: its numbers go on where those of the sources before it end."""
    offsets: dict[str, int] = defaultdict(int)
    for source in sources:
        yield dict(offsets), source
        for experiment in source.experiments:
            mine = [row.index for row in source.rows if row.experiment == experiment]
            told = (line.get("index") for line in source.planned if line.get("experiment") == experiment)
            begun = [index for index in told if isinstance(index, int)]  # else the line is damaged
            offsets[experiment] += max((*mine, *begun)) + 1


def _renumbered(source: _Source, offsets: Offsets) -> Iterator[tuple[_Source, Row, Row]]:
    for row in source.rows:
        by = offsets.get(row.experiment, 0)
        new = replace(row, id=_renamed(row.id, row.index, by), index=row.index + by, block=row.block + by)
        yield source, row, new


def _plans(source: _Source, offsets: Offsets) -> Iterator[dict[str, Any]]:
    for line in source.planned:
        by = offsets.get(str(line.get("experiment")), 0)
        numbers = {key: line[key] + by for key in ("index", "block") if isinstance(line.get(key), int)}
        yield {**line, **numbers, "id": _renamed(str(line.get("id")), numbers.get("index", by) - by, by)}


def _renamed(trial: str, index: int, by: int) -> str:
    """The trial's id with its new number; ids end in the number, counted from 1."""
    return f"{trial.removesuffix(f'-{index + 1:03d}')}-{index + by + 1:03d}" if by else trial


def _copy_history(old_path: Path, new_path: Path, old: str, new: str) -> None:
    """Copy line by line, damaged ones too: they are told again whenever the history is read."""
    if (history := _content(old_path)) is None:
        return  # its world never stood
    header, _, events = history.partition(b"\n")
    if new != old:
        header = _renamed_header(header, old, new)
    _write(new_path, header + b"\n" + events)


def _content(path: Path) -> bytes | None:
    """What is in a file; None when there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EvidenceError(
            f"cannot read the evidence {path}: {error.strerror or error}", remedy="make it readable, merge again"
        ) from error


def _copy_plan(old: Path, new: Path) -> None:
    """Plans name no trial, so they are copied as they are; a trial without faults has none."""
    if (plan := _content(old)) is not None:
        new.parent.mkdir(exist_ok=True)
        _write(new, plan)


def _renamed_header(header: bytes, old: str, new: str) -> bytes:
    try:
        data = json.loads(header)
        data["scope"] = {**data["scope"], "trial": new, "merged_from": old}
    except (ValueError, KeyError, TypeError):
        return header
    return json.dumps(data).encode()


def _repeated(values: Sequence[Any]) -> Any:
    """A value that is there twice; None when there is none."""
    return next((value for value, times in Counter(values).items() if times > 1), None)


def _write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    _write(path, "".join(json.dumps(line) + "\n" for line in lines).encode())


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise EvidenceError(
            f"cannot write the evidence {path}: {error.strerror or error}", remedy="free space, remove it, merge again"
        ) from error
