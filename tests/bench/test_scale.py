"""The price tool's own arithmetic: what it counts, what it pairs, what it concludes."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from bench.scale.__main__ import groups, parse
from bench.scale.load import OTHERS, Counts, Load
from bench.scale.measuring import Measured, Wanted
from bench.scale.report import append, interrupted, pairs, summary, table, verdict
from bench.scale.usage import Counted, Usage, counted
from holdback.clusters.api import Api
from holdback.clusters.kinds import PODS, Kind
from holdback.controllers.kueue.pods import GATE, KUEUE_FINALIZER
from holdback.errors import ClusterError

WANTED = Wanted(pods=3, qps=None, others=True)
Object = dict[str, Any]


DOCUMENT = Path(__file__).parents[2] / "docs" / "finalizers.md"
COMMANDS = re.findall(r"^nox -s scale -- (.*?)(?:\s+#.*)?$", DOCUMENT.read_text(), re.MULTILINE)


def test_the_document_has_commands() -> None:
    """The next test tries several."""
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_the_documents_commands_parse(command: str) -> None:
    """What the document tells to type is understood."""
    assert parse(command.split()).pods > 0


@pytest.mark.parametrize("command", ["--pods 0", "--rounds 0", "--throttle some"])
def test_nonsense_is_refused(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A load that cannot be is refused with a message before anything starts."""
    with pytest.raises(SystemExit) as ended:
        parse(command.split())
    assert ended.value.code == 2
    assert command.split(maxsplit=1)[0] in capsys.readouterr().err


def measured(arm: str, round_: int, seconds: float, *, complete: bool = True) -> Measured:
    usage = {"Kueue": Usage(1.5, 100_000_000)}
    return Measured(
        arm, round_, WANTED, complete, seconds, Counts(3, 3, 3, 3, 1, 2), Counted({"PATCH": 7}, 5), usage, 0.5, 0.9
    )


def rounds(*both: tuple[float, float]) -> list[Measured]:
    found = []
    for number, (control, treatment) in enumerate(both, start=1):
        found += [measured("control", number, control), measured("treatment", number, treatment)]
    return found


def test_only_whole_rounds_make_pairs() -> None:
    """A round without one arm, or with an interrupted one, makes no pair; equal rounds each make one."""
    found = [
        *rounds((10.0, 11.0), (10.0, 11.0)),
        measured("control", 3, 9.0),
        measured("control", 4, 9.0),
        measured("treatment", 4, 2.0, complete=False),
    ]
    assert pairs(found, lambda each: each.seconds) == [(10.0, 11.0), (10.0, 11.0)]


@pytest.mark.parametrize(
    ("both", "said"),
    [
        ([(100.0, 101.0), (100.0, 102.0), (100.0, 101.5)], "At most 5% slower"),
        ([(100.0, 120.0), (100.0, 121.0), (100.0, 122.0)], "MORE than 5% slower"),
        ([(100.0, 90.0), (100.0, 130.0), (100.0, 105.0)], "Undecided"),
        ([(100.0, 100.0)], "none from a single round"),
        ([], "nothing can be said"),
    ],
)
def test_the_verdict_needs_the_whole_interval(both: list[tuple[float, float]], said: str) -> None:
    """The 5% are met, or missed, only when the whole interval of the ratio says so."""
    assert said in verdict(rounds(*both))


def test_the_table_shows_both_arms_and_leaves_out_what_was_interrupted() -> None:
    """Each figure has the median of the complete rounds of each arm, and Kueue's conflicts are without our own."""
    found = [*rounds((10.0, 20.0), (12.0, 24.0)), measured("control", 3, 99.0, complete=False)]
    console = Console(width=120, file=io.StringIO())
    with console.capture() as capture:
        console.print(table(found))
    text = capture.get()
    (whole,) = [line for line in text.splitlines() if "whole time" in line]
    assert [word for word in whole.replace("│", " ").split() if word[0].isdigit()] == [
        "11.0",
        "22.0",
        "2.000",
        "2.000",
        "2.000",
    ]
    (conflicts,) = [line for line in text.splitlines() if "Kueue's conflicts" in line]
    assert " 3 " in conflicts
    assert "control (2)" in text


def test_an_interrupted_measurement_is_told_by_itself() -> None:
    """What an interrupted measurement had shown is a line of its own, and a whole one is not."""
    (line,) = interrupted([*rounds((10.0, 20.0)), measured("control", 2, 99.0, complete=False)])
    assert "round 2, control, after 99 s" in line
    assert "1 of 3 finalizers lost" in line


def test_measurements_are_kept_as_plain_data(tmp_path: Path) -> None:
    """Every measurement is a line of JSON as soon as it is there, and the summary is JSON, an open interval too."""
    for each in rounds((1.0, 2.0)):
        append(tmp_path / "new" / "measurements.jsonl", each)
    lines = [json.loads(line) for line in (tmp_path / "new" / "measurements.jsonl").read_text().splitlines()]
    assert [(line["arm"], line["seconds"]) for line in lines] == [("control", 1.0), ("treatment", 2.0)]
    ratio = json.loads(json.dumps(summary(rounds((1.0, 2.0))), allow_nan=False))["whole_time_ratio"]
    assert ratio == {"estimate": pytest.approx(2.0), "low": 0.0, "high": None}


SERVER = """
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="pods",verb="PATCH"} 10
apiserver_request_total{code="409",resource="pods",verb="PATCH"} 4
apiserver_request_total{code="409",resource="leases",verb="PATCH"} 100
apiserver_request_total{code="409",resource="pods",verb="POST"} 100
"""
KUEUE = """
# TYPE workqueue_retries_total counter
workqueue_retries_total{name="v1_pod"} 6
workqueue_retries_total{name="clusterqueue_controller"} 100
# TYPE controller_runtime_reconcile_time_seconds histogram
controller_runtime_reconcile_time_seconds_bucket{controller="v1_pod",le="+Inf"} 20
controller_runtime_reconcile_time_seconds_sum{controller="v1_pod"} 2.5
controller_runtime_reconcile_time_seconds_count{controller="v1_pod"} 20
controller_runtime_reconcile_time_seconds_count{controller="workload_controller"} 100
"""


def test_metrics_count_what_is_about_pods() -> None:
    """Requests are all clients' by verb, conflicts those of patches of pods, the rest is of Kueue's pod controller."""
    found = counted(SERVER, KUEUE)
    assert found == Counted({"PATCH": 114, "POST": 100}, 4, 6, 20, 2.5)
    assert found.since(Counted({"PATCH": 14}, 1, 2, 10, 0.5)) == Counted({"PATCH": 100, "POST": 100}, 3, 4, 10, 2.0)


class Cluster:
    """Plays API server, Kueue and kwok for a load: what is asked for happens at once, and streams show it."""

    def __init__(self, *, loses: bool) -> None:
        self.loses = loses
        self.bound: list[str] = []
        self._events: list[tuple[str, Object]] = []
        self._news = threading.Condition()
        self._version = 0

    def _show(self, kind: Kind | str, name: str, finalizers: list[str], **rest: Any) -> None:
        with self._news:
            plural = kind if isinstance(kind, str) else kind.plural
            metadata = {"name": name, "finalizers": finalizers, **rest.pop("metadata", {})}
            self._events.append((plural, {"metadata": metadata, "spec": {}, **rest}))
            self._news.notify_all()

    def create(self, kind: Kind, body: Object, _namespace: str = "") -> Object:
        name = body["metadata"]["name"]
        if kind is PODS:
            self._show(PODS, name, [KUEUE_FINALIZER], spec={"schedulingGates": [{"name": GATE}]})
            self._show(PODS, name, [KUEUE_FINALIZER])
        else:
            self.bound.append(name)
            finished = {"status": {"conditions": [{"type": "Finished", "status": "True"}]}}
            self._show(PODS, name, [KUEUE_FINALIZER], status={"phase": "Succeeded"})
            self._show("workloads", f"pod-{name}", [], metadata={"ownerReferences": [{"name": name}]}, **finished)
        return {}

    def get(self, _kind: Kind, _name: str, _namespace: str) -> Object:
        return {"metadata": {"finalizers": [KUEUE_FINALIZER], "resourceVersion": "1"}}

    def patch(self, _kind: Kind, name: str, patch: Object, _namespace: str) -> Object:
        assert patch["metadata"]["finalizers"] == [KUEUE_FINALIZER, OTHERS]
        self._show(PODS, name, patch["metadata"]["finalizers"], status={"phase": "Succeeded"})
        self._show(PODS, name, [] if self.loses else [OTHERS], status={"phase": "Succeeded"})
        return {"metadata": {"resourceVersion": "2"}}

    def stream(self, kind: Kind, _namespace: str, *, stop: threading.Event) -> Iterator[tuple[str, Object]]:
        seen = 0
        while not stop.is_set():
            with self._news:
                self._news.wait_for(lambda at=seen: len(self._events) > at, timeout=0.05)  # type: ignore[misc]
                fresh, seen = self._events[seen:], len(self._events)
            yield from (("MODIFIED", found) for plural, found in fresh if plural == kind.plural)


@pytest.mark.parametrize("loses", [True, False])
def test_a_load_counts_what_was_lost(loses: bool) -> None:
    """Each pod is created, bound, finished and let go of once, and a foreign finalizer that went counts as lost."""
    cluster = Cluster(loses=loses)
    load = Load(cast("Api", cluster), "scale", pods=20, nodes=3, others=True)
    told: list[Counts] = []
    assert load.run(told.append, within=30, stop=threading.Event())
    assert told[-1] == Counts(created=20, finished=20, released=20, added=20, lost=20 if loses else 0)
    assert sorted(cluster.bound) == sorted(f"pod-{number}" for number in range(20))
    assert len(load.waits) == 20


def small(cluster: Cluster) -> Load:
    return Load(cast("Api", cluster), "scale", pods=2, nodes=1, others=True)


def test_a_load_that_gets_stuck_ends() -> None:
    """A load in which nothing moves any more is an error, and its threads end."""

    class Stuck(Cluster):
        def create(self, kind: Kind, body: Object, _namespace: str = "") -> Object:
            return super().create(kind, body) if kind is PODS else {}

    before = set(threading.enumerate())
    with pytest.raises(ClusterError, match="nothing moved"):
        small(Stuck(loses=False)).run(lambda _: None, within=0.3, stop=threading.Event())
    assert set(threading.enumerate()) <= before  # what others began may end at any time


def test_a_refused_request_ends_the_load() -> None:
    """An error in any of the threads is raised where the load is awaited."""

    class Refusing(Cluster):
        def create(self, kind: Kind, body: Object, _namespace: str = "") -> Object:
            raise ClusterError("no room")

    with pytest.raises(ClusterError, match="no room"):
        small(Refusing(loses=False)).run(lambda _: None, within=9, stop=threading.Event())


def test_a_load_that_is_stopped_says_so() -> None:
    """A load that is stopped ends at once and is not complete; what it counted until then is there."""

    class Stuck(Cluster):
        def create(self, kind: Kind, body: Object, _namespace: str = "") -> Object:
            return super().create(kind, body) if kind is PODS else {}

    stop, load = threading.Event(), small(Stuck(loses=False))
    assert not load.run(lambda counts: stop.set() if counts.created == 2 else None, within=30, stop=stop)
    assert load.counts.created == 2


def test_together_means_both_arms_of_a_round() -> None:
    """One after the other each part is alone; together the arms of a round are; the arm that begins changes."""
    parts = [(1, "control"), (1, "treatment"), (2, "treatment"), (2, "control")]
    assert groups(2, together=False) == [[part] for part in parts]
    assert groups(2, together=True) == [parts[:2], parts[2:]]
