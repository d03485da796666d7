"""Whether a server is up and is the one that we started, and how many are connected to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import psutil

from holdback.process import Child

__all__ = ["abandoned", "connections", "listens"]


def listens(process: Child, ports: Sequence[int]) -> bool:
    """Whether this very process listens on all of these ports.

    An answer from the port would not tell: it may come from another server that had it first, while ours is
    about to give up.
    """
    try:
        sockets = psutil.Process(process.pid).net_connections(kind="tcp4")
    except psutil.Error:
        return False  # it is gone; whoever waits for it finds out why
    return set(ports) <= {each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN}


def connections(process: Child, port: int) -> int:
    """How many clients are connected to this process on a port."""
    return sum(status == psutil.CONN_ESTABLISHED for status in _accepted(process, {port}))


def abandoned(process: Child, ports: Collection[int]) -> bool:
    """Whether the process keeps a connection on one of these ports that its client has closed."""
    return psutil.CONN_CLOSE_WAIT in _accepted(process, ports)


def _accepted(process: Child, ports: Collection[int]) -> list[str]:
    try:
        sockets = psutil.Process(process.pid).net_connections(kind="tcp4")
    except psutil.Error:
        return []  # it is gone; whoever asks it next finds out why
    return [each.status for each in sockets if each.laddr.port in ports]
