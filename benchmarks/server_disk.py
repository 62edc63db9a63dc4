"""The disk that is measured on: how long it takes to write and sync a block."""

from __future__ import annotations

import statistics

from penstock.cli.figure import folder, seconds
from penstock.storage.fs import OsFilesystem

_SYNCS = 50
_BLOCK = 4_096


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
