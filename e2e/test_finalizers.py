"""Kueue #3899: while Kueue removes its own finalizer from a pod, what others do to theirs is undone.

Both arms run one executable; treatment has the feature gate `RemoveFinalizersWithStrictPatch` on. Kueue computes a
removal from the pod as it knows it. The scenarios aim: they hold that write on its way (or the watch from which Kueue
would learn better) while another controller changes the finalizers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

import holdback
from holdback.controllers.kueue import (
    Pods,
    deleted_pods_go,
    kueue_lets_go,
    no_finalizer_lost,
    no_finalizer_returns,
)
from holdback.controllers.kueue.pods import Pod

OURS = "holdback.example/backup"
ANOTHER = "holdback.example/audit"
COUNT = 5
"""Pods of a trial: Kueue works on so many at once."""
WITHIN = 5
"""Seconds that Kueue gets to let go once nothing is in its way; it needs a tenth of one."""
OVERLAP = 0.5
"""Seconds for which both holds are in force: the second one is there before the first lets Kueue go on."""
UNAIMED = 200
"""Milliseconds on each of Kueue's writes when nobody aims."""

ORACLES = [no_finalizer_lost, no_finalizer_returns, kueue_lets_go, deleted_pods_go]


def _held(pods: Pods) -> holdback.Hold:
    """No write of Kueue to a pod arrives."""
    return holdback.Hold(pods.link.write("pods"), of="requests")


def _admitted(pods: Pods, count: int = COUNT, *, grouped: bool = False) -> Sequence[Pod]:
    """So many pods that Kueue has admitted."""
    mine = pods.submit(count, grouped=grouped)
    pods.admitted(mine, within=30)
    return mine


@contextmanager
def _letting_go(pods: Pods, trial: holdback.Trial, mine: Sequence[Pod]) -> Iterator[None]:
    """The pods have finished and Kueue has seen it; that it lets go of them is held on its way."""
    with trial.inject(_held(pods)):
        pods.finish(mine)
        pods.declared_finished(mine, within=15)
        yield


@holdback.experiment(oracles=ORACLES)
def test_a_finalizer_added_meanwhile_stays(pods: Pods, trial: holdback.Trial) -> None:
    """A finalizer that is added while Kueue's removal is on its way is not lost."""
    mine = _admitted(pods)
    with _letting_go(pods, trial, mine):
        pods.add(mine, OURS)
    trial.settle(within=WITHIN)


@holdback.experiment(oracles=ORACLES)
def test_a_finalizer_added_meanwhile_stays_in_a_group(pods: Pods, trial: holdback.Trial) -> None:
    """The same in a pod group, of which Kueue removes all finalizers at once.

    Kueue reads a group's pods once more before it removes: its watch is held too, so that it cannot know.
    """
    mine = _admitted(pods, grouped=True)
    with _letting_go(pods, trial, mine), trial.inject(holdback.Hold(pods.link.watch("pods"))):
        pods.add(mine, OURS)
    trial.settle(within=WITHIN)


@holdback.experiment(oracles=ORACLES)
def test_a_finalizer_that_kueue_has_not_seen_stays(pods: Pods, trial: holdback.Trial) -> None:
    """A finalizer that is added while Kueue's watch is late is not lost: nothing else is slowed."""
    mine = _admitted(pods)
    with trial.inject(holdback.Delay(pods.link.watch("pods"), milliseconds=500)):
        pods.finish(mine)
        pods.add(mine, OURS)
        pods.declared_finished(mine, within=15)
    trial.settle(within=WITHIN)


@holdback.experiment(oracles=ORACLES)
def test_a_pod_being_deleted_waits_for_every_finalizer(pods: Pods, trial: holdback.Trial) -> None:
    """A pod whose deletion has begun stays until the finalizer that was added meanwhile is removed by its owner."""
    mine = _admitted(pods)
    with _letting_go(pods, trial, mine):
        pods.add(mine, OURS)
        pods.delete(mine)
    trial.settle(within=WITHIN)


@holdback.experiment(oracles=ORACLES)
def test_a_removed_finalizer_does_not_come_back(pods: Pods, trial: holdback.Trial) -> None:
    """A finalizer that its owner removes while Kueue's removal is on its way does not come back."""
    mine = _admitted(pods)
    pods.add(mine, OURS)
    with _letting_go(pods, trial, mine):
        pods.remove(mine, OURS)
    trial.settle(within=WITHIN)


@holdback.experiment(oracles=ORACLES)
def test_what_owners_do_at_once_is_all_kept(pods: Pods, trial: holdback.Trial) -> None:
    """One owner removes and adds again, another one adds: Kueue's removal undoes none of it."""
    mine = _admitted(pods)
    pods.add(mine, OURS)
    with _letting_go(pods, trial, mine):
        pods.remove(mine, OURS)
        pods.add(mine, ANOTHER)
        pods.add(mine, OURS)
    trial.settle(within=WITHIN)


@holdback.experiment(oracles=ORACLES)
def test_a_finalizer_added_at_the_right_moment_stays(pods: Pods, trial: holdback.Trial) -> None:
    """A finalizer that is added after Kueue has declared a pod finished, and before it has let go of it, is not lost.

    Every fault comes and goes with what is observed, so that the speed of the machine does not matter. What Kueue is
    told of pods is held from before the pod's end until its writes to pods are held. It then declares the pod finished
    and lets go of it as it knows it; that is held until the other finalizer is there.
    """
    mine = _admitted(pods, 1)

    def pod(where: dict[str, str], *, later: float = 0) -> holdback.ObjectSeen:
        return holdback.ObjectSeen("pods", on=pods.link.cluster, where=where, later=later)

    finished = {"status.phase": "Succeeded"}
    with (
        trial.inject(holdback.Hold(pods.link.watch("pods")), end=pod(finished, later=OVERLAP)),
        trial.inject(_held(pods), start=pod(finished), end=pod({"metadata.finalizers[*]": OURS})),
    ):
        pods.finish(mine)
        pods.declared_finished(mine, within=15)
        pods.add(mine, OURS)
        trial.settle(within=WITHIN)


@pytest.mark.unaimed
@holdback.experiment(oracles=ORACLES)
def test_nobody_aims(pods: Pods, trial: holdback.Trial) -> None:
    """With 200 ms on Kueue's writes, one finalizer is added to one pod at a random moment of the next two seconds."""
    mine = _admitted(pods, 1)
    moment = trial.random.uniform(0, 2)
    late = [holdback.Delay(lane, milliseconds=UNAIMED) for lane in (pods.link.write("pods"), pods.link.writes)]
    with trial.inject(*late):
        pods.finish(mine)
        pods.pause(moment)
        pods.add(mine, OURS)
        trial.settle(within=WITHIN)
