"""The disk that is measured on: what it is, and how long it takes to keep something."""

from __future__ import annotations

import os
import statistics
from pathlib import Path

from penstock.cli.benchmarks.figure import folder, seconds
from penstock.errors import InvalidArgument
from penstock.storage.fs import OsFilesystem

_SYNCS = 50
_BLOCK = 4_096
_IN_MEMORY = {"tmpfs", "ramfs"}


def file_system(path: str) -> str:
    """Its kind, as the system names it; empty where the system does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return kind_at(os.path.realpath(path), mounts)


def kind_at(path: str, mounts: list[str]) -> str:
    """Of the deepest mount that holds the path; of two at one place, the later one."""
    best, kind = "", ""
    for mount in mounts:
        _, place, name, *_ = mount.split(" ")
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, name
    return kind


def refuse_memory(path: str) -> None:
    """A sync there costs nothing, so every comparison of durable writes would be untrue."""
    kind = file_system(path)
    if kind in _IN_MEMORY:
        raise InvalidArgument(f"{path} is on {kind}, which is memory; give a --dir on a disk")


def sync_ms(root: str) -> float:
    """Median of writing one block and syncing it."""
    fs = OsFilesystem()
    with folder(root) as path:
        file = fs.create(f"{path}/block")
        file.allocate(_BLOCK * _SYNCS)

        def once(number: int) -> None:
            file.write_at(bytes(_BLOCK), number * _BLOCK)
            file.sync()

        times = [seconds(lambda number=number: once(number)) for number in range(_SYNCS)]  # type: ignore[misc]
        file.close()
    return statistics.median(times) * 1000
