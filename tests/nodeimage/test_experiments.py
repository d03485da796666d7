"""The image of the experiments: what it is made of, and how its build reaches package registries."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nodeimage import experiments
from nodeimage.experiments import copied
from nodeimage.registries import _OF_PIP, go_settings, pip_settings
from tests.steps import ROOT

NAMES = copied((ROOT / "deploy" / "Containerfile").read_text())


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small one with a file for each thing that the real Containerfile copies, and that Containerfile."""
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "deploy" / "Containerfile", tmp_path / "deploy")
    for name in NAMES:
        path = tmp_path / name / "some.file" if (ROOT / name).is_dir() else tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    monkeypatch.setattr(experiments, "_ROOT", tmp_path)
    monkeypatch.setattr(experiments, "_CONTAINERFILE", tmp_path / "deploy" / "Containerfile")
    return tmp_path


def test_all_that_is_copied_is_known() -> None:
    """From both stages, each once, and nothing that comes from another stage."""
    assert {"pyproject.toml", "README.md", "src", "clusters", "conftest.py", "fixtures", "e2e"} <= set(NAMES)
    assert len(NAMES) == len(set(NAMES))
    assert all((ROOT / name).exists() for name in NAMES)


@pytest.mark.parametrize("name", [*NAMES, "deploy/Containerfile"])
def test_a_change_of_what_it_is_made_of_makes_another_image(repository: Path, name: str) -> None:
    """Whatever is copied into it counts, and so does the Containerfile."""
    before = experiments.digest()
    changed = repository / name
    changed = changed / "some.file" if changed.is_dir() else changed
    changed.write_text(changed.read_text() + "\n# more")
    assert experiments.digest() != before


def test_nothing_else_makes_another_image(repository: Path) -> None:
    """Neither documents nor what Python has compiled."""
    before = experiments.digest()
    (repository / "CHANGES.md").write_text("news")
    (repository / "src" / "__pycache__").mkdir()
    (repository / "src" / "__pycache__" / "some.pyc").write_text("compiled")
    assert experiments.digest() == before


def test_pip_is_told_what_this_one_knows(tmp_path: Path) -> None:
    """Of the registries alone; the environment counts more than a file, and what pip wrote pip reads again."""
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://one.invalid/simple\nextra-index-url =\n  https://a\n  https://b\n")
    environment = {"PIP_CONFIG_FILE": str(config), "PIP_INDEX_URL": "https://two.invalid/simple", "PIP_NO_INPUT": "1"}
    asked = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout
    found = configparser.ConfigParser()
    found.read_string(pip_settings(listed))
    assert found["global"]["index-url"] == "https://two.invalid/simple"
    assert found["global"]["extra-index-url"].split() == ["https://a", "https://b"]
    assert set(found["global"]) <= {*_OF_PIP, "cert"}


def test_go_is_told_what_this_one_knows() -> None:
    """What is not set here is not set there."""
    assert go_settings("https://proxy.invalid,direct\n\nexample.com\noff\n\n\n") == (
        "GOPROXY=https://proxy.invalid,direct\nGOPRIVATE=example.com\nGOSUMDB=off\n"
    )
