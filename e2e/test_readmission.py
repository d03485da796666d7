"""Kueue #11062: a Workload evicted by its worker is admitted again (MultiKueue, AllAtOnce dispatcher).

No latency and no guessed times: what is held back comes and goes with what happens, so that the bug shows as often on a
busy machine as on an idle one. The same by constant latency is in test_readmission_latency.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import holdback
from holdback.controllers.kueue import MultiKueue, no_copy_without_nomination, no_orphan, readmitted
from holdback.oracles import no_endless_rejection

ORACLES = [readmitted, no_copy_without_nomination, no_endless_rejection, no_orphan]

OVERLAP = 0.5
"""Seconds for which both holds are in force: the second one is there before the first lets the manager go on."""


@contextmanager
def learning_late(multikueue: MultiKueue, trial: holdback.Trial) -> Iterator[None]:
    """Let the manager learn late of an eviction that happens in the block.

    What the manager reads from its workers is held until the evicted copy has given up its quota: what it sees first
    decides which way it takes, and this is the way to the bug. It then dispatches by what its Workload was before the
    eviction, and the answer to that is held until the Workload has lost its quota and got it again: the short state in
    which the manager would have taken the copy back has passed unseen.
    """
    reserved = "status.conditions[QuotaReserved].status"

    def given_up(*, later: float = 0) -> holdback.ObjectSeen:
        return holdback.ObjectSeen("workloads", on="worker*", where={reserved: "False"}, later=later)

    reading = [lane for link in multikueue.links for lane in (link.watch("workloads"), link.reads)]
    with (
        trial.inject(*map(holdback.Hold, reading), end=given_up(later=OVERLAP)),
        trial.inject(
            *(holdback.Hold(link.writes) for link in multikueue.links),
            start=given_up(),
            end=holdback.ObjectSeen("workloads", on=multikueue.manager, where={reserved: "True"}, later=OVERLAP),
        ),
    ):
        yield


@holdback.experiment(oracles=ORACLES)
def test_a_drained_workload_is_admitted_again(multikueue: MultiKueue, trial: holdback.Trial) -> None:
    """A Workload whose worker drains its ClusterQueue is admitted again on the other worker."""
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
    with learning_late(multikueue, trial):
        multikueue.evict(job, on=first)
        trial.settle(within=15)


@holdback.experiment(oracles=ORACLES)
def test_a_preempted_workload_is_admitted_again(multikueue: MultiKueue, trial: holdback.Trial) -> None:
    """A Workload preempted on its worker is admitted again on the other worker."""
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
    with learning_late(multikueue, trial):
        multikueue.preempt(job, on=first)
        trial.settle(within=15)


@holdback.experiment(oracles=ORACLES)
def test_a_deactivated_workload_is_admitted_again(multikueue: MultiKueue, trial: holdback.Trial) -> None:
    """A Workload whose copy is deactivated on its worker is admitted again.

    The manager must not see the copy inactive and not yet evicted: it then deletes it as out of sync and takes the
    worker for lost until `workerLostTimeout` (15 minutes), another flake than #11062 with no fix in the treatment.
    So nothing of it is under way when the copy is deactivated.
    """
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
    multikueue.await_idle()
    with learning_late(multikueue, trial):
        multikueue.deactivate(job, on=first)
        trial.settle(within=15)
