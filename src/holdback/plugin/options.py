"""The options of an experiment, and which of them can go together."""

from __future__ import annotations

import pytest

from holdback.errors import ConfigurationError
from holdback.faults.dosing import SEARCH, read_doses
from holdback.plugin import places
from holdback.plugin.shards import add_option

__all__ = ["check_options", "doses_of", "is_search", "pytest_addoption"]


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
    add_option(group)
    group.addoption(
        "--until-decided",
        action="store_true",
        help="end each experiment as soon as its verdict is certain, whatever else would come: trials that are not "
        "needed any more are left out, and --count is the most that it may take in each arm. The p-values and "
        "intervals are then ones that hold although they were looked at after every trial",
    )
    group.addoption(
        "--dose",
        metavar="MS,MS,...",
        help="make --count trials in each arm at each of these doses, and fit how the rate rises with it: so many "
        "milliseconds take the place of every delay that the scenario injects, 0 injects none. `search` looks for the "
        "dose at which half of the control's trials fail, with --count trials in each arm altogether",
    )
    group.addoption("--holdback-report", metavar="DIR", help="where the evidence goes (default: holdback-report)")
    places.add_options(group, parser)
    parser.addini("holdback_control", "default of --control", default="")
    parser.addini("holdback_treatment", "default of --treatment", default="")
    parser.addini(
        "holdback_report", "default of --holdback-report, relative to the root directory", default="holdback-report"
    )


def check_options(config: pytest.Config) -> None:
    """Prove that the options can go together.

    Raises:
        ConfigurationError: they cannot, or nothing could come of them.
    """
    count: int = getattr(config.option, "count", 1)
    until_decided, searching = config.getoption("--until-decided"), is_search(config)
    if count < 1:
        raise ConfigurationError(
            f"--count={count} makes no trial", remedy="give the number of trials in each arm, 1 or more"
        )
    if until_decided and searching:
        raise ConfigurationError(
            "--until-decided ends an experiment once its verdict is certain, before --dose search has found a dose",
            remedy="give one of them",
        )
    if count == 1 and until_decided:
        raise ConfigurationError(
            "--until-decided with a single trial in each arm decides nothing",
            remedy="give --count as well, the most trials that an arm may take: --count=200",
        )
    if count == 1 and searching:
        raise ConfigurationError(
            "--dose search with a single trial in each arm finds nothing",
            remedy="give --count as well, the trials of each arm for all of the search: --count=40",
        )


def is_search(config: pytest.Config) -> bool:
    """Whether `--dose` leaves the doses to be found."""
    return bool(config.getoption("--dose") == SEARCH)


def doses_of(config: pytest.Config) -> tuple[int, ...]:
    """Those that `--dose` names, in milliseconds.

    Raises:
        pytest.UsageError: it names no doses.
    """
    word = config.getoption("--dose")
    if word is None or is_search(config):
        return ()
    try:
        return read_doses(word)
    except ConfigurationError as error:
        raise pytest.UsageError(f"--dose: {error}") from error
