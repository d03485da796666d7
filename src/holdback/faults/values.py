"""Faults as plain values: what happens to which traffic or process, never how.

`holdback.traffic.network.Network` alone knows what makes a fault on a lane and how the end of it is verified;
`holdback.faults.injection` hands each value to it. Faults on processes act on what runs in the world, be it a process
next to us or a pod: on a `holdback.process.Running`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from holdback.errors import ConfigurationError
from holdback.process import Running
from holdback.traffic.lanes import Lane, Link, Pipe, Side
from holdback.wording import counted

__all__ = [
    "Answer",
    "Cut",
    "Delay",
    "Fault",
    "Hold",
    "Kill",
    "Pause",
    "Restart",
    "Slow",
    "TimeTravel",
    "Toxic",
    "Unobserved",
]

# Every fault says by `blocks` whether nothing gets through on its lanes while it lasts, so that a lack of progress
# is no wonder.


@dataclass(frozen=True, slots=True)
class Delay:
    """Everything the cluster sends back arrives that much later, in order and complete; with `of` what it is sent.

    Raises:
        ConfigurationError: negative milliseconds.
    """

    blocks: ClassVar[bool] = False
    target: Link | Lane | Pipe
    milliseconds: float
    jitter_milliseconds: float = 0.0
    of: Side = "answers"

    def __post_init__(self) -> None:
        if self.milliseconds < 0 or self.jitter_milliseconds < 0:
            raise ConfigurationError(
                f"a delay of {self.milliseconds} ms (jitter {self.jitter_milliseconds} ms) is negative",
                remedy="give 0 or more",
            )

    def __str__(self) -> str:
        jitter = f" (jitter {self.jitter_milliseconds:g} ms)" if self.jitter_milliseconds else ""
        return f"delay {self.milliseconds:g} ms{jitter} on {_words(self.of)}{self.target}"


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing the cluster sends arrives until the fault ends; then everything does, in order.

    With `of="requests"` nothing that the cluster is sent: a held write has not happened yet.
    """

    blocks: ClassVar[bool] = True
    target: Link | Lane | Pipe
    of: Side = "answers"

    def __str__(self) -> str:
        return f"hold {_words(self.of)}{self.target}"


@dataclass(frozen=True, slots=True)
class Cut:
    """Open connections are reset and new ones refused until the fault ends."""

    blocks: ClassVar[bool] = True
    target: Link | Lane | Pipe

    def __str__(self) -> str:
        return f"cut {self.target}"


@dataclass(frozen=True, slots=True)
class Slow:
    """What the cluster sends back passes at so many kilobytes (1,000 bytes) a second; with `of` what it is sent.

    Each connection has that much for itself, and under the router each request has a connection of its own.

    Raises:
        ConfigurationError: less than one kilobyte a second, or a part of one.
    """

    blocks: ClassVar[bool] = False
    target: Link | Lane | Pipe
    kilobytes_per_second: int
    of: Side = "answers"

    def __post_init__(self) -> None:
        if self.kilobytes_per_second < 1 or self.kilobytes_per_second != int(self.kilobytes_per_second):
            raise ConfigurationError(
                f"{self.kilobytes_per_second} kB/s",
                remedy="give whole kilobytes a second, 1 or more; a Hold lets nothing through",
            )

    def __str__(self) -> str:
        return f"slow {_words(self.of)}{self.target} to {self.kilobytes_per_second:g} kB/s"


@dataclass(frozen=True, slots=True)
class Toxic:
    """Any toxic that Toxiproxy knows, by its type and attributes, for what has no kind of its own here.

    For instance `Toxic(lane, "limit_data", {"bytes": 4096})`: the connection ends after so many bytes. Times are
    milliseconds, as Toxiproxy has them. What it does at its end is Toxiproxy's affair: a `timeout` drops what it held.
    """

    blocks: ClassVar[bool] = False
    target: Link | Lane | Pipe
    type: str
    attributes: Mapping[str, int] = field(default_factory=dict, hash=False)
    of: Side = "answers"

    def __str__(self) -> str:
        attributes = ", ".join(f"{name} {value}" for name, value in self.attributes.items())
        return f"{self.type}{f' ({attributes})' if attributes else ''} on {_words(self.of)}{self.target}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The router answers requests in the cluster's place, with a `Status` as an API server sends it.

    Open watches stay: only requests that come while the fault is in force are answered. `times` is how many, all lanes
    of the target together; the others pass. One that answered fewer than that (than one, if without number) by its
    end has not happened, and its end is an error.

    Args:
        target: whose requests.
        status: 429, 500, 503, 409; 410 on a watch makes an informer list again.
        times: how many requests; None for all.
        retry_after: seconds, for the header of that name; whole ones.

    Raises:
        ConfigurationError: no HTTP error status, or numbers that cannot be.
    """

    blocks: ClassVar[bool] = True
    target: Link | Lane
    status: int
    times: int | None = None
    retry_after: int | None = None

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ConfigurationError(f"an answer with status {self.status}", remedy="give one from 400 to 599")
        if self.times is not None and self.times < 1:
            raise ConfigurationError(
                f"an answer {counted(self.times, 'time')}", remedy="leave `times` out to answer all requests"
            )
        if self.retry_after is not None and (self.retry_after < 0 or self.retry_after != int(self.retry_after)):
            raise ConfigurationError(f"Retry-After: {self.retry_after}", remedy="give whole seconds")

    def __str__(self) -> str:
        times = "" if self.times is None else f" {counted(self.times, 'time')}"
        after = "" if self.retry_after is None else f" (retry after {self.retry_after} s)"
        return f"answer {self.status}{after}{times} on {self.target}"


@dataclass(frozen=True, slots=True)
class Unobserved:
    """What happens to objects while the fault lasts is never seen, only what has become of them.

    The watch is held; at the end it breaks off, what was held is thrown away, and going on from where it was is refused
    (410 Expired) as after a compaction, so that informers list anew.

    Raises:
        ConfigurationError: the target is no lane of watches.
    """

    blocks: ClassVar[bool] = True
    target: Lane

    def __post_init__(self) -> None:
        if not isinstance(self.target, Lane) or not self.target.is_watch:
            raise ConfigurationError(
                f"unobserved on {self.target}, which is no lane of watches",
                remedy="take `link.watch(...)` or `link.watches`",
            )

    def __str__(self) -> str:
        return f"unobserved {self.target}"


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """The client is moved to the second API server of its cluster, which may know less than the first.

    Its connections to the first end when the fault begins, and those to the second when it is over. How far the second
    lags is another fault's business: a `Hold` of `holdback.traffic.second.view_of(cluster)`, for instance.
    """

    blocks: ClassVar[bool] = False
    target: Link

    def __str__(self) -> str:
        return f"time travel of {self.target}"


@dataclass(frozen=True, slots=True)
class _OnProgram:
    """What all faults on processes have; each says itself what it does."""

    blocks: ClassVar[bool] = True
    target: Running

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()} {self.target}"


@dataclass(frozen=True, slots=True)
class Pause(_OnProgram):
    """The process stands still (SIGSTOP) until the fault ends; its connections stay open. Then it works again."""


@dataclass(frozen=True, slots=True)
class Kill(_OnProgram):
    """The process is killed (SIGKILL) and gone until the fault ends; then it is started again and ready."""


@dataclass(frozen=True, slots=True)
class Restart(_OnProgram):
    """The process is killed (SIGKILL) and started again at once. The fault is over when it is ready."""


def _words(of: Side) -> str:
    return "requests of " if of == "requests" else ""


Fault = Delay | Hold | Cut | Slow | Toxic | Answer | Unobserved | TimeTravel | Pause | Kill | Restart
