"""Finding or building the executables that a world is made of."""

from holdback.binaries.binaries import Binaries, Found
from holdback.binaries.progress import Progress

__all__ = ["Binaries", "Found", "Progress"]
