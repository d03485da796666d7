"""Clusters that somebody has already: used only where allowed, told beforehand, and given back as they were."""

from __future__ import annotations

from holdback.clusters.existing.contexts import Contexts, access_to
from holdback.clusters.existing.provider import ExistingProvider
from holdback.clusters.existing.removal import Leftover, leftovers, remove

__all__ = ["Contexts", "ExistingProvider", "Leftover", "access_to", "leftovers", "remove"]
