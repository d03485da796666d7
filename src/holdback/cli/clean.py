"""`holdback clean`: remove what runs that are over have left."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries import Progress
from holdback.errors import ConfigurationError
from holdback.process import Run, open_run
from holdback.process.reaper import members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdback.cli.types import Subcommands
    from holdback.clusters import Access
    from holdback.clusters.kind import Leftover

__all__ = ["add"]

_DESCRIPTION = """\
Removes the kind clusters of runs that are over, and the controllers' images that no cluster uses. A run cleans up after
itself, even when it is killed; what is left is what --keep-clusters kept, or what a machine that lost its power had.
Clusters of runs on another machine that uses the same engine are told and left alone.

With --context, removes from that existing cluster whatever holdback made in it instead. A run gives existing clusters
back as it found them, but one that was killed cannot. All that it made there carries the label holdback/run.
"""
_EXAMPLES = """\
examples:
  holdback clean                                           kind clusters
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
    with tempfile.TemporaryDirectory(prefix="holdback-") as logs, open_run(logs=Path(logs)) as run:
        if arguments.context:
            _clean_all(run, arguments.context, dry_run=arguments.dry_run)
        else:
            _clean_kind(run, dry_run=arguments.dry_run)
    return 0


def _clean_all(run: Run, contexts: Sequence[str], *, dry_run: bool) -> None:
    """Clean all of them at once, for namespaces and definitions take their time to go; the first failure is raised.

    Raises:
        ConfigurationError: there is no such context, or a run of this machine is using the cluster.
        ClusterError: something does not go.
    """
    from holdback.clusters.existing import access_to  # noqa: PLC0415  not for `holdback --help`

    accesses = {context: access_to(context, run.directory) for context in contexts}  # a wrong one is told before all
    with ThreadPoolExecutor(len(accesses), thread_name_prefix="clean") as pool:
        list(pool.map(partial(_clean_existing, dry_run=dry_run), accesses, accesses.values()))


def _clean_existing(context: str, access: Access, *, dry_run: bool) -> None:
    """Remove holdback's objects from the cluster behind a context.

    Raises:
        ConfigurationError: a run of this machine is using the cluster.
        ClusterError: something does not go.
    """
    from holdback.clusters import Api  # noqa: PLC0415  not for `holdback --help`
    from holdback.clusters.existing import leftovers, remove  # noqa: PLC0415  likewise

    with closing(Api(access)) as api:
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


def _clean_kind(run: Run, *, dry_run: bool) -> None:
    """Remove kind clusters and images of runs that are over.

    Raises:
        ConfigurationError, ClusterError: the engine cannot be asked, or refuses.
    """
    from holdback.clusters.docker import Docker  # noqa: PLC0415  not for `holdback --help`
    from holdback.clusters.kind import leftovers  # noqa: PLC0415  likewise

    docker = Docker(run)
    found = leftovers(docker)
    for each in found:
        sys.stdout.write(f"{each.cluster}: {_fate(each, dry_run=dry_run)}\n")
        if each.ours and not dry_run:
            each.remove(docker)
    if not found:
        sys.stdout.write("no kind cluster of a run that is over\n")
    if not dry_run:
        docker.prune_images()


def _fate(leftover: Leftover, *, dry_run: bool) -> str:
    if not leftover.ours:
        return "of a run on another machine, left alone"
    return "would be removed" if dry_run else "is removed"
