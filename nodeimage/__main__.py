"""Real kind clusters without an image registry: `python -m nodeimage --help`.

A test aid of this repository and no part of holdback: whoever can pull kind's own node images needs none of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from holdback.errors import HoldbackError
from holdback.process import open_run
from nodeimage.engine import can_start, engine, home
from nodeimage.images import IMAGES, NODE, binaries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_EXPLANATION = f"""\
build IMAGE...   build `node`, the node image {NODE}, from Go modules and Debian packages, or `experiments`, the
                 image of deploy/Containerfile, into the cache of executables
with COMMAND     run a command with a Docker engine that has the node image: the one that answers, else one started for
                 it. The command finds the engine by DOCKER_HOST, and gets the name of the node image wherever it says
                 {{node}}, and an archive of the other one wherever it says {{experiments}}
ready IMAGE...   exit code 0 if `with` would need to build none of these, and could have an engine

Needs root, and Debian's packages docker.io and debootstrap, for `experiments` buildah too. From nothing the node image
takes most of an hour on two cores, the other half of one; what is compiled is shared with holdback's own executables.
"""


def main(argv: Sequence[str]) -> int:
    """Run one of the three commands; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m nodeimage", description=_EXPLANATION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("build", "with", "ready"))
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="IMAGE|COMMAND")
    arguments = parser.parse_args(argv)
    if not arguments.words or (arguments.what != "with" and not set(arguments.words) <= set(IMAGES)):
        parser.error(f"`with` takes a command, the others one or more of {', '.join(IMAGES)}")
    try:
        return _COMMANDS[arguments.what](arguments.words)
    except HoldbackError as error:
        sys.stderr.write(f"nodeimage: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _build(names: Sequence[str]) -> int:
    _made(names)
    return 0


def _ready(names: Sequence[str]) -> int:
    return 0 if all(IMAGES[name].there for name in names) and can_start() else 1


def _with(command: Sequence[str]) -> int:
    archives = _made(["node", *(name for name in IMAGES if any(f"{{{name}}}" in word for word in command))])
    with engine() as environment:
        told = {**os.environ, **environment}
        if IMAGES["node"].key() not in _label(told):
            subprocess.run(["docker", "load", "--quiet", "--input", archives["node"]], env=told, check=True)
        words = [_filled(word, {**archives, "node": NODE}) for word in command]
        return subprocess.run(words, env=told, check=False).returncode


_COMMANDS = {"build": _build, "ready": _ready, "with": _with}


def _filled(word: str, values: Mapping[str, str | Path]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", str(value))
    return word


def _label(environment: Mapping[str, str]) -> str:
    """The key of the build that the engine has, empty if it has none."""
    asked = ["docker", "image", "inspect", "--format", "{{json .Config.Labels}}", NODE]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, check=False).stdout


def _made(names: Sequence[str]) -> dict[str, Path]:
    """The archives of these images by name, built now if need be."""
    home().mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_run(logs=home() / "logs") as run:
        executables = binaries(run.environment)
        return {name: IMAGES[name].made(run, executables) for name in names}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
