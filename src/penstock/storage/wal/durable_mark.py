"""The durable end of a shard, stored in a second file.

A damaged last frame looks like a torn tail. This small file tells them apart: it says how far the
log was synced. It is written after every sync and not synced itself (a stale mark only claims
less), and synced when the log is closed. An unreadable mark claims nothing.
"""

from __future__ import annotations

import struct

import msgspec

from penstock.codec.checksum import xxh3_64
from penstock.storage.fs import File, Filesystem

MARK_NAME = "durable.mark"
BOOT_NAME = "boot.id"
_MAGIC = b"PSMK"
_BODY = struct.Struct("<4sHHQQ36s4x")  # magic, version, flags, file index, offset, boot id
_SUM = struct.Struct("<Q")
MARK_BYTES = _BODY.size + _SUM.size
_FAILED, _CLEAN = 1, 2


class DurableMark(msgspec.Struct, frozen=True):
    """Everything up to `offset` of file `index`, and all files before it, were synced. A Struct
    because one is made for every sync."""

    index: int
    offset: int
    boot_id: str
    is_failed: bool = False  # a sync failed: what the page cache shows may not be on disk
    is_clean: bool = False  # written by close(): nothing was in flight

    def encode(self) -> bytes:
        flags = (_FAILED if self.is_failed else 0) | (_CLEAN if self.is_clean else 0)
        boot = self.boot_id.encode("ascii", "replace")[:36]
        body = _BODY.pack(_MAGIC, 1, flags, self.index, self.offset, boot)
        return body + _SUM.pack(xxh3_64(body))


def decode(data: bytes) -> DurableMark | None:
    """The mark, or None when the bytes are not one."""
    if len(data) < MARK_BYTES:
        return None
    body = data[: _BODY.size]
    magic, version, flags, index, offset, boot = _BODY.unpack(body)
    (checksum,) = _SUM.unpack_from(data, _BODY.size)
    if magic != _MAGIC or version != 1 or checksum != xxh3_64(body):
        return None
    boot_id = boot.rstrip(b"\0").decode("ascii", "replace")
    return DurableMark(index, offset, boot_id, bool(flags & _FAILED), bool(flags & _CLEAN))


def read(fs: Filesystem, group: str) -> DurableMark | None:
    path = f"{group}/{MARK_NAME}"
    if not fs.exists(path):
        return None
    file = fs.open(path)
    try:
        return decode(file.read_at(0, MARK_BYTES))
    finally:
        file.close()


def renew(fs: Filesystem, group: str, end: tuple[int, int] | None) -> None:
    """After an opening: the old mark was processed, and everything up to `end` was verified and
    synced; without an `end` the old one stays. The new mark is not synced."""
    noted = read(fs, group)
    is_clean = noted is not None and noted.is_clean
    if end is None:
        end = (0, 0) if noted is None else (noted.index, noted.offset)
    file = open_file(fs, group)
    try:
        file.write_at(DurableMark(*end, fs.boot_id(), is_clean=is_clean).encode(), 0)
    finally:
        file.close()


def damaged(fs: Filesystem, group: str) -> list[str]:
    """Paths of existing mark and boot files in this directory that cannot be read."""
    found = []
    if fs.exists(f"{group}/{MARK_NAME}") and read(fs, group) is None:
        found.append(f"{group}/{MARK_NAME}")
    if fs.exists(f"{group}/{BOOT_NAME}") and not read_boot(fs, group):
        found.append(f"{group}/{BOOT_NAME}")
    return found


def read_boot(fs: Filesystem, wal_dir: str) -> str:
    """The boot id under which the log was last opened; "" when unknown. Only used when a mark is
    unreadable."""
    path = f"{wal_dir}/{BOOT_NAME}"
    if not fs.exists(path):
        return ""
    file = fs.open(path)
    try:
        text = file.read_at(0, 128)
    finally:
        file.close()
    boot_id = text[: -len(_boot_sum(b""))]
    return boot_id.decode("ascii", "replace") if text == boot_id + _boot_sum(boot_id) else ""


def note_boot(fs: Filesystem, wal_dir: str) -> None:
    """Not synced: it has to survive the process, but not a power cut."""
    if read_boot(fs, wal_dir) == fs.boot_id():
        return
    path = f"{wal_dir}/{BOOT_NAME}"
    file = fs.open(path, writable=True) if fs.exists(path) else fs.create(path)
    try:
        boot_id = fs.boot_id().encode("ascii", "replace")
        file.truncate(0)
        file.write_at(boot_id + _boot_sum(boot_id), 0)
    finally:
        file.close()


def _boot_sum(boot_id: bytes) -> bytes:
    return f" {xxh3_64(boot_id):016x}\n".encode()


def open_file(fs: Filesystem, group: str) -> File:
    """The mark's file, made durable by name when new."""
    path = f"{group}/{MARK_NAME}"
    if fs.exists(path):
        return fs.open(path, writable=True)
    file = fs.create(path)
    fs.sync_dir(group)
    return file
