"""The fixtures that experiments and worlds are made with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from holdback.faults.plan import FaultPlan
from holdback.plugin.collecting import PLAN, mark_of
from holdback.plugin.evidence import begin
from holdback.plugin.settings import FAULTS, SETTINGS, STDERR, STDOUT, Settings
from holdback.trials.trial import Trial

if TYPE_CHECKING:
    from holdback.binaries import Binaries, Found, Progress
    from holdback.clusters import Provider
    from holdback.process import Run


@pytest.fixture
def holdback_arm(request: pytest.FixtureRequest) -> str:
    """The arm of this item."""
    return str(request.param)


@pytest.fixture
def holdback_dose(request: pytest.FixtureRequest) -> int:
    """The dose of this item, where the run has several."""
    return int(request.param)


@pytest.fixture
def trial(request: pytest.FixtureRequest, holdback_arm: str) -> Trial:  # noqa: ARG001  orders the fixtures
    """The trial that this item is."""
    item, config = request.node, request.config
    plan = item.stash[PLAN]
    item.stash[FAULTS] = config.hook.pytest_holdback_faults(config=config, plan=plan)
    return Trial(plan, mark_of(item).kwargs["oracles"], fault_plan=item.stash[FAULTS])


@pytest.hookimpl(trylast=True)
def pytest_holdback_faults(config: pytest.Config) -> FaultPlan | None:
    """Those of `--plan`."""
    return config.stash[FAULTS]


@pytest.fixture(scope="session")
def holdback_settings(pytestconfig: pytest.Config) -> Settings:
    """What the user asked for."""
    return pytestconfig.stash[SETTINGS]


@pytest.fixture(scope="session")
def holdback_run(pytestconfig: pytest.Config, holdback_progress: Progress) -> Iterator[Run]:
    """The run of this process, for everything it starts; nothing of it outlives pytest, however that ends."""
    from holdback.process import open_run  # noqa: PLC0415  not for sessions without experiments

    settings = pytestconfig.stash[SETTINGS]
    begin(pytestconfig)
    watch = () if settings.controller == os.getpid() else (settings.controller,)
    with open_run(logs=settings.store.logs(settings.worker), watch=watch, say=holdback_progress.say) as run:
        yield run


@pytest.fixture(scope="session")
def holdback_progress(pytestconfig: pytest.Config) -> Progress:
    """Shows what takes long on the terminal itself, past pytest's capturing."""
    from holdback.binaries import Progress  # noqa: PLC0415  not for sessions without experiments

    return Progress(pytestconfig.stash[STDERR], before=partial(_end_line, pytestconfig))


def _end_line(config: pytest.Config) -> None:
    """Our lines begin where a line begins, not behind the letters and names of the tests so far."""
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist cannot know what its controller has written
        config.stash[STDERR].write("\n")
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # `-p no:terminal`
        return
    writer = config.get_terminal_writer()
    if writer.width_of_current_line:
        # While a test runs, what the writer itself writes would be captured as the test's.
        config.stash[STDOUT].write("\n")
        config.stash[STDOUT].flush()
        writer._current_line = ""
        if reporter.verbosity > 0:
            reporter.currentfspath = None  # the test's name comes again, before its outcome


@pytest.fixture(scope="session")
def holdback_binaries(holdback_settings: Settings, holdback_run: Run, holdback_progress: Progress) -> Binaries:
    """The executables, found or built."""
    from holdback.binaries import Binaries  # noqa: PLC0415  not for sessions without experiments
    from holdback.binaries.pins import pin  # noqa: PLC0415  likewise

    def used(found: Found) -> None:
        # What we built from a pin need not be asked, which would make every start of a world later.
        version = pin(found.name).version if found.how == "cache" else binaries.version(found)
        fact = {"name": found.name, "version": version, "from": found.how}
        holdback_settings.store.add("executables", [fact])

    explicit, environment = holdback_settings.places.executables, holdback_run.environment
    binaries = Binaries(explicit=explicit, progress=holdback_progress, environment=environment, used=used)
    return binaries


@pytest.fixture(scope="session")
def holdback_provider(holdback_settings: Settings, holdback_run: Run, holdback_binaries: Binaries) -> Provider:
    """Where clusters come from."""
    return holdback_settings.places.provider(holdback_run, holdback_binaries)
