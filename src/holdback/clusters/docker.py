"""The Docker engine, asked through its own command; what it refuses becomes an error with cause and remedy."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from holdback.errors import ClusterError, ConfigurationError
from holdback.process import Run

__all__ = ["Docker"]

_LABEL = "holdback"
"""Carried by the images that we build."""
_INSTEAD = "or take `--clusters local`, which needs no Docker"
_REFUSALS = (
    (
        "permission denied",
        "this account may not use the Docker engine",
        "add it to the group `docker` (sudo usermod -aG docker $USER, then log in again), or run as root",
    ),
    (
        r"cannot connect|connection refused|no such file or directory|error during connect",
        "the Docker engine does not run, or is elsewhere",
        "start it (sudo systemctl start docker, or Docker Desktop), or name its socket in DOCKER_HOST",
    ),
)


@dataclass(frozen=True, slots=True)
class Docker:
    """The engine that the `docker` command finds. Commands that it runs end with the run."""

    run: Run

    def check(self) -> None:
        """Whether there is an engine that answers us.

        Raises:
            ConfigurationError: there is none, or it may not be used.
        """
        if shutil.which("docker") is None:
            raise ConfigurationError(
                "there is no `docker` on the PATH, which kind needs", remedy=f"install a Docker engine, {_INSTEAD}"
            )
        done = self._call(["version", "--format", "{{.Server.Version}}"])
        if done.returncode == 0:
            return
        words = done.stderr.strip()
        for pattern, cause, remedy in _REFUSALS:
            if re.search(pattern, words, re.IGNORECASE):
                raise ConfigurationError(f"{cause}: {words}", remedy=f"{remedy}, {_INSTEAD}")
        raise ConfigurationError(f"the Docker engine does not answer: {words}", remedy=f"see `docker info`, {_INSTEAD}")

    def __call__(self, *words: str | Path) -> str:
        """Run one of its commands; what it wrote.

        Raises:
            ClusterError: it failed; with its words.
        """
        done = self._call(words)
        if done.returncode != 0:
            raise ClusterError(
                f"docker {' '.join(map(str, words[:3]))} failed: {done.stderr.strip() or done.stdout.strip()}",
                remedy="its words name the cause; `docker info` and the engine's log tell more",
            )
        return done.stdout

    def gateway(self, network: str) -> str:
        """Find the IPv4 address that this machine has on a network of the engine, which is made if it is not there.

        Raises:
            ConfigurationError: the engine runs on another machine, or in one of its own.
            ClusterError: there can be no such network.
        """
        if self._call(["network", "inspect", network]).returncode != 0:
            self("network", "create", "--driver=bridge", network)
        ranges = json.loads(self("network", "inspect", "--format", "{{json .IPAM.Config}}", network))
        gateways = [str(each["Gateway"]).partition("/")[0] for each in ranges if each.get("Gateway")]
        address = next((each for each in gateways if ip_address(each).version == 4), "")
        if not address or not _ours(address):
            raise ConfigurationError(
                f"the Docker network {network} has no address on this machine (its gateways: {gateways or 'none'})",
                remedy=f"the engine must run right here, not in a virtual machine as with Docker Desktop, {_INSTEAD}",
            )
        return address

    def wrap(self, image: str, executable: Path, folder: Path) -> None:
        """Build an image of one static executable, which it starts as a plain user.

        Args:
            image: its name.
            executable: is copied into it as `/manager`.
            folder: for what the engine is to be sent.

        Raises:
            ClusterError: it cannot be built.
        """
        shutil.copy(executable, folder / "manager")
        (folder / "Dockerfile").write_text(
            "FROM scratch\n"
            f"LABEL {_LABEL}=controller\n"
            "COPY --chown=0:0 manager /manager\n"
            "USER 65532:65532\n"
            'ENTRYPOINT ["/manager"]\n'
        )
        self("build", "--quiet", "--tag", image, folder)
        (folder / "manager").unlink()

    def prune_images(self) -> str:
        """Remove the images that `wrap` built and no container uses; what the engine says of that."""
        return self("image", "prune", "--all", "--force", "--filter", f"label={_LABEL}=controller")

    def _call(self, words: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", *words],
            env={**os.environ, **self.run.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def _ours(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
