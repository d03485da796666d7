"""deploy/job.yaml on a real cluster, with the image of deploy/Containerfile: what the Jobs say, and what breaks them.

`nox -s kind-job` builds the image without a registry and runs this on a kind cluster. On a cluster of yours whose nodes
have the image as `holdback`, and which makes volumes on demand, `HOLDBACK_JOB_CONTEXT` names its context.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdback.clock import poll
from holdback.clusters import Provider
from holdback.clusters.kind import KindCluster
from holdback.plugin import Settings
from tests.steps import objects

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

_CONTEXT = "HOLDBACK_JOB_CONTEXT"
_IMAGE = "HOLDBACK_JOB_IMAGE"
"""Names an archive with the image, for the node of a kind cluster that is made for this."""
_WITHIN = 900.0
_EXPERIMENT = "e2e/test_readmission.py::test_a_drained_workload_is_admitted_again"
"""Shows its bug in nearly every trial: five of ten make a verdict."""
_SHARDS, _VERDICT = "holdback-shards", "holdback-verdict"
_PLACE = "/var/lib/holdback-evidence"
"""Where a kind cluster's volume is in its node."""
_KILL = """
import psutil
for each in psutil.process_iter(["cmdline"]):
    if "--shard=1/2" in (each.info["cmdline"] or ()):
        each.kill()
"""

Manifests = dict[tuple[str, str], dict[str, Any]]


@dataclass(frozen=True)
class Kubectl:
    """A cluster whose nodes have the image. `volumes` are needed where none are made on demand."""

    words: tuple[str, ...]
    volumes: tuple[dict[str, Any], ...] = ()

    def __call__(self, *words: str, given: str = "") -> str:
        done = subprocess.run([*self.words, *words], input=given, text=True, capture_output=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def holding(self, manifests: Manifests, *, later: Sequence[tuple[str, str]] = ()) -> Iterator[None]:
        """These objects, until the context ends; those of `later` are applied by whoever is in it."""
        try:
            self.apply(*self.volumes, *(each for key, each in manifests.items() if key not in later))
            yield
        finally:
            given = yaml.safe_dump_all([*manifests.values(), *self.volumes])
            self("delete", "--ignore-not-found", "--cascade=foreground", "--filename=-", given=given)

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        self("apply", "--filename=-", given=yaml.safe_dump_all(manifests))

    def status(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self("get", "job", job, "--output=yaml")).get("status", {})
        return found

    def ended(self, job: str) -> dict[str, Any]:
        """Wait for the end of a Job, well or not; its status."""

        def over() -> bool:
            conditions = self.status(job).get("conditions") or ()
            return any(each["type"] in {"Complete", "Failed"} and each["status"] == "True" for each in conditions)

        assert poll(over, within=_WITHIN, every=2.0), self.seen()
        return self.status(job)

    def told(self, job: str) -> str:
        """What the Job's pods have said."""
        return self("logs", f"--selector=job-name={job}", "--tail=-1")

    def seen(self) -> str:
        """What there is, for a test that fails."""
        return self("get", "pods,jobs,events", "--output=wide") + self.told(_SHARDS) + self.told(_VERDICT)

    def pods(self, shard: int) -> list[str]:
        """The pods of a shard, whatever became of them."""
        index = f"batch.kubernetes.io/job-completion-index={shard - 1}"
        return self("get", "pods", f"--selector=job-name={_SHARDS},{index}", "--output=name").split()

    def half_way(self, shard: int, run: str) -> str:
        """Wait until the shard has judged a trial; its pod."""
        judged = ("test", "-s", f"/evidence/{run}/shard-{shard}/trials.jsonl")

        def reached() -> bool:
            asked = [[*self.words, "exec", pod, "--", *judged] for pod in self.pods(shard)]
            return any(subprocess.run(each, capture_output=True, check=False).returncode == 0 for each in asked)

        assert poll(reached, within=_WITHIN, every=1.0), self.seen()
        (pod,) = self.pods(shard)
        return pod


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, holdback_settings: Settings) -> Iterator[Kubectl]:
    """The cluster of that context, else one made by kind."""
    if context := os.environ.get(_CONTEXT):
        if not shutil.which("kubectl"):
            pytest.skip("there is no kubectl on the PATH")
        yield Kubectl(("kubectl", "--context", context))
    elif holdback_settings.places.clusters == "kind" and os.environ.get(_IMAGE):
        provider: Provider = request.getfixturevalue("holdback_provider")
        with provider.clusters(["jobs"]) as clusters:
            made = clusters["jobs"]
            assert isinstance(made, KindCluster)
            yield _prepared(made, Path(os.environ[_IMAGE]))
    else:
        pytest.skip(f"no cluster has the image of deploy/Containerfile: nox -s kind-job, or name one in {_CONTEXT}")


def _prepared(made: KindCluster, archive: Path) -> Kubectl:
    """A kind cluster whose node has the image, and a place for a volume."""
    words = ("docker", "exec", "--interactive", made.node)
    with archive.open("rb") as image:
        importing = [*words, "ctr", "--namespace=k8s.io", "images", "import", "--local", "--digests", "-"]
        subprocess.run(importing, stdin=image, check=True)
    made.run_in_node("mkdir", _PLACE)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [made.node]}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "holdback-evidence"},
        "spec": {
            "storageClassName": "standard",
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": _PLACE},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
    return Kubectl((*words, "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"), (volume,))


def small(run: str, *, count: int) -> Manifests:
    """The manifests with two shards of one experiment, on a volume of one node, whose processors are few."""
    found = objects()
    found["ConfigMap", "holdback-run"]["data"].update(RUN=run, SHARDS="2", COUNT=str(count), EXPERIMENTS=_EXPERIMENT)
    found["Job", _SHARDS]["spec"].update(completions=2, parallelism=1)
    found["PersistentVolumeClaim", "holdback-evidence"]["spec"]["accessModes"] = ["ReadWriteOnce"]
    for name, share in {_SHARDS: "500m", _VERDICT: "100m"}.items():
        container_of(found["Job", name])["resources"]["requests"]["cpu"] = share
    return found


def container_of(job: Mapping[str, Any]) -> dict[str, Any]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def test_a_run_in_shards(cluster: Kubectl) -> None:
    """Both shards end well in pods that may do nothing, and the verdict's Job merges them and says FIXED."""
    with cluster.holding(small("whole", count=10)):
        verdict, told = cluster.ended(_VERDICT), cluster.told(_VERDICT)
        assert "Verdict: FIXED" in told, cluster.seen()
        assert not re.search("Missing|Not finished|Interrupted", told)
        assert verdict["succeeded"] == 1
        assert cluster.ended(_SHARDS)["succeeded"] == 2


def test_a_shard_whose_pod_is_deleted(cluster: Kubectl) -> None:
    """It ends in order and is not made again; the verdict does not wait for it, has its trials, and is a failure."""
    with cluster.holding(small("deleted", count=8)):
        cluster("delete", "--wait=false", cluster.half_way(1, "deleted"))
        verdict, told = cluster.ended(_VERDICT), cluster.told(_VERDICT)
        assert "Interrupted" in told, cluster.seen()
        assert verdict["failed"] == 1
        shards = cluster.ended(_SHARDS)
        assert (shards["failedIndexes"], shards["completedIndexes"]) == ("0", "1")
        assert cluster.pods(1) == []


def test_a_shard_that_is_killed(cluster: Kubectl) -> None:
    """As for want of memory: it is not made again, the verdict tells that it is not finished, and is a failure."""
    manifests = small("killed", count=8)
    verdict = manifests["Job", _VERDICT]
    # By then there is nothing left to wait for; with the file's own patience it would take hours to find that out.
    container = container_of(verdict)
    container["args"] = [text.replace("--wait=15000", "--wait=0") for text in container["args"]]
    with cluster.holding(manifests, later=[("Job", _VERDICT)]):
        pod = cluster.half_way(1, "killed")
        cluster("exec", pod, "--", "python3", "-c", _KILL)
        shards = cluster.ended(_SHARDS)
        assert (shards["failedIndexes"], shards["completedIndexes"]) == ("0", "1")
        assert cluster.pods(1) == [pod]
        cluster.apply(verdict)
        assert cluster.ended(_VERDICT)["failed"] == 1
        assert "Not finished: /evidence/killed/shard-1" in cluster.told(_VERDICT), cluster.seen()
