"""What a person sees of work that takes longer than two seconds.

On a terminal: one live line for each piece of work. Elsewhere: a plain line for each now and then, so that a
log shows that something goes on.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

from holdback.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from holdback.clock import Clock

__all__ = ["Progress", "Task"]


class Task:
    """One piece of work in progress."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.note = "starting"
        """What it is doing right now, in a few words; the thread that works assigns it."""
        self._clock = clock
        self._started = clock.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return self._clock.monotonic() - self._started


class Progress:
    """Shows tasks that run at the same time, in any number of threads.

    `every` is the number of seconds between two plain lines where there is no terminal. `before` is called before
    something is written: whoever else writes there can end a line it has begun.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        every: float = 15.0,
        clock: Clock | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._before = before
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._clock = clock or SystemClock()
        self._every = every
        self._tasks: list[Task] = []
        self._display: Live | _Ticker | None = None
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """One line that stays."""
        self._before()
        self._console.print(text, markup=False)

    @contextmanager
    def task(self, name: str) -> Iterator[Task]:
        """Show a piece of work while the context lasts; what took over two seconds leaves a line."""
        task = Task(name, self._clock)
        self._begin(task)
        try:
            yield task
        finally:
            self._end(task)
        if task.seconds > 2:
            self.say(f"{name}: done in {task.seconds:.0f} s")

    def _begin(self, task: Task) -> None:
        with self._lock:
            self._tasks.append(task)
            if self._display is None:
                self._display = self._new_display()
                self._display.start()

    def _end(self, task: Task) -> None:
        with self._lock:
            self._tasks.remove(task)
            if not self._tasks and self._display is not None:
                self._display.stop()
                self._display = None

    def _new_display(self) -> Live | _Ticker:
        if self._console.is_terminal:
            self._before()
            return Live(console=self._console, get_renderable=self._table, transient=True)
        return _Ticker(self._say_all, self._every)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for task in tuple(self._tasks):
            table.add_row(task.name, f"{task.seconds:.0f} s", task.note)
        return table

    def _say_all(self) -> None:
        for task in tuple(self._tasks):
            self.say(f"{task.name}: {task.note}, {task.seconds:.0f} s")


class _Ticker:
    """Calls `tick` every so many seconds, in a thread of its own."""

    def __init__(self, tick: Callable[[], None], every: float) -> None:
        self._tick = tick
        self._every = every
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdback-progress", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self._tick()
