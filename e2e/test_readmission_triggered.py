"""Kueue #11062 by faults that come and go with what happens, and no latency before or after."""

import holdback
from holdback.controllers.kueue import MultiKueue, no_copy_without_nomination, no_orphan, readmitted
from holdback.oracles import no_endless_rejection

DOSE = 400
"""Milliseconds on both links from the manager to its workers, for about two seconds.

The manager asks each worker before it dispatches, and then dispatches. At this dose it is busy with that for more than
a second, in which its Workload loses its quota and gets it again; it then goes on as if nothing had happened.
"""
OVERLAP = 0.2
"""Seconds for which both faults are in force: the slow links are there before the manager learns of the eviction."""


@holdback.experiment(oracles=[readmitted, no_copy_without_nomination, no_endless_rejection, no_orphan])
def test_a_workload_whose_eviction_meets_slow_links_is_admitted_again(
    multikueue: MultiKueue, trial: holdback.Trial
) -> None:
    """A Workload whose worker drains its ClusterQueue is admitted again, though the manager learns of it late.

    The manager's link to that worker is held until the evicted copy has given up its quota: what the manager sees
    first decides which way it takes, and this is the way to the bug. From then on both links are slow, until one second
    after the manager's Workload has its quota reserved again.
    """
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
    reserved = "status.conditions[QuotaReserved].status"

    def given_up(*, later: float = 0) -> holdback.ObjectSeen:
        return holdback.ObjectSeen("workloads", on="worker*", where={reserved: "False"}, later=later)

    with (
        trial.inject(holdback.Hold(multikueue.link(first)), end=given_up(later=OVERLAP)),
        trial.inject(
            *(holdback.Delay(link, milliseconds=DOSE) for link in multikueue.links),
            start=given_up(),
            end=holdback.ObjectSeen("workloads", on=multikueue.manager, where={reserved: "True"}, within=60, later=1),
        ),
    ):
        multikueue.evict(job, on=first)
        trial.settle(within=15)
