"""How a client reaches a cluster and who it is there."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from holdback.certificates import write_private

__all__ = ["Access"]


@dataclass(frozen=True, slots=True)
class Access:
    """A server's URL, the authority to trust (PEM), and a bearer token."""

    server: str
    ca: str = field(repr=False)
    token: str = field(repr=False)

    def kubeconfig(self) -> str:
        """The same as the text of a kubeconfig file."""
        authority = base64.b64encode(self.ca.encode()).decode()
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "cluster", "cluster": {"server": self.server, "certificate-authority-data": authority}}
                ],
                "users": [{"name": "user", "user": {"token": self.token}}],
                "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
                "current-context": "context",
            },
            sort_keys=False,
        )

    def write(self, path: Path) -> Path:
        """Write the kubeconfig, readable by us alone (0600); its path."""
        return write_private(path, self.kubeconfig())

    def via(self, server: str, ca: str) -> Access:
        """The same credentials through another door."""
        return replace(self, server=server, ca=ca)
