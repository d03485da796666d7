"""The pytest plugin: options, the two arms of an experiment, and one verdict at the end.

A thin adapter. What a trial is, and what becomes of it, is in `holdback.trials`; here it only becomes a pytest item,
a report and an exit code.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import re
import secrets
import shutil
import sys
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pytest

from holdback.errors import BinaryError, ConfigurationError, EvidenceError, HoldbackError
from holdback.faults.plan import FaultPlan, read_plan
from holdback.history.store import Damage, Store, process_of
from holdback.trials import runner
from holdback.trials.arms import ARMS, MARK, TREATMENT
from holdback.trials.outcome import Outcome, Row, read_rows
from holdback.trials.schedule import Slot, derive, order
from holdback.trials.trial import Plan, Trial

if TYPE_CHECKING:
    from holdback.binaries import Binaries, Progress
    from holdback.process import Run
    from holdback.statistics import Summary
    from holdback.statistics.exposure import ExposureSummary

__all__ = ["Settings"]

_ARM = "holdback_arm"
_REPETITION = "__pytest_repeat_step_number"
_SAME_INVALID = 3
"""So many INVALID trials in a row for the same reason end the run: the next ones would not be better."""
_KINDS, _LAST_LINES, _LONGEST_LINE = 10, 4, 200
"""How much the terminal tells of trials that did not count; their rows have all of it."""
_LETTERS = {Outcome.HOLDS: ".", Outcome.VIOLATED: "V", Outcome.UNKNOWN: "u", Outcome.INVALID: "i"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for, the same in every process of the run.

    `control` and `treatment` are variant words, empty for the world's own default. `worker` names this process
    (`main` without pytest-xdist), `controller` is the process id that it must not outlive. `plan` is the file whose
    faults replace those of the scenario.
    """

    run: str
    started: float
    seed: int
    control: str
    treatment: str
    report: Path
    worker: str
    controller: int
    plan: Path | None = None

    @property
    def store(self) -> Store:
        """The run's evidence."""
        return Store(self.report)


@dataclass(slots=True)
class _Ending:
    """What the controller knows once the run is over."""

    summary: Summary
    rows: tuple[Row, ...]
    damages: tuple[Damage, ...]
    unjudged: int


@dataclass(slots=True)
class _Streak:
    """INVALID trials in a row for the same reason."""

    reason: str = ""
    length: int = 0

    def add(self, row: Row) -> None:
        reason = _likeness(row.reason) if row.outcome is Outcome.INVALID else ""
        self.length = self.length + 1 if reason and reason == self.reason else int(bool(reason))
        self.reason = reason


_SETTINGS = pytest.StashKey[Settings]()
_PLAN = pytest.StashKey[Plan]()
_FAULTS = pytest.StashKey[FaultPlan | None]()
_ROW = pytest.StashKey[Row]()
_STREAK = pytest.StashKey[_Streak]()
_LONELY = pytest.StashKey[list[str]]()
_ENDING = pytest.StashKey[_Ending]()
_STDERR = pytest.StashKey[TextIO]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, each with an ini setting of the same meaning."""
    group = parser.getgroup("holdback", "holdback: experiments with a control and a treatment arm")
    group.addoption("--control", metavar="WORD", help="what the control arm runs: a version, a folder, a file")
    group.addoption("--treatment", metavar="WORD", help="what the treatment arm runs: a version, a folder, a file")
    group.addoption(
        "--holdback-seed",
        type=int,
        metavar="INT",
        help="seed of the trials' order and randomness (default: drawn, printed)",
    )
    group.addoption(
        "--plan",
        metavar="FILE",
        help="put the faults of this plan in force instead of the scenario's own (plans/ of a report has one a trial)",
    )
    group.addoption("--holdback-report", metavar="DIR", help="where the evidence goes (default: holdback-report)")
    parser.addini("holdback_control", "default of --control", default="")
    parser.addini("holdback_treatment", "default of --treatment", default="")
    parser.addini(
        "holdback_report", "default of --holdback-report, relative to the root directory", default="holdback-report"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options, and settle what every process must agree on."""
    config.addinivalue_line("markers", f"{MARK}(oracles, arms): an experiment; set by @holdback.experiment")
    count = getattr(config.option, "count", 1)
    if count < 1:
        raise pytest.UsageError(
            f"--count={count} makes no trial\n  -> give the number of trials in each arm, 1 or more"
        )
    worker = getattr(config, "workerinput", None)  # set by pytest-xdist in its workers
    try:
        plan = worker["holdback"]["plan"] if worker else config.getoption("--plan")
        config.stash[_FAULTS] = read_plan(config.invocation_params.dir / plan) if plan else None
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_SETTINGS] = _received(worker) if worker else _settle(config)
    config.stash[_STREAK] = _Streak()
    config.stash[_LONELY] = []
    # Made before pytest captures what tests print, so that a build of minutes can show its progress.
    config.stash[_STDERR] = os.fdopen(os.dup(2), "w")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close what `pytest_configure` opened."""
    if stream := config.stash.get(_STDERR, None):
        stream.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist what this process settled."""
    settings = node.config.stash[_SETTINGS]
    plan = None if settings.plan is None else str(settings.plan)
    node.workerinput["holdback"] = {**asdict(settings), "report": str(settings.report), "plan": plan}


def _settle(config: pytest.Config) -> Settings:
    def word(name: str) -> str:
        return str(config.getoption(f"--{name}") or config.getini(f"holdback_{name}"))

    plan = config.stash[_FAULTS]
    seed = config.getoption("--holdback-seed")
    if seed is None and plan is not None:
        seed = plan.seed  # the same plan with the same seed is the same schedule
    report = config.getoption("--holdback-report")
    return Settings(
        run=uuid.uuid4().hex,
        started=time.time(),
        seed=secrets.randbelow(2**31) if seed is None else seed,
        control=word("control"),
        treatment=word("treatment"),
        report=(
            config.invocation_params.dir / report if report else config.rootpath / config.getini("holdback_report")
        ),
        worker="main",
        controller=os.getpid(),
        plan=None if plan is None else plan.path.absolute(),
    )


def _received(worker: dict[str, Any]) -> Settings:
    given = worker["holdback"]
    plan = Path(given["plan"]) if given["plan"] else None
    return Settings(**{**given, "report": Path(given["report"]), "worker": str(worker["workerid"]), "plan": plan})


def pytest_report_header(config: pytest.Config) -> str:
    """What is needed to repeat this run."""
    settings = config.stash[_SETTINGS]
    control, treatment = settings.control or "(default)", settings.treatment or "(default)"
    plan = f", plan {settings.plan}" if settings.plan else ""
    return f"holdback: seed {settings.seed}, control {control}, treatment {treatment}{plan}, report {settings.report}"


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item an arm; the arm comes first in the item's id, pytest-repeat's number last."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None:
        return
    if "trial" not in metafunc.fixturenames:
        raise pytest.Collector.CollectError(
            f"the experiment {metafunc.definition.nodeid} has no trial\n  -> take the fixture `trial` as an argument"
        )
    metafunc.fixturenames.append(_ARM)
    metafunc.parametrize(_ARM, mark.kwargs["arms"], indirect=True, scope="function")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Interleave the arms; last of all, so that no other plugin undoes it. Other items stay where they are."""
    _deselect_what_is_not_planned(config, items)
    places = [place for place, item in enumerate(items) if _is_experiment(item)]
    ours = [items[place] for place in places]
    slots = [_slot(item) for item in ours]
    settings = config.stash[_SETTINGS]
    names = _short_names(slots)
    for item, slot in zip(ours, slots, strict=True):
        item.stash[_PLAN] = Plan(
            id=f"{names[slot.experiment]}-{slot.arm}-{slot.index + 1:03d}",
            experiment=slot.experiment,
            arm=slot.arm,
            index=slot.index,
            block=slot.index,
            seed=derive(settings.seed, "trial", slot.experiment, slot.index),
        )
    for place, number in zip(places, order(slots, settings.seed), strict=True):
        items[place] = ours[number]
    config.stash[_LONELY] = _lonely(ours, slots)


def _deselect_what_is_not_planned(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With a plan that names its experiment, the trials of others are not made."""
    plan = config.stash[_FAULTS]
    if plan is None or not plan.experiment:
        return
    others = [item for item in items if _is_experiment(item) and _slot(item).experiment != plan.experiment]
    if len(others) == sum(map(_is_experiment, items)):
        raise pytest.UsageError(
            f"{plan.path} is a plan for {plan.experiment}, which was not collected\n"
            "  -> give the file it is in as well, or take `experiment` out of the plan to use it for another one"
        )
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say before the trials, not after them, that they cannot lead to a verdict."""
    return config.stash[_LONELY]


def _is_experiment(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.get_closest_marker(MARK) is not None


def _slot(item: pytest.Item) -> Slot:
    """Which experiment, arm and repetition an item is; parameters of the user's own make experiments of their own."""
    assert isinstance(item, pytest.Function)
    params: dict[str, Any] = dict(item.callspec.params)
    arm, repetition = str(params[_ARM]), params.get(_REPETITION)
    inside = item.callspec.id.removeprefix(arm).removeprefix("-")
    if repetition is not None:
        inside = re.sub(rf"(^|-){repetition + 1}-\d+$", "", inside)
    parent = item.parent.nodeid if item.parent else ""
    name = f"{parent}::{item.originalname}"
    return Slot(f"{name}[{inside}]" if inside else name, arm, repetition or 0)


def _short_names(slots: Sequence[Slot]) -> dict[str, str]:
    """For each experiment a name that is unique among them and can be typed and be a file's name."""
    slugs = {slot.experiment: _slug(slot.experiment) for slot in slots}
    times = Counter(slugs.values())
    return {
        experiment: slug if times[slug] == 1 else f"{slug}-{derive(0, experiment) % 65536:04x}"
        for experiment, slug in slugs.items()
    }


def _slug(experiment: str) -> str:
    name = experiment.rpartition("::")[2].removeprefix("test_")
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:60].rstrip("-.") or "experiment"


def _lonely(items: Sequence[pytest.Item], slots: Sequence[Slot]) -> list[str]:
    wanted = {slot.experiment: _mark(item).kwargs["arms"] for item, slot in zip(items, slots, strict=True)}
    present = {(slot.experiment, slot.arm) for slot in slots}
    return [
        f"holdback: {experiment} runs without its {arm} arm (it was deselected): there will be no verdict"
        for experiment, arms in wanted.items()
        for arm in ARMS
        if arm in arms and (experiment, arm) not in present
    ]


def _mark(item: pytest.Item) -> pytest.Mark:
    mark = item.get_closest_marker(MARK)
    assert mark is not None
    return mark


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the report with the first trial: a session without experiments leaves none."""
    if _PLAN in item.stash:
        _begin(item.config)


def _begin(config: pytest.Config) -> None:
    settings = config.stash[_SETTINGS]
    settings.store.begin(
        {
            "id": settings.run,
            "started": settings.started,
            "seed": settings.seed,
            "control": settings.control,
            "treatment": settings.treatment,
            "plan": str(settings.plan or ""),
            "count": getattr(config.option, "count", 1),
            "command": [Path(sys.argv[0]).name, *map(str, config.invocation_params.args)],
            "process": process_of(settings.controller),
            "machine": {"system": platform.platform(), "processors": os.cpu_count(), "load": os.getloadavg()},
            "versions": _versions(),
        }
    )


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  needed once a run

    found = {"python": platform.python_version()}
    for package in ("holdback", "pytest", "pytest-repeat", "pytest-xdist"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@pytest.fixture
def holdback_arm(request: pytest.FixtureRequest) -> str:
    """The arm of this item."""
    return str(request.param)


@pytest.fixture
def trial(request: pytest.FixtureRequest, holdback_arm: str) -> Trial:  # noqa: ARG001  orders the fixtures
    """The trial that this item is."""
    config = request.config
    return Trial(request.node.stash[_PLAN], _mark(request.node).kwargs["oracles"], fault_plan=config.stash[_FAULTS])


@pytest.fixture(scope="session")
def holdback_settings(pytestconfig: pytest.Config) -> Settings:
    """What the user asked for."""
    return pytestconfig.stash[_SETTINGS]


@pytest.fixture(scope="session")
def holdback_run(pytestconfig: pytest.Config) -> Iterator[Run]:
    """The run of this process, for everything it starts; nothing of it outlives pytest, however that ends."""
    from holdback.process import open_run  # noqa: PLC0415  not for sessions without experiments

    settings = pytestconfig.stash[_SETTINGS]
    _begin(pytestconfig)
    watch = () if settings.controller == os.getpid() else (settings.controller,)
    with open_run(logs=settings.store.logs(settings.worker), watch=watch) as run:
        yield run


@pytest.fixture(scope="session")
def holdback_progress(pytestconfig: pytest.Config) -> Progress:
    """Shows what takes long on the terminal itself, past pytest's capturing."""
    from holdback.binaries import Progress  # noqa: PLC0415  not for sessions without experiments

    return Progress(pytestconfig.stash[_STDERR])


@pytest.fixture(scope="session")
def holdback_binaries(holdback_run: Run, holdback_progress: Progress) -> Binaries:
    """The executables, found or built."""
    from holdback.binaries import Binaries  # noqa: PLC0415  not for sessions without experiments

    return Binaries(progress=holdback_progress, environment=holdback_run.environment)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Run an experiment's function as a trial; its row decides how the item ends."""
    if _PLAN not in pyfuncitem.stash:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    trial = pyfuncitem.funcargs["trial"]
    assert isinstance(trial, Trial)
    settings = pyfuncitem.config.stash[_SETTINGS]
    store = settings.store
    row = runner.run(trial, lambda: pyfuncitem.obj(**arguments), store, seed=settings.seed)
    _keep(pyfuncitem, row)
    if row.outcome is Outcome.VIOLATED and row.arm == TREATMENT:
        pytest.fail(_complaint(row, store), pytrace=False)
    if row.outcome in {Outcome.UNKNOWN, Outcome.INVALID}:
        pytest.skip(_skipped(row))
    return True


def _keep(item: pytest.Item, row: Row) -> None:
    """Remember the row for the report; end the run when trial after trial fails for the same reason."""
    item.stash[_ROW] = row
    streak = item.config.stash[_STREAK]
    streak.add(row)
    if streak.length >= _SAME_INVALID:
        item.session.shouldfail = f"{streak.length} trials in a row were INVALID for the same reason: {row.reason}"


def _likeness(reason: str) -> str:
    """A reason without the names, numbers and times that differ from trial to trial."""
    return re.sub(r"\w*\d[\w.]*", "#", reason.partition("\n")[0])


def _complaint(row: Row, store: Store) -> str:
    history = os.path.relpath(store.history_path(row.id))
    return f"{row.reason}\n  arm: {row.arm}  {row.variant}\n  history: {history}\n  timeline: holdback show {row.id}"


def _skipped(row: Row) -> str:
    return f"{row.outcome.name}: {row.reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn failures of the infrastructure into what they are, and say the outcome with the report."""
    report = yield
    plan = item.stash.get(_PLAN, None)
    if plan is None:
        return report
    error = call.excinfo.value if call.excinfo else None
    if call.when == "setup" and isinstance(error, Exception):
        _setup_failed(item, plan, error, report)
    if isinstance(error, HoldbackError) and report.failed:
        report.longrepr = str(error)
    if isinstance(error, BinaryError | ConfigurationError | EvidenceError):
        # Each further trial would meet the same: a variant that does not compile, a full disk.
        item.session.shouldfail = error.message
    if call.when != "teardown" and (row := item.stash.get(_ROW, None)):
        # An attribute of the report travels from a worker of pytest-xdist to the controller.
        vars(report)["holdback"] = {"outcome": row.outcome.value, "seconds": row.seconds}
        if report.skipped:
            _, line, _ = item.location
            report.longrepr = (str(item.path), (line or 0) + 1, f"Skipped: {_skipped(row)}")
    return report


def _setup_failed(item: pytest.Item, plan: Plan, error: Exception, report: pytest.TestReport) -> None:
    """A world that cannot be had makes the trial INVALID, unless no trial at all could have it."""
    if isinstance(error, EvidenceError):
        return  # nothing can be kept of it, or the report is another run's
    try:
        _keep(item, runner.invalid(plan, error, item.config.stash[_SETTINGS].store))
    except EvidenceError as full:
        item.session.shouldfail = full.message
        report.longrepr = str(full)
        return
    if not isinstance(error, BinaryError | ConfigurationError):
        report.outcome = "skipped"


def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """A violated control counts as passed: it is what a control is for. UNKNOWN and INVALID never do."""
    told = getattr(report, "holdback", None)
    if told is None or (report.failed and report.when == "setup"):
        return None
    outcome = Outcome(told["outcome"])
    letter = "F" if report.failed else _LETTERS[outcome]
    return report.outcome, letter, f"{outcome.name} {told['seconds']:.1f}s"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Compute the verdict from what is on disk, keep it, and let it decide the exit code."""
    config = session.config
    settings = config.stash.get(_SETTINGS, None)
    if settings is None or hasattr(config, "workerinput") or settings.store.run().get("id") != settings.run:
        return
    try:
        ending = _conclude(settings.store, interrupted=_was_cut_short(session, exitstatus))
        config.stash[_ENDING] = ending
        settings.store.summarise(
            {
                **ending.summary.to_json(),
                "exposure": [each.to_json() for each in _exposures(ending.rows)],
                "run": settings.run,
                "seed": settings.seed,
            }
        )
    except EvidenceError as error:
        sys.stderr.write(f"\n{error}\n")
        session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED
        return
    # A session of other tests that used a world has no experiment, and nothing to decide.
    if exitstatus == 0 and (ending.rows or ending.unjudged) and not ending.summary.fixed:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _was_cut_short(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> bool:
    return bool(exitstatus == pytest.ExitCode.INTERRUPTED or session.shouldfail or session.shouldstop)


def _conclude(store: Store, *, interrupted: bool) -> _Ending:
    from holdback.statistics import summarise  # noqa: PLC0415  brings scipy, which takes a second

    rows, damages = read_rows(store)
    plans, damaged_plans = store.planned()
    judged = {row.id for row in rows}
    unjudged = sum(1 for _, plan in plans if plan.get("id") not in judged)
    return _Ending(summarise(rows, interrupted=interrupted), rows, (*damages, *damaged_plans), unjudged)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the verdicts, and why trials did not count."""
    ending = config.stash.get(_ENDING, None)
    if ending is None:
        return
    settings = config.stash[_SETTINGS]
    terminalreporter.section("holdback")
    terminalreporter.write(_render(ending.summary, colour=terminalreporter.hasmarkup))
    for line in (*_exposed(ending.rows), *_uncounted(ending.rows), *map(str, ending.damages)):
        terminalreporter.write_line(line)
    if ending.unjudged:
        terminalreporter.write_line(f"{ending.unjudged} trials were begun and not judged.")
    for page in _write_report(settings.report) if ending.rows else ():
        terminalreporter.write_line(f"Report: {os.path.relpath(page, config.invocation_params.dir)}")
    report = os.path.relpath(settings.report, config.invocation_params.dir)
    terminalreporter.write_line(f"Evidence: {report}   repeat with: --holdback-seed={settings.seed}")


def _write_report(directory: Path) -> list[Path]:
    """Write the report; its page, if there is one. What could not be written has been said, and fails no run."""
    from holdback.report import write_all  # noqa: PLC0415  not for sessions without experiments

    return [path for path in write_all(directory) if path.suffix == ".html"]


def _render(summary: Summary, *, colour: bool) -> str:
    from rich.console import Console  # noqa: PLC0415  not for sessions without experiments

    from holdback.report.terminal import print_summary  # noqa: PLC0415  likewise

    text = io.StringIO()
    width = min(100, shutil.get_terminal_size().columns)
    print_summary(summary, Console(file=text, width=width, force_terminal=colour, no_color=not colour))
    return text.getvalue()


def _exposures(rows: Sequence[Row]) -> tuple[ExposureSummary, ...]:
    from holdback.statistics.exposure import exposures  # noqa: PLC0415  brings scipy, which takes a second

    return exposures(rows)


def _exposed(rows: Sequence[Row]) -> list[str]:
    from holdback.report.exposure import exposure_lines, reaction_line  # noqa: PLC0415  likewise
    from holdback.statistics.exposure import reaction  # noqa: PLC0415  likewise

    reacted = reaction(rows)
    return [*exposure_lines(_exposures(rows)), *([reaction_line(reacted)] if reacted else [])]


def _uncounted(rows: Sequence[Row]) -> list[str]:
    """Why trials did not count: each kind of reason once, in the words of the first trial that had it."""
    kinds: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.outcome in {Outcome.UNKNOWN, Outcome.INVALID}:
            kinds.setdefault((row.outcome.name, row.arm, _likeness(row.reason)), []).append(row)
    most = sorted(kinds.items(), key=lambda kind: -len(kind[1]))[:_KINDS]
    return [
        line
        for (outcome, arm, _), alike in most
        for line in _excerpt(f"{len(alike)} {arm} {outcome}: {alike[0].reason}")
    ]


def _excerpt(text: str) -> list[str]:
    """The first line says what happened; the last ones are the end of a log, and what to do."""
    first, *rest = text.splitlines()
    return [_shortened(first), *(f"    {_shortened(line.strip())}" for line in rest[-_LAST_LINES:])]


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
