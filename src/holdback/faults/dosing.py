"""A dose in place of a scenario's own delays (`--dose`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdback.errors import ConfigurationError
from holdback.faults.triggers import After, FaultEnded, Injection, Trigger
from holdback.faults.values import Delay, Fault

__all__ = ["SEARCH", "Dosing", "read_doses"]

SEARCH = "search"
"""In place of doses: each block's dose follows from the trials before it."""


def read_doses(word: str) -> tuple[int, ...]:
    """The doses in `0,5,100`, in whole milliseconds, rising.

    Raises:
        ConfigurationError: it is no list of doses.
    """
    doses = [each.strip() for each in word.split(",")]
    if wrong := [each for each in doses if not (each.isascii() and each.isdigit())]:
        raise ConfigurationError(
            f"{wrong[0]!r} is no dose", remedy=f"give whole milliseconds, 0 or more: 0,10,50,100; or {SEARCH}"
        )
    return tuple(sorted({int(each) for each in doses}))


class Dosing:
    """Puts a dose in place of the milliseconds of every `Delay` of a trial; other faults stay as they are.

    Jitter keeps its share of the delay. At a dose of 0 there are no delays at all, and nothing waits for a trigger to
    start or end them.
    """

    def __init__(self, milliseconds: int) -> None:
        self.milliseconds = milliseconds
        self.used = False
        self._became: dict[str, Delay | None] = {}

    def notice(self, faults: Sequence[Fault]) -> None:
        """See what the scenario itself injects: a delay among it is what a dose is for."""
        self.used = self.used or any(isinstance(fault, Delay) for fault in faults)

    def apply(self, injection: Injection) -> Injection:
        """The injection with the dose in it, without any fault or trigger where the dose leaves none."""
        faults = tuple(fault for each in injection.faults if (fault := self._dosed(each)) is not None)
        if injection.faults and not faults:
            return Injection(())
        return Injection(faults, self._trigger(injection.start), self._trigger(injection.end))

    def check_used(self) -> None:
        """Prove that the dose had something to change.

        Raises:
            ConfigurationError: the scenario injected no `Delay`, and nothing asked for the dose.
        """
        if not self.used:
            raise ConfigurationError(
                f"--dose asks for {self.milliseconds} ms, and the scenario has no Delay",
                remedy="leave the scenario out (-k), or let it take the strength of its faults from `trial.dose`",
            )

    def _dosed(self, fault: Fault) -> Fault | None:
        if not isinstance(fault, Delay):
            return fault
        dosed = self._with_dose(fault) if self.milliseconds else None
        self._became[str(fault)] = dosed
        return dosed

    def _with_dose(self, fault: Delay) -> Delay:
        share = fault.jitter_milliseconds / fault.milliseconds if fault.milliseconds else 0
        return replace(fault, milliseconds=self.milliseconds, jitter_milliseconds=round(share * self.milliseconds))

    def _trigger(self, trigger: Trigger | None) -> Trigger | None:
        """A trigger that waits for a delay's end knows it by its description, which the dose has changed."""
        if not isinstance(trigger, FaultEnded) or str(trigger.fault) not in self._became:
            return trigger
        dosed = self._became[str(trigger.fault)]
        return After(trigger.later) if dosed is None else replace(trigger, fault=dosed)
