"""Telling a Kueue from what is none, by its own words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdback.binaries import Binaries
from holdback.controllers.kueue import ready
from holdback.controllers.kueue.ready import check_ready
from holdback.errors import ConfigurationError

HELP = "Usage of kueue:\n  \x1b[1m-config\x1b[0m string\n        \tthe file\n  -zap-log-level value\n"
OTHER = bytes.fromhex("7f454c4602010100") + bytes(8) + bytes.fromhex("0200f300") + bytes(100)
"""The beginning of an executable for RISC-V."""


def executable(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(0o755)
    return path


def script(code: str) -> str:
    return f"#!{sys.executable}\nimport sys, time\n{code}\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_has_a_kueues_options_is_taken(tmp_path: Path, stream: str) -> None:
    """It may tell them on either stream, in colours, and with an exit code of its own."""
    path = executable(tmp_path / "kueue", script(f"sys.{stream}.write({HELP!r}); sys.exit(2)"))
    check_ready(path, "treatment", Binaries(cache=tmp_path / "cache"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (script("pass"), "--config"),
        (script("print('jobset 1.0'); print('  -config string')"), "--zap-log-level, but 'jobset 1.0'"),
        ("only a text", "cannot be started: Exec format error"),
        (OTHER, "cannot be started: Exec format error"),
        (script("time.sleep(600)"), "had not ended after 2 s"),
        (script(f"print({HELP!r}, flush=True); time.sleep(600)"), "had not ended after 2 s"),
    ],
    ids=["silent", "another", "text", "architecture", "hangs", "serves"],
)
def test_what_is_no_kueue_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes, words: str
) -> None:
    """The message has the arm, the file, and what it said instead; the remedy says what to give."""
    if "after 2 s" in words:  # the others end by themselves, however long a busy machine takes
        monkeypatch.setattr(ready, "_WITHIN", 2.0)
    path = executable(tmp_path / "thing", content)
    with pytest.raises(ConfigurationError) as caught:
        check_ready(path, "treatment", Binaries(cache=tmp_path / "cache"))
    assert caught.value.message.startswith(f"treatment: {path} is no Kueue that can run here: ")
    assert words in caught.value.message
    assert "cmd/kueue" in caught.value.remedy
