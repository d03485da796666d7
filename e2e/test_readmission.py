"""Kueue #11062: a Workload evicted by its worker is admitted again (MultiKueue, AllAtOnce dispatcher)."""

import holdback
from holdback.controllers.kueue import MultiKueue, no_copy_without_nomination, no_orphan, readmitted
from holdback.oracles import no_endless_rejection

DOSE = 100
"""Milliseconds on both links from the manager to its workers: see docs/results.md for why this dose."""

ORACLES = [readmitted, no_copy_without_nomination, no_endless_rejection, no_orphan]


@holdback.experiment(oracles=ORACLES)
def test_a_drained_workload_is_admitted_again(multikueue: MultiKueue, trial: holdback.Trial) -> None:
    """A Workload whose worker drains its ClusterQueue is admitted again on the other worker."""
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
    with trial.inject(*(holdback.Delay(link, milliseconds=DOSE) for link in multikueue.links)):
        multikueue.evict(job, on=first)
        trial.settle(within=15)


@holdback.experiment(oracles=ORACLES)
def test_a_preempted_workload_is_admitted_again(multikueue: MultiKueue, trial: holdback.Trial) -> None:
    """A Workload preempted on its worker is admitted again on the other worker."""
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
    with trial.inject(*(holdback.Delay(link, milliseconds=DOSE) for link in multikueue.links)):
        multikueue.preempt(job, on=first)
        trial.settle(within=15)


@holdback.experiment(oracles=ORACLES)
def test_a_deactivated_workload_is_admitted_again(multikueue: MultiKueue, trial: holdback.Trial) -> None:
    """A Workload whose copy is deactivated on its worker is admitted again.

    The manager must not see the copy inactive and not yet evicted: it then deletes it as out of sync and takes the
    worker for lost until `workerLostTimeout` (15 minutes), another flake than #11062 with no fix in the treatment.
    So nothing of it is under way when the copy is deactivated, and its watch is held until the eviction is there.
    """
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
    multikueue.await_idle()
    with trial.inject(*(holdback.Delay(link, milliseconds=DOSE) for link in multikueue.links)):
        with trial.inject(holdback.Hold(multikueue.link(first).watch("workloads"))):
            multikueue.deactivate(job, on=first)
        trial.settle(within=15)
