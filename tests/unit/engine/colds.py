"""A log whose old segments are cold, for the tests of that."""

from __future__ import annotations

from typing import Any

from penstock.engine.engine import Log
from penstock.storage.tiers.folder import FolderTier
from penstock.testing import MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Record
from tests.unit.engine.support import paths

COLD = "/cold"
TIER: dict[str, Any] = {"cold_dir": COLD, "hot_retain_segments": 1, "segment_max_events": 10}


def filled(fs: MemoryFilesystem) -> Log:
    """Five segments of ten records, of which all but the newest are cold."""
    log = open_memory_log(fs, **TIER)
    fill(log, 50)
    log.relocate()
    return log


def fill(log: Log, count: int, topic: str = "t") -> None:
    for start in range(0, count, 10):
        log.append(topic, [Record(n, tag=f"k{n % 2}") for n in range(start, start + 10)])
    log.checkpoint(everything=True)


def in_tier(fs: MemoryFilesystem, ending: str = ".data") -> list[str]:
    return [path.rpartition("/")[2] for path in paths(fs, f"{COLD}/topics", ending)]


def unmount(fs: MemoryFilesystem) -> dict[str, bytes]:
    """What was in the tier; an empty folder stays."""
    held = {path: bytes(fs.map(path)) for path in paths(fs, f"{COLD}/")}
    for path in held:
        fs.unlink(path)
    return held


def mount(fs: MemoryFilesystem, held: dict[str, bytes]) -> None:
    for path, data in held.items():
        FolderTier(fs, COLD).put(path.removeprefix(f"{COLD}/"), [data])
