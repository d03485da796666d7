"""`holdback clean`: remove what runs that are over have left."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries import Progress
from holdback.errors import ConfigurationError
from holdback.process import Run, open_run
from holdback.process.reaper import members

if TYPE_CHECKING:
    from holdback.cli.types import Subcommands

__all__ = ["add"]

_DESCRIPTION = """\
Removes what runs that are over have left. A run gives back existing clusters as it found them; one that was killed
cannot. All that it made there carries the label holdback/run, and that is what goes: with --context, from that cluster.
"""
_EXAMPLES = """\
examples:
  holdback clean --context staging-1 --context staging-2   what is left there of holdback, of any run
  holdback clean --context staging-1 --dry-run             only say what there is
"""


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "clean",
        help="remove what earlier runs have left",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--context", action="append", default=[], metavar="NAME", help="a context of your kubeconfig; once for each"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what there is")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if not arguments.context:
        raise ConfigurationError("nothing was named to clean", remedy="name clusters with --context")
    with tempfile.TemporaryDirectory(prefix="holdback-") as logs, open_run(logs=Path(logs)) as run:
        for context in arguments.context:
            _clean_existing(run, context, dry_run=arguments.dry_run)
    return 0


def _clean_existing(run: Run, context: str, *, dry_run: bool) -> None:
    """Remove holdback's objects from the cluster behind a context.

    Raises:
        ConfigurationError: there is no such context, or a run of this machine is using the cluster.
        ClusterError: something does not go.
    """
    from holdback.clusters import Api  # noqa: PLC0415  not for `holdback --help`
    from holdback.clusters.existing import access_to, leftovers, remove  # noqa: PLC0415  likewise

    with closing(Api(access_to(context, run.directory))) as api:
        found = leftovers(api)
        if alive := sorted({each.run for each in found if each.run and members(each.run)}):
            raise ConfigurationError(
                f"{context} is in use by run {', '.join(alive)}, which is under way on this machine",
                remedy="let it end, or interrupt it: it gives the cluster back itself",
            )
        for each in found:
            sys.stdout.write(f"{context}: {each}\n")
        if not found:
            sys.stdout.write(f"{context}: nothing of holdback\n")
        elif not dry_run:
            remove(api, say=Progress().say)
            sys.stdout.write(f"{context}: removed {len(found)} objects\n")
