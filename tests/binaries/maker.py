"""A program for the cache's tests: makes one entry, tells in a log that it does, and may dawdle half-way.

Arguments: the cache's folder, the log, and `quick`, `wait` (until the file `go-on` is beside the log) or `go`
(a Go build with whatever `go` is on the PATH).
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from holdback.binaries.cache import Cache
from holdback.binaries.progress import Progress, Task
from holdback.binaries.workshop import Source, Workshop
from holdback.clock import poll


def main() -> None:
    root, log, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    workshop = Workshop(Cache(root), Progress(io.StringIO()))

    def fill(entry: Path, scratch: Path, task: Task) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        (entry / "half").write_text("half", encoding="utf-8")
        if mode == "wait":
            assert poll((log.parent / "go-on").exists, within=100)
        if mode == "go":
            workshop.compile(Source("x", log.parent, ".", {}, "do not"), entry / "x", scratch, task)
        (entry / "half").rename(entry / "whole")

    print(workshop.make("thing", "key", fill))


if __name__ == "__main__":
    main()
