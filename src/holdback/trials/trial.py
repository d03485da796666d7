"""A trial as the scenario sees it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from holdback.clock import Clock, SystemClock
from holdback.errors import ConfigurationError
from holdback.faults.dosing import Dosing
from holdback.faults.injection import Phase, Ways, inject
from holdback.faults.plan import FaultPlan
from holdback.faults.triggers import Injection, Trigger
from holdback.faults.values import Delay, Fault
from holdback.history.events import FaultChange, Note
from holdback.history.history import History
from holdback.history.recorder import Recorder
from holdback.oracles.judgement import Finding, Judgement, Oracle, judge
from holdback.traffic.inforce import Lease
from holdback.traffic.lanes import Lane, Link
from holdback.trials.scheduled import SCENARIO, Cause, Scheduled

__all__ = ["DELAYS_TO_SETTLE", "Plan", "Trial", "TrialNetwork", "World"]

DELAYS_TO_SETTLE = 20
"""How many times a delay prolongs the deadline of `Trial.settle`.

Measured with Kueue's MultiKueue: a healthy re-admission takes 2.5 s at 0 ms, 2.7 s at 100 ms and 8.3 s at 500 ms, so
at most (8.3 - 2.5) / 0.5 = 12 one-way delays; 20 leaves room for a busy machine.
"""
_JUDGE_EVERY = 0.1
"""Seconds between two judgements of a history that goes on."""
_CHECK_EVERY = 1.0
"""Seconds between two questions whether the world is alive while nothing happens."""


class TrialNetwork(Ways, Protocol):
    """What a trial needs of the network (`holdback.traffic.network.Network`)."""

    @property
    def links(self) -> tuple[Link, ...]:
        """All that can be made worse."""

    def residue(self) -> list[str]:
        """What is in force now; empty for a network in order."""


class World(Protocol):
    """The clusters, controllers and lanes that trials run in."""

    @property
    def network(self) -> TrialNetwork:
        """The links between controllers and clusters."""

    @property
    def recorder(self) -> Recorder:
        """What sees everything that happens in it."""

    def check(self) -> None:
        """Prove that it is alive.

        Raises:
            HoldbackError: a process of it has died; the message holds the end of its log.
        """


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a trial beforehand; `index` and `block` count from 0, both arms of a block share a seed.

    `dose` (milliseconds) takes the place of the scenario's own delays; None leaves them as they are.
    """

    id: str
    experiment: str
    arm: str
    index: int
    block: int
    seed: int
    dose: int | None = None


class Trial:
    """One run of a scenario in one arm.

    `random` is the only randomness a scenario may use: the two trials of a block draw the same numbers from it, so
    that they differ in what the arm runs and in nothing else. With a `fault_plan` it says what `inject` puts in force,
    not the scenario.
    """

    def __init__(
        self,
        plan: Plan,
        oracles: Sequence[Oracle],
        clock: Clock | None = None,
        *,
        fault_plan: FaultPlan | None = None,
    ) -> None:
        self.plan = plan
        self.oracles = tuple(oracles)
        self.random = random.Random(plan.seed)  # noqa: S311  no secret
        self.faults: tuple[str, ...] = ()
        self.dose_milliseconds = 0.0
        self.reactions: tuple[float, ...] = ()
        self.variant = ""
        self.injections: tuple[Injection, ...] = ()
        self._fault_plan = fault_plan
        self._dosing = None if plan.dose is None else Dosing(plan.dose)
        self._clock = clock or SystemClock()
        self._world: World | None = None
        self._scope: dict[str, Any] = {}
        self._mark: int | None = None
        self._in_force: list[Fault] = []
        self._scheduled: list[Scheduled] = []
        self._changing = threading.Lock()
        self._deferred: list[Callable[[], object]] = []

    @property
    def id(self) -> str:
        """The trial's name, by which its evidence is found."""
        return self.plan.id

    @property
    def arm(self) -> str:
        """`control` or `treatment`."""
        return self.plan.arm

    @property
    def index(self) -> int:
        """Which of the arm's trials this is, from 0."""
        return self.plan.index

    @property
    def seed(self) -> int:
        """The trial's own seed, from the run's."""
        return self.plan.seed

    @property
    def dose(self) -> int | None:
        """The milliseconds that `--dose` asks for, for a scenario whose faults are no delays; None without it."""
        if self._dosing is None:
            return None
        self._dosing.used = True
        return self._dosing.milliseconds

    @property
    def world(self) -> World:
        """The world it runs in.

        Raises:
            ConfigurationError: no fixture has bound one.
        """
        if self._world is None:
            raise ConfigurationError(
                f"no world is bound to {self.id}",
                remedy="the test must take a world's fixture, which calls `trial.bind(world, ...)`",
            )
        return self._world

    def bind(
        self,
        world: World,
        *,
        variant: str = "",
        clients: Sequence[str] = (),
        namespaces: Sequence[str] = (),
        **scope: Any,
    ) -> None:
        """Say where the trial runs. For a world's fixture.

        Args:
            world: it.
            variant: what the arm runs, in one line.
            clients: the controllers under test; requests of others are not judged.
            namespaces: those of the trial.
            scope: whatever else the oracles of this world need, as JSON data.
        """
        self._world = world
        self.variant = variant
        self._scope = {"clients": list(clients), "namespaces": list(namespaces), **scope}

    def step(self, name: str, **detail: Any) -> None:
        """Record that the scenario did or established something."""
        self.world.recorder.step(name, **detail)

    def note(self, source: str, text: str, *, fatal: bool = False) -> None:
        """Record what makes the trial suspect; `fatal` makes it INVALID."""
        self.world.recorder.record(Note(self._clock.now(), source, text, fatal=fatal))

    def defer(self, work: Callable[[], object]) -> None:
        """Do this after the scenario, whatever became of it, and still within the trial's history. For fixtures.

        What cleans up belongs here, so that oracles can judge what was left behind. The last deferred goes first.
        """
        self._deferred.append(work)

    @property
    def deferred(self) -> tuple[Callable[[], object], ...]:
        """What is to be done after the scenario, in that order."""
        return tuple(reversed(self._deferred))

    @contextmanager
    def inject(self, *faults: Fault, start: Trigger | None = None, end: Trigger | None = None) -> Iterator[None]:
        """All these faults in force within the block, and verified gone after it.

        With `start` they come into force at that event instead of at once, with `end` they end at that event if it
        comes before the end of the block. A duration is an end as well: `end=holdback.After(2)`. With `--dose` every
        delay has that dose.

        Raises:
            ConfigurationError: the plan that is replayed has nothing for this block, or what is not in this world.
            FaultError, TrafficError: one could not be started or ended, or a trigger never fired; the trial is then
                INVALID.
        """
        injection = Injection(faults, start, end)
        if self._fault_plan is not None:
            injection = self._fault_plan.injection(len(self.injections), self._named(faults), self.arm)
        if self._dosing is not None:
            self._dosing.notice(faults)  # also where a plan that is replayed has no delay at a dose of 0
            injection = self._dosing.apply(injection)
        self.injections = (*self.injections, injection)
        with self._put(injection):
            yield

    def check_asked(self) -> None:
        """Prove that the scenario asked for all that the plan has, and had a use for the dose. For the runner.

        Raises:
            ConfigurationError: it did not.
        """
        if self._fault_plan is not None:
            self._fault_plan.check_used(len(self.injections))
        if self._dosing is not None:
            self._dosing.check_used()

    def _named(self, faults: Sequence[Fault]) -> dict[str, Any]:
        """What a plan may name: every link and lane, and whatever the scenario itself does something to here."""
        links = self.world.network.links
        targets = (*links, *(lane for link in links for lane in link.lanes), *(fault.target for fault in faults))
        return {str(target): target for target in targets}

    def _put(self, injection: Injection) -> AbstractContextManager[object]:
        network, lease = self.world.network, Lease(self.id)
        if injection.start is None and injection.end is None:
            return inject(network, injection.faults, self._changed, lease)
        scheduled = Scheduled(
            injection,
            partial(inject, network, lease=lease),
            self.world.recorder,
            window=self._opened(),
            changed=self._changed,
            namespaces=self._scope["namespaces"],
            clients=self._scope["clients"],
            clock=self._clock,
        )
        self._scheduled.append(scheduled)
        return scheduled

    def settle(self, within: float) -> tuple[Finding, ...]:
        """Wait until every oracle has decided, one says VIOLATED, or the deadline has passed; what they say then.

        The deadline is `within` seconds plus `DELAYS_TO_SETTLE` times the largest delay in force or still to come. It
        is part of the history (step `settle`, `deadline` in wall time), and it is for the oracles to judge by it.

        Raises:
            HoldbackError: the world died meanwhile, or a trigger never fired.
        """
        pending = [fault for each in self._scheduled if not each.over for fault in each.injection.faults]
        delay = max((_milliseconds(fault) for fault in (*self._in_force, *pending)), default=0.0)
        allowed = within + DELAYS_TO_SETTLE * delay / 1000
        self.step("settle", within=within, delay_milliseconds=delay, deadline=self._clock.now() + allowed)
        deadline = self._clock.monotonic() + allowed
        world, newest = self.world, self._opened()
        while True:
            findings = judge(self.history(closed=False), self.oracles)
            left = deadline - self._clock.monotonic()
            if _decided(findings) or left <= 0:
                return findings
            self._clock.sleep(min(_JUDGE_EVERY, left))
            world.check()
            for scheduled in self._scheduled:
                scheduled.check()
            newest = world.recorder.await_news(newest, within=min(_CHECK_EVERY, max(0.0, left - _JUDGE_EVERY)))

    def history(self, *, closed: bool) -> History:
        """Everything that was recorded since the trial began."""
        about = {"trial": self.id, "experiment": self.plan.experiment, "arm": self.arm, "variant": self.variant}
        return History(self.world.recorder.since(self._opened()), closed=closed, scope={**about, **self._scope})

    @contextmanager
    def window(self) -> Iterator[None]:
        """Keep what is recorded within the block. For the runner."""
        recorder = self.world.recorder
        self._mark = recorder.mark()
        try:
            yield
        finally:
            recorder.forget(self._mark)
            self._mark = None

    def _opened(self) -> int:
        if self._mark is None:
            raise ConfigurationError(
                f"the trial {self.id} is not running",
                remedy="ask for its history, and let it settle, in the experiment's function or in what it deferred",
            )
        return self._mark

    def _changed(self, fault: Fault, phase: Phase, lanes: tuple[Lane, ...], cause: Cause = SCENARIO) -> None:
        """Record a change of a fault; may be called by several threads."""
        milliseconds, now = _milliseconds(fault), self._clock.now()
        reaction = None if cause.due is None else round(now - cause.due, 6)
        self.world.recorder.record(
            FaultChange(
                now,
                str(fault),
                phase,
                tuple(lane.name for lane in lanes),
                milliseconds=milliseconds,
                blocks=fault.blocks,
                trigger=cause.trigger,
                reaction=reaction,
            )
        )
        with self._changing:
            if phase == "ended":
                self._in_force.remove(fault)
                return
            self._in_force.append(fault)
            self.faults = (*self.faults, str(fault))
            self.dose_milliseconds = max(self.dose_milliseconds, milliseconds)
            if reaction is not None:
                self.reactions = (*self.reactions, reaction)


def _milliseconds(fault: Fault) -> float:
    """The longest delay that a fault adds; a hold or a cut adds none that could be named."""
    return fault.milliseconds + fault.jitter_milliseconds if isinstance(fault, Delay) else 0.0


def _decided(findings: Sequence[Finding]) -> bool:
    judgements = {finding.judgement for finding in findings}
    return Judgement.VIOLATED in judgements or Judgement.UNKNOWN not in judgements
