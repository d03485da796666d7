"""What a load costs: processor time and memory of processes, and what API server and Kueue count."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from holdback.clock import poll
from holdback.errors import ClusterError

__all__ = ["Counted", "Usage", "Usages", "ask", "counted", "watch_usage"]

_EVERY = 0.5
"""Seconds between two looks at the memory of a process."""
_ABOUT, _CONFLICT = ("resource", "verb", "code"), ("pods", "PATCH", "409")
_SERVED_WITHIN = 60.0
_PODS = "v1_pod"
"""What Kueue calls its controller of pods."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one process: seconds of processor time, and the most resident memory that was seen, in bytes."""

    processor: float
    memory: int


class Usages:
    """Looks at processes now and then."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in processes.items()}
        self._begin = {name: _processor(process) for name, process in self._processes.items()}
        self._memory = dict.fromkeys(processes, 0)

    def look(self) -> None:
        """Note how much memory each has now."""
        for name, process in self._processes.items():
            self._memory[name] = max(self._memory[name], process.memory_info().rss)

    def read(self) -> dict[str, Usage]:
        """By name, since the begin."""
        self.look()
        return {
            name: Usage(_processor(process) - self._begin[name], self._memory[name])
            for name, process in self._processes.items()
        }


def _processor(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def watch_usage(processes: Mapping[str, int]) -> Iterator[Usages]:
    """Look at these processes (name to pid) for as long as the context lasts."""
    usages = Usages(processes)
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(_EVERY):
            try:
                usages.look()
            except psutil.NoSuchProcess:
                return  # whoever started it will say so

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield usages
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class Counted:
    """What API server and Kueue have counted.

    `requests` to the API server are by verb, of all clients; `conflicts` are the patches of pods among them that were
    answered 409. `retries` are the reconciles of pods that Kueue put back after a failure; its `reconciles` of pods
    took `reconcile_seconds` together.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    conflicts: int = 0
    retries: int = 0
    reconciles: int = 0
    reconcile_seconds: float = 0.0

    def since(self, before: Counted) -> Counted:
        """What was counted after `before`."""
        return Counted(
            {verb: count - before.requests.get(verb, 0) for verb, count in self.requests.items()},
            self.conflicts - before.conflicts,
            self.retries - before.retries,
            self.reconciles - before.reconciles,
            self.reconcile_seconds - before.reconcile_seconds,
        )


def counted(*texts: str) -> Counted:
    """What these texts in Prometheus' format say."""
    requests: dict[str, int] = {}
    sums = dict.fromkeys(("conflicts", "retries", "reconciles", "seconds"), 0.0)
    for sample in (
        sample for text in texts for family in text_string_to_metric_families(text) for sample in family.samples
    ):
        labels = sample.labels
        match sample.name:
            case "apiserver_request_total":
                requests[labels["verb"]] = requests.get(labels["verb"], 0) + int(sample.value)
                sums["conflicts"] += sample.value * (tuple(labels[key] for key in _ABOUT) == _CONFLICT)
            case "workqueue_retries_total":
                sums["retries"] += sample.value * (labels["name"] == _PODS)
            case "controller_runtime_reconcile_time_seconds_count":
                sums["reconciles"] += sample.value * (labels["controller"] == _PODS)
            case "controller_runtime_reconcile_time_seconds_sum":
                sums["seconds"] += sample.value * (labels["controller"] == _PODS)
    whole = {key: int(value) for key, value in sums.items() if key != "seconds"}
    return Counted(dict(sorted(requests.items())), **whole, reconcile_seconds=sums["seconds"])


def ask(url: str, token: str, *, trust: ssl.SSLContext | bool) -> str:
    """The metrics that are served there; a program that has just become ready may serve them a moment later.

    Raises:
        ClusterError: no answer within a minute, or a refusal.
    """
    text = poll(lambda: _ask(url, token, trust), within=_SERVED_WITHIN)
    if text is None:
        raise ClusterError(f"no metrics are served at {url}", remedy="see the end of its log")
    return text


def _ask(url: str, token: str, trust: ssl.SSLContext | bool) -> str | None:
    """What it says; None without an answer."""
    try:
        answer = httpx.get(url, headers={"Authorization": f"Bearer {token}"}, verify=trust, trust_env=False, timeout=30)
        answer.raise_for_status()
    except httpx.ConnectError:
        return None
    except httpx.HTTPError as error:
        raise ClusterError(f"the metrics at {url}: {error}", remedy="see the end of its log") from error
    return answer.text
