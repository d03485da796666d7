"""A session of pytest in this process, at the place where a trial was made, with what its run was asked for."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from holdback.replay.original import Original
from holdback.trials.outcome import Row
from holdback.trials.trial import Plan

__all__ = ["planned", "run_pytest"]

_AS_BEFORE = ("control", "treatment", "clusters", "controllers", "kind_image")
"""What run.json tells of what a run was asked for, under the names of the options, with _ for -."""


def run_pytest(original: Original, plugin: object, report: Path, *, count: int, options: Sequence[str] = ()) -> int:
    """Run the original's experiment; pytest's exit code.

    It runs in this process, so that nothing of it outlives this process, however that ends.

    Args:
        original: whose experiment.
        plugin: has hooks of pytest, and those of `holdback.plugin.hooks`.
        report: where the evidence goes, an absolute path.
        count: trials in each arm to choose from.
        options: more of pytest's. They may change what the arms run and where, and nothing else that is said here.

    Raises:
        KeyboardInterrupt: Ctrl-C, once pytest has ended everything; a second one at once.
    """
    words = {name: original.run.get(name) for name in _AS_BEFORE}
    arguments = [
        original.node,
        *(f"--{name.replace('_', '-')}={word}" for name, word in words.items() if word),
        *options,
        # What follows is ours to say, whatever the options or the project's own settings ask for.
        f"--rootdir={original.root}",
        f"--count={count}",
        f"--holdback-report={report}",
        *([] if original.seed is None else [f"--holdback-seed={original.seed}"]),
        "-n0",
        "--maxfail=0",
        # holdback is imported already, and has no assert that pytest could make more telling.
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    ctrl_c = _CtrlC()
    with contextlib.chdir(original.directory), _as_pytest(original.run, arguments):
        code = int(pytest.main(arguments, plugins=[plugin, ctrl_c]))
    if ctrl_c.came:
        raise KeyboardInterrupt
    return code


_BY_PYTHON = {"python", "__main__.py"}
"""How a command line begins, here and in older reports, that was `python -m pytest`."""


class _CtrlC:
    """A plugin that tells Ctrl-C from what has the same exit code, such as a file that cannot be imported."""

    def __init__(self) -> None:
        self.came = False

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        # SIGTERM is a KeyboardInterrupt with a name of its own; pytest's own ends are others.
        self.came = not issubclass(excinfo.type, pytest.Session.Interrupted | pytest.exit.Exception)


def planned(row: Row) -> Plan:
    """The plan that a trial was made by."""
    return Plan(**{each.name: getattr(row, each.name) for each in fields(Plan)})


@contextlib.contextmanager
def _as_pytest(run: Mapping[str, Any], arguments: Sequence[str]) -> Iterator[None]:
    """The command line and the path of imports that pytest itself would have; run.json tells the former."""
    argv, path = sys.argv, sys.path
    command = run.get("command") or [""]
    sys.argv = ["pytest", *arguments]
    sys.path = [str(Path.cwd()), *path] if command[0] in _BY_PYTHON else list(path)  # as `python -m pytest` does
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path
