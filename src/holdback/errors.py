"""Every error holdback raises on purpose: one tree, each with a remedy.

```
HoldbackError                 anything below; `message` names the cause, `remedy` says what to do
├── ConfigurationError        the user asked for something that cannot be: an option, a file, a variant
├── BinaryError               an executable is missing or cannot be had
│   ├── ToolchainError        no usable Go
│   └── BuildError            the compiler or the module proxy refused
├── ProcessError              a child process did not do its work
│   ├── ProcessExited         it ended by itself; carries the end of its log
│   └── NotReady              it runs, but was not ready in time
├── ClusterError              a cluster or an object in it did not behave
├── TrafficError              the router or Toxiproxy is gone or refused
├── FaultError                a fault could not be injected, did not fire, or was not verified gone
├── EvidenceError             stored evidence cannot be read or written
└── Undecidable               an oracle cannot judge this history
```
"""

from __future__ import annotations

__all__ = [
    "BinaryError",
    "BuildError",
    "ClusterError",
    "ConfigurationError",
    "EvidenceError",
    "FaultError",
    "HoldbackError",
    "NotReady",
    "ProcessError",
    "ProcessExited",
    "ToolchainError",
    "TrafficError",
    "Undecidable",
]


class HoldbackError(Exception):
    """Root of the tree; `str()` gives the message and, on a line of its own, the remedy."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.remedy}" if self.remedy else self.message


class ConfigurationError(HoldbackError):
    """The user asked for something that cannot be; pytest shows it as a usage error."""


class BinaryError(HoldbackError):
    """An executable is missing or cannot be had."""


class ToolchainError(BinaryError):
    """No usable Go toolchain."""


class BuildError(BinaryError):
    """The compiler or the module proxy refused; the message holds its words."""


class ProcessError(HoldbackError):
    """A child process did not do its work."""


class ProcessExited(ProcessError):
    """A child process ended by itself; the message holds the end of its log."""


class NotReady(ProcessError):
    """A child process runs but was not ready within its time."""


class ClusterError(HoldbackError):
    """A cluster, or an object in it, did not behave; `status` is the API server's HTTP status, 0 without an answer."""

    def __init__(self, message: str, *, remedy: str = "", status: int = 0) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


class TrafficError(HoldbackError):
    """The router or Toxiproxy is gone, or refused a request."""


class FaultError(HoldbackError):
    """A fault could not be injected, did not fire, or was not verified gone."""


class EvidenceError(HoldbackError):
    """Stored evidence cannot be read or written."""


class Undecidable(HoldbackError):
    """An oracle cannot judge this history."""
