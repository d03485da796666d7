"""Real kind clusters without an image registry: `python -m nodeimage --help`.

A test aid of this repository and no part of holdback: whoever can pull kind's own node images needs none of it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries import Binaries
from holdback.binaries.pins import pin, pins, pins_in
from holdback.binaries.workshop import Source
from holdback.errors import HoldbackError
from holdback.process import Run, open_run
from nodeimage.engine import can_start, engine, home
from nodeimage.node import EXECUTABLES, write_node
from nodeimage.workbench import Workbench

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdback.binaries.progress import Task

_HERE = Path(__file__).parent
_PINNED = {**pins(), **pins_in(_HERE / "pins")}
_VERSION = pin("kube-apiserver").version
IMAGE = f"holdback/node:{_VERSION}"
_ENTRY = "kind-node"
_ARCHIVE = "node.tar"
_MAKE_IT = ("files/*", "pause/*", "archive.py", "containers.py", "debian.py", "node.py")

_EXPLANATION = f"""\
build            build the node image {IMAGE}, from Go modules and Debian packages, into the cache of executables
with COMMAND     run a command with a Docker engine that has the image: the one that answers, else one started for it;
                 the command finds the engine by DOCKER_HOST, and gets the image's name wherever it says {{image}}
ready            exit code 0 if `with` would need no build and could have an engine

Needs root, and Debian's packages docker.io and debootstrap. From nothing the build takes most of an hour on two cores;
what it compiles is shared with holdback's own executables.
"""


def main(argv: Sequence[str]) -> int:
    """Run one of the three commands; its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m nodeimage", description=_EXPLANATION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("build", "with", "ready"))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    if (arguments.what == "with") != bool(arguments.command):
        parser.error("`with` takes a command, the others none")
    try:
        return _COMMANDS[arguments.what](arguments.command)
    except HoldbackError as error:
        sys.stderr.write(f"nodeimage: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _build(_: Sequence[str]) -> int:
    _made()
    return 0


def _ready(_: Sequence[str]) -> int:
    there = Binaries(pinned=_PINNED).workshop.cache.find(_ENTRY, _key())
    return 0 if there and can_start() else 1


def _with(command: Sequence[str]) -> int:
    archive = _made()
    with engine() as environment:
        told = {**os.environ, **environment}
        if _key() not in _label(told):
            subprocess.run(["docker", "load", "--quiet", "--input", archive], env=told, check=True)
        words = [word.replace("{image}", IMAGE) for word in command]
        return subprocess.run(words, env=told, check=False).returncode


_COMMANDS = {"build": _build, "ready": _ready, "with": _with}


def _label(environment: Mapping[str, str]) -> str:
    """The key of the build that the engine has, empty if it has none."""
    asked = ["docker", "image", "inspect", "--format", "{{json .Config.Labels}}", IMAGE]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, check=False).stdout


def _key() -> str:
    """Changes when the image would."""
    digest = hashlib.sha256()
    for name in EXECUTABLES:
        digest.update(pin(name, _PINNED).key.encode())
    for path in sorted(path for pattern in _MAKE_IT for path in _HERE.glob(pattern)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _made() -> Path:
    """The image's archive, built now if need be."""
    home().mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_run(logs=home() / "logs") as run:
        binaries = Binaries(pinned=_PINNED, environment=run.environment)
        fill = partial(_fill, run, binaries)
        return binaries.workshop.make(_ENTRY, _key(), fill, title=IMAGE) / _ARCHIVE


def _fill(run: Run, binaries: Binaries, entry: Path, scratch: Path, task: Task) -> None:
    task.note = "building executables"
    workshop = binaries.workshop
    executables = {**binaries.get(*EXECUTABLES), "pause": scratch / "pause"}
    own = Source("pause", _HERE / "pause", ".", {}, "nothing else will do")
    workshop.compile(own, executables["pause"], scratch, task)
    kind = pin("kind")
    source = workshop.module(kind.package, kind.version, cwd=kind.directory, scratch=scratch)
    bench = Workbench(run, workshop, executables, source, scratch)
    write_node(bench, entry / _ARCHIVE, name=IMAGE, version=_VERSION, key=_key(), task=task)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
