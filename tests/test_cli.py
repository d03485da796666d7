"""The command: what it prints and the code it ends with."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdback.binaries.pins import pin, pins
from holdback.certificates import Authority
from holdback.cli import main
from holdback.cli.build import NEEDED
from holdback.clusters import Access, Api
from holdback.clusters.existing import Leftover
from holdback.clusters.kinds import NAMESPACES
from holdback.controllers.kueue.source import KueueBuild
from holdback.controllers.kueue.variant import Checkout, Variant
from holdback.errors import ConfigurationError
from holdback.history.store import Store
from tests.report.sample import report


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


@pytest.mark.parametrize(("usage", "code"), [("-port int", 1), ("-port int -token-file string", 0)])
def test_doctor_names_a_toxiproxy_that_asks_for_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], usage: str, code: int
) -> None:
    """A Toxiproxy of one's own that knows nothing of tokens is as good as none, and what to do is said."""
    monkeypatch.setenv("HOLDBACK_TOXIPROXY_SERVER", str(put(tmp_path / "elsewhere", "toxiproxy-server", usage)))
    assert main(["doctor"]) == code
    text = capsys.readouterr().out
    assert ("missing" in line(text, "toxiproxy-server")) == bool(code)
    assert ("it asks for no token" in text) == bool(code)


def test_doctor_names_a_wrong_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable that names no file makes that executable missing, and the path is shown."""
    monkeypatch.setenv("HOLDBACK_ETCD", "/absent/etcd")
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "missing" in line(text, "etcd")
    assert "/absent/etcd" in text


def test_doctor_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In 40 columns what to do is there as well."""
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "…" not in text
    assert "etcd: to build" in text
    assert "`holdback build` makes it" in text


def test_doctor_names_a_cache_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cache below a file, or in a folder that is not ours, is missing, not fine and empty."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOLDBACK_CACHE", str(tmp_path / "file" / "cache"))
    assert main(["doctor"]) == 1
    assert "cannot be written" in line(capsys.readouterr().out, "cache")


def test_assets_that_are_nowhere_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A typo in KUBEBUILDER_ASSETS is an error, not a silent use of something else."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nowhere")
    assert main(["build", "etcd"]) == 2
    assert "KUBEBUILDER_ASSETS is /nowhere" in capsys.readouterr().err


def test_build_finds_what_is_there(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that are in the cache cost nothing and are printed with their path."""
    path = put(empty, "etcd")
    assert main(["build", "etcd"]) == 0
    assert f"etcd: {path}" in capsys.readouterr().err


def test_build_takes_names_and_an_arm(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With names only what is named is built: these executables, and the Kueue of the arm that is given, no default."""
    path, checkout = put(empty, "etcd"), tmp_path / "checkout"
    (checkout / "cmd" / "kueue").mkdir(parents=True)
    (checkout / "go.mod").touch()
    (tmp_path / "clusters" / "kueue").mkdir(parents=True)
    (tmp_path / "clusters" / "kueue" / "control.toml").write_text('version = "v0.17.0"')
    monkeypatch.setattr("holdback.cli.build.build_kueue", _built)
    assert main(["build", "etcd", "--treatment", str(checkout)]) == 0
    told = capsys.readouterr().err
    assert f"etcd: {path}" in told
    assert f"treatment: {checkout}/kueue" in told
    assert "control" not in told


def _built(variant: Variant, _: object) -> KueueBuild:
    assert isinstance(variant.source, Checkout)
    return KueueBuild(variant, variant.source.path / "kueue", variant.source.path / "manifests.yaml")


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


@pytest.mark.parametrize(
    ("there", "finished", "treatment", "code"),
    [
        ((1, 2), (1, 2), "hhhhh", 0),
        ((1, 2), (1, 2), "hhhhv", 1),
        ((1, 2), (1,), "hhhhh", 1),
        ((1,), (1,), "hhhhh", 1),
        ((1, 3), (1, 3), "hhhhh", 1),
    ],
    ids=["fixed", "not fixed", "one not finished", "one not there", "a third one missing"],
)
def test_merging_for_ci(
    *,
    there: tuple[int, ...],
    finished: tuple[int, ...],
    treatment: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With --exit-code only a verdict FIXED of all shards, each finished, is well; the report is written regardless."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    for number in there:
        facts = {"id": f"run{number}", "seed": number, "shard": {"number": number, "of": max(*there, 2), "seed": 5}}
        made = report(tmp_path / f"shard-{number}", "vvvvv", treatment, facts=facts)
        rows = [json.loads(line) for line in made.trials_path.read_text().splitlines()]
        made.trials_path.write_text("".join(json.dumps({**row, "seed": row["seed"] * number}) + "\n" for row in rows))
        if number in finished:
            made.summarise({"run": f"run{number}", "interrupted": False})
    named = [str(tmp_path / f"shard-{number}") for number in (1, 2, 3)[: max(*there, 2)]]
    assert main(["merge", "--wait=0", "--exit-code", "all", *named]) == code
    out = capsys.readouterr().out
    assert out.count("Missing: shard") == max(*there, 2) - len(there)
    assert out.count("Not finished: ") == len(named) - len(finished)
    assert (tmp_path / "summary").read_text().count("### holdback:") == 1
    assert Store(Path("all")).finished


def test_nothing_to_merge(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no report has a trial there is nothing to wait for in vain: an error with cause and remedy."""
    assert main(["merge", "--wait=0", "all", "shard-1", "shard-2"]) == 1
    told = capsys.readouterr()
    assert told.out.count("which has no judged trial") == 2
    assert "-> " in told.err


@pytest.mark.parametrize("word", ["-1", "soon", "inf", "nan"])
def test_a_wait_that_is_no_time(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is a usage error."""
    with pytest.raises(SystemExit, match="2"):
        main(["merge", f"--wait={word}", "all", "one", "two"])
    assert f"invalid seconds value: '{word}'" in capsys.readouterr().err


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    """The help shows how to begin, with commands to copy."""
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "holdback doctor" in capsys.readouterr().out


DOCKER = """#!/bin/sh
case "$1 $2" in
  "version --format") echo 1.2.3 ;;
  "ps --all") case "$*" in *--quiet*) echo node-of-${4##*=} ;; *) printf "%s\\n" kind CLUSTERS ;; esac ;;
  *) echo "$*" >>STORY ;;
esac
"""


def test_clean_removes_what_is_ours_and_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clusters of runs that are over go; those of other machines and other people stay; a dry run changes nothing."""
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    ours, others = "hb-fcec-0123456789ab-worker", "hb-0000-0123456789ab-worker"
    docker, story = tmp_path / "docker", tmp_path / "story"
    docker.write_text(DOCKER.replace("CLUSTERS", f"{ours} {others}").replace("STORY", str(story)))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert main(["clean", "--dry-run"]) == 0
    assert f"{ours}: would be removed\n" in capsys.readouterr().out
    assert not story.exists()
    assert main(["clean"]) == 0
    assert capsys.readouterr().out == f"{others}: of a run on another machine, left alone\n{ours}: is removed\n"
    removed, pruned = story.read_text().splitlines()
    assert removed == f"rm --force --volumes node-of-{ours}"
    assert pruned.startswith("image prune")


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Leftover]]:
    """Contexts, and what a run left in their clusters; `remove` takes it away."""
    left = {
        "red": [Leftover(NAMESPACES, "", "control", "r1", finalizers=False, leads=False)],
        "blue": [],
    }

    def access(context: str, _directory: Path) -> Access:
        if context not in left:
            raise ConfigurationError(f"no context {context}")
        return Access(f"https://{context}", Authority.create(context).pem, "t")

    def there(api: Api) -> list[Leftover]:
        return left[api.access.server.removeprefix("https://")]

    monkeypatch.setattr("holdback.clusters.existing.access_to", access)
    monkeypatch.setattr("holdback.clusters.existing.leftovers", lambda api: list(there(api)))
    monkeypatch.setattr("holdback.clusters.existing.remove", lambda api, say: there(api).clear())
    return left


def test_clean_frees_existing_clusters(lent: dict[str, list[Leftover]], capsys: pytest.CaptureFixture[str]) -> None:
    """Each named cluster is told what goes, or that nothing is there; a dry run only tells."""
    words = ["clean", "--context", "red", "--context", "blue"]
    assert main([*words, "--dry-run"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == ["blue: nothing of holdback", "red: Namespace control"]
    assert lent["red"]
    assert main(words) == 0
    assert "red: removed 1 objects" in capsys.readouterr().out
    assert lent == {"red": [], "blue": []}


def test_clean_leaves_a_run_alone_that_is_under_way(
    lent: dict[str, list[Leftover]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a living run of this machine made stays, and the run is named."""
    monkeypatch.setattr("holdback.cli.clean.members", lambda run: [object()] if run == "r1" else [])
    assert main(["clean", "--context", "red"]) == 2
    assert "red is in use by run r1" in capsys.readouterr().err
    assert lent["red"]


def test_clean_knows_every_context_before_it_begins(
    lent: dict[str, list[Leftover]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong name among them ends it before anything is removed anywhere."""
    assert main(["clean", "--context", "red", "--context", "green"]) == 2
    assert "no context green" in capsys.readouterr().err
    assert lent["red"]
