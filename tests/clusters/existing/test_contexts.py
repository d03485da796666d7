"""Only contexts that were named and allowed are used, and what they cannot give is said."""

from __future__ import annotations

import base64
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdback.certificates import Authority
from holdback.clusters.api import Api
from holdback.clusters.existing.contexts import Contexts, access_to
from holdback.errors import ConfigurationError

AUTHORITY = Authority.create("cluster")
CA = base64.b64encode(AUTHORITY.pem.encode()).decode()
CLUSTER = {"server": "https://cluster.example:6443", "certificate-authority-data": CA}


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the kubeconfig is looked for."""
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def write(path: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> None:
    """A kubeconfig with that user in the context `mine`; the current one is another."""
    entries = {"mine": (user, cluster or CLUSTER), "production": ({"token": "never"}, CLUSTER)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": found} for name, (_, found) in entries.items()],
        "users": [{"name": name, "user": found} for name, (found, _) in entries.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in entries],
        "current-context": "production",
    }
    path.write_text(yaml.safe_dump(config))


def plugin(path: Path, *lines: str) -> dict[str, Any]:
    """A user whose credentials a program gives."""
    path.write_text("\n".join(["import json, sys", *lines]))
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(path)], "interactiveMode": "Never"}}


def test_a_token(kubeconfig: Path, tmp_path: Path) -> None:
    """The named context's server, authority and token are taken, not those of the current one."""
    write(kubeconfig, {"token": "s3cret"})
    access = access_to("mine", tmp_path)
    assert (access.server, access.ca, access.token) == ("https://cluster.example:6443", AUTHORITY.pem, "s3cret")
    assert access.headers() == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(access)


def test_a_client_certificate(kubeconfig: Path, tmp_path: Path) -> None:
    """It goes with the connection and not into headers, from a file that only we can read."""
    leaf = AUTHORITY.issue("me", ips=[])
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in (("c", leaf.pem), ("k", leaf.key_pem))}
    write(kubeconfig, {"client-certificate-data": encoded["c"], "client-key-data": encoded["k"]})
    access = access_to("mine", tmp_path)
    assert access.headers() == {}
    assert access.certificate is not None
    assert access.certificate.parent == tmp_path
    assert stat.S_IMODE(access.certificate.stat().st_mode) == 0o600
    Api(access).close()  # a certificate that does not fit its key would be refused here
    config = yaml.safe_load(access.kubeconfig())
    assert config["users"][0]["user"] == dict.fromkeys(("client-certificate", "client-key"), str(access.certificate))


def test_an_exec_plugin(kubeconfig: Path, tmp_path: Path) -> None:
    """It is run, and its token taken; when it fails its words are told."""
    status = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "made"}}
    write(kubeconfig, plugin(tmp_path / "good.py", f"print(json.dumps({status!r}))"))
    assert access_to("mine", tmp_path).token == "made"
    write(kubeconfig, plugin(tmp_path / "bad.py", "sys.exit('you are not logged in')"))
    with pytest.raises(ConfigurationError, match=r"no token and no client certificate.*you are not logged in") as error:
        access_to("mine", tmp_path)
    assert "kubectl --context mine" in error.value.remedy


def test_a_token_that_expires(kubeconfig: Path, tmp_path: Path) -> None:
    """The plugin is run again when its token has expired, whoever asks, and not before."""
    program = [
        "import datetime, pathlib",
        f"count = pathlib.Path({str(tmp_path / 'count')!r})",
        "times = int(count.read_text()) + 1 if count.exists() else 1",
        "count.write_text(str(times))",
        "life = datetime.timedelta(hours=1 if times == 3 else -1)",
        "end = (datetime.datetime.now(datetime.timezone.utc) + life).strftime('%Y-%m-%dT%H:%M:%SZ')",
        "status = {'token': f'made{times}', 'expirationTimestamp': end}",
        "credential = {'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential', 'status': status}",
        "print(json.dumps(credential))",
    ]
    write(kubeconfig, plugin(tmp_path / "short.py", *program))
    access = access_to("mine", tmp_path)
    assert access.token == "made1"
    elsewhere = access.via("https://elsewhere.example", access.ca)
    told = [each.headers()["Authorization"] for each in (access, elsewhere, access, elsewhere)]
    assert told == ["Bearer made2", "Bearer made3", "Bearer made3", "Bearer made3"]


@pytest.mark.parametrize(
    ("user", "cluster", "complaint"),
    [
        ({"token": "t"}, {**CLUSTER, "server": "http://a"}, "its server is http://a"),
        ({"token": "t"}, {"server": "https://a", "insecure-skip-tls-verify": True}, "does not verify the server"),
        ({"token": "t"}, {"server": "https://a"}, "names no certificate authority"),
        ({"token": "t"}, {**CLUSTER, "proxy-url": "http://proxy"}, "goes through the proxy http://proxy"),
        ({"token": "t"}, {**CLUSTER, "tls-server-name": "b"}, "has the tls-server-name b"),
        ({"username": "me", "password": "guess"}, CLUSTER, "no token and no client certificate"),
        ({}, CLUSTER, "no token and no client certificate"),
    ],
)
def test_what_is_not_supported(
    kubeconfig: Path, tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], complaint: str
) -> None:
    """It is refused in words, and no secret is among them."""
    write(kubeconfig, user, cluster)
    with pytest.raises(ConfigurationError, match=f"context mine.*{complaint}") as error:
        access_to("mine", tmp_path)
    assert error.value.remedy
    assert "guess" not in str(error.value)


def test_no_such_context(kubeconfig: Path, tmp_path: Path) -> None:
    """A context that is not there, or no kubeconfig at all, is told with what to do."""
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="context yours of") as error:
            access_to("yours", tmp_path)
        assert "get-contexts" in error.value.remedy
        write(kubeconfig, {"token": "t"})


@pytest.mark.parametrize("text", ["clusters: [\n", "just words\n", "clusters: 3\n", "users: [me]\n", ""])
def test_no_kubeconfig_at_all(kubeconfig: Path, tmp_path: Path, text: str) -> None:
    """Broken YAML, and YAML that is something else, are told with the file's name and what to do."""
    kubeconfig.write_text(text)
    with pytest.raises(ConfigurationError, match=f"context mine of {kubeconfig}: .") as error:
        access_to("mine", tmp_path)
    assert "kubectl config" in error.value.remedy
    assert "\n" not in error.value.message


def test_an_authority_that_is_none(kubeconfig: Path, tmp_path: Path) -> None:
    """What is no certificate is told before anything is asked, as is a client's certificate with another's key."""
    none = base64.b64encode(b"no certificate").decode()
    write(kubeconfig, {"token": "s3cret"}, {**CLUSTER, "certificate-authority-data": none})
    with pytest.raises(ConfigurationError, match="context mine: its certificates are of no use") as error:
        access_to("mine", tmp_path)
    assert "s3cret" not in str(error.value)
    mine, others = (AUTHORITY.issue(name, ips=[]) for name in ("me", "another"))
    user = {"client-certificate-data": mine.pem, "client-key-data": others.key_pem}
    write(kubeconfig, {name: base64.b64encode(text.encode()).decode() for name, text in user.items()})
    with pytest.raises(ConfigurationError, match="context mine: its certificates are of no use"):
        access_to("mine", tmp_path)


def test_only_what_is_allowed() -> None:
    """Each context must be allowed by its name, whatever its role; the remedy says how."""
    Contexts(("a", "b"), ("c",), ("c", "b", "a", "d")).check()
    with pytest.raises(ConfigurationError, match=r"not allowed to touch: b, c\n") as error:
        Contexts(("a", "b"), ("c",), ("a",)).check()
    assert "--allow-context=b --allow-context=c" in error.value.remedy


def test_none_is_taken_by_itself() -> None:
    """Without a name there is no context, also when all are allowed."""
    with pytest.raises(ConfigurationError, match="none is ever taken by itself"):
        Contexts((), (), ("a",)).check()


def test_one_role_each() -> None:
    """A context that was named twice is refused."""
    with pytest.raises(ConfigurationError, match="named more than once: a"):
        Contexts(("a", "b"), ("a",), ("a", "b")).check()


def test_contexts_are_assigned_in_order() -> None:
    """The first manager is the first arm's, further ones are left alone, and a lack names option and role."""
    contexts = Contexts(("a", "b", "more"), ("c",), ())
    assert contexts.assigned(["control", "treatment"], ["w1"]) == {"control": "a", "treatment": "b", "w1": "c"}
    with pytest.raises(ConfigurationError, match=r"needs 2 clusters that both arms share .w1, w2., --worker-context"):
        contexts.assigned(["control", "treatment"], ["w1", "w2"])
