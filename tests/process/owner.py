"""A process that owns a run, to be killed by tests: `owner.py LOGS MODE [WATCHED...]`.

It starts two children, one of them with a grandchild in a session of its own, writes one JSON line (the
run's id and its directory) and then does what MODE says: `sleep`, `hang` (deaf to SIGINT and SIGTERM, as in
a system call that does not return), `will` (as `sleep`; if killed, `undone` beside LOGS gets the number of processes
that are left) or `end`. All are deaf to SIGTERM; with `end` only the grandchild is.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from holdback.process import Run, open_run, start

_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
_IDLE = "import signal; print('up', flush=True); signal.pause()"
_PARENT = (
    "import signal, subprocess, sys; "
    f'subprocess.Popen([sys.executable, "-c", {_DEAF + _IDLE!r}], start_new_session=True); signal.pause()'
)
_COUNT = (
    "import pathlib, sys; from holdback.process.reaper import members; "
    "pathlib.Path(sys.argv[2]).write_text(f'{len(members(sys.argv[1]))}\\n')"
)


def _children(run: Run, manner: str) -> None:
    deaf = start(run, "idle", [sys.executable, "-c", manner + _IDLE])
    parent = start(run, "parent", [sys.executable, "-c", manner + _PARENT])
    while not (deaf.log_tail() and parent.log_tail()):
        time.sleep(0.01)


def main() -> None:
    """See above."""
    logs, mode, *watched = sys.argv[1:]
    with ExitStack() as stack:
        run = stack.enter_context(open_run(logs=Path(logs), watch=[int(pid) for pid in watched]))
        _children(run, "" if mode == "end" else _DEAF)
        if mode == "hang":
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if mode == "will":
            stack.enter_context(
                run.if_killed([sys.executable, "-c", _COUNT, run.id, str(Path(logs).parent / "undone")])
            )
        print(json.dumps({"id": run.id, "directory": str(run.directory)}), flush=True)
        while mode != "end":
            time.sleep(60)


if __name__ == "__main__":
    main()
