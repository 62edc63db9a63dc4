"""Logs for tests, on a disk and a clock that the test controls."""

from __future__ import annotations

from random import Random
from typing import Any

from penstock import limits
from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem

ROOT = "/penstock"


def open_memory_log(
    fs: MemoryFilesystem | None = None, clock: FakeClock | None = None, **settings: Any
) -> Log:
    """A log in memory without threads: every call finishes its own work, and the same calls
    leave the same bytes. Give the same `fs` again to open what an earlier log left there.

    `settings` are those of `Settings`. The environment plays no part.
    """
    chosen = {"background": False, "wal_shards": 1, "wal_file_bytes": limits.MIB, **settings}
    return open_log(
        ROOT,
        settings=Settings(**chosen),
        fs=fs or MemoryFilesystem(),
        clock=clock or FakeClock(),
        random_bytes=Random(0).randbytes,
    )
