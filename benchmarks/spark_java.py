"""The Java machine of `penstock bench spark`: where it writes, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.load_cpu import children
from benchmarks.server_process import pause

_STOP_TIMEOUT_S: Final = 15


def writes_below(root: str) -> dict[str, str]:
    """Settings of a session whose every file is below `root`, which Spark's are not by default."""
    place = os.path.join(root, "spark")
    os.makedirs(place, exist_ok=True)
    return {
        "spark.local.dir": place,
        "spark.sql.warehouse.dir": os.path.join(root, "warehouse"),
        "spark.driver.extraJavaOptions": f'-Djava.io.tmpdir="{place}"',
    }


@contextlib.contextmanager
def ended() -> Iterator[None]:
    """End the processes that the block starts and does not end.

    PySpark keeps its Java until Python exits, and forgets a Java whose start was interrupted.
    """
    before = _started()
    try:
        yield
    finally:
        for pid in _started() - before:
            _end(pid)


def _started() -> set[int]:
    try:
        return set(children(os.getpid()))
    except OSError:  # a system that does not tell
        return set()


def _end(pid: int) -> None:
    deadline = time.perf_counter() + _STOP_TIMEOUT_S
    reaped = 0
    with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it has been waited for
        try:
            os.kill(pid, signal.SIGTERM)
            while not reaped and time.perf_counter() < deadline:
                pause()
                reaped, _ = os.waitpid(pid, os.WNOHANG)
        finally:  # also after a second Ctrl-C
            if not reaped:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
