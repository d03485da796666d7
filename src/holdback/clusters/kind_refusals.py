"""What kind said when it failed, made into an error with cause and remedy; and whether there is enough for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from holdback.errors import ClusterError, ConfigurationError, HoldbackError, NotReady

__all__ = ["explain", "too_little"]

_MEMORY = 600 * 2**20
"""Bytes that a cluster with a Kueue in it takes: 430 to 465 MiB for the cluster, 100 to 150 for Kueue."""
_INOTIFY = Path("/proc/sys/fs/inotify")
_NEEDED = {"instances": (30, 30), "watches": (400, 2000)}
"""What a node takes of inotify (a node that works was seen with 302 watches), and what all else of the account may: a
desktop needs more."""
_SYSCTL = "sudo sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=524288"
_SHOWN = 15

_NOISE = re.compile(r"\s|[IW]\d{4} |[\w./-]+\.[A-Za-z(*]\S*$|\s*$")
"""How lines begin that tell nobody anything: the log of kubeadm, and its stack traces."""


@dataclass(frozen=True, slots=True)
class _Trap:
    """What kind says when it has walked into one, the cause in words, and what to do."""

    said: str
    cause: str
    remedy: str
    error: type[HoldbackError] = ConfigurationError


# The first that fits counts.
_TRAPS = (
    _Trap(
        r"failed to pull image|pull access denied|manifest unknown|unable to find image|no such image",
        "the node image {image} is not there and cannot be pulled",
        "name one that this engine has or can pull with --kind-image (`docker image ls`), or build one from Go modules "
        "and Debian packages in a clone of holdback's repository: `nox -s kind-image`",
    ),
    _Trap(
        r"unable to apply caps",
        "the engine may not run privileged containers here",
        "run it where it may; a virtual machine will do, most containers will not",
    ),
    _Trap(
        r"inotify|too many open files|could not find a log line that matches",
        "its node does not start, mostly for want of inotify instances",
        _SYSCTL,
    ),
    _Trap(
        r"node\(s\) already exist|already in use by container",
        "a cluster of that name is there already",
        "`holdback clean` removes what earlier runs have left",
    ),
    _Trap(r"no space left on device", "there is no room on the engine's disk", "docker system prune, or a larger disk"),
    _Trap(
        r"cannot connect to the docker daemon|error during connect",
        "the Docker engine has ended meanwhile",
        "start it again; its log says why it ended",
    ),
    _Trap(
        r"is not healthy after|failed while waiting for the control plane|timed out waiting for the condition",
        "its control plane did not come up in time",
        "the machine is overloaded, mostly: fewer worlds side by side (-n), or fewer other programs",
        NotReady,
    ),
)


def too_little(clusters: int) -> None:
    """Refuse to start what would not come up, or take the machine down.

    Raises:
        ConfigurationError: too little memory is free, or too few inotify instances or watches are allowed.
    """
    free, needed = psutil.virtual_memory().available, clusters * _MEMORY
    if free < needed:
        raise ConfigurationError(
            f"{clusters} kind clusters need {needed // 2**20} MiB of memory, and {free // 2**20} are free",
            remedy="fewer worlds side by side (-n), or end other programs",
        )
    for what, (each, others) in _NEEDED.items():
        allowed, wanted = _allowed(what), clusters * each + others
        if allowed is not None and allowed < wanted:
            raise ConfigurationError(
                f"{clusters} kind clusters need {wanted} inotify {what}, and this machine allows {allowed}",
                remedy=_SYSCTL,
            )


def _allowed(what: str) -> int | None:
    limit = _INOTIFY / f"max_user_{what}"
    return int(limit.read_text()) if limit.exists() else None


def explain(cluster: str, text: str, log: Path, *, image: str = "") -> HoldbackError:
    """The error for a kind that failed on a cluster, given what it said; `log` has all of it."""
    telling = [line for line in text.splitlines() if not _NOISE.match(line)] or text.splitlines()
    words = "\n".join(f"    {line}" for line in telling[-_SHOWN:])
    for trap in _TRAPS:
        if re.search(trap.said, text, re.IGNORECASE):
            cause = trap.cause.format(image=image or "of this kind's choice")
            return trap.error(f"kind cluster {cluster}: {cause}:\n{words}", remedy=f"{trap.remedy}; the log: {log}")
    return ClusterError(
        f"kind cluster {cluster}: kind failed:\n{words}", remedy=f"its words name the cause; all of them: {log}"
    )
