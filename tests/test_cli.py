"""The command: what it prints and the code it ends with."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdback.binaries.pins import pin, pins
from holdback.cli import main
from holdback.cli.build import NEEDED


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and no settings, in a folder without variants."""
    for name in [*(f"HOLDBACK_{each.upper().replace('-', '_')}" for each in pins()), "KUBEBUILDER_ASSETS"]:
        monkeypatch.delenv(name, raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setenv("HOLDBACK_CACHE", str(cache))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return cache


@pytest.fixture
def no_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))


def put(cache: Path, name: str, version: str = "1.2.3") -> Path:
    path = cache / f"{name}-{pin(name).key}" / name
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def line(text: str, what: str) -> str:
    return next(each for each in text.splitlines() if each.startswith(f"{what} "))


def test_doctor_on_an_empty_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """With Go everything can be built, so that is the advice, and all is well."""
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    for name in NEEDED:
        assert "to build" in line(text, name)
        assert "holdback build" in line(text, name)
    assert "on demand" in line(text, "kube-scheduler")


@pytest.mark.usefixtures("no_go")
def test_doctor_without_go(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there is found; what is missing cannot be built, which is a failure with the way out."""
    put(empty, "etcd")
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "ok" in line(text, "etcd")
    assert "v1.2.3" in line(text, "etcd")
    assert "missing" in line(text, "caddy")
    assert "holdback[go]" in text


def test_doctor_warns_of_another_kubernetes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An API server of another minor version is used, and warned of."""
    other = put(tmp_path / "elsewhere", "kube-apiserver", "Kubernetes v1.36.0")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(other.parent))
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "warning" in line(text, "kube-apiserver")
    assert "#11649" in text


def test_doctor_names_a_wrong_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable that names no file makes that executable missing, and the path is shown."""
    monkeypatch.setenv("HOLDBACK_ETCD", "/absent/etcd")
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "missing" in line(text, "etcd")
    assert "/absent/etcd" in text


def test_build_finds_what_is_there(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that are in the cache cost nothing and are printed with their path."""
    path = put(empty, "etcd")
    assert main(["build", "etcd"]) == 0
    assert f"etcd: {path}" in capsys.readouterr().err


@pytest.mark.usefixtures("no_go")
def test_build_without_go(capsys: pytest.CaptureFixture[str]) -> None:
    """A message with its remedy, and exit code 1."""
    assert main(["build"]) == 1
    error = capsys.readouterr().err
    assert "no Go" in error
    assert "-> " in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "etdc"],
        ["build", "etcd", "--all"],
        ["build", "--treatment", "absent"],
        ["build", "--control", "0.17.0"],
        ["doctor", "--treatment", "absent.toml"],
    ],
)
def test_a_wrong_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, with cause and remedy, and no traceback."""
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("holdback: ")
    assert "-> " in error


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, as argparse has it."""
    with pytest.raises(SystemExit, match="2"):
        main([])
    assert "COMMAND" in capsys.readouterr().err


def test_ctrl_c_has_its_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """130, and a line instead of a traceback."""

    def interrupted(*names: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdback.binaries.Binaries.get", interrupted)
    assert main(["build", "etcd"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    """The help shows how to begin, with commands to copy."""
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "holdback doctor" in capsys.readouterr().out
