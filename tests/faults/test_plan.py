from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from holdback.errors import ConfigurationError
from holdback.faults.plan import FaultPlan, read_plan, write_plan
from holdback.faults.triggers import After, FaultEnded, Injection, ObjectSeen, RequestSeen
from holdback.faults.values import Answer, Delay, Fault, Hold, Kill, Pause, Restart, Slow, TimeTravel, Toxic
from holdback.traffic.lanes import Link


def link(arm: str) -> Link:
    return Link(f"kueue-manager-{arm}", "worker1", ("workloads",))


def named(arm: str) -> dict[str, Any]:
    found = link(arm)
    return {str(target): target for target in (found, *found.lanes)}


def injections(arm: str) -> list[Injection]:
    hold = Hold(link(arm).watch("workloads"))
    return [
        Injection((Delay(link(arm), 100, 5), hold)),
        Injection(
            (Toxic(link(arm).reads, "limit_data", {"bytes": 4096}), Answer(link(arm).writes, 429, retry_after=2)),
            start=ObjectSeen(
                "workloads", on=f"manager-{arm}", where={"status.x": "Retry", "status.y": None}, later=0.5
            ),
            end=RequestSeen("PATCH", f"*/namespaces/{arm}/*", 200, client=f"kueue-manager-{arm}", within=5),
        ),
        Injection((), start=FaultEnded(hold), end=After(1.5)),
    ]


def read(tmp_path: Path, text: str) -> FaultPlan:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return read_plan(path)


def test_a_plan_comes_back_in_either_arm(tmp_path: Path) -> None:
    """What one arm's trial writes is read as the same faults and triggers, on the lanes of whichever arm it is."""
    plan = read(tmp_path, write_plan(injections("control"), arm="control", experiment="t.py::test_it", seed=7))
    assert (plan.experiment, plan.seed, len(plan)) == ("t.py::test_it", 7, 3)
    for arm in ("control", "treatment"):
        found = [plan.injection(number, named(arm), arm) for number in range(3)]
        # A fault that is waited for is known by its description alone.
        wanted = [*injections(arm)[:2], Injection((), FaultEnded(str(Hold(link(arm).watch("workloads")))), After(1.5))]
        assert found == wanted


def test_a_plan_is_short_and_names_no_arm(tmp_path: Path) -> None:
    """Settings that are as always are left out, and the arm's name is nowhere but in words that contain it."""
    text = write_plan([Injection((Delay(link("control"), 100),))], arm="control", experiment="t.py::test_controller")
    assert yaml.safe_load(text)["injections"] == [
        {"faults": [{"delay": {"target": "kueue-manager-{arm}>worker1", "milliseconds": 100}}]}
    ]
    assert "control" not in text.replace("controller", "")


def test_on_may_be_written_bare(tmp_path: Path) -> None:
    """YAML takes a bare `on` for true; a plan's reader does not."""
    plan = read(
        tmp_path,
        "schema: 1\ninjections:\n- faults: []\n  start:\n    object_seen: {resource: pods, on: worker1}\n",
    )
    assert plan.injection(0, {}, "control").start == ObjectSeen("pods", on="worker1")


HEAD = "schema: 1\ninjections:\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("schema: 1\ninjections: [", 2, "no YAML"),
        ("schema: 1\ninjections:\n- faults: []\n  start: @x", 4, "no YAML"),
        ("- 1", 1, "a mapping"),
        ("schema: 2\ninjections: []", 1, "schema 2"),
        ("injections: []", 1, "lacks schema"),
        ("schema: 1\nseed: many\ninjections: []", 2, "it must be a whole number"),
        ("schema: 1\nsurplus: 1\ninjections: []", 2, "unknown setting 'surplus'"),
        ("schema: 1\nschema: 1\ninjections: []", 2, "twice"),
        (HEAD + "  faults: []", 3, "a list"),
        (HEAD + "- faults:\n  - delays: {target: x}", 4, "delays is no kind of fault"),
        (HEAD + "- faults:\n  - hold: {target: x}\n    cut: {target: x}", 4, "hold, cut is no kind of fault"),
        (HEAD + "- faults:\n  - delay:\n      target: x", 5, "lacks milliseconds"),
        (HEAD + "- faults:\n  - delay:\n      target: x\n      milliseconds: soon", 6, "it must be a finite number"),
        (HEAD + "- faults:\n  - delay:\n      target: x\n      milliseconds: true", 6, "it must be a finite number"),
        (HEAD + "- faults:\n  - delay: {target: x, milliseconds: -5}", 4, "negative"),
        (HEAD + "- faults:\n  - hold: {target: x, of: both}", 4, "one of 'answers', 'requests'"),
        (HEAD + "- faults:\n  - answer: {target: x, status: 500, times: 1.5}", 4, "a whole number or null"),
        (HEAD + "- faults: []\n  start:\n    object_seen: {resource: pods, 'on': w, where: {a..b: 1}}", 5, "no path"),
        (HEAD + "- faults: []\n  end:\n    after: {}", 5, "lacks seconds"),
        (HEAD + "- faults: []\n  end:\n    after: {seconds: .nan}", 5, "it must be a finite number"),
        (HEAD + "- faults: []\n  end:\n    after: {seconds: .inf}", 5, "it must be a finite number"),
        (HEAD + "- faults: []\n  end:\n    after: {seconds: 2001-99-99}", 5, "cannot be read"),
        (HEAD + "- faults: []\n  end:\n    after: {seconds: !!int x}", 5, "cannot be read"),
        (HEAD + "- faults: []\n  end:\n    after: {seconds: !!bool x}", 5, "cannot be read"),
        (HEAD + "- faults: []\n  end:\n    after: {seconds: !!timestamp x}", 5, "cannot be read"),
        (HEAD + "- faults: []\n  end:\n    after: {seconds: !!python/name:os.system x}", 5, "cannot be read"),
        (HEAD + "- faults: []\n  start:\n    object_seen: {resource: pods, on: w, where: {1: 2}}", 5, "keys are text"),
        (HEAD + "- ? [faults]\n  : []", 3, "a word must be here"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    """Broken YAML, unknown kinds and settings, and values that cannot be are errors with file and line."""
    with pytest.raises(ConfigurationError) as error:
        read(tmp_path, text)
    assert error.value.message.startswith(f"{tmp_path / 'plan.yaml'}:{line}: ")
    assert words in str(error.value)
    assert error.value.remedy


@pytest.mark.parametrize("text", ["schema: 1\n\0", "[" * 5000], ids=["a control character", "nested too deeply"])
def test_what_no_editor_writes_is_told(tmp_path: Path, text: str) -> None:
    """A file that YAML's reader itself refuses, before there is any line to tell, is an error that names the file."""
    with pytest.raises(ConfigurationError, match=r"plan\.yaml: ") as error:
        read(tmp_path, text)
    assert error.value.remedy


def test_a_file_that_is_not_there_or_empty_is_told(tmp_path: Path) -> None:
    """No file, and a file with nothing in it, are errors that name it."""
    with pytest.raises(ConfigurationError, match="cannot read the plan"):
        read_plan(tmp_path / "none.yaml")
    with pytest.raises(ConfigurationError, match="empty plan"):
        read(tmp_path, "")


def test_an_unknown_lane_is_told_with_its_line(tmp_path: Path) -> None:
    """A target that the world has not got is an error with the line of its fault, and what there is."""
    plan = read(tmp_path, HEAD + "- faults:\n  - hold: {target: 'kueue-manager-{arm}>worker9'}")
    with pytest.raises(ConfigurationError) as error:
        plan.injection(0, named("control"), "control")
    assert "plan.yaml:4: there is no 'kueue-manager-control>worker9' here" in error.value.message
    assert "kueue-manager-control>worker1/reads" in error.value.remedy


def test_a_plan_fits_its_scenario_or_is_refused(tmp_path: Path) -> None:
    """One injection too few or too many is an error."""
    plan = read(tmp_path, HEAD + "- faults: []\n- faults: []")
    plan.check_used(2)
    with pytest.raises(ConfigurationError, match="has 2 injections, and the scenario asks for one more"):
        plan.injection(2, {}, "control")
    with pytest.raises(ConfigurationError, match="has 2 injections, and the scenario asked for 1"):
        plan.check_used(1)


SETTINGS: dict[type, tuple[Any, ...]] = {Delay: (1,), Slow: (1,), Toxic: ("limit_data", {"bytes": 1}), Answer: (500,)}


@pytest.mark.parametrize("kind", get_args(Fault), ids=lambda kind: kind.__name__)
def test_a_plan_may_have_any_kind_of_fault(tmp_path: Path, kind: type[Fault]) -> None:
    """Each kind comes back as it was, and is described in its plan as it describes itself."""
    programs: dict[type, Any] = dict.fromkeys((Pause, Kill, Restart), "kueue-manager-control")
    target = {**programs, TimeTravel: link("control")}.get(kind, link("control").watches)
    targets = {str(target): target}
    fault = kind(target, *SETTINGS.get(kind, ()))
    found = read(tmp_path, write_plan([Injection((fault,))], arm="control", experiment="t.py::test_it"))
    assert found.injection(0, targets, "control") == Injection((fault,))
    assert [each.described("control") for each in found.faults] == [str(fault)]
