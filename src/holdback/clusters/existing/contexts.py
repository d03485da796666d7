"""Contexts of the user's kubeconfig: which ones may be used, and the way in that they give.

What a kubeconfig means is the business of the official client, which also runs exec plugins, again when a token of
theirs has expired. The file itself is read once.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdback.certificates import write_private
from holdback.clusters.access import Access
from holdback.errors import ConfigurationError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

__all__ = ["Contexts", "access_to"]

_DEFAULT = "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts that a run was given: of clusters for one arm each, of clusters that the arms share, and allowed."""

    managers: tuple[str, ...]
    workers: tuple[str, ...]
    allowed: tuple[str, ...]

    def check(self) -> None:
        """Refuse what was not allowed by name, and what was named twice.

        Raises:
            ConfigurationError: the message names the contexts.
        """
        named = (*self.managers, *self.workers)
        if not self.managers:
            raise ConfigurationError(
                "no context of an existing cluster was named, and none is ever taken by itself",
                remedy="name one for each arm with --manager-context, and those that the arms share with "
                "--worker-context; each must also be allowed with --allow-context",
            )
        if refused := [name for name in dict.fromkeys(named) if name not in self.allowed]:
            options = " ".join(f"--allow-context={name}" for name in refused)
            raise ConfigurationError(
                f"not allowed to touch: {', '.join(refused)}",
                remedy="holdback installs and removes CustomResourceDefinitions, webhooks and roles there. If these "
                f"clusters are for that, and nobody depends on them: {options}, or holdback_allowed_contexts",
            )
        if twice := sorted({name for name in named if named.count(name) > 1}):
            raise ConfigurationError(
                f"named more than once: {', '.join(twice)}",
                remedy="a cluster has room for one controller under test: give every role a cluster of its own",
            )

    def assigned(self, managers: Sequence[str], workers: Sequence[str]) -> dict[str, str]:
        """The context of each of a world's clusters, by their names; in the order in which they were given.

        Raises:
            ConfigurationError: there are not enough.
        """
        for role, option, names, contexts in (
            ("for one arm each", "--manager-context", managers, self.managers),
            ("that both arms share", "--worker-context", workers, self.workers),
        ):
            if len(contexts) < len(names):
                raise ConfigurationError(
                    f"this experiment needs {len(names)} clusters {role} ({', '.join(names)}), {option} names "
                    f"{len(contexts)}",
                    remedy=f"repeat {option}, or run it with `--clusters local`",
                )
        return dict(zip(managers, self.managers, strict=False)) | dict(zip(workers, self.workers, strict=False))


def access_to(context: str, directory: Path) -> Access:
    """The way in that a context of the user's kubeconfig gives; private files that it needs go to `directory`.

    Raises:
        ConfigurationError: there is no such context, or it needs what is not supported.
    """
    from kubernetes.client import Configuration  # noqa: PLC0415  takes a second to import
    from kubernetes.config import ConfigException, load_kube_config  # noqa: PLC0415

    files = os.environ.get("KUBECONFIG") or _DEFAULT
    found = Configuration()
    complaints = _Complaints()
    logging.getLogger().addHandler(complaints)  # it logs why an exec plugin failed, and goes on
    try:
        load_kube_config(  # type: ignore[no-untyped-call]
            files, context=context, client_configuration=found, persist_config=False, temp_file_path=str(directory)
        )
    except (ConfigException, OSError, ValueError) as error:
        raise ConfigurationError(
            f"context {context} of {files}: {error}", remedy="`kubectl config get-contexts` shows what there is"
        ) from error
    except Exception as error:  # broken YAML; or it trips over what a file has in place of a list, each time otherwise
        raise ConfigurationError(
            f"context {context} of {files}: no kubeconfig: {type(error).__name__}: {' '.join(str(error).split())}",
            remedy="`kubectl config view` must be able to read it",
        ) from error
    finally:
        logging.getLogger().removeHandler(complaints)
    access = _access(context, found, directory, "; ".join(complaints.heard))
    try:
        access.tls()
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"context {context}: its certificates are of no use: {error}",
            remedy=f"`kubectl --context {context} get namespaces` must work: see its authority and its user's",
        ) from error
    return access


class _Complaints(logging.Handler):
    """Remembers errors that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


def _access(context: str, found: Configuration, directory: Path, complaint: str) -> Access:
    for wrong, remedy in _unsupported(found):
        if wrong:
            raise ConfigurationError(f"context {context}: {wrong}", remedy=remedy)
    ca = Path(str(found.ssl_ca_cert)).read_text(encoding="utf-8")
    if token := _token(found):
        return Access(found.host, ca, token, renew=_Renewal(found).token)
    if found.cert_file and found.key_file:
        both = Path(found.cert_file).read_text(encoding="utf-8") + Path(found.key_file).read_text(encoding="utf-8")
        # Contexts of one user name may be several, in several files: the directory is the run's, the name free.
        return Access(found.host, ca, "", write_private(directory / f"client-{abs(hash(both)):x}.pem", both))
    raise ConfigurationError(
        f"context {context} has no token and no client certificate{': ' + complaint if complaint else ''}",
        remedy=f"`kubectl --context {context} get namespaces` must work; user names with passwords are not supported",
    )


class _Renewal:
    """The token of the moment, for any thread."""

    def __init__(self, found: Configuration) -> None:
        self._found = found
        self._lock = threading.Lock()

    def token(self) -> str:
        with self._lock:  # the client's own way of renewing is for one thread
            if self._found.refresh_api_key_hook is not None:
                self._found.refresh_api_key_hook(self._found)
            return _token(self._found)


def _token(found: Configuration) -> str:
    # Which of the names it is depends on the version of the client.
    given: dict[str, Any] = found.api_key
    scheme, _, token = str(given.get("BearerToken") or given.get("authorization") or "").partition(" ")
    return token if scheme == "Bearer" else ""


def _unsupported(found: Configuration) -> list[tuple[str, str]]:
    proxy, name = getattr(found, "proxy", None), getattr(found, "tls_server_name", None)
    return [
        (
            "" if str(found.host).startswith("https://") else f"its server is {found.host}",
            "only https is supported",
        ),
        (
            "" if found.verify_ssl else "it does not verify the server (insecure-skip-tls-verify)",
            "give certificate-authority-data instead: tokens are not sent to whoever answers",
        ),
        (
            "" if found.ssl_ca_cert or not found.verify_ssl else "it names no certificate authority",
            "give certificate-authority or certificate-authority-data",
        ),
        (f"it goes through the proxy {proxy}" if proxy else "", "a proxy is not supported: reach the server directly"),
        (f"it has the tls-server-name {name}" if name else "", "give a server whose certificate has its address"),
    ]
