"""The order of trials, from one seed: pure, and the same in every process of a run."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Slot", "derive", "order"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One trial to be made: which experiment, which arm, which repetition (from 0), at which of how many doses."""

    experiment: str
    arm: str
    repetition: int
    dose_number: int = 0
    doses: int = 1

    @property
    def index(self) -> int:
        """Counts the arm's trials from 0; the same in both arms for the trials of a block."""
        return self.repetition * self.doses + self.dose_number


def derive(seed: int, *words: object) -> int:
    """A 63-bit seed from a seed and words; the same in every process and version of Python, unlike `hash`."""
    text = "\x1f".join(map(str, (seed, *words)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def order(slots: Sequence[Slot], seed: int) -> list[int]:
    """The indices of `slots` in the order in which to make them.

    Experiments follow each other as they come. Within one, each repetition has a block at every dose, in random order,
    and a block a trial in each arm, in random order: what changes with time (load, caches, a filling disk) meets doses
    and arms alike, and none always goes first.
    """
    experiments = {slot.experiment: None for slot in slots}
    ordered: list[int] = []
    for experiment in experiments:
        rounds: dict[int, dict[int, list[int]]] = {}
        for number, slot in enumerate(slots):
            if slot.experiment == experiment:
                rounds.setdefault(slot.repetition, {}).setdefault(slot.index, []).append(number)
        for repetition in sorted(rounds):
            blocks = sorted(rounds[repetition])
            _shuffle(blocks, seed, "doses", experiment, repetition)
            for index in blocks:
                block = sorted(rounds[repetition][index], key=lambda number: slots[number].arm)
                _shuffle(block, seed, "order", experiment, index)
                ordered += block
    return ordered


def _shuffle(numbers: list[int], seed: int, *words: object) -> None:
    random.Random(derive(seed, *words)).shuffle(numbers)  # noqa: S311  no secret
