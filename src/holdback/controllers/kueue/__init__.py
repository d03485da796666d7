"""Kueue as the controller under test: variants, builds, the MultiKueue world and what must hold in it."""

from holdback.controllers.kueue.multikueue import Job, MultiKueue
from holdback.controllers.kueue.oracles import no_copy_without_nomination, no_orphan, readmitted
from holdback.controllers.kueue.world import MultiKueueWorld, multikueue_world

__all__ = [
    "Job",
    "MultiKueue",
    "MultiKueueWorld",
    "multikueue_world",
    "no_copy_without_nomination",
    "no_orphan",
    "readmitted",
]
