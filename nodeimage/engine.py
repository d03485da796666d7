"""A Docker engine started by hand, for machines where none runs and no service manager would start one.

It lives in a process namespace and a mount namespace of its own. Killed, it takes every container with it and leaves no
mount behind; the next start finds a disk as after a power cut, which engines are made for. What it keeps, its images
among them, is in `home()`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from holdback.errors import ConfigurationError
from holdback.process import await_ready, open_run, start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdback.process import Run

__all__ = ["answers", "can_start", "engine", "home"]

_RUNTIME = Path(__file__).with_name("files") / "runtime"
_READY_WITHIN = 60.0
_STOP_WITHIN = 30.0
_SYS_RESOURCE = 24  # the number of the capability in <linux/capability.h>
_PACKAGES = "apt-get install docker.io debootstrap"
_INOTIFY = "fs/inotify/max_user_instances"
_INSTANCES = 1024
"""Enough for a dozen clusters, each of which takes about 30; the usual 128 is used up by four."""
_CHANGED = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "net/ipv4/ip_forward", _INOTIFY)
"""What a kubelet, the engine and we set for the whole machine."""


def home() -> Path:
    """Where it keeps everything: `HOLDBACK_ENGINE`, else a folder below /var/lib."""
    return Path(os.environ.get("HOLDBACK_ENGINE", "/var/lib/holdback-engine")).absolute()


def answers(environment: Mapping[str, str]) -> bool:
    """Whether there is an engine that answers us."""
    if shutil.which("docker") is None:
        return False
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(asked, env={**os.environ, **environment}, capture_output=True, check=False).returncode == 0


def can_start() -> bool:
    """Whether one could be started here."""
    return not _missing()


def _missing() -> str:
    """What stands in the way, empty if nothing does."""
    if sys.platform != "linux":
        return "it needs Linux"
    if os.geteuid() != 0:
        return "it needs root"
    needed = ("docker", "dockerd", "docker-init", "runc", "iptables", "unshare", "sysctl")
    absent = [name for name in needed if shutil.which(name) is None]
    return f"there is no {', '.join(absent)}" if absent else ""


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """An engine: the one that answers already, else one of our own; what a child needs in its environment to reach it.

    Raises:
        ConfigurationError: none answers, and none can be started.
        ProcessExited, NotReady: it did not come up; with the end of its log.
    """
    if answers({}):
        yield {}
        return
    if missing := _missing():
        raise ConfigurationError(
            f"no Docker engine answers, and none can be started: {missing}",
            remedy=f"start yours and see that `docker info` works; or, as root on Debian: {_PACKAGES}",
        )
    home().mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(), open_run(logs=home() / "logs") as run, _machine_as_before(run), _daemon(run) as environment:
        yield environment


@contextmanager
def _alone() -> Iterator[None]:
    """A second engine would make the rules of the first one's networks anew, and end them when it ends."""
    lock = FileLock(home() / "lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise ConfigurationError(
            f"the engine in {home()} is in use", remedy="wait for the run that started it to end"
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _machine_as_before(run: Run) -> Iterator[None]:
    """Raises the limit on inotify instances; at the end all that is set for the whole machine is as it was."""
    before = {name: path.read_text().strip() for name in _CHANGED if (path := Path("/proc/sys", name)).exists()}
    back = ["sysctl", "--quiet", "--write", *(f"{name}={value}" for name, value in before.items())]
    with run.if_killed(back):
        if int(before.get(_INOTIFY, _INSTANCES)) < _INSTANCES:
            Path("/proc/sys", _INOTIFY).write_text(str(_INSTANCES))
        try:
            yield
        finally:
            subprocess.run(back, check=False)


@contextmanager
def _daemon(run: Run) -> Iterator[dict[str, str]]:
    state, socket = home() / "exec", home() / "docker.sock"
    shutil.rmtree(state, ignore_errors=True)  # of processes that are gone, whose numbers are others' now
    for left in (socket, home() / "pid"):
        left.unlink(missing_ok=True)
    environment = {"DOCKER_HOST": f"unix://{socket}"}
    daemon = start(run, "dockerd", [*_namespaces(), "docker-init", "--", "dockerd", *_flags(state, socket)])
    try:
        await_ready(daemon, partial(answers, environment), within=_READY_WITHIN, what="docker version", every=0.2)
        _remove_containers(environment)
        with ExitStack() as after:
            after.callback(_remove_networks, environment)
            after.callback(_remove_containers, environment)
            yield environment
    finally:
        daemon.stop(_STOP_WITHIN)


def _namespaces() -> list[str]:
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def _flags(state: Path, socket: Path) -> list[str]:
    configuration = home() / "daemon.json"
    configuration.write_text("{}")  # the machine's own in /etc/docker is for another engine
    flags = [
        f"--config-file={configuration}",
        f"--data-root={home() / 'data'}",
        f"--exec-root={state}",
        f"--host=unix://{socket}",
        f"--pidfile={home() / 'pid'}",
        "--bridge=none",  # kind has a network of its own, and images are built without one
    ]
    if not _may_give(_SYS_RESOURCE):
        flags += [f"--add-runtime=modest={_RUNTIME}", "--default-runtime=modest"]
    return flags


def _may_give(capability: int) -> bool:
    """Whether the bounding set has it: without that no container can get it."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(status["CapBnd"].strip(), 16) >> capability & 1)


def _remove_containers(environment: Mapping[str, str]) -> None:
    listed = _docker(environment, "ps", "--all", "--quiet")
    if listed:
        _docker(environment, "rm", "--force", "--volumes", *listed)


def _remove_networks(environment: Mapping[str, str]) -> None:
    _docker(environment, "network", "prune", "--force")


def _docker(environment: Mapping[str, str], *words: str) -> list[str]:
    done = subprocess.run(
        ["docker", *words], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.stdout.split()
