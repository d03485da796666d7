"""Kueue #11062 by holds that come and go with what happens: no latency, no guessed times, on machines of any speed."""

import holdback
from holdback.controllers.kueue import MultiKueue, no_copy_without_nomination, no_orphan, readmitted
from holdback.oracles import no_endless_rejection

OVERLAP = 0.5
"""Seconds for which both holds are in force: the second one is there before the first lets the manager go on."""


@holdback.experiment(oracles=[readmitted, no_copy_without_nomination, no_endless_rejection, no_orphan])
def test_a_workload_whose_eviction_is_seen_late_is_admitted_again(
    multikueue: MultiKueue, trial: holdback.Trial
) -> None:
    """A Workload whose worker drains its ClusterQueue is admitted again, though its manager learns of it late.

    What the manager reads from its workers is held until the evicted copy has given up its quota: what it sees first
    decides which way it takes, and this is the way to the bug. It then dispatches by what its Workload was before the
    eviction, and the answer to that is held until the Workload has lost its quota and got it again: the short state in
    which the manager would have taken the copy back has passed unseen.
    """
    job = multikueue.submit(cpu=1)
    first = multikueue.admitted(job, within=30)
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
        multikueue.evict(job, on=first)
        trial.settle(within=15)
