"""Kueue #11062 with a manager that is behind only while it matters: from the eviction to the next quota."""

import holdback
from holdback.controllers.kueue import MultiKueue, no_copy_without_nomination, no_orphan, readmitted
from holdback.oracles import no_endless_rejection

DOSE = 300
"""Milliseconds on both links from the manager to its workers, for about two seconds: the reconciler is busy."""
STALE = 100
"""Milliseconds on the manager's watch of its own Workloads: the reconciler works on what was."""


@holdback.experiment(oracles=[readmitted, no_copy_without_nomination, no_endless_rejection, no_orphan])
def test_a_workload_evicted_behind_its_managers_back_is_admitted_again(
    multikueue: MultiKueue, trial: holdback.Trial
) -> None:
    """A Workload whose worker drains its ClusterQueue is admitted again, though the manager is behind just then.

    It is behind from when its Workload shows the admission check in Retry until one second after quota is reserved
    again. Before and after nothing is slow.
    """
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)

    def seen(path: str, value: str, *, later: float = 0) -> holdback.ObjectSeen:
        return holdback.ObjectSeen(
            "workloads", on=multikueue.manager, name=job.workload, where={path: value}, within=60, later=later
        )

    with trial.inject(
        *(holdback.Delay(link, milliseconds=DOSE) for link in multikueue.links),
        holdback.Delay(multikueue.own_link.watch("workloads"), milliseconds=STALE),
        start=seen("status.admissionChecks[*].state", "Retry"),
        end=seen("status.conditions[QuotaReserved].status", "True", later=1),
    ):
        multikueue.evict(job, on=first)
        trial.settle(within=15)
