"""Kueue as the controller under test: variants, builds, its worlds, and what must hold in them."""

from holdback.controllers.kueue.finalizers import (
    deleted_pods_go,
    kueue_lets_go,
    no_finalizer_lost,
    no_finalizer_returns,
)
from holdback.controllers.kueue.multikueue import Job, MultiKueue
from holdback.controllers.kueue.oracles import no_copy_without_nomination, no_orphan, readmitted
from holdback.controllers.kueue.pods import Pod, Pods
from holdback.controllers.kueue.pods_world import PodsWorld, pods_world
from holdback.controllers.kueue.world import MultiKueueWorld, multikueue_world

__all__ = [
    "Job",
    "MultiKueue",
    "MultiKueueWorld",
    "Pod",
    "Pods",
    "PodsWorld",
    "deleted_pods_go",
    "kueue_lets_go",
    "multikueue_world",
    "no_copy_without_nomination",
    "no_finalizer_lost",
    "no_finalizer_returns",
    "no_orphan",
    "pods_world",
    "readmitted",
]
