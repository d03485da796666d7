"""Kueue is installed in an order that works, and started only once it will find everything at its first try."""

from __future__ import annotations

import base64
import stat
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509

from holdback.clusters.kinds import Kind
from holdback.clusters.protocols import Cluster
from holdback.controllers.kueue import installing
from holdback.controllers.kueue.hosting import Settings, Wanted
from holdback.controllers.kueue.manifests import Manifests
from holdback.controllers.kueue.outside import Installation, Outside
from holdback.controllers.kueue.source import KueueBuild
from holdback.errors import ClusterError, ConfigurationError
from holdback.process import Run


def manifest(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **rest}


def crd(plural: str) -> dict[str, Any]:
    spec = {"names": {"plural": plural}}
    return {**manifest("CustomResourceDefinition", f"{plural}.kueue.x-k8s.io"), "spec": spec}


HOOK = {"name": "m.kb.io", "rules": [], "clientConfig": {"service": {"path": "/mutate"}}}
MANIFESTS = Manifests(
    (
        manifest("ConfigMap", "config"),
        crd("workloads"),
        crd("cohorts"),
        manifest("MutatingWebhookConfiguration", "hooks", webhooks=[HOOK]),
        manifest("Namespace", "kueue-system"),
    ),
    {},
)


class FakeApi:
    """An API server that takes some time: a resource is not served so many times, before it is; -1: it is refused."""

    def __init__(self, **unserved: int) -> None:
        self.made: list[str] = []
        self.secrets: dict[str, dict[str, str]] = {}
        self.hooks: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.unserved = unserved
        self.discovered = [["workloads"], ["workloads", "cohorts"]]

    def create(self, kind: Kind, body: dict[str, Any]) -> None:
        self.made.append(kind.kind)
        if kind.kind == "Secret":
            self.secrets[body["metadata"]["name"]] = body["data"]
        self.hooks += body.get("webhooks", ())

    def get(self, kind: Kind, _name: str) -> dict[str, Any]:
        self.asked.append(kind.path())
        found = self.discovered.pop(0) if len(self.discovered) > 1 else self.discovered[0]
        return {"resources": [{"name": name} for name in found]}

    def serves(self, kind: Kind) -> bool:
        self.asked.append(kind.path())
        left = self.unserved.get(kind.plural, 0)
        if left < 0:
            raise ClusterError("refused", status=403)
        self.unserved[kind.plural] = max(0, left - 1)
        return left == 0

    def token(self, account: str, namespace: str) -> str:
        return f"token of {namespace}/{account}"


def _folder(directory: Path, name: str) -> Path:
    (directory / name).mkdir(mode=0o700)
    return directory / name


def install(
    api: FakeApi, directory: Path, *, address: str = "127.0.0.1", pipe: Callable[[int], int] | None = None
) -> Installation:
    ports = count(20000)
    run = SimpleNamespace(folder=partial(_folder, directory), port=lambda: next(ports))
    wanted = Wanted("kueue", cast("KueueBuild", SimpleNamespace()), MANIFESTS, Settings())
    return Outside(cast("Run", run), address).install(cast("Cluster", SimpleNamespace(api=api)), wanted, pipe)


def test_the_namespace_is_there_before_what_lies_in_it(tmp_path: Path) -> None:
    """The namespace is made alone and first, everything else and Kueue's Secret after it."""
    api = FakeApi()
    install(api, tmp_path)
    assert api.made[0] == "Namespace"
    crds = ["CustomResourceDefinition", "CustomResourceDefinition"]
    assert sorted(api.made[1:]) == ["ConfigMap", *crds, "MutatingWebhookConfiguration", "Secret"]


def test_kueue_keeps_the_certificates_that_its_webhooks_are_known_by(tmp_path: Path) -> None:
    """The Secret and the private files hold the same certificates, so Kueue's own rotation finds nothing to do."""
    api = FakeApi()
    installation = install(api, tmp_path)
    files = {path.name: path.read_text() for path in installation.certificates.iterdir()}
    assert files.keys() == {"tls.crt", "tls.key", "ca.crt", "ca.key"}
    secret = api.secrets["kueue-webhook-server-cert"]
    assert {name: base64.b64decode(data).decode() for name, data in secret.items()} == files
    assert {stat.S_IMODE(path.stat().st_mode) for path in installation.certificates.iterdir()} == {0o600}


def test_the_webhooks_are_where_the_api_server_reaches_them(tmp_path: Path) -> None:
    """They are asked at our address, with a certificate for it; through a pipe only where that is loopback."""
    api = FakeApi()
    installation = install(api, tmp_path, address="192.0.2.1")
    (url,) = {hook["clientConfig"]["url"] for hook in api.hooks}
    assert url == f"https://192.0.2.1:{installation.webhook_port}/mutate"
    certificate = x509.load_pem_x509_certificate((installation.certificates / "tls.crt").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(ip) for ip in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "192.0.2.1"}
    with pytest.raises(ConfigurationError, match="cannot have a lane"):
        install(FakeApi(), tmp_path, address="192.0.2.1", pipe=lambda port: port)


def test_no_token_is_shown(tmp_path: Path) -> None:
    """Kueue runs as its own service account, whose token is not in the installation's repr."""
    installation = install(FakeApi(), tmp_path)
    assert installation.token == "token of kueue-system/kueue-controller-manager"
    assert "token of" not in repr(installation)


def test_every_resource_is_discovered_and_listed_before_the_start(tmp_path: Path) -> None:
    """A resource that is not there yet, or whose cache is not, is asked again until it answers."""
    api = FakeApi(workloads=1, cohorts=1)
    install(api, tmp_path)
    group = "/apis/kueue.x-k8s.io/v1beta2"
    # the second question shows cohorts, which are refused then
    assert api.asked[:2] == [group, f"{group}/workloads"]
    assert [api.asked.count(f"{group}/{plural}") for plural in ("workloads", "cohorts")] == [2, 2]
    assert api.asked.count(group) == 3


def test_another_refusal_is_no_matter_of_patience(tmp_path: Path) -> None:
    """A refusal that time does not heal ends the installation at once."""
    with pytest.raises(ClusterError, match="refused") as error:
        install(FakeApi(workloads=-1), tmp_path)
    assert error.value.status == 403


def test_what_is_never_served_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When time is up the error names the resources that are missing."""
    monkeypatch.setattr(installing, "_SERVED_WITHIN", 0.0)
    api = FakeApi()
    api.discovered = [["workloads"]]
    with pytest.raises(ClusterError, match=r"not served as kueue.x-k8s.io/v1beta2 after 0 s: cohorts\n"):
        install(api, tmp_path)
