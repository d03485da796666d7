"""The plugin, with experiments whose scenarios write their history by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from holdback.clock import poll
from holdback.history.store import Store, process_of
from holdback.trials.merge import merge
from holdback.trials.schedule import derive
from holdback.trials.shards import Shard
from tests.plugin.inner import CONFTEST, FIXED, ORACLE, lines_of, report_of, rows_of, summary_of
from tests.schema import documented

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.sessions


def test_a_fix_that_is_proven_ends_with_fixed_and_exit_code_0(inner: pytest.Pytester) -> None:
    """Control trials that show the bug pass, are shown as VIOLATED, and the session succeeds with FIXED."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("-v", "--count=8", "--holdback-seed=5")
    assert result.ret == 0
    result.assert_outcomes(passed=16)
    result.stdout.fnmatch_lines(["holdback: seed 5, control (default)*", "*test_it?control-3-8? VIOLATED*", "*FIXED*"])
    (experiment,) = summary_of(inner)["experiments"]
    assert experiment["name"].endswith("::test_it")
    assert experiment["verdict"] == "FIXED"
    assert experiment["p_value"] < 0.01
    counts = {
        arm: {key: found[key] for key in ("violated", "held", "unknown", "invalid")}
        for arm, found in experiment["arms"].items()
    }
    assert counts == {
        "control": {"violated": 8, "held": 0, "unknown": 0, "invalid": 0},
        "treatment": {"violated": 0, "held": 8, "unknown": 0, "invalid": 0},
    }


def test_every_trial_is_planned_recorded_and_judged(inner: pytest.Pytester) -> None:
    """After a run each trial has a plan, a history and a row under one id, and run.json tells what ran."""
    inner.makepyfile(FIXED)
    inner.runpytest("--count=2", "--control=v1", "--holdback-seed=7")
    ids = {row["id"] for row in rows_of(inner)}
    assert ids == {f"it-{arm}-{number:03d}" for arm in ("control", "treatment") for number in (1, 2)}
    assert {line["id"] for line in lines_of(report_of(inner) / "planned.jsonl")} == ids
    assert {path.stem for path in (report_of(inner) / "histories").iterdir()} == ids
    run = json.loads((report_of(inner) / "run.json").read_text())
    assert (run["seed"], run["control"], run["count"]) == (7, "v1", 2)
    assert sorted(run) == sorted(documented("`run.json`"))
    assert {row["variant"] for row in rows_of(inner)} == {"build of control", "build of treatment"}


def test_a_run_ends_with_its_report(inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page, JUnit file and summary are written; what cannot be written is said and does not change the result."""
    inner.makepyfile(FIXED)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(inner.path))
    result = inner.runpytest("--count=8")
    assert result.ret == 0
    result.stderr.fnmatch_lines(["holdback: * was not written: IsADirectoryError*"])
    result.stdout.fnmatch_lines(["Report: holdback-report/index.html", "Evidence: holdback-report *"])
    assert (report_of(inner) / "summary.md").read_text().startswith("### holdback: FIXED")
    assert (report_of(inner) / "junit.xml").exists()


def test_a_violated_treatment_fails_with_a_short_reason(inner: pytest.Pytester) -> None:
    """A treatment trial that shows the bug fails with the oracle's words and the way to its history, no traceback."""
    inner.makepyfile(
        ORACLE + "@holdback.experiment(oracles=[said])\ndef test_it(world, trial): trial.step('says', word='violated')"
    )
    result = inner.runpytest("--count=3")
    assert result.ret == 1
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines(
        ["said: it said so", "*histor*it-treatment-001.jsonl", "*holdback show it-treatment-001", "*NOT FIXED*"]
    )
    result.stdout.no_fnmatch_line("*def test_it*")


@pytest.mark.parametrize(
    ("scenario", "outcome"),
    [
        ("pass", "UNKNOWN"),
        ("raise holdback.Undecidable('too odd')", "UNKNOWN"),
        ("assert trial.arm == 'neither'", "INVALID"),
        ("raise holdback.HoldbackError('the worker is away')", "INVALID"),
        ("trial.note('fault', 'it never fired', fatal=True); trial.step('says', word='holds')", "INVALID"),
    ],
)
def test_a_trial_without_a_result_never_passes(inner: pytest.Pytester, scenario: str, outcome: str) -> None:
    """UNKNOWN and INVALID trials are skipped, counted under their own name, and leave the session failed."""
    inner.makepyfile(ORACLE + f"@holdback.experiment(oracles=[said])\ndef test_it(world, trial): {scenario}")
    result = inner.runpytest("-v")
    result.assert_outcomes(skipped=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*{outcome}*", "*INCONCLUSIVE*", f"1 control {outcome}: *"])
    (experiment,) = summary_of(inner)["experiments"]
    assert experiment["arms"]["control"][outcome.lower()] == 1


def test_a_bug_in_the_scenario_is_shown_as_one(inner: pytest.Pytester) -> None:
    """An exception that is nobody's outcome fails the item with its traceback, and the trial is kept as INVALID."""
    inner.makepyfile(ORACLE + "@holdback.experiment(oracles=[said])\ndef test_it(world, trial): trial.no_such_thing()")
    result = inner.runpytest()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*AttributeError*no_such_thing*"])
    assert {row["outcome"] for row in rows_of(inner)} == {"invalid"}


def test_a_terminal_without_unicode_can_read_the_summary(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ASCII the table is drawn with what there is, line by line, and not escaped."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    inner.makepyfile(FIXED)
    result = inner.runpytest_subprocess("--count=5")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["arm *violated*interval*", "control *5 *100.0%*", "Verdict: FIXED"])
    assert "\\u" not in result.stdout.str()


def test_a_crashed_oracle_is_unknown(inner: pytest.Pytester) -> None:
    """An oracle that raises decides nothing, and its words are shown."""
    inner.makepyfile(
        "import holdback\ndef bad(history): 1 / 0\n@holdback.experiment(oracles=[bad])\ndef test_it(world, trial): pass"
    )
    result = inner.runpytest()
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*control UNKNOWN: bad: ZeroDivisionError*"])


def test_arms_are_interleaved_by_the_seed(inner: pytest.Pytester) -> None:
    """Blocks of one control and one treatment trial follow each other, in an order that the seed alone decides."""
    inner.makepyfile(FIXED)

    def order(seed: int) -> list[str]:
        inner.runpytest("--count=12", f"--holdback-seed={seed}")
        return [row["id"] for row in rows_of(inner)]

    first, again, other = order(1), order(1), order(2)
    assert first == again
    assert first != other
    assert [name[-3:] for name in first] == [f"{1 + number // 2:03d}" for number in range(24)]
    assert {first[number].split("-")[1] for number in range(0, 24, 2)} == {"control", "treatment"}


def test_the_two_trials_of_a_block_draw_the_same_numbers(inner: pytest.Pytester) -> None:
    """Randomness differs between blocks and not between arms."""
    inner.makepyfile(FIXED + "    trial.step('drew', number=trial.random.random())\n")
    inner.runpytest("--count=3", "--holdback-seed=1")
    seeds = {(row["arm"], row["index"]): row["seed"] for row in rows_of(inner)}
    assert len(set(seeds.values())) == 3
    assert all(seeds["control", index] == seeds["treatment", index] for index in range(3))


def test_parameters_make_experiments_of_their_own(inner: pytest.Pytester) -> None:
    """A parametrised experiment gets one verdict for each of its parameters, and other tests keep their place."""
    inner.makepyfile(
        ORACLE
        + """
import pytest
def test_before(): pass
@holdback.experiment(oracles=[said])
@pytest.mark.parametrize("dose", [0, 100])
def test_it(world, trial, dose):
    trial.step("says", word="holds")
def test_after(): pass
"""
    )
    result = inner.runpytest("-v", "--count=2")
    names = [experiment["name"].rpartition("::")[2] for experiment in summary_of(inner)["experiments"]]
    assert names == ["test_it[0]", "test_it[100]"]
    lines = [line.split("::")[1].split()[0] for line in result.outlines if ".py::" in line and "%" in line]
    assert lines[:2] == ["test_before[1-2]", "test_before[2-2]"]
    assert lines[-2:] == ["test_after[1-2]", "test_after[2-2]"]
    assert sorted(lines[2:6]) == sorted(f"test_it[{arm}-0-{n}-2]" for arm in ("control", "treatment") for n in (1, 2))


def test_a_session_without_experiments_is_left_alone(inner: pytest.Pytester) -> None:
    """Ordinary tests leave no report, and nothing of ours is printed at the end."""
    inner.makepyfile("def test_ordinary(): pass")
    result = inner.runpytest()
    assert result.ret == 0
    assert not report_of(inner).exists()
    result.stdout.no_fnmatch_line("*Evidence*")


def test_collecting_only_leaves_no_report(inner: pytest.Pytester) -> None:
    """`--collect-only` with `--count` shows every trial with its arm and touches nothing."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("--collect-only", "-q", "--count=2")
    assert result.ret == 0
    assert sorted(line.partition("::")[2] for line in result.outlines if "::" in line) == [
        "test_it[control-1-2]",
        "test_it[control-2-2]",
        "test_it[treatment-1-2]",
        "test_it[treatment-2-2]",
    ]
    assert not report_of(inner).exists()


@pytest.mark.parametrize("count", ["0", "-3"])
def test_a_count_below_one_is_refused(inner: pytest.Pytester, count: str) -> None:
    """`--count=0` is a usage error that says what to give."""
    inner.makepyfile(FIXED)
    result = inner.runpytest(f"--count={count}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --count={count} makes no trial", "*1 or more*"])


def test_an_experiment_without_a_trial_is_refused(inner: pytest.Pytester) -> None:
    """An experiment that does not take `trial` is an error that says so, not a test that asserts nothing."""
    inner.makepyfile(ORACLE + "@holdback.experiment(oracles=[said])\ndef test_it(): pass")
    result = inner.runpytest()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*test_it has no trial*", "*fixture `trial`*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_deselected_arm_is_said_before_the_trials(inner: pytest.Pytester) -> None:
    """`-k control` runs, says at once that no verdict can come of it, and fails."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("-k", "control")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["holdback: *::test_it runs without its treatment arm*", "*INCONCLUSIVE*"])


def test_three_same_failures_of_the_world_end_the_run(inner: pytest.Pytester) -> None:
    """A world that cannot be had makes INVALID trials, and after three of them for one reason the run ends with it."""
    inner.makeconftest(
        CONFTEST
        + """
import itertools
from holdback.errors import ClusterError
number = itertools.count()
@pytest.fixture
def broken():
    raise ClusterError(f"worker1 is away for the time no. {next(number)}", remedy="bring it back")
"""
    )
    inner.makepyfile(FIXED.replace("world, trial", "broken, world, trial"))
    result = inner.runpytest("-v", "--count=10")
    assert result.ret == 1
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines(["*INVALID*", "*3 trials in a row*worker1 is away*"])
    assert [row["outcome"] for row in rows_of(inner)] == ["invalid"] * 3
    assert summary_of(inner)["interrupted"] is True


def test_why_trials_did_not_count_is_told_in_their_own_words(inner: pytest.Pytester) -> None:
    """Reasons that differ in numbers alone are told once, with the numbers, log end and remedy of the first of them."""
    inner.makeconftest(
        CONFTEST
        + """
import itertools
from holdback.errors import ProcessExited
number = itertools.count(7)
@pytest.fixture
def broken():
    log = "\\n".join(f"line {each}" for each in range(20))
    raise ProcessExited(f"etcd v3.6.{next(number)} ended; its log:\\n{log}\\npanic: no disk", remedy="look there")
"""
    )
    inner.makepyfile(FIXED.replace("world, trial", "broken, world, trial"))
    result = inner.runpytest("-k", "control", "--count=2")
    result.stdout.fnmatch_lines(
        [
            "2 control INVALID: setup: etcd v3.6.7 ended; its log:",
            "    line 19",
            "    panic: no disk",
            "    -> look there",
        ]
    )
    result.stdout.no_fnmatch_line("*v3.6.8*")
    result.stdout.no_fnmatch_line("    line 1")


def test_what_no_trial_could_do_with_ends_the_run_at_once(inner: pytest.Pytester) -> None:
    """A variant that cannot be built is an error with its remedy, and no further trial is tried."""
    inner.makeconftest(
        CONFTEST
        + """
from holdback.errors import BuildError
@pytest.fixture(scope="session")
def broken():
    raise BuildError("treatment: workload.go:12: syntax error", remedy="mend the patch")
"""
    )
    inner.makepyfile(FIXED.replace("world, trial", "broken, world, trial"))
    result = inner.runpytest("--count=10")
    assert result.ret == 1
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["treatment: workload.go:12: syntax error", "*mend the patch", "No trial was completed*"]
    )
    assert not (report_of(inner) / "planned.jsonl").exists()
    assert not (report_of(inner) / "trials.jsonl").exists()


def test_a_report_that_another_run_writes_is_left_alone(inner: pytest.Pytester) -> None:
    """A second run in the same folder ends at once, says who writes there, and changes nothing."""
    inner.makepyfile(FIXED)
    assert inner.runpytest("--count=5").ret == 0
    told = json.loads((report_of(inner) / "run.json").read_text())
    told["process"] = process_of(os.getppid())
    (report_of(inner) / "run.json").write_text(json.dumps(told))
    before = {path: path.read_bytes() for path in report_of(inner).rglob("*.json*")}
    result = inner.runpytest("--count=5")
    assert result.ret == 1
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["another run, of process * is writing*", "*->*--holdback-report*"])
    assert {path: path.read_bytes() for path in report_of(inner).rglob("*.json*")} == before


def test_evidence_that_cannot_be_written_ends_the_run(inner: pytest.Pytester) -> None:
    """When the disk refuses the evidence the run ends, names the path and says what to do."""
    inner.makepyfile(FIXED)
    (inner.path / "file").write_text("")
    result = inner.runpytest("--count=4", "--holdback-report=file")
    assert result.ret == 1
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*cannot write the evidence*file*", "*--holdback-report*"])


def test_an_earlier_report_is_kept(inner: pytest.Pytester) -> None:
    """A second run moves the first one's report to `earlier` and reads only its own rows."""
    inner.makepyfile(FIXED)
    inner.runpytest("--count=2")
    inner.runpytest("--count=1")
    assert len(rows_of(inner)) == 2
    (earlier,) = (report_of(inner) / "earlier").iterdir()
    assert len(lines_of(earlier / "trials.jsonl")) == 4
    assert json.loads((earlier / "summary.json").read_text())["experiments"]


def test_workers_of_xdist_share_one_report(inner: pytest.Pytester) -> None:
    """With `-n 2` every trial is judged once, from one seed, and the verdict counts them all."""
    inner.makepyfile(FIXED + "    import os, time; time.sleep(0.05); trial.step('ran', by=os.getpid())\n")
    result = inner.runpytest_subprocess("-n", "2", "--count=10", "--holdback-seed=3")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["holdback: seed 3*", "*FIXED*"])
    rows = rows_of(inner)
    assert len({row["id"] for row in rows}) == len(rows) == 20
    histories = [lines_of(path) for path in (report_of(inner) / "histories").iterdir()]
    workers = {event["detail"]["by"] for events in histories for event in events if event.get("name") == "ran"}
    assert len(workers) == 2


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_ctrl_c_keeps_and_counts_what_there_is(inner: pytest.Pytester, options: tuple[str, ...]) -> None:
    """An interrupted run writes its summary, marks it, and tells how many trials were begun and not judged."""
    # After Ctrl-C pytest-xdist waits 10 s for its workers, for no use in a test.
    inner.makeconftest(CONFTEST + "\nfrom xdist.workermanage import NodeManager\nNodeManager.EXIT_TIMEOUT = 1\n")
    inner.makepyfile(FIXED + "    import time; time.sleep(0.01 if trial.index < 2 else 60)\n")
    argv = [sys.executable, "-m", "pytest", "--count=5", *options]
    process = subprocess.Popen(
        argv, cwd=inner.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    until_planned(inner, process, lambda planned: any(line["index"] == 2 for line in planned))
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert summary_of(inner)["interrupted"] is True
    assert len(rows_of(inner)) >= 2
    assert "begun and not judged" in output
    assert "Interrupted: this counts only the trials made so far." in output


def test_ctrl_c_before_the_first_trial_is_no_error_of_the_report(inner: pytest.Pytester) -> None:
    """A run that was interrupted while its world started says that it has no trial, and nothing of missing evidence."""
    inner.makeconftest(CONFTEST + "\n@pytest.fixture\ndef slow():\n    raise KeyboardInterrupt\n")
    inner.makepyfile(FIXED.replace("world, trial", "slow, world, trial"))
    result = inner.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["No trial was completed*", "Interrupted*", "Evidence: *"])
    assert "no evidence" not in result.stdout.str() + result.stderr.str()


DOSED = (
    ORACLE
    + """
@holdback.experiment(oracles=[said])
def test_it(trial, link):
    with trial.inject(holdback.Delay(link, trial.random.randrange(1000)), end=holdback.After(5)):
        trial.step("says", word="holds")

@holdback.experiment(oracles=[said])
def test_other(world, trial):
    trial.step("says", word="holds")
"""
)


def plans_of(inner: pytest.Pytester) -> dict[str, str]:
    return {path.stem: path.read_text() for path in (report_of(inner) / "plans").iterdir()}


def until_planned(
    inner: pytest.Pytester, process: subprocess.Popen[str], enough: Callable[[list[dict[str, Any]]], bool]
) -> None:
    """Wait until enough trials were planned; a line that is just being written is none yet."""

    def there() -> bool:
        assert process.poll() is None, process.communicate()
        lines, _ = Store(report_of(inner)).planned()
        return enough([line for _, line in lines])

    assert poll(there, within=120)


def begun(inner: pytest.Pytester, process: subprocess.Popen[str], number: int) -> None:
    """Wait until so many trials have begun."""
    until_planned(inner, process, lambda planned: len(planned) >= number)


def started(inner: pytest.Pytester, *options: str) -> subprocess.Popen[str]:
    """A pytest in a process group of its own, as a shell starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *options],
        cwd=inner.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


SLOW = FIXED + "    import time; time.sleep(0.01 if trial.index < 1 else 600)\n"


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_sigterm_ends_a_run_as_ctrl_c_does(inner: pytest.Pytester, options: tuple[str, ...]) -> None:
    """SIGTERM, even if sent twice by habit, keeps and sums up what there is, says what ended the run, and fails it."""
    inner.makepyfile(SLOW)
    process = started(inner, "--count=5", *options)
    begun(inner, process, 4 if options else 3)
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    assert "the run was ended by SIGTERM" in output
    assert "Interrupted: this counts only the trials made so far." in output
    assert summary_of(inner)["interrupted"] is True
    assert len(rows_of(inner)) >= 2
    assert "Traceback" not in output


def test_a_second_ctrl_c_ends_at_once_and_says_so(inner: pytest.Pytester) -> None:
    """While the world goes down a second Ctrl-C leaves a short message and no traceback, and the rows stay."""
    inner.makeconftest(
        CONFTEST.replace("        yield world\n", "        yield world\n        if trial.index: closing()\n")
        + """
def closing():
    import pathlib, time
    pathlib.Path("closing").touch()
    time.sleep(600)
"""
    )
    inner.makepyfile(SLOW)
    process = started(inner, "--count=5")
    begun(inner, process, 3)
    os.killpg(process.pid, signal.SIGINT)
    assert poll((inner.path / "closing").exists, within=120, every=0.01)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "holdback: interrupted twice, so this ends at once" in output
    assert "Traceback" not in output
    assert len(rows_of(inner)) == 2


def test_sessions_without_experiments_keep_their_signals(inner: pytest.Pytester) -> None:
    """SIGTERM kills an ordinary session as ever, and nothing of ours is said."""
    inner.makepyfile("def test_it():\n    import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    result = inner.runpytest_subprocess()
    assert result.ret == -signal.SIGTERM
    assert "holdback: interrupted" not in result.stdout.str() + result.stderr.str()


def test_workers_do_not_outlive_their_controller(inner: pytest.Pytester) -> None:
    """When the leading process of `-n 2` is killed, its workers end too, though they are in the middle of a trial."""
    inner.makepyfile(SLOW)
    process = started(inner, "--count=5", "-n", "2")
    begun(inner, process, 4)
    workers = psutil.Process(process.pid).children()
    assert len(workers) == 2
    process.kill()
    assert poll(lambda: not any(map(runs, workers)), within=60)
    process.communicate()


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # between the two questions
        return False


DELETE = "report.rename('gone'); shutil.rmtree('gone')"
"""At one moment: other processes write meanwhile, and a folder into which somebody writes cannot be deleted."""


@pytest.mark.parametrize(
    ("how", "options"),
    [("shutil.rmtree(report)", ()), ("report.rename('elsewhere')", ()), (DELETE, ("-n", "2"))],
)
def test_a_report_that_vanishes_ends_the_run(inner: pytest.Pytester, how: str, options: tuple[str, ...]) -> None:
    """When somebody deletes or moves the report, the next trial says so with a remedy, and no new report is made."""
    meddle = f"import pathlib, shutil; report = pathlib.Path('holdback-report'); {how}"
    inner.makepyfile(FIXED + f"    if trial.id == 'it-control-003': {meddle}\n")
    result = inner.runpytest_subprocess("--count=100", *options)
    assert result.ret in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}  # pytest-xdist says the latter
    result.stdout.fnmatch_lines(["*the report */holdback-report was deleted or moved away*", "*->*leave it alone*"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert not (report_of(inner) / "run.json").exists()
    assert len(result.outlines) < 100, "it did not go on"


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_report_that_vanishes_at_the_very_end_fails_the_run(inner: pytest.Pytester, options: tuple[str, ...]) -> None:
    """Trials that all went well and left no evidence prove nothing."""
    inner.makepyfile(
        FIXED + "\ndef test_zzz():\n    import shutil, time; time.sleep(1); shutil.rmtree('holdback-report')\n"
    )
    result = inner.runpytest_subprocess("--count=8", "-k", "test_it or 1-8", "--dist=loadfile", *options)
    assert result.ret == 1
    result.stderr.fnmatch_lines(["the report *holdback-report was deleted or moved away*"])


def test_the_command_can_be_typed_again(inner: pytest.Pytester) -> None:
    """`python -m pytest` is kept as that, and by workers of pytest-xdist as the controller was called."""
    inner.makepyfile(FIXED)
    for options in ((), ("-n", "2")):
        argv = [sys.executable, "-m", "pytest", "--count=1", *options]
        subprocess.run(argv, cwd=inner.path, capture_output=True, check=False)
        run = json.loads((report_of(inner) / "run.json").read_text())
        assert run["command"] == ["python", "-m", "pytest", "--count=1", *options]


PROGRESS = """
@pytest.fixture(autouse=True)
def busy(holdback_progress, trial):
    holdback_progress.say(f"starting the world of {trial.id}")
"""


@pytest.mark.parametrize("options", [(), ("-v",), ("-q",), ("-n", "2"), ("-n", "2", "-v")])
def test_progress_has_lines_of_its_own(inner: pytest.Pytester, options: tuple[str, ...]) -> None:
    """What is said while tests run never stands behind the letters or names of tests, nor they behind it."""
    inner.makeconftest(CONFTEST + PROGRESS)
    inner.makepyfile(FIXED)
    process = started(inner, "--count=3", *options)
    output, _ = process.communicate(timeout=120)
    said = [line for line in output.splitlines() if "starting the world" in line]
    assert len(said) == 6
    assert all(line.endswith(("001", "002", "003")) for line in said), output
    assert all(line.startswith("starting") for line in said), output


def test_a_trial_writes_its_plan_and_replays_it(inner: pytest.Pytester) -> None:
    """The plan of any trial, replayed, is in force in every trial of that experiment, in both arms and no other one."""
    inner.makepyfile(DOSED)
    inner.runpytest("--count=2", "--holdback-seed=6")
    written = plans_of(inner)
    assert set(written) == {f"it-{arm}-{number:03d}" for arm in ("control", "treatment") for number in (1, 2)}
    assert written["it-control-001"] == written["it-treatment-001"] != written["it-control-002"]
    plan = inner.path / "plan.yaml"
    plan.write_text(written["it-control-002"])
    result = inner.runpytest("--count=3", "--plan=plan.yaml", "-v")
    result.assert_outcomes(passed=6, deselected=6)
    result.stdout.fnmatch_lines([f"holdback: seed 6, *, plan {plan}, *"])
    assert set(plans_of(inner).values()) == {plan.read_text()}
    doses = {row["dose_milliseconds"] for row in rows_of(inner)}
    assert len(doses) == 1
    assert f"milliseconds: {doses.pop():g}" in plan.read_text()
    again = [row["id"] for row in rows_of(inner)]
    inner.runpytest_subprocess("--count=3", "--plan=plan.yaml", "-n", "2")
    assert sorted(row["id"] for row in rows_of(inner)) == sorted(again)
    assert set(plans_of(inner).values()) == {plan.read_text()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema: 1\ninjections: [", "*plan.yaml:2: no YAML*"),
        ("schema: 1\nexperiment: test_none.py::test_none\ninjections: []", "*test_none.py::test_none*not collected*"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_at_once(inner: pytest.Pytester, text: str, words: str) -> None:
    """A broken plan, and one for an experiment that is not there, are usage errors."""
    inner.makepyfile(DOSED)
    (inner.path / "plan.yaml").write_text(text)
    result = inner.runpytest("--plan=plan.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {words}"])
    assert not report_of(inner).exists()


def test_a_plan_that_does_not_fit_ends_the_run(inner: pytest.Pytester) -> None:
    """A lane that the world has not got fails the first trial with the plan's line, and no further one is tried."""
    inner.makepyfile(DOSED)
    (inner.path / "plan.yaml").write_text(
        "schema: 1\ninjections:\n- faults:\n  - hold: {target: 'kueue-{arm}>worker9'}"
    )
    result = inner.runpytest("--count=5", "--plan=plan.yaml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*plan.yaml:4: there is no 'kueue-*>worker9' here"])
    assert [row["outcome"] for row in rows_of(inner)] == ["invalid"]


def shards(inner: pytest.Pytester, of: int, *options: str) -> list[pytest.RunResult]:
    numbers = range(1, of + 1)
    common = ("--holdback-seed=5", *options)
    return [inner.runpytest(f"--shard={n}/{of}", f"--holdback-report=shard-{n}", *common) for n in numbers]


def test_shards_make_one_run(inner: pytest.Pytester) -> None:
    """Each makes its part of the count with trials of its own and ends well; merged they are the whole run."""
    inner.makepyfile(FIXED)
    results = shards(inner, 3, "--count=8")
    assert [result.ret for result in results] == [0, 0, 0]
    results[1].stdout.fnmatch_lines(
        [
            "holdback: shard 2 of 3 of the run with seed 5, *",
            "This is shard 2 of 3 *`holdback merge`*",
            "Evidence: shard-2 *repeat with the same options and --holdback-seed=5 --shard=2/3",
        ]
    )
    runs = [json.loads((inner.path / f"shard-{n}" / "run.json").read_text()) for n in (1, 2, 3)]
    assert [run["count"] for run in runs] == [3, 3, 2]
    assert [run["shard"] for run in runs] == [{"number": n, "of": 3, "seed": 5} for n in (1, 2, 3)]
    merged = merge(inner.path / "all", [inner.path / f"shard-{n}" for n in (1, 2, 3)])
    assert not merged.missing
    assert len({row.id for row in merged.rows}) == 16
    assert len({(row.arm, row.seed) for row in merged.rows}) == 16


def test_a_shard_leaves_the_summary_of_a_job_to_the_merge(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a shard counts is no verdict, so it is not on the page where the night's verdict will be."""
    inner.makepyfile(FIXED)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(inner.path / "summary"))
    shards(inner, 1)
    assert (inner.path / "shard-1" / "summary.md").exists()
    assert not (inner.path / "summary").exists()


def test_a_shard_in_several_processes(inner: pytest.Pytester) -> None:
    """With pytest-xdist the processes share the one part: none of them divides it again."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("--shard=2/2", "--holdback-seed=5", "--count=7", "-n", "2")
    assert result.ret == 0
    assert len(rows_of(inner)) == 6
    assert {row["seed"] for row in rows_of(inner)} == {
        derive(Shard(2, 2, 5).own_seed, "trial", rows_of(inner)[0]["experiment"], index) for index in range(3)
    }


@pytest.mark.parametrize(
    ("scenario", "code"),
    [
        ("trial.step('says', word='holds')", 0),
        ("trial.step('says', word='violated')", 0),
        ("trial.no_such_thing()", 1),
        ("pass", 1),
        ("raise holdback.HoldbackError('the worker is away')", 1),
        ("trial.arm == 'treatment' and trial.step('says', word='holds')", 1),
        ("trial.step('says', word='violated'); trial.defer(lambda: 1 / 0)", 1),
    ],
    ids=["holds", "violated", "a bug in it", "unknown", "no worker", "one arm unknown", "a bug after it"],
)
def test_a_shard_fails_only_when_it_was_not_made(inner: pytest.Pytester, scenario: str, code: int) -> None:
    """What trials showed is the merge's to judge; a machine that made none that count has failed."""
    inner.makepyfile(ORACLE + f"@holdback.experiment(oracles=[said])\ndef test_it(world, trial): {scenario}")
    assert inner.runpytest("--shard=1/2", "--holdback-seed=5", "--count=2").ret == code
    assert len(rows_of(inner)) == 2


@pytest.mark.parametrize(("afterwards", "code"), [("None", 0), ("1 / 0", 1)])
def test_pytest_xdist_tells_a_shard_what_failed(inner: pytest.Pytester, afterwards: str, code: int) -> None:
    """A treatment that shows the bug and a failure of the code are told apart in other processes too."""
    scenario = f"trial.step('says', word='violated'); trial.defer(lambda: {afterwards})"
    inner.makepyfile(ORACLE + f"@holdback.experiment(oracles=[said])\ndef test_it(world, trial): {scenario}")
    assert inner.runpytest("--shard=1/1", "--holdback-seed=5", "-n", "2").ret == code


def test_a_shard_that_is_interrupted_fails(inner: pytest.Pytester) -> None:
    """Whoever stops a shard stops its job."""
    inner.makepyfile(FIXED + "    if trial.arm == 'treatment': raise KeyboardInterrupt")
    assert (
        inner.runpytest_subprocess("--shard=1/2", "--holdback-seed=5", "--count=4").ret == pytest.ExitCode.INTERRUPTED
    )
    assert summary_of(inner)["interrupted"] is True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shard=3"], "*'3' names no shard*"),
        (["--shard=0/4"], "*'0/4' names no shard*"),
        (["--shard=5/4"], "*'5/4' names no shard*"),
        (["--shard=3/4", "--count=2"], "*--count=2 leaves no trial for --shard=3/4*"),
    ],
)
def test_a_shard_that_cannot_be(inner: pytest.Pytester, options: list[str], words: str) -> None:
    """A usage error before anything is made, with a remedy."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("--holdback-seed=5", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([words, "*-> *"])
    assert not report_of(inner).exists()


def test_a_shard_needs_the_seed_of_all(inner: pytest.Pytester) -> None:
    """Shards that each drew a seed would not know each other."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("--shard=1/2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--shard without --holdback-seed*", "*-> *the same --holdback-seed*"])
