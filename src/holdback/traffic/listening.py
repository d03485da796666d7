"""Whether a server is up and is the one that we started, and how many are connected to it."""

from __future__ import annotations

from collections.abc import Sequence

import psutil

from holdback.process import Child

__all__ = ["connections", "listens"]


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
    """How many connections this process has accepted on a port and still holds open."""
    sockets = psutil.Process(process.pid).net_connections(kind="tcp4")
    return sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in sockets)
