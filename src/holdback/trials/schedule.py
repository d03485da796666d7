"""The order of trials, from one seed: pure, and the same in every process of a run."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Slot", "derive", "order"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One trial to be made: which experiment, which arm, which repetition (from 0)."""

    experiment: str
    arm: str
    index: int


def derive(seed: int, *words: object) -> int:
    """A 63-bit seed from a seed and words; the same in every process and version of Python, unlike `hash`."""
    text = "\x1f".join(map(str, (seed, *words)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def order(slots: Sequence[Slot], seed: int) -> list[int]:
    """The indices of `slots` in the order in which to make them.

    Experiments follow each other as they come. Within one, the trials with the same repetition form a block, and each
    block is in random order: what changes with time (load, caches, a filling disk) meets both arms alike, and
    neither always goes first.
    """
    experiments = {slot.experiment: None for slot in slots}
    ordered: list[int] = []
    for experiment in experiments:
        blocks: dict[int, list[int]] = {}
        for number, slot in enumerate(slots):
            if slot.experiment == experiment:
                blocks.setdefault(slot.index, []).append(number)
        for index in sorted(blocks):
            block = sorted(blocks[index], key=lambda number: slots[number].arm)
            random.Random(derive(seed, "order", experiment, index)).shuffle(block)  # noqa: S311  no secret
            ordered += block
    return ordered
