"""What the user asked for, as all processes of a run agree on it."""

from __future__ import annotations

import os
import secrets
import sys
import time
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pytest

from holdback.errors import ConfigurationError
from holdback.faults.plan import FaultPlan, read_plan
from holdback.history.store import Store
from holdback.plugin import hooks, places
from holdback.plugin.options import check_options, doses_of, is_search
from holdback.plugin.places import Places
from holdback.plugin.shards import take_part
from holdback.trials.arms import MARK
from holdback.trials.shards import Shard


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for, the same in every process of the run.

    `control` and `treatment` are variant words, empty for the world's own default. `worker` names this process
    (`main` without pytest-xdist), `controller` is the process id that it must not outlive. `plan` is the file whose
    faults replace those of the scenario. `seed` is that of this run's own trials, also where it is a `shard`. `places`
    says where trials run. `until_decided` ends an experiment once its verdict is certain. `doses` (milliseconds) take
    the place of the scenario's own delays; with `searching` each block's dose follows from the trials before it.
    `command` is what was typed, as it can be typed again.
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
    shard: Shard | None = None
    places: Places = field(default_factory=Places)
    until_decided: bool = False
    doses: tuple[int, ...] = ()
    searching: bool = False
    command: tuple[str, ...] = ()

    @property
    def store(self) -> Store:
        """The run's evidence."""
        return Store(self.report)

    @property
    def repeat(self) -> str:
        """The options that, with all others as they are, make the same trials again."""
        if self.shard is None:
            return f"--holdback-seed={self.seed}"
        return f"--holdback-seed={self.shard.seed} --shard={self.shard.number}/{self.shard.of}"


SETTINGS = pytest.StashKey[Settings]()
FAULTS = pytest.StashKey[FaultPlan | None]()
"""Of the configuration: those of `--plan`. Of an item: those of its trial."""
REPORTED = pytest.StashKey[bool]()
"""Whether a trial was reported in this process: then there must be evidence of it at the end."""
STDERR = pytest.StashKey[TextIO]()
STDOUT = pytest.StashKey[TextIO]()
"""The terminal itself, past pytest's capturing."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Make the hooks known that are ours."""
    pluginmanager.add_hookspecs(hooks)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options, and settle what every process must agree on."""
    config.addinivalue_line("markers", f"{MARK}(oracles, arms): an experiment; set by @holdback.experiment")
    worker = getattr(config, "workerinput", None)  # set by pytest-xdist in its workers
    try:
        if not worker:
            check_options(config)
        plan = worker["holdback"]["plan"] if worker else config.getoption("--plan")
        config.stash[FAULTS] = read_plan(config.invocation_params.dir / plan) if plan else None
        shard = take_part(config)
        config.stash[SETTINGS] = _received(worker, shard) if worker else _settle(config, shard)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from error
    # Made before pytest captures what tests print, so that a build of minutes can show its progress.
    config.stash[STDERR] = os.fdopen(os.dup(2), "w")
    config.stash[STDOUT] = os.fdopen(os.dup(1), "w")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close what `pytest_configure` opened."""
    for key in (STDERR, STDOUT):
        if stream := config.stash.get(key, None):
            stream.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist what this process settled."""
    settings = node.config.stash[SETTINGS]
    plan = None if settings.plan is None else str(settings.plan)
    node.workerinput["holdback"] = {**asdict(settings), "report": str(settings.report), "plan": plan}


def _settle(config: pytest.Config, shard: Shard | None) -> Settings:
    def word(name: str) -> str:
        return str(config.getoption(f"--{name}") or config.getini(f"holdback_{name}"))

    plan = config.stash[FAULTS]
    seed = config.getoption("--holdback-seed")
    if seed is None and plan is not None:
        seed = plan.seed  # the same plan with the same seed is the same schedule
    if shard is not None:
        seed = shard.own_seed
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
        shard=shard,
        places=places.settle(config),
        until_decided=bool(config.getoption("--until-decided")),
        doses=doses_of(config),
        searching=is_search(config),
        command=(*_program(), *map(str, config.invocation_params.args)),
    )


def _program() -> list[str]:
    """How pytest was called; what calls it as a library has a command line of its own, which is not pytest's."""
    return ["python", "-m", "pytest"] if Path(sys.argv[0]).name == "__main__.py" else ["pytest"]


def _received(worker: dict[str, Any], shard: Shard | None) -> Settings:
    given = worker["holdback"]
    plan = Path(given["plan"]) if given["plan"] else None
    own = {"report": Path(given["report"]), "worker": str(worker["workerid"]), "plan": plan, "shard": shard}
    facts = {"places": Places(**given["places"]), "command": tuple(given["command"])}
    return Settings(**{**given, **own, **facts})


def pytest_report_header(config: pytest.Config) -> str:
    """What is needed to repeat this run."""
    settings = config.stash[SETTINGS]
    control, treatment = settings.control or "(default)", settings.treatment or "(default)"
    plan = f", plan {settings.plan}" if settings.plan else ""
    clusters = "" if settings.places.clusters == "local" else f", {settings.places.clusters} clusters"
    seed = f"seed {settings.seed}" if settings.shard is None else str(settings.shard)
    arms = f"control {control}, treatment {treatment}"
    doses = ", searching for a dose" if settings.searching else ""
    if settings.doses:
        doses = f", doses {' '.join(map(str, settings.doses))} ms"
    return f"holdback: {seed}, {arms}{plan}{doses}{clusters}, report {settings.report}"
