"""Access is written where only we can read it, and shown nowhere."""

from __future__ import annotations

import base64
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from holdback.clusters import Access, Api
from holdback.clusters.kinds import PODS
from holdback.errors import ClusterError
from tests.clusters.server import Answer, scripted


def test_a_kubeconfig_holds_the_access(tmp_path: Path) -> None:
    """The file has the server, the authority and the token, and is ours alone (0600)."""
    access = Access("https://127.0.0.1:1", "PEM", "s3cret")
    path = access.write(tmp_path / "kubeconfig")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    config = yaml.safe_load(path.read_text())
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert config["users"][0]["user"] == {"token": "s3cret"}
    context = next(each for each in config["contexts"] if each["name"] == config["current-context"])["context"]
    assert context == {"cluster": config["clusters"][0]["name"], "user": config["users"][0]["name"]}


def test_a_token_is_not_shown() -> None:
    """The repr has no token."""
    assert "s3cret" not in repr(Access("https://127.0.0.1:1", "PEM", "s3cret"))


def test_another_door_has_the_same_key() -> None:
    """Another way in keeps the credentials and changes the rest."""
    assert Access("https://a", "A", "t").via("https://b", "B") == Access("https://b", "B", "t")


def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    """Requests and watches are let in by it, without a token; without it they are not."""

    def listed(answer: Answer) -> None:
        answer.say(
            {"items": [{"metadata": {"name": "a", "resourceVersion": "1"}}], "metadata": {"resourceVersion": "1"}}
        )

    with scripted(tmp_path, certified=True) as server:
        server.replies += [listed] * 2
        api = Api(server.access)
        assert [item["metadata"]["name"] for item in api.list(PODS)] == ["a"]
        change, item = next(api.watch(PODS, stop=threading.Event()))
        assert (change, item["metadata"]["name"]) == ("ADDED", "a")
        assert not any("Authorization" in asked.headers for asked in server.asked)
        with pytest.raises(ClusterError, match="no answer"):
            Api(replace(server.access, certificate=None)).list(PODS)
