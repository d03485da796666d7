"""Faults end with what they belong to: a block, a trial, a run. Tried on a small world with a real API server."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import holdback
from holdback.clock import poll

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

WITHIN = 900.0
"""Seconds until a session is taken to hang; one takes up to one minute on a quiet machine."""
GONE_WITHIN = 60.0
"""Seconds until what still runs is taken to stay; on a quiet machine it is gone in one or two."""
PROMISED = 5.0
"""Seconds within which it is gone on a machine that has nothing else to do."""
SOURCE = Path(holdback.__file__).parents[1]
MARK = "HOLDBACK_TEST_OF_LEASES"
"""Set in the environment of pytest, and so in that of everything that it starts."""

CONFTEST = """
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdback.clusters import LocalCluster, local_clusters
from holdback.clusters.kinds import CONFIG_MAPS
from holdback.history.recorder import Recorder
from holdback.traffic.lanes import Link
from holdback.traffic.network import Network, network
from holdback.trials.keeper import Keeper

LINK = Link("controller", "one", ("configmaps",))


@dataclass
class World:
    home: Path
    cluster: LocalCluster
    network: Network
    recorder: Recorder

    def check(self):
        self.cluster.check()
        self.network.check()
        self.recorder.check()


@pytest.fixture(scope="session")
def keeper(holdback_run, holdback_binaries, holdback_progress):
    @contextmanager
    def make():
        with ExitStack() as stack:
            cluster = stack.enter_context(local_clusters(holdback_run, holdback_binaries, ["one"]))["one"]
            net = stack.enter_context(network(holdback_run, holdback_binaries, {LINK: cluster.access}))
            recorder = stack.enter_context(Recorder())
            recorder.truth("one", cluster.api, [CONFIG_MAPS])
            recorder.requests(net.access_log)
            yield World(holdback_run.directory, cluster, net, recorder)

    kept = Keeper(make, holdback_progress.say)
    yield kept
    kept.close()


@pytest.fixture
def world(keeper, trial):
    world = keeper.world()
    trial.bind(world, clients=["controller"], namespaces=["default"])
    yield world
"""

SCENARIO = '''
import os
import signal
import subprocess

import psutil
import holdback
from holdback import Finding, Judgement
from holdback.clock import poll
from holdback.clusters.kinds import CONFIG_MAPS


def made(history):
    """The scenario came to its end; a control is violated by that, so that there is a difference."""
    word = Judgement.VIOLATED if history.scope["arm"] == "control" else Judgement.HOLDS
    return Finding("made", word if history.steps("made") else Judgement.UNKNOWN, "made")


trials = 0


@holdback.experiment(oracles=[made])
def test_it(world, trial):
    global trials
    trials += 1
    (link,) = world.network.links
    name = trial.id
    seen = holdback.ObjectSeen("configmaps", on="one", name=name)
    held, slow = holdback.Hold(link.watch("configmaps")), holdback.Delay(link.writes, 50)
    with trial.inject(held), trial.inject(slow, start=seen):
        world.cluster.api.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")
        assert poll(lambda: trial.dose_milliseconds or None, within=60)
        MEDDLE
        trial.step("made")
    world.cluster.api.delete(CONFIG_MAPS, name, "default")
'''

KILL = """
        if trials == 2:
            mine = os.environ["HOLDBACK_TEST_OF_LEASES"]
            victim = next(each for each in psutil.process_iter(["name", "environ"])
                          if (each.info["name"] or "").startswith("WHOM")
                          and (each.info["environ"] or {}).get("HOLDBACK_TEST_OF_LEASES") == mine)
            argv, environment = victim.cmdline(), victim.environ()
            victim.kill()
            if AGAIN:
                assert poll(lambda: not victim.is_running() or victim.status() == psutil.STATUS_ZOMBIE, within=60)
                subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


TELL_SECRETS = """
        for one in world.home.rglob("*"):
            if one.is_file() and (one.suffix == ".key" or "token" in one.name):
                with open("secrets", "a") as file:
                    file.write(one.read_text() + "\\n")
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """The mark of this test's processes; none of them is left afterwards."""
    made = secrets.token_hex(8)
    yield made
    for process in marked(made):
        process.kill()


def marked(mark: str) -> list[psutil.Process]:
    """The living processes that carry the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue  # gone meanwhile, or another user's
    return found


def write(directory: Path, meddling: str = "pass") -> None:
    (directory / "conftest.py").write_text(CONFTEST)
    (directory / "test_leases.py").write_text(SCENARIO.replace("MEDDLE", meddling.strip()))


def start(directory: Path, mark: str, *options: str, **variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, MARK: mark, "PYTHONPATH": str(SOURCE), **variables}
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def rows(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "holdback-report" / "trials.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("again", [False, True], ids=["killed", "restarted"])
@pytest.mark.parametrize("whom", ["toxiproxy", "caddy"])
def test_a_proxy_that_dies_costs_its_trial_and_no_other(tmp_path: Path, mark: str, whom: str, again: bool) -> None:
    """A Toxiproxy or Caddy that is killed or restarted in mid-trial makes it INVALID, and the next one starts clean."""
    write(tmp_path, KILL.replace("WHOM", whom).replace("AGAIN", str(again)))
    process = start(tmp_path, mark, "--count=3")
    output, _ = process.communicate(timeout=WITHIN)
    found = rows(tmp_path)
    assert [row["outcome"] == "invalid" for row in found] == [False, True, False, False, False, False], output
    assert Counter(row["outcome"] for row in found[2:] + found[:1])["invalid"] == 0
    assert "this world is given up" in output
    assert poll(lambda: not marked(mark), within=GONE_WITHIN)


def test_no_secret_is_in_the_evidence(tmp_path: Path, mark: str) -> None:
    """No file of a report, nor the terminal, has a token or a part of a key, also when a proxy has died."""
    write(tmp_path, TELL_SECRETS + KILL.replace("WHOM", "toxiproxy").replace("AGAIN", "False"))
    output, _ = start(tmp_path, mark, "--count=2", "-v").communicate(timeout=WITHIN)
    assert "invalid" in {row["outcome"] for row in rows(tmp_path)}, output
    words = set(re.findall(r"[\w/+=-]{24,}", (tmp_path / "secrets").read_text()))
    assert len(words) > 10  # of several keys, and two tokens
    told = {path: path.read_text() for path in (tmp_path / "holdback-report").rglob("*") if path.is_file()}
    assert len(told) > 10
    found = [
        (path.name, word) for path, text in {**told, Path("terminal"): output}.items() for word in words if word in text
    ]
    assert not found


SEED = secrets.randbelow(2**31)
MOMENTS = random.Random(SEED)


@pytest.mark.parametrize(
    ("trials", "after", "options", "within"),
    [
        *(pytest.param(0, MOMENTS.uniform(0.5, 20), (), GONE_WITHIN, id=f"moment-{number}") for number in range(4)),
        pytest.param(1, MOMENTS.uniform(0, 5), (), GONE_WITHIN, id="trials"),
        pytest.param(1, MOMENTS.uniform(0, 5), ("-n", "2"), GONE_WITHIN, id="xdist"),
        pytest.param(1, MOMENTS.uniform(0, 5), (), PROMISED, marks=pytest.mark.quiet, id="promised"),
    ],
)
def test_a_killed_run_leaves_nothing(
    tmp_path: Path, mark: str, trials: int, after: float, options: tuple[str, ...], *, within: float
) -> None:
    """After pytest was killed with SIGKILL, at any moment, no process, port or file is left: soon, as a rule in 5 s."""
    print(f"seed {SEED}, killed {after:.3f} s after {trials} trials")
    write(tmp_path)
    with tempfile.TemporaryDirectory(prefix="hb") as private:
        process = start(tmp_path, mark, "--count=10000", *options, TMPDIR=private)
        assert poll(lambda: trials_of(tmp_path) >= trials, within=WITHIN)
        time.sleep(after)
        assert process.poll() is None
        there = marked(mark)
        ports = [port for one in there for port in listening(one)]
        print(f"{len(there)} processes, {len(ports)} ports, trials so far: {trials_of(tmp_path)}")
        os.kill(process.pid, signal.SIGKILL)
        assert poll(lambda: not marked(mark), within=within), [one.cmdline()[:3] for one in marked(mark)]
        assert not any(answers(port) for port in ports)
        # pytest-xdist leaves a directory as well
        assert poll(lambda: not list(Path(private).glob("hb-*")), within=GONE_WITHIN)
    process.communicate()


def test_a_killed_worker_takes_its_world_along(tmp_path: Path, mark: str) -> None:
    """Soon after a worker of pytest-xdist was killed nothing of its world is left; other trials are made."""
    write(tmp_path)
    process = start(tmp_path, mark, "--count=8", "-n", "2")
    whole = poll(lambda: world_below(process.pid) if trials_of(tmp_path) else None, within=WITHIN)
    assert whole
    worker, its = whole
    ports = {port for one in its for port in listening(one)}
    worker.kill()
    assert poll(lambda: not any(lives(one) for one in its), within=GONE_WITHIN), [one for one in its if lives(one)]
    ports -= {port for one in marked(mark) for port in listening(one)}  # the next worker's world may have got one
    assert not any(answers(port) for port in ports)
    output, _ = process.communicate(timeout=WITHIN)
    found = rows(tmp_path)
    assert process.returncode != 0
    assert "crashed while running" in output
    # Of 16 trials the one that was under way is lost, unless it had just been judged.
    assert len({row["id"] for row in found}) == len(found) in {15, 16}, output
    assert not [row for row in found if row["outcome"] == "invalid"], output


def world_below(pytest: int) -> tuple[psutil.Process, list[psutil.Process]] | None:
    """A worker of that pytest whose world is whole, and all that it has started."""
    for worker in psutil.Process(pytest).children():
        with suppress(psutil.Error):  # gone meanwhile
            its = worker.children(recursive=True)
            if {one.name() for one in its if listening(one)} >= {"kube-apiserver", "toxiproxy-server", "caddy"}:
                return worker, its
    return None


def lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def listening(process: psutil.Process) -> list[int]:
    """The ports on which a process listens; none for one that has just ended."""
    try:
        return [each.laddr[1] for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
    except psutil.Error:
        return []


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def trials_of(directory: Path) -> int:
    path = directory / "holdback-report" / "trials.jsonl"
    return len(path.read_text().splitlines()) if path.exists() else 0
