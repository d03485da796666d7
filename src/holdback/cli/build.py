"""`holdback build`: make everything ready that experiments need."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries import Binaries
from holdback.binaries.pins import pin, pins
from holdback.cli.arms import add_options, variants
from holdback.clock import SystemClock
from holdback.controllers.kueue.source import build_kueue
from holdback.errors import ConfigurationError
from holdback.process import open_run

if TYPE_CHECKING:
    from holdback.cli.types import Subcommands

__all__ = ["NEEDED", "add"]

NEEDED = ("etcd", "kube-apiserver", "toxiproxy-server", "caddy", "kustomize")
"""What every experiment needs; the other pins are built where a world asks for them."""

_EXAMPLES = """\
examples:
  holdback build                                        all that the experiments in e2e/ need
  holdback build --treatment ../kueue                   the same, with your checkout as the fix
  holdback build --control v0.17.3 --treatment v0.17.4  two releases
  holdback build caddy toxiproxy-server                 only these
  holdback build caddy --treatment ../kueue             only these two
"""


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "build",
        help="find or build the executables",
        description="Finds the executables, and builds those that are nowhere into the cache.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these executables, and a Kueue only for an arm that is named"
    )
    add_options(parser)
    parser.add_argument(
        "--all", action="store_true", help=f"also {', '.join(name for name in pins() if name not in NEEDED)}"
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.names and arguments.all:
        raise ConfigurationError(
            f"--all, and only {', '.join(arguments.names)}: both cannot be", remedy="leave out --all, or the names"
        )
    for name in arguments.names:
        pin(name)  # all refusals before the first build
    names = tuple(pins()) if arguments.all else tuple(arguments.names) or NEEDED
    arms = variants(arguments, defaults=not arguments.names)
    clock = SystemClock()
    started = clock.monotonic()
    # The run's reaper ends the compilers should we be killed.
    with tempfile.TemporaryDirectory(prefix="holdback-") as logs, open_run(logs=Path(logs)) as run:
        binaries = Binaries(environment=run.environment)
        ready = {**binaries.get(*names), **{arm.name: build_kueue(arm, binaries).binary for arm in arms}}
    for name, path in ready.items():
        binaries.workshop.progress.say(f"{name}: {path}")
    binaries.workshop.progress.say(f"all is ready, after {clock.monotonic() - started:.0f} s")
    return 0
