"""The OCI runtime of machines that may not give a capability away."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from nodeimage.engine import _RUNTIME


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    "words", [["create", "--bundle", "{}", "name"], ["exec", "--process", "{}/config.json", "name"]]
)
def test_one_capability_is_taken_out_and_all_else_passed_on(tmp_path: Path, position: int, words: list[str]) -> None:
    """Wherever it stands in a list, CAP_SYS_RESOURCE goes; all other content and every word reach runc as they were."""
    others = ["CAP_CHOWN", "CAP_SYS_ADMIN"]
    held = [*others[:position], "CAP_SYS_RESOURCE", *others[position:]]
    config = tmp_path / "config.json"
    wanted = {"process": {"capabilities": {"bounding": held, "effective": ["CAP_SYS_RESOURCE"]}, "args": ["a b", "$c"]}}
    config.write_text(json.dumps(wanted, separators=(",", ":")))
    runc = tmp_path / "bin" / "runc"
    runc.parent.mkdir()
    runc.write_text('#!/bin/sh\nprintf "%s\\n" "$@"; exit 3\n')
    runc.chmod(0o755)
    argv = [word.format(tmp_path) for word in words]
    path = f"{runc.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([_RUNTIME, *argv], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines(), done.returncode) == (argv, 3)
    found = json.loads(config.read_text())["process"]
    assert found == {"capabilities": {"bounding": others, "effective": []}, "args": ["a b", "$c"]}
