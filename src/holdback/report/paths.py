"""Where a happy and an unhappy path part: what happens in most trials of one kind and in few of the other.

One trial against one other would show every chance difference. So each entry of a timeline is looked for in all
trials of both kinds, and an entry is called characteristic when its share among them differs by a half or more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from holdback.history.history import History
from holdback.report.kueue import DESCRIBERS
from holdback.report.timeline import Entry, brief, timeline
from holdback.trials.arms import CONTROL, TREATMENT
from holdback.trials.outcome import Outcome, Row

__all__ = ["Kinds", "Line", "Path", "choose", "compare", "phrases"]

_CHARACTERISTIC = 0.5
_CONTEXT = 5
"""Lines around the interesting ones that are shown with them."""
Phrase = tuple[str, str, int]
"""A lane, words without the names and times of one trial, and the how-many-th time that they are said there."""


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of a path. `mine` of the `of_mine` trials of its own kind have it, `theirs` of the `of_theirs` others.

    They are those of the phrase in the entry that tells the kinds apart best.
    """

    entry: Entry
    mine: int
    of_mine: int
    theirs: int
    of_theirs: int

    @property
    def characteristic(self) -> bool:
        """Whether it belongs to this kind of trial rather than to the other."""
        return self.mine / self.of_mine - self.theirs / self.of_theirs >= _CHARACTERISTIC


@dataclass(frozen=True, slots=True)
class Path:
    """How one trial went.

    `parts` is the index of the line at which it leaves the other path, None when it never does. `missing` is what
    the other one did there and this one did not, where that is how they part.
    """

    row: Row
    lines: tuple[Line, ...]
    parts: int | None
    missing: Line | None

    @property
    def seconds(self) -> float:
        """How long the trial was."""
        return self.lines[-1].entry.seconds if self.lines else 0.0

    @property
    def parting(self) -> Line | None:
        """The line at which it leaves the other path."""
        return None if self.parts is None or self.parts >= len(self.lines) else self.lines[self.parts]

    @property
    def before(self) -> tuple[Line, ...]:
        """The lines that need no reader: long before the paths part."""
        return self.lines[: self._shown.start]

    @property
    def shown(self) -> tuple[Line, ...]:
        """The lines around and after the point where the paths part, up to the last characteristic one."""
        return self.lines[self._shown.start : self._shown.stop]

    @property
    def after(self) -> tuple[Line, ...]:
        """The lines that need no reader: long after the last characteristic one."""
        return self.lines[self._shown.stop :]

    @property
    def _shown(self) -> range:
        if self.parts is None:
            return range(len(self.lines))
        last = max((number for number, line in enumerate(self.lines) if line.characteristic), default=self.parts)
        return range(max(0, self.parts - _CONTEXT), min(len(self.lines), max(last, self.parts) + 1 + _CONTEXT))


@dataclass(frozen=True, slots=True)
class _Told:
    """A path before it is compared."""

    row: Row
    lines: tuple[Line, ...]
    said: Sequence[set[Phrase]]

    @property
    def first(self) -> int | None:
        """The index of its first characteristic line."""
        return next((number for number, line in enumerate(self.lines) if line.characteristic), None)


class Kinds:
    """Counts in how many violated and in how many held trials of an experiment each phrase is said."""

    def __init__(self) -> None:
        self._said = {Outcome.VIOLATED: Counter[Phrase](), Outcome.HOLDS: Counter[Phrase]()}
        self._trials = Counter[Outcome]()

    def add(self, outcome: Outcome, history: History) -> None:
        """Count a trial; those that are neither violated nor held are left out."""
        if outcome in self._said:
            self._trials[outcome] += 1
            said = phrases(history, timeline(history, DESCRIBERS))
            self._said[outcome].update({phrase for line in said for phrase in line})

    def line(self, entry: Entry, said: Iterable[Phrase], outcome: Outcome) -> Line:
        """The entry of a trial with that outcome, with its counts."""
        other = Outcome.HOLDS if outcome is Outcome.VIOLATED else Outcome.VIOLATED
        of_mine, of_theirs = max(1, self._trials[outcome]), max(1, self._trials[other])
        counts = [(self._said[outcome][phrase], self._said[other][phrase]) for phrase in said]
        mine, theirs = max(counts, key=lambda count: count[0] / of_mine - count[1] / of_theirs, default=(0, 0))
        return Line(entry, mine, of_mine, theirs, of_theirs)


def choose(rows: Sequence[Row], usable: Callable[[Row], bool]) -> tuple[Row, Row] | None:
    """A held and a violated trial to tell the story: of one block and of both arms where there are such.

    None where one of the two kinds has no trial that is `usable`.
    """
    held = [row for row in rows if row.outcome is Outcome.HOLDS and usable(row)]
    violated = [row for row in rows if row.outcome is Outcome.VIOLATED and usable(row)]
    if not (held and violated):
        return None
    fixed = {row.block: row for row in reversed(held) if row.arm == TREATMENT}
    unhappy = min(violated, key=lambda row: (row.arm != CONTROL, row.block not in fixed))
    return fixed.get(unhappy.block) or next(reversed(fixed.values()), held[0]), unhappy


def compare(one: tuple[Row, History], other: tuple[Row, History], kinds: Kinds) -> tuple[Path, Path]:
    """How two trials went, one that held and one that was violated, with the point where they part."""
    told, others = _tell(*one, kinds), _tell(*other, kinds)
    return _parted(told, others), _parted(others, told)


def _tell(row: Row, history: History, kinds: Kinds) -> _Told:
    entries = timeline(history, DESCRIBERS)
    said = phrases(history, entries)
    lines = tuple(kinds.line(entry, words, row.outcome) for entry, words in zip(entries, said, strict=True))
    return _Told(row, lines, said)


def _parted(mine: _Told, others: _Told) -> Path:
    own, theirs = mine.first, others.first
    missed = None if theirs is None else _place(theirs, others, mine)
    if missed is not None and theirs is not None and (own is None or missed <= own):
        return Path(mine.row, mine.lines, missed, others.lines[theirs])
    return Path(mine.row, mine.lines, own, None)


def _place(index: int, there: _Told, here: _Told) -> int:
    """Where a line of the path `there` would stand `here`: after the last line before it that both have."""
    for before in range(index - 1, -1, -1):
        for number, words in enumerate(here.said):
            if words & there.said[before]:
                return number + 1
    return 0


def phrases(history: History, entries: Sequence[Entry]) -> list[set[Phrase]]:
    """What each entry says, phrase by phrase, in words that are the same in other trials."""
    general = _generaliser(history)
    times: Counter[tuple[str, str]] = Counter()
    said = []
    for entry in entries:
        title, _, rest = entry.text.partition(": ") if entry.tone in {"truth", "shadow"} else ("", "", entry.text)
        lane = general(f"{entry.lane} {title}")
        words = {(lane, _plain(general(text))) for text in rest.split("; ")}
        times.update(words)
        said.append({(*each, times[each]) for each in words})
    return said


def _generaliser(history: History) -> Callable[[str], str]:
    """Replaces the names of one trial by the parts that they play.

    Clusters are numbered in the order in which the scenario's steps name them, so that the worker which was evicted
    from has one name, whichever it was.
    """
    objects = [event for _, event in history.objects()]
    clusters = {event.cluster for event in objects}
    named = [value for _, step in history.steps() for value in step.detail.values() if isinstance(value, str)]
    ordered = dict.fromkeys([value for value in named if value in clusters] + sorted(clusters))
    parts = {
        **{str(history.scope.get(key, "")): key for key in ("trial", "arm")},
        **dict.fromkeys(history.namespaces, "namespace"),
        **dict.fromkeys((form for event in objects for form in (event.name, brief(event.name))), "object"),
        **{cluster: f"cluster{number}" for number, cluster in enumerate(ordered)},
    }
    longest_first = sorted(filter(None, parts), key=len, reverse=True)
    names = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first)) or '(?!)'})(?!\w)")
    return lambda text: names.sub(lambda found: parts[found[0]], text)


def _plain(text: str) -> str:
    """Words without times, counts and versions, in an order of their own: lists are sorted by names, which differ."""
    uncounted = re.sub(r", \d+ times over [\d.]+ s$", "", text)
    numbers = re.sub(r"\d+\.\d+|(?<==)\d{3,}\b", "#", uncounted)
    return " ".join(sorted(numbers.replace(",", " ").replace("=", "= ").split()))
