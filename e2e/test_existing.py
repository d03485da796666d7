"""Clusters that somebody has are used as asked, and found again as they were, whatever became of the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.lines import whole_lines
from e2e.posing import MANAGERS, Posing, await_furnished, posing
from holdback.clock import poll
from holdback.clusters.existing import Contexts, ExistingProvider, leftovers
from holdback.clusters.kinds import DEPLOYMENTS, NAMESPACES, SERVICE_ACCOUNTS, kind_of
from holdback.clusters.protocols import Borrowed
from holdback.errors import ClusterError, ConfigurationError
from holdback.process import open_run
from holdback.process.reaper import members

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

ROOT = Path(__file__).parents[1]
_WITHIN = 900.0
"""Seconds until something is taken to hang; a whole session takes one or two minutes on a quiet machine."""
_FAILING = """
import holdback
from holdback.controllers.kueue import MultiKueue


@holdback.experiment(oracles=[holdback.no_endless_rejection])
def test_a_scenario_that_fails(multikueue: MultiKueue, trial: holdback.Trial) -> None:
    multikueue.admitted(multikueue.submit(cpu=1), within=30)
    raise RuntimeError("a mistake in the scenario")
"""
PLANNED: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "kueue", "namespace": "kueue-system"}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kueue"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["deletecollection"]}],
    },
]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Posing]:
    with posing() as started:
        yield started


@contextmanager
def session(clusters: Posing, tmp_path: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Pytest on the clusters, in a process group of its own."""
    report = f"--holdback-report={tmp_path / 'report'}"
    command = [sys.executable, "-m", "pytest", *words, *clusters.options(), report, "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=clusters.environment,
        stdin=subprocess.DEVNULL,
        stdout=(tmp_path / "output").open("w"),
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def rows(tmp_path: Path, name: str = "trials") -> list[dict[str, Any]]:
    return whole_lines(tmp_path / "report" / f"{name}.jsonl")


def await_trial(process: subprocess.Popen[str], tmp_path: Path) -> None:
    """Wait until a trial is under way."""
    assert poll(lambda: process.poll() is not None or bool(rows(tmp_path, "planned")), within=_WITHIN)
    assert process.poll() is None, (tmp_path / "output").read_text()


def test_the_eviction_experiment(clusters: Posing, tmp_path: Path) -> None:
    """It shows what it shows on local clusters, says beforehand what it makes, and leaves everything as it was."""
    before = clusters.inventory()
    with session(clusters, tmp_path, "e2e/test_readmission.py", "-k", "drained", "--count=4") as process:
        process.wait(_WITHIN)
    output = (tmp_path / "output").read_text()
    outcomes = [(row["arm"], row["outcome"]) for row in rows(tmp_path)]
    # One in 66 control trials does not show the bug, on a busy machine one in twenty: all four of them in 1 of 160,000.
    assert ("control", "violated") in outcomes, output
    assert ("treatment", "holds") in outcomes, output
    assert ("treatment", "violated") not in outcomes, output
    assert len(outcomes) == 8, output
    assert output.count("is as it was found") >= len(clusters.clusters), output
    assert "11 CustomResourceDefinition" in output
    assert clusters.inventory() == before


def test_an_interrupted_run_and_a_mistaken_scenario(clusters: Posing, tmp_path: Path) -> None:
    """After a trial that raised an exception and Ctrl-C in the next one the clusters are as they were."""
    before = clusters.inventory()
    scenario = tmp_path / "test_failing.py"
    scenario.write_text(_FAILING)
    words = ["-p", "fixtures.kueue", str(scenario), "e2e/test_readmission.py", "-k", "fails or drained"]
    with session(clusters, tmp_path, *words) as process:
        assert poll(lambda: process.poll() is not None or len(rows(tmp_path, "planned")) == 3, within=_WITHIN)
        assert process.poll() is None, (tmp_path / "output").read_text()
        os.killpg(process.pid, signal.SIGINT)
        code = process.wait(_WITHIN)
    output = (tmp_path / "output").read_text()
    assert code == pytest.ExitCode.INTERRUPTED, output
    assert [row["reason"] for row in rows(tmp_path) if "a mistake in the scenario" in row["reason"]], output
    assert output.count("is as it was found") == len(clusters.clusters), output
    assert clusters.inventory() == before


def test_a_killed_run_is_cleaned_up_after(clusters: Posing, tmp_path: Path) -> None:
    """What a killed run left is named to the next one, which refuses; `holdback clean` removes it, and nothing else."""
    before = clusters.inventory()
    with session(clusters, tmp_path, "e2e/test_readmission.py", "-k", "drained") as process:
        await_trial(process, tmp_path)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    left = [each for cluster in clusters.clusters.values() for each in leftovers(cluster.api)]
    (run,) = {each.run for each in left if each.run}
    assert poll(lambda: not members(run), within=60)
    with pytest.raises(ConfigurationError, match="objects of holdback's run") as error:
        announce(clusters.kubeconfig, tmp_path)
    assert "holdback clean --context red" in error.value.remedy
    words = [word for name in clusters.clusters for word in ("--context", name)]
    command = [sys.executable, "-m", "holdback", "clean", *words]
    cleaned = subprocess.run(command, env=clusters.environment, capture_output=True, text=True, check=False)
    assert cleaned.returncode == 0, cleaned.stderr
    assert "red: CustomResourceDefinition workloads.kueue.x-k8s.io" in cleaned.stdout
    assert clusters.inventory() == before


def test_a_context_that_is_not_allowed(clusters: Posing, tmp_path: Path) -> None:
    """It is refused before anything starts, though it is in the kubeconfig and the current one."""
    words = ["e2e/test_readmission.py", "--clusters=existing", "--manager-context=red", "--manager-context=blue"]
    command = [sys.executable, "-m", "pytest", *words, "--allow-context=blue", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, env=clusters.environment, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "not allowed to touch: red" in done.stderr
    assert "--allow-context=red" in done.stderr


def announce(kubeconfig: Path, logs: Path, context: str = MANAGERS[0], address: str = "") -> None:
    """What a world does before it makes anything, on one cluster; then it ends without having made anything."""
    with open_run(logs=logs) as run, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig))
        contexts = Contexts((context,), (), (context,))
        provider = ExistingProvider(run, contexts, address=address, say=lambda _: None)
        with provider.clusters(["one"]) as found:
            assert isinstance(found["one"], Borrowed)
            found["one"].announce("Kueue", PLANNED)


def test_a_cluster_that_has_what_would_be_made(clusters: Posing, tmp_path: Path) -> None:
    """Somebody's own installation is refused with its version, and stays untouched."""
    api = clusters.clusters["red"].api
    container = {"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.16.1"}
    labels = {"app": "kueue"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    api.ensure_namespace("kueue-system")
    api.create(DEPLOYMENTS, {"metadata": {"name": "kueue-controller-manager"}, "spec": spec}, "kueue-system")
    await_furnished(clusters.clusters["red"])
    before = clusters.inventory()
    with pytest.raises(ConfigurationError, match=r"Namespace kueue-system \(registry.k8s.io/kueue/kueue:v0.16.1\)"):
        announce(clusters.kubeconfig, tmp_path)
    assert clusters.inventory() == before
    api.delete(NAMESPACES, "kueue-system")
    assert poll(lambda: api.get(NAMESPACES, "kueue-system") is None, within=180)
    announce(clusters.kubeconfig, tmp_path)  # without it nothing is in the way


def test_a_user_without_the_rights(clusters: Posing, tmp_path: Path) -> None:
    """What its user may not do is said before anything is made, also what only a dry run tells."""
    cluster = clusters.clusters["red"]
    cluster.api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "guest"}}, "default")
    guest = replace(cluster.access, token=cluster.api.token("guest", "default"))
    kubeconfig = guest.write(tmp_path / "kubeconfig")
    before = clusters.inventory()
    with pytest.raises(ClusterError, match="cannot get resource"):
        announce(kubeconfig, tmp_path, "context")
    verbs = ["create", "get", "list", "patch", "delete"]
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    roles = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": verbs}
    for rules, complaint in (
        ([everything], "create serviceaccounts in kueue-system"),
        # it may not grant what it has not itself
        ([everything, roles, {"apiGroups": [""], "resources": ["*"], "verbs": verbs}], "create ClusterRole kueue:"),
    ):
        for wanted in granted("guest", rules):
            cluster.api.apply(wanted)
        assert poll(partial(complains, kubeconfig, tmp_path, complaint), within=120, every=1)
    for wanted in granted("guest", []):
        cluster.api.delete(kind_of(wanted), wanted["metadata"]["name"])
    assert {name for name in clusters.inventory()["red"] ^ before["red"] if "holdback" in name} == set()


def complains(kubeconfig: Path, logs: Path, complaint: str) -> bool:
    """Whether the announcement is refused for that reason: a right that was granted counts a moment later."""
    with pytest.raises((ConfigurationError, ClusterError)) as error:
        announce(kubeconfig, logs, "context")
    return complaint in error.value.message


def granted(account: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Objects that let a service account of the namespace `default` do that."""
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
    common = {"apiVersion": f"{group}/v1", "metadata": {"name": f"test-{account}"}}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": f"test-{account}"}
    return [
        {**common, "kind": "ClusterRole", "rules": rules},
        {**common, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]


def test_an_address_that_is_not_reached(clusters: Posing, tmp_path: Path) -> None:
    """When the API server cannot ask us, that is told with its own words, and the probe is gone."""
    before = clusters.inventory()
    with pytest.raises(ConfigurationError, match=r"nothing of ours can listen on 192.0.2.1") as error:
        announce(clusters.kubeconfig, tmp_path, address="192.0.2.1")
    assert "--router-address" in error.value.remedy
    assert clusters.inventory() == before
