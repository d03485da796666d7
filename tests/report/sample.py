"""Made-up reports that look like real ones: what MultiKueue trials record, in kind, number and size."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

from holdback.history.events import Event, FaultChange, ObjectChange, Request, Step
from holdback.history.history import History
from holdback.history.store import Store
from holdback.oracles import Finding, Judgement
from holdback.trials.outcome import Outcome, Row

__all__ = ["EXPERIMENT", "STARTED", "dosed", "history", "report", "row", "run"]

EXPERIMENT = "e2e/test_readmission.py::test_a_drained_workload_is_admitted_again"
STARTED = 1_764_500_000.0
_LETTERS = {outcome.value[0]: outcome for outcome in Outcome}
_VARIANTS = {"control": "Kueue v0.17.0", "treatment": "Kueue v0.17.0 + guard.patch, gates MultiKueueGuard=true"}


def run(**facts: Any) -> dict[str, Any]:
    """A run.json."""
    return {
        "id": "0f5e1c",
        "started": STARTED,
        "seed": 7,
        "control": "",
        "treatment": "clusters/kueue/treatment.toml",
        "plan": "",
        "count": 2,
        "command": ["pytest", "--count=2", "e2e/test_readmission.py"],
        "machine": {"system": "Linux-6.1", "processors": 2, "load": [0.5, 0.4, 0.3]},
        "versions": {"python": "3.11.2", "holdback": "0.1.0"},
        **facts,
    }


def row(arm: str, index: int, outcome: Outcome, **changes: Any) -> Row:
    """A row of a trial."""
    facts: dict[str, Any] = {
        "id": f"a-drained-workload-is-admitted-again-{arm}-{index + 1:03d}",
        "experiment": EXPERIMENT,
        "arm": arm,
        "variant": _VARIANTS[arm],
        "index": index,
        "block": index,
        "seed": 1000 + index,
        "started": STARTED + 20 * index,
        "seconds": 9.5,
        "outcome": outcome,
        "reason": "readmitted: not admitted again 17.0 s after the eviction on worker1",
        "findings": _findings(outcome),
        "faults": ("delay 100 ms on kueue-manager-control>worker1",),
        "dose_milliseconds": 100.0,
    }
    return Row(**{**facts, **changes})


def report(
    directory: Path,
    control: str,
    treatment: str,
    *,
    events: int = 60,
    bulk: int = 0,
    facts: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Store:
    """Write a report: each letter of an arm's word is a trial, v(iolated), h(olds), u(nknown), i(nvalid).

    A history has about `events` events, objects are `bulk` bytes larger than they need be; `facts` change run.json,
    `changes` the rows.
    """
    store = Store(directory)
    store.begin({**run(), "id": f"{crc32(str(directory).encode()):08x}", **(facts or {})})
    for index in range(max(len(control), len(treatment))):
        for arm, word in (("control", control), ("treatment", treatment)):
            if index < len(word):
                outcome = _LETTERS[word[index]]
                made = row(arm, index, outcome, **changes)
                planned = ("id", "experiment", "arm", "index", "block", "seed", "dose", "started")
                store.plan({name: getattr(made, name) for name in planned})
                store.record(made.id, history(made, events=events, bulk=bulk))
                store.judged(made.to_json())
    return store


def dosed(directory: Path, control: str, treatment: str, doses: Sequence[int]) -> Store:
    """Likewise, as many trials at each of the doses, from the first of an arm's word to the last."""
    store = report(directory, control, treatment)
    each = len(control) // len(doses)
    rows = [json.loads(line) for line in store.trials_path.read_text().splitlines()]
    changed = [{**row, "dose": doses[row["index"] // each]} for row in rows]
    store.trials_path.write_text("".join(json.dumps(row) + "\n" for row in changed))
    return store


def history(of: Row, *, events: int = 60, bulk: int = 0) -> History:
    """What a trial with that outcome may have recorded."""
    clusters = (f"manager-{of.arm}", "worker1", "worker2")
    kueue = f"kueue-{clusters[0]}"
    told = sorted(
        [*_course(of, clusters, kueue, bulk), *_noise(of, clusters, kueue, bulk, events)], key=lambda event: event.at
    )
    scope = {"trial": of.id, "experiment": of.experiment, "arm": of.arm, "variant": of.variant}
    return History(tuple(told), scope={**scope, "clients": [kueue], "namespaces": [of.arm]})


def _findings(outcome: Outcome) -> tuple[Finding, ...]:
    if outcome is Outcome.HOLDS:
        return (Finding("readmitted", Judgement.HOLDS, "admitted again on worker2 1.9 s after the eviction", (7, 15)),)
    if outcome is Outcome.VIOLATED:
        return (Finding("readmitted", Judgement.VIOLATED, "not admitted again", (7,)),)
    return ()


def _course(of: Row, clusters: Sequence[str], kueue: str, bulk: int) -> Iterator[Event]:
    manager, first, second = clusters
    draw = random.Random(of.seed + len(of.arm))

    def at(seconds: float) -> float:
        return of.started + seconds + draw.random() * 0.01

    def workload(seconds: float, on: str, change: Literal["ADDED", "MODIFIED"] = "MODIFIED", **status: Any) -> Event:
        made = _workload(of, draw, bulk, status, at(seconds))
        return ObjectChange(at(seconds), "truth", on, "workloads", change, made)

    name, dose = "job-x", of.dose_milliseconds
    yield Step(at(0), "submit", {"workload": name, "manager": manager, "workers": [first, second]})
    yield workload(0.1, manager, "ADDED")
    yield workload(0.3, manager, QuotaReserved="True", check="Pending")
    yield workload(0.4, manager, QuotaReserved="True", check="Pending", nominated=[first, second])
    yield workload(0.5, first, "ADDED")
    yield workload(0.7, first, QuotaReserved="True", Admitted="True")
    yield workload(0.9, manager, QuotaReserved="True", Admitted="True", check="Ready", cluster=first)
    yield FaultChange(at(1.0), f"delay {dose:g} ms on {kueue}>{first}", "started", (f"{kueue}>{first}/writes",), dose)
    yield Step(at(1.2), "evict", {"workload": name, "on": first, "by": "drain"})
    yield workload(1.4, first, QuotaReserved="False", Evicted="True")
    yield Step(at(1.5), "settle", {"within": 15, "deadline": at(18.5)})
    yield workload(1.7, manager, QuotaReserved="False", Evicted="True", check="Retry")
    yield workload(1.9, manager, QuotaReserved="True", Evicted="True", check="Pending")
    if of.outcome is Outcome.HOLDS:
        yield workload(2.1, manager, QuotaReserved="True", check="Pending", nominated=[first, second])
        yield workload(2.4, second, "ADDED")
        yield workload(2.6, second, QuotaReserved="True", Admitted="True")
        yield workload(3.1, manager, QuotaReserved="True", Admitted="True", check="Ready", cluster=second)
        end = 3.3
    else:
        yield workload(2.0, second, "ADDED")
        yield workload(2.2, second, QuotaReserved="True", Admitted="True")
        path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{of.arm}/workloads/{name}/status"
        for times in range(9):
            yield Request(at(2.3 + 0.01 * 2**times), kueue, manager, "PATCH", path, 403, 0.012)
        end = 9.3
    yield FaultChange(at(end), f"delay {dose:g} ms on {kueue}>{first}", "ended", (f"{kueue}>{first}/writes",), dose)
    yield Step(at(end + 0.1), "delete", {"jobs": [name]})
    yield Step(at(end + 0.2), "end")


def _noise(of: Row, clusters: Sequence[str], kueue: str, bulk: int, events: int) -> Iterator[Event]:
    """The rest of what is recorded: the Job's own changes, the shadow watch, requests that went well."""
    draw = random.Random(of.seed * 31)
    for number in range(max(0, events - 30)):
        at = of.started + 0.05 + draw.random() * 9
        cluster = draw.choice(clusters)
        match number % 3:
            case 0:
                yield ObjectChange(at, "truth", cluster, "jobs", "MODIFIED", _job(of, draw, bulk))
            case 1:
                made = _workload(of, draw, bulk, {"QuotaReserved": "True"}, at)
                yield ObjectChange(at, "shadow", cluster, "workloads", "MODIFIED", made, client=kueue)
            case _:
                path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{of.arm}/workloads/job-x"
                yield Request(at, kueue, cluster, draw.choice(["GET", "PATCH"]), path, 200, draw.random() / 50)


def _metadata(of: Row, draw: random.Random, bulk: int) -> dict[str, Any]:
    return {
        "name": "job-x",
        "namespace": of.arm,
        "uid": f"{draw.getrandbits(128):032x}",
        "resourceVersion": str(draw.randrange(10**6)),
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "annotations": {f"example.com/{n}": f"{draw.getrandbits(256):064x}" for n in range(bulk // 80)},
    }


def _job(of: Row, draw: random.Random, bulk: int) -> dict[str, Any]:
    spec = {"suspend": draw.random() < 0.5, "parallelism": 1}
    return {"kind": "Job", "metadata": _metadata(of, draw, bulk), "spec": spec, "status": {}}


def _workload(of: Row, draw: random.Random, bulk: int, status: Mapping[str, Any], at: float) -> dict[str, Any]:
    conditions = [
        {"type": kind, "status": str(status[kind]), "reason": kind, "message": "because", "lastTransitionTime": str(at)}
        for kind in ("QuotaReserved", "Admitted", "Evicted")
        if kind in status
    ]
    found: dict[str, Any] = {"conditions": conditions}
    if "check" in status:
        found["admissionChecks"] = [{"name": "multikueue", "state": status["check"], "message": ""}]
    if "nominated" in status:
        found["nominatedClusterNames"] = status["nominated"]
    if "cluster" in status:
        found["clusterName"] = status["cluster"]
    return {"kind": "Workload", "metadata": _metadata(of, draw, bulk), "spec": {"priority": 0}, "status": found}
