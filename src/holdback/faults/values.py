"""Faults as plain values: what happens to which traffic, never how.

`holdback.traffic.network.Network` alone knows how a lane is delayed, held or cut and how the end of it is
verified; `holdback.faults.injection` hands each value to it.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdback.errors import ConfigurationError
from holdback.traffic.lanes import Lane, Link, Side

__all__ = ["Cut", "Delay", "Fault", "Hold"]


@dataclass(frozen=True, slots=True)
class Delay:
    """Everything the cluster sends back arrives that much later, in order and complete; with `of` what it is sent.

    Raises:
        ConfigurationError: negative milliseconds.
    """

    target: Link | Lane
    milliseconds: float
    jitter_milliseconds: float = 0.0
    of: Side = "answers"

    def __post_init__(self) -> None:
        if self.milliseconds < 0 or self.jitter_milliseconds < 0:
            raise ConfigurationError(
                f"a delay of {self.milliseconds} ms (jitter {self.jitter_milliseconds} ms) is negative"
            )

    def __str__(self) -> str:
        jitter = f" (jitter {self.jitter_milliseconds:g} ms)" if self.jitter_milliseconds else ""
        return f"delay {self.milliseconds:g} ms{jitter} on {_words(self.of)}{self.target}"


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing the cluster sends arrives until the fault ends; then everything does, in order.

    With `of="requests"` nothing that the cluster is sent: a held write has not happened yet.
    """

    target: Link | Lane
    of: Side = "answers"

    def __str__(self) -> str:
        return f"hold {_words(self.of)}{self.target}"


@dataclass(frozen=True, slots=True)
class Cut:
    """Open connections are reset and new ones refused until the fault ends."""

    target: Link | Lane

    def __str__(self) -> str:
        return f"cut {self.target}"


def _words(of: Side) -> str:
    return "requests of " if of == "requests" else ""


Fault = Delay | Hold | Cut
