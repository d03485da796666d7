"""Kueue #11062 with links that are slow only while it matters: from the eviction's first sign to the next quota."""

import holdback
from holdback.controllers.kueue import MultiKueue, no_copy_without_nomination, no_orphan, readmitted
from holdback.oracles import no_endless_rejection

DOSE = 300
"""Milliseconds on both links from the manager to its workers, for about two seconds."""


@holdback.experiment(oracles=[readmitted, no_copy_without_nomination, no_endless_rejection, no_orphan])
def test_a_workload_whose_eviction_meets_slow_links_is_admitted_again(
    multikueue: MultiKueue, trial: holdback.Trial
) -> None:
    """A Workload whose worker drains its ClusterQueue is admitted again, though the links are slow just then.

    They are slow from when the manager's Workload shows its admission check in Retry until one second after its quota
    is reserved again. Before and after nothing is slow.
    """
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)

    def seen(path: str, value: str, *, later: float = 0) -> holdback.ObjectSeen:
        return holdback.ObjectSeen(
            "workloads", on=multikueue.manager, name=job.workload, where={path: value}, within=60, later=later
        )

    with trial.inject(
        *(holdback.Delay(link, milliseconds=DOSE) for link in multikueue.links),
        start=seen("status.admissionChecks[*].state", "Retry"),
        end=seen("status.conditions[QuotaReserved].status", "True", later=1),
    ):
        multikueue.evict(job, on=first)
        trial.settle(within=15)
