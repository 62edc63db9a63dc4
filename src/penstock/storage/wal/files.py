"""Names and creation of WAL files.

Files of all shards are numbered from one counter, so sorting by number gives a replay order
that is right whatever the shard count was when each was written.
"""

from __future__ import annotations

import contextlib
import re
import threading
from dataclasses import dataclass

from penstock.codec.checksum import xxh3_64
from penstock.storage.fs import File, Filesystem

_NAME = re.compile(r"wal-(\d{16})\.log")
_SHARD = re.compile(r"shard-\d{2}")


@dataclass(frozen=True, slots=True)
class WalFile:
    """One file on disk. `group` is its directory: files of a group form one ordered stream."""

    path: str
    group: str
    index: int


class FileNumbers:
    """The counter. Safe from several threads."""

    def __init__(self, next_index: int) -> None:
        self._next = next_index
        self._lock = threading.Lock()

    def take(self) -> int:
        with self._lock:
            self._next += 1
            return self._next - 1


def file_name(index: int) -> str:
    return f"wal-{index:016d}.log"


def index_of(name: str) -> int | None:
    """The number of a WAL file by its name; None for another file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def shard_dir(wal_dir: str, shard: int, shards: int) -> str:
    """One shard uses the flat layout; several get a directory each."""
    return wal_dir if shards == 1 else f"{wal_dir}/shard-{shard:02d}"


def groups(fs: Filesystem, wal_dir: str) -> list[str]:
    """Every directory that may hold WAL files, from any shard count ever used."""
    names = [name for name in fs.list(wal_dir) if _SHARD.fullmatch(name)]
    return [wal_dir, *(f"{wal_dir}/{name}" for name in names)]


def shard_number(key: int, shards: int) -> int:
    """The shard of a key: stable, and evenly distributed."""
    return xxh3_64(key.to_bytes(8, "little")) % shards


def may_hold(every: list[str], group: str, key: int) -> bool:
    """True if this directory may contain frames of `key`. The shard count may have changed since
    they were written, so every count that the directories allow is considered."""
    match = re.search(r"/shard-(\d{2})$", group)
    if match is None:
        return True
    number = int(match[1])
    return any(shard_number(key, n) == number for n in range(number + 1, len(every)))


def discover(fs: Filesystem, wal_dir: str) -> list[WalFile]:
    """All WAL files in replay order."""
    found = []
    for group in groups(fs, wal_dir):
        for name in fs.list(group):
            index = index_of(name)
            if index is not None:
                found.append(WalFile(f"{group}/{name}", group, index))
    return sorted(found, key=lambda file: file.index)


def prepare(fs: Filesystem, group: str, index: int, size: int) -> tuple[WalFile, File]:
    """Create a file with allocated blocks and a durable name: nothing is acknowledged in a file
    that a power cut could remove."""
    path = f"{group}/{file_name(index)}"
    file = fs.create(path)
    try:
        file.allocate(size)
        file.sync()
        fs.sync_dir(group)
    except BaseException:
        file.close()
        with contextlib.suppress(OSError):
            fs.unlink(path)
        raise
    return WalFile(path, group, index), file
