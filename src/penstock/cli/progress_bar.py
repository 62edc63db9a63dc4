"""A progress bar for long work."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from penstock.clock import SystemClock

_DELAY_S = 0.3  # shorter work needs no bar


class Bar:
    """A progress bar on stderr. It appears only if the work takes longer than a moment."""

    def __init__(self, what: str, *, in_bytes: bool) -> None:
        self._what = what
        self._in_bytes = in_bytes
        self._clock = SystemClock()
        self._start = self._clock.monotonic()
        self._bars: Progress | None = None
        self._task = TaskID(0)

    def step(self, done: int, total: int) -> None:
        if self._bars is None:
            if self._clock.monotonic() - self._start < _DELAY_S:
                return
            self._show()
        if self._bars is not None:
            self._bars.update(self._task, completed=done, total=total or None)

    def name(self, what: str) -> None:
        """Set the name of the current stage."""
        self._what = what
        if self._bars is not None:
            self._bars.update(self._task, description=what)

    def _show(self) -> None:
        count = DownloadColumn(binary_units=True) if self._in_bytes else MofNCompleteColumn()
        columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
        self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bars.add_task(self._what, total=None)
        self._bars.start()

    def stop(self) -> None:
        if self._bars is not None:
            self._bars.stop()
