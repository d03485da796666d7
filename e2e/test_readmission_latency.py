"""Kueue #11062 by constant latency, for curves (`--dose`). How often the bug shows depends on the machine's load."""

import holdback
from holdback.controllers.kueue import MultiKueue, no_copy_without_nomination, no_orphan, readmitted
from holdback.oracles import no_endless_rejection

DOSE = 100
"""Milliseconds on both links from the manager to its workers: see docs/results.md for why this dose."""


@holdback.experiment(oracles=[readmitted, no_copy_without_nomination, no_endless_rejection, no_orphan])
def test_a_workload_evicted_behind_latency_is_admitted_again(multikueue: MultiKueue, trial: holdback.Trial) -> None:
    """A Workload whose worker drains its ClusterQueue is admitted again, though its manager is far from the workers."""
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
    with trial.inject(*(holdback.Delay(link, milliseconds=DOSE) for link in multikueue.links)):
        multikueue.evict(job, on=first)
        trial.settle(within=15)
