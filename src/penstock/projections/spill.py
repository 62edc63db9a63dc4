"""A file for state that a projection does not keep in memory.

It has no name from the moment at which it is created: the system removes it when it is closed,
or when the process ends, however that ends. So a later run never takes one for its own. What is in
it is part of no promise: nothing is synced, and what cannot be read is folded again.
"""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass
from typing import Final

from penstock.storage.fs import Buffer, Filesystem

SPILL_NAME: Final = "evicted.tmp"  # until it has none


class SpillFile:
    """It grows at the end. Closed when nobody holds it any more. One thread at a time."""

    def __init__(self, fs: Filesystem, folder: str) -> None:
        fs.make_dirs(folder)
        path = f"{folder}/{SPILL_NAME}"
        with contextlib.suppress(FileNotFoundError):
            fs.unlink(path)  # of a process that ended between the next two calls
        self._file = fs.create(path)
        weakref.finalize(self, self._file.close)
        fs.unlink(path)
        self.size = 0
        self.dead = 0  # bytes that nobody will read again, as the owner counts them

    def append(self, data: Buffer) -> int:
        """Where the data begins."""
        at = self.size
        self._file.write_at(data, at)
        self.size = at + len(data)
        return at

    def read(self, at: int, size: int) -> bytes:
        """Fewer bytes only if the file was cut."""
        return self._file.read_at(at, size)


@dataclass(frozen=True, slots=True)
class SpillFolder:
    """Where such files are created: beside the state of their projection."""

    fs: Filesystem
    path: str

    def create(self) -> SpillFile:
        return SpillFile(self.fs, self.path)
