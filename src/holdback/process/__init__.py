"""Child processes of one run, and the certainty that none outlives it."""

from __future__ import annotations

from holdback.process.child import Child, await_ready, child, start
from holdback.process.program import Program
from holdback.process.protocols import Running
from holdback.process.run import Run, open_run

__all__ = ["Child", "Program", "Run", "Running", "await_ready", "child", "open_run", "start"]
