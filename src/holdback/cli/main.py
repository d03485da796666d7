"""Reads the command line, runs one subcommand, and turns errors into a message and an exit code."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from holdback.cli import build, clean, compare, doctor, judge, merge, replay, report, show, shrink
from holdback.cli.replay import PASSED_ON
from holdback.errors import ConfigurationError, HoldbackError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_COMMANDS = (doctor, build, show, replay, shrink, report, judge, merge, compare, clean)
"""Modules with `add(subcommands)`, which adds a parser whose default `run` takes the parsed arguments."""

_EPILOG = """\
start here:
  holdback doctor        what is there, what is missing, what to do about it
  holdback build         build what is missing (about 20 minutes the first time, then seconds)
  pytest --count=20 e2e  run the experiments: 20 trials in each arm, then a verdict

exit codes: 0 well, 1 something failed, 2 the command line or a file it names is wrong, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `holdback` with these arguments (the process's own if None) and give its exit code."""
    arguments = _parsed(sys.argv[1:] if argv is None else argv)
    try:
        code: int = arguments.run(arguments)
    except ConfigurationError as error:
        return _failed(error, 2)
    except HoldbackError as error:
        return _failed(error, 1)
    except KeyboardInterrupt:
        sys.stderr.write("holdback: interrupted; nothing of it runs on\n")
        return 130
    return code


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments. What follows `--` is for pytest: argparse would take some of it for ours."""
    own, passed_on = _split(argv)
    parser = _parser()
    arguments = parser.parse_args(own)
    if passed_on and not hasattr(arguments, PASSED_ON):
        parser.error(f"this command runs no pytest that could take {' '.join(passed_on)}")
    setattr(arguments, PASSED_ON, passed_on)
    return arguments


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]


def _failed(error: HoldbackError, code: int) -> int:
    sys.stderr.write(f"holdback: {error}\n")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdback",
        description="Proves whether a fix removes a flake in a Kubernetes controller.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add(subcommands)
    return parser
