"""English that depends on a number."""

from __future__ import annotations

__all__ = ["counted", "noun"]


def counted(number: int, one: str, many: str = "") -> str:
    """`1 trial`, `2 trials`; `many` is given where it is more than `one` with an s."""
    return f"{number} {noun(number, one, many)}"


def noun(number: int, one: str, many: str = "") -> str:
    """The form that goes with the number: `1 of 1 trial`, `1 of 2 trials`."""
    return one if number == 1 else many or f"{one}s"
