"""The search for a smaller plan that still fails: pure, one trial at a time, with a bound on their number.

`Shrinking.trials` is a generator: it gives the candidate that the next trial is to be made with and takes the outcome
of that trial, so whoever makes trials can drive it, and a test can with a world that is a function.

First faults are left out, by the algorithm ddmin: A. Zeller, R. Hildebrandt, "Simplifying and isolating
failure-inducing input", IEEE Transactions on Software Engineering 28 (2002), 183-200. None of those that stay can then
be left out alone. Then doses and times are halved, and what lies between the least that failed and the most that did
not is halved again, as if less never failed where more did not. A candidate counts as failing when so many trials in a
row do; the first that holds refuses it. As many candidates are tried and one may have been lucky, the smallest is tried
afresh at the end, and what is said of it rests on these trials alone. As many trials are then made without any fault: a
failure that also comes by itself does not need what is left.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from holdback.errors import ConfigurationError, EvidenceError
from holdback.faults.plan import FaultPlan, PlannedFault
from holdback.faults.weaker import Dose, Hold, Place, doses, faults_of, holds, keeping
from holdback.trials.outcome import Outcome
from holdback.wording import counted

__all__ = ["Candidate", "Shrinking", "Tried", "fewest"]

_MOST_UNUSABLE = 2
"""So many trials without a result (INVALID, UNKNOWN) refuse a candidate: perhaps it cannot be tried at all."""
_HOPELESS = 6
"""So many of them in a row, whatever the candidate, end the search: it is not the candidates."""
_HALVINGS = 4
"""Of a dose or time: it ends within a sixteenth of what it was."""
_RESULTS = {Outcome.VIOLATED, Outcome.HOLDS}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan to try; `what` says in words how it differs from the smallest that fails so far."""

    plan: FaultPlan
    what: str


@dataclass(slots=True)
class Tried:
    """A candidate and the outcomes of its trials; `reason` is why the last one of them without a result had none."""

    candidate: Candidate
    violated: int = 0
    held: int = 0
    unusable: int = 0
    reason: str = ""
    fails: bool | None = None
    """None as long as that is open."""

    @property
    def decided(self) -> int:
        """Trials with a result."""
        return self.violated + self.held


class _Spent(Exception):
    """No trials are left for the search."""


Trials = Generator[Candidate, tuple[Outcome, str], T]
"""Gives a candidate for each trial, takes its outcome and the reason of that."""


class Shrinking:
    """One search.

    `whole` is the plan to begin with, `used` counts the trials that were made, `tried` are the candidates in the order
    in which they were tried; the last one is being tried. `without` are the trials without any fault, to compare with,
    once they are made.

    Args:
        plan: the whole plan; it has faults.
        lasted: see `holdback.faults.weaker.holds`.
        repeats: how many trials in a row must fail.
        budget: the most trials to make.

    Raises:
        ConfigurationError: the budget has no room for a single candidate, or the repeats are none.
    """

    def __init__(self, plan: FaultPlan, lasted: Sequence[float], *, repeats: int, budget: int) -> None:
        if repeats < 1:
            raise ConfigurationError(f"{repeats} repeats show nothing", remedy="give 1 or more; 5 is the default")
        if budget <= 3 * repeats:
            raise ConfigurationError(
                f"{counted(budget, 'trial')} will not do: the plan itself takes {repeats}, the result {repeats} more, "
                f"and as many are made without faults",
                remedy=f"give --trials={3 * repeats + 1} or more (60 is the default), or fewer --repeats",
            )
        self.whole = plan
        self.repeats = repeats
        self._lasted = lasted
        self._budget = budget
        self._reserved = 2 * repeats
        self._accepted: list[Tried] = []
        self._row_of_unusable = 0
        self.used = 0
        self.tried: list[Tried] = []
        self._afresh: Tried | None = None
        self.without: Tried | None = None

    @property
    def found(self) -> bool:
        """Whether a plan has failed reliably, the whole one at least."""
        return bool(self._accepted)

    @property
    def best(self) -> FaultPlan:
        """The smallest plan that failed so far."""
        return self._accepted[-1].candidate.plan if self._accepted else self.whole

    @property
    def sure(self) -> Tried | None:
        """The trials of the best one that were not the reason to choose it; None when it has no such.

        The whole plan is not chosen.
        """
        return self._accepted[0] if len(self._accepted) == 1 else self._afresh

    def trials(self) -> Trials[None]:
        """The whole search. At its end `sure` tells how sure `best` is.

        Raises:
            EvidenceError: the whole plan does not fail reliably, or trial after trial has no result.
        """
        whole = yield from self._try(Candidate(self.whole, "the whole plan"))
        if not whole.fails:
            raise _unreliable(whole, self.repeats)
        self._accepted.append(whole)
        with suppress(_Spent):
            yield from self._search()
        self._reserved = self.repeats
        with suppress(_Spent):
            yield from self._make_sure()
        self._reserved = 0
        with suppress(_Spent):
            yield from self._compare()

    def _search(self) -> Trials[None]:
        yield from self._leave_out_faults()
        for dose in doses(self.best):
            yield from self._turn_down(dose)
        for hold in holds(self.best, self._lasted):
            yield from self._turn_down(hold)

    def _leave_out_faults(self) -> Trials[None]:
        plan, faults = self.whole, faults_of(self.whole)
        search = fewest(tuple(faults))
        fails: bool | None = None
        while True:
            try:
                kept = next(search) if fails is None else search.send(fails)
            except StopIteration:
                return
            fails = yield from self._accept(keeping(plan, kept), _kept(faults, kept))

    def _turn_down(self, knob: Dose | Hold) -> Trials[None]:
        plan, told = self.best, knob.told(self.best)
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            strength = (low + high) / 2
            if (yield from self._accept(knob.turned(plan, strength), f"{strength:.0%} of {told}")):
                high = strength
            else:
                low = strength

    def _accept(self, plan: FaultPlan | None, what: str) -> Trials[bool]:
        """Whether a plan fails; one that does is the best so far. What was tried, or cannot be, costs nothing."""
        if plan is None or plan == self.best:
            return False
        if known := next((each for each in self.tried if each.candidate.plan == plan), None):
            return bool(known.fails)
        tried = yield from self._try(Candidate(plan, what))
        if tried.fails:
            self._accepted.append(tried)
        return bool(tried.fails)

    def _make_sure(self) -> Trials[None]:
        """Try the best one afresh: of many candidates one may have been lucky. If it was, the one before it is next."""
        while len(self._accepted) > 1 and self._budget - self.used >= self._reserved + self.repeats:
            again = yield from self._try(Candidate(self.best, "that one again, to be sure"))
            if again.fails:
                self._afresh = again
                return
            self._accepted.pop()

    def _compare(self) -> Trials[None]:
        """Make trials without any fault, however they end: an experiment needs a group held back from the treatment."""
        nothing = keeping(self.whole, ())
        if nothing is None or not self.best.faults:
            return
        tried = Tried(Candidate(nothing, "no fault at all, to compare with"))
        self.tried.append(tried)
        for _ in range(self.repeats):
            yield from self._make(tried)
        self.without = tried

    def _try(self, candidate: Candidate) -> Trials[Tried]:
        tried = Tried(candidate)
        self.tried.append(tried)
        while tried.fails is None:
            yield from self._make(tried)
        return tried

    def _make(self, tried: Tried) -> Trials[None]:
        if self._budget - self.used <= self._reserved:
            raise _Spent
        outcome, reason = yield tried.candidate
        self.used += 1
        self._count(tried, outcome, reason)

    def _count(self, tried: Tried, outcome: Outcome, reason: str) -> None:
        match outcome:
            case Outcome.VIOLATED:
                tried.violated += 1
                tried.fails = True if tried.violated == self.repeats else None
            case Outcome.HOLDS:
                tried.held += 1
                tried.fails = False
            case _:
                tried.unusable += 1
                tried.reason = reason
                tried.fails = False if tried.unusable == _MOST_UNUSABLE else None
        self._row_of_unusable = self._row_of_unusable + 1 if outcome not in _RESULTS else 0
        if self._row_of_unusable == _HOPELESS:
            raise EvidenceError(
                f"{_HOPELESS} trials in a row had no result; the last one: {reason}",
                remedy="look at one with `holdback show`; what was found before is kept",
            )


def _kept(faults: Mapping[Place, PlannedFault], kept: Collection[Place]) -> str:
    """Which faults a candidate has, in the fewest words."""
    left_out = [place for place in faults if place not in kept]
    word, named = ("only", kept) if len(kept) < len(left_out) else ("without", left_out)
    return f"{word} {' and '.join(str(faults[place]) for place in named)}" if kept else "no fault at all"


def fewest(elements: Sequence[T]) -> Generator[tuple[T, ...], bool, tuple[T, ...]]:
    """ddmin: gives subsets, takes whether they fail, and returns one that fails and none of whose elements can go.

    All of `elements` fail, which is for the caller to know. Nothing at all is tried first.
    """
    current = tuple(elements)
    if not current or (yield ()):
        return ()
    parts = 2
    while len(current) > 1:
        smaller = yield from _first_that_fails(_subsets(current, parts))
        if smaller is not None:
            current, parts = smaller, 2
            continue
        smaller = yield from _first_that_fails(_complements(current, parts) if parts > 2 else ())
        if smaller is not None:
            current, parts = smaller, max(parts - 1, 2)
            continue
        if parts >= len(current):
            break
        parts = min(2 * parts, len(current))
    return current


def _first_that_fails(subsets: Iterable[tuple[T, ...]]) -> Generator[tuple[T, ...], bool, tuple[T, ...] | None]:
    for subset in subsets:
        if (yield subset):
            return subset
    return None


def _subsets(elements: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    borders = [len(elements) * number // parts for number in range(parts + 1)]
    return [elements[low:high] for low, high in pairwise(borders)]


def _complements(elements: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    return [tuple(element for element in elements if element not in subset) for subset in _subsets(elements, parts)]


def _unreliable(whole: Tried, repeats: int) -> EvidenceError:
    told = f"{whole.violated} of {counted(whole.decided, 'trial')} failed"
    unusable = f", {whole.unusable} had no result ({whole.reason})" if whole.unusable else ""
    return EvidenceError(
        f"the plan itself does not fail {repeats} times in a row: {told}{unusable}",
        remedy="shrink a trial with a larger dose, or ask for less with --repeats",
    )
