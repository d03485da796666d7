"""How a client reaches a cluster and who it is there."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from holdback.certificates import write_private

__all__ = ["Access"]


@dataclass(frozen=True, slots=True)
class Access:
    """A server's URL, the authority to trust (PEM), and who one is there.

    That is a bearer token, or a client's `certificate`: a private PEM file with its key, where `token` is empty. A
    token that is good for minutes comes with `renew`, which is asked for the one of the moment before each request.
    """

    server: str
    ca: str = field(repr=False)
    token: str = field(repr=False)
    certificate: Path | None = None
    renew: Callable[[], str] | None = field(default=None, repr=False, compare=False)

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
                "users": [{"name": "user", "user": self._user()}],
                "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
                "current-context": "context",
            },
            sort_keys=False,
        )

    def _user(self) -> dict[str, str]:
        if self.certificate is None:
            return {"token": self.token}
        return dict.fromkeys(("client-certificate", "client-key"), str(self.certificate))

    def tls(self) -> ssl.SSLContext:
        """What a client's connections are made with: trusts this server alone."""
        context = ssl.create_default_context(cadata=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate)
        return context

    def headers(self) -> dict[str, str]:
        """What tells the server in each request who asks, if the connection does not."""
        token = self.renew() if self.renew else self.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def write(self, path: Path) -> Path:
        """Write the kubeconfig, readable by us alone (0600); its path."""
        return write_private(path, self.kubeconfig())

    def via(self, server: str, ca: str) -> Access:
        """The same credentials through another door."""
        return replace(self, server=server, ca=ca)
