"""A file system in memory, for the spool of a sender without a directory.

So the spool has one implementation for both modes. No operation here fails or tears a write.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from penstock.storage.fs import Buffer


class RamFile:
    """A handle on shared bytes."""

    __slots__ = ("_data",)

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def write_at(self, data: Buffer, offset: int) -> None:
        self.allocate(offset)
        self._data[offset : offset + len(data)] = data

    def write_parts_at(
        self, parts: Sequence[Buffer], offset: int, *, is_brief: bool = False
    ) -> None:
        self.write_at(b"".join(parts), offset)

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(memoryview(self._data)[offset : offset + size])

    def size(self) -> int:
        return len(self._data)

    def allocate(self, size: int) -> None:
        missing = size - len(self._data)
        if missing > 0:
            self._data.extend(bytes(missing))

    def truncate(self, size: int) -> None:
        del self._data[size:]
        self.allocate(size)

    def sync(self) -> None:
        pass

    def drop_cache(self) -> None:
        pass

    def close(self) -> None:
        pass


class RamLock:
    """A lock without an effect: no other process can see these files."""

    def release(self) -> None:
        pass


class RamFilesystem:
    """Files by path; directories need not be created. The spool's locks guard the bytes."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}

    def create(self, path: str) -> RamFile:
        if path in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._files[path] = bytearray()
        return RamFile(self._files[path])

    def open(self, path: str, *, writable: bool = False) -> RamFile:
        return RamFile(self._find(path))

    def map(self, path: str) -> memoryview:
        return memoryview(bytes(self._find(path)))

    def exists(self, path: str) -> bool:
        return path in self._files

    def size(self, path: str) -> int:
        return len(self._find(path))

    def list(self, path: str) -> list[str]:
        folder = path + "/"
        inside = [name.removeprefix(folder) for name in self._files if name.startswith(folder)]
        return sorted({name.partition("/")[0] for name in inside})

    def make_dirs(self, path: str) -> None:
        pass

    def rename(self, source: str, target: str) -> None:
        self._files[target] = self._find(source)
        del self._files[source]

    def unlink(self, path: str) -> None:
        self._find(path)
        del self._files[path]

    def remove_dir(self, path: str) -> None:
        pass

    def sync_dir(self, path: str) -> None:
        pass

    def lock(self, path: str) -> RamLock:
        return RamLock()

    def is_locked(self, path: str) -> bool:
        return False

    def network_kind(self, path: str) -> str:
        return ""

    def boot_id(self) -> str:
        return "memory"

    def _find(self, path: str) -> bytearray:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._files[path]
