"""Where the experiments of a report are: the root directory of the project that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdback.errors import ConfigurationError

__all__ = ["find_root", "origin", "parts_of"]


def parts_of(experiment: str) -> tuple[str, str]:
    """The file below the root directory and the function, without parameters, that an experiment's name tells."""
    file, _, function = experiment.partition("[")[0].partition("::")
    return file, function


def origin(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """What ran: of a merged report one of its runs, which all ran the same."""
    merged = run.get("merged")
    return merged[0] if isinstance(merged, list) and merged else run


def find_root(run: Mapping[str, Any], experiment: str, given: Path | None = None) -> Path:
    """The root directory below which an experiment's file is: the one that is given, else where it ran, else here.

    Args:
        run: the run.json of its report.
        experiment: its name.
        given: what the user says.

    Raises:
        ConfigurationError: the file is not there.
    """
    file, _ = parts_of(experiment)
    recorded = origin(run).get("root")
    ran = [Path(recorded)] if isinstance(recorded, str) else []
    places = [given] if given else [*ran, Path()]
    for place in places:
        if (place / file).is_file():
            return place.resolve()
    looked = " nor in ".join(str(place.resolve()) for place in dict.fromkeys(places))
    raise ConfigurationError(
        f"{file}, which has the experiment {experiment}, is not in {looked}",
        remedy="name the root directory of its project with --root; has the file been renamed?",
    )
