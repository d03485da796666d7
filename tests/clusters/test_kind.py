"""What can be said of kind without kind: who is told what, whose clusters are whose, that nothing is left half-made.

Scripts stand for `docker` and `kind` where only what they say, or that they hang, matters.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdback.binaries import Binaries, Progress
from holdback.certificates import Authority
from holdback.clock import poll
from holdback.clusters import Access, kind_refusals
from holdback.clusters.docker import Docker
from holdback.clusters.kind import KindProvider, leftovers
from holdback.clusters.kind_refusals import explain, too_little
from holdback.errors import ClusterError, ConfigurationError, HoldbackError, NotReady
from holdback.process import Run, open_run


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with open_run(logs=tmp_path / "logs") as run:
        yield run


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a script of that name before everything else on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(name: str, text: str) -> Path:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
        return folder / name

    return put


@pytest.fixture
def enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that allows much of inotify, and has memory for all that tests ask for; its limits' folder."""
    for what in ("instances", "watches"):
        (tmp_path / f"max_user_{what}").write_text("8192\n")
    monkeypatch.setattr(kind_refusals, "_INOTIFY", tmp_path)
    monkeypatch.setattr(kind_refusals, "_MEMORY", 2**20)
    return tmp_path


@pytest.mark.parametrize(
    ("said", "cause", "remedy"),
    [
        ("permission denied while trying to connect to the Docker daemon socket", "may not use", "group `docker`"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "does not run", "systemctl start"),
        ("something new", "does not answer", "docker info"),
    ],
)
def test_an_engine_that_cannot_be_used_is_told_with_the_way_out(
    run: Run, script: Callable[[str, str], Path], said: str, cause: str, remedy: str
) -> None:
    """No permission, not running, anything else: each has its cause, the engine's words, and what to do."""
    script("docker", f'echo "{said}" >&2; exit 1')
    with pytest.raises(ConfigurationError, match=cause) as caught:
        Docker(run).check()
    assert said in caught.value.message
    assert remedy in caught.value.remedy
    assert "--clusters local" in caught.value.remedy


def test_without_docker_local_clusters_are_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the command is told what does without it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no `docker` on the PATH") as caught:
        Docker(run).check()
    assert "--clusters local" in caught.value.remedy


@pytest.mark.parametrize(
    ("said", "cause", "remedy"),
    [
        ('ERROR: failed to create cluster: failed to pull image "x:y"', "cannot be pulled", "nox -s kind-image"),
        ("Failed to create inotify object: Too many open files", "inotify", "sysctl fs.inotify.max_user_instances"),
        ('could not find a log line that matches "Reached target"', "inotify", "sysctl"),
        ("ERROR: node(s) already exist for a cluster with the name", "there already", "holdback clean"),
        ("write /var/lib/docker/x: no space left on device", "no room", "prune"),
    ],
)
def test_the_usual_traps_are_told_with_the_way_out(said: str, cause: str, remedy: str) -> None:
    """What kind says becomes cause and remedy, and its own words are kept."""
    error = explain("hb-1", f"Creating cluster\n{said}", Path("kind.log"), image="some/node:v1")
    assert isinstance(error, ConfigurationError)
    assert cause in error.message
    assert said in error.message
    assert remedy in error.remedy


def test_an_overloaded_machine_is_no_misconfiguration() -> None:
    """A control plane that is late is NotReady, which ends a trial and no session; stack traces are left out."""
    told = "[control-plane-check] kube-apiserver is not healthy after 4m0.07s"
    trace = "main.main\n\tk8s.io/kubernetes/cmd/kubeadm/kubeadm.go:25\nruntime.goexit\n\truntime/asm_amd64.s:1771"
    error = explain("hb-1", f"Creating cluster\nI1130 20:37:54.8 117 wait.go:283] failed\n{told}\n{trace}", Path("log"))
    assert isinstance(error, NotReady)
    assert told in error.message
    assert "overloaded" in error.remedy
    for noise in ("main.main", "goexit", "asm_amd64", "wait.go"):
        assert noise not in error.message


def test_an_unknown_failure_keeps_the_words(tmp_path: Path) -> None:
    """What is no known trap is a failure of the cluster, with the end of what was said and the log's place."""
    error = explain("hb-1", "\n".join(f"line {number}" for number in range(100)), tmp_path / "kind.log")
    assert isinstance(error, ClusterError)
    assert "line 99" in error.message
    assert "line 1\n" not in error.message
    assert str(tmp_path / "kind.log") in error.remedy


def test_too_small_a_machine_is_told_before_anything_starts(enough: Path) -> None:
    """Too little memory, and too little of each thing of inotify, is named, with what to do."""
    too_little(1)
    with pytest.raises(ConfigurationError, match="MiB of memory"):
        too_little(10**9)
    for what, needed in {"instances": 150, "watches": 3600}.items():
        limit = enough / f"max_user_{what}"
        limit.write_text("128\n")
        told = rf"4 kind clusters need {needed} inotify {what}, and .* allows 128"
        with pytest.raises(ConfigurationError, match=told) as it:
            too_little(4)
        assert f"fs.inotify.max_user_{what}=" in it.value.remedy
        limit.unlink()  # no such limit: not Linux
        too_little(4)


def test_an_old_kind_is_refused(run: Run, script: Callable[[str, str], Path], enough: Path) -> None:
    """Its version, the one that is needed, and how to have another."""
    script("docker", "echo 1.2.3")
    old = script("kind", "echo kind version 0.20.0")
    with (
        pytest.raises(ConfigurationError, match=rf"{re.escape(str(old))} is kind v0\.20\.0; v0\.27") as caught,
        KindProvider(run, Binaries()).clusters(["manager"]),
    ):
        pytest.fail("it was taken")
    assert "HOLDBACK_KIND" in caught.value.remedy


def test_a_failed_creation_ends_the_others_and_leaves_no_cluster(
    run: Run, script: Callable[[str, str], Path], enough: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When one cluster cannot be made, no creation goes on, and then all are deleted; the error has kind's words."""
    monkeypatch.chdir(tmp_path)
    story = tmp_path / "story"
    script("docker", "echo 1.2.3")
    script(
        "kind",
        f"""
case "$*" in
  --version) echo kind version 0.30.0 ;;
  create*bad*) until grep -q "slow begun" {story}; do sleep 0.01; done; echo "no luck today" >&2; exit 1 ;;
  create*slow*) echo "slow begun" >>{story}; sleep 30; echo "slow made" >>{story} ;;
  delete*) echo "$3 deleted" >>{story} ;;
esac
""",
    )
    with (
        pytest.raises(HoldbackError, match="no luck today"),
        KindProvider(run, Binaries()).clusters(["bad", "slow"]),
    ):
        pytest.fail("it was made")
    told = story.read_text()
    assert "slow made" not in told
    assert sorted(re.findall(r"--name=hb-\w+-\w+-(\w+) deleted", told)) == ["bad", "slow"]
    assert not (tmp_path / ".pytest-kind").exists()


@pytest.mark.parametrize("keep", [False, True])
def test_clusters_outlive_their_run_only_when_asked(
    run: Run,
    script: Callable[[str, str], Path],
    enough: Path,
    tmp_path: Path,
    *,
    keep: bool,
) -> None:
    """Kept ones are not even left to the reaper, and how to reach and remove them is told; others are deleted."""
    story, kubeconfig, said = tmp_path / "story", tmp_path / "kubeconfig", io.StringIO()
    kubeconfig.write_text(Access("https://127.0.0.1:1", Authority.create("kind").pem, "token").kubeconfig())
    script("docker", 'case "$1" in version) echo 1.2.3 ;; *) echo token ;; esac')
    script(
        "kind",
        f"""
case "$1" in
  --version) echo kind version 0.30.0 ;;
  create) cat {kubeconfig} >"${{4#--kubeconfig=}}" ;;
  delete) echo "$*" >>{story} ;;
esac
""",
    )
    provider = KindProvider(run, Binaries(progress=Progress(said)), keep=keep)
    with provider.clusters(["manager"]) as clusters:
        assert list(clusters) == ["manager"]
        assert bool(list((run.directory / "if-killed").glob("*.json"))) is not keep
    name = provider.full_name("manager")
    assert (story.exists() and f"--name={name}" in story.read_text()) is not keep
    assert (f"`kind export kubeconfig --name {name}` leads there" in said.getvalue()) is keep


def test_clusters_of_dead_runs_are_told_from_those_of_living_ones(run: Run, script: Callable[[str, str], Path]) -> None:
    """Ours and dead: a leftover. Alive, or of somebody who did not use holdback: none. Of another machine: not ours."""
    machine = KindProvider(run, Binaries()).full_name("x").split("-")[1]
    other = "0000" if machine != "0000" else "1111"
    names = [
        f"hb-{machine}-0123456789ab-manager",
        f"hb-{machine}-{run.id}-manager",
        "kind",
        f"hb-{other}-0123456789ab-a",
    ]
    script("docker", f'case "$1" in version) echo 1.2.3 ;; ps) printf "%s\\n" {" ".join(names)} ;; esac')
    found = leftovers(Docker(run))
    assert [(each.cluster, each.ours) for each in found] == sorted([(names[0], True), (names[3], False)])


def test_a_cluster_is_deleted_though_its_run_was_killed(
    run: Run, script: Callable[[str, str], Path], enough: Path, tmp_path: Path
) -> None:
    """While clusters exist, the reaper has the command that deletes them, all of them by their names."""
    looked = tmp_path / "looked"
    script("docker", "echo 1.2.3")
    creates = f"until [ -e {looked} ]; do sleep 0.01; done; exit 1"
    script("kind", f'case "$1" in --version) echo kind version 0.30.0 ;; create) {creates} ;; esac')
    provider = KindProvider(run, Binaries())
    wills = run.directory / "if-killed"
    seen: list[str] = []

    def look() -> bool:
        seen.extend(path.read_text() for path in wills.glob("*.json"))
        return bool(seen)

    def watch() -> None:
        poll(look, within=60, every=0.01)
        looked.touch()

    looking = threading.Thread(target=watch)
    looking.start()
    with pytest.raises(HoldbackError), provider.clusters(["manager"], ["worker"]):
        pytest.fail("it was made")
    looking.join()
    assert provider.full_name("manager") in seen[0]
    assert provider.full_name("worker") in seen[0]
    assert not list(wills.glob("*.json"))
