"""Named, versioned, checksummed blobs, written whole. The newest readable one counts.

`docs/format/snapshot.md` is the normative text. Two are kept, so that one damaged file only causes
a longer replay.
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from penstock.codec.checksum import xxh3_64
from penstock.errors import FormatTooNew
from penstock.storage import atomic
from penstock.storage.fs import Filesystem

_NAME = re.compile(r"snapshot-(\d{16})\.bin")
_HEAD = struct.Struct("<4sI16sQQQ")  # magic, version, log id, number, body bytes, body checksum
_SUM = struct.Struct("<Q")
_MAGIC = b"PSNP"
VERSION = 1
KEEP = 2


@dataclass(frozen=True, slots=True)
class Snapshot:
    number: int
    log_id: bytes
    body: bytes
    path: str


def path_of(directory: str, number: int) -> str:
    return f"{directory}/snapshot-{number:016d}.bin"


def numbers(fs: Filesystem, directory: str) -> list[int]:
    """Newest first."""
    found = (number_of(name) for name in fs.list(directory))
    return sorted((number for number in found if number is not None), reverse=True)


def write(fs: Filesystem, directory: str, number: int, log_id: bytes, body: bytes) -> None:
    """Durable when this returns; a crash before leaves the older ones untouched."""
    fs.make_dirs(directory)
    path = path_of(directory, number)
    atomic.write_whole(fs, path, [encode_head(number, log_id, body), body])
    fs.sync_dir(directory)


def encode_head(number: int, log_id: bytes, body: bytes) -> bytes:
    """The head before the body in the file."""
    head = _HEAD.pack(_MAGIC, VERSION, log_id, number, len(body), xxh3_64(body))
    return head + _SUM.pack(xxh3_64(head))


def number_of(name: str) -> int | None:
    """The number in a file's name; None when it is not a snapshot."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def read(fs: Filesystem, directory: str, number: int) -> Snapshot:
    """One snapshot; ValueError with the reason when it is invalid."""
    path = path_of(directory, number)
    buffer = fs.map(path)
    start = _HEAD.size + _SUM.size
    if len(buffer) < start:
        raise ValueError("snapshot is too short")
    head = bytes(buffer[: _HEAD.size])
    magic, version, log_id, held, size, checksum = _HEAD.unpack(head)
    if magic != _MAGIC or _SUM.unpack_from(buffer, _HEAD.size)[0] != xxh3_64(head):
        raise ValueError("snapshot head is damaged")
    if version > VERSION:
        raise FormatTooNew(
            path,
            reason=f"snapshot version {version}, this Penstock reads up to {VERSION}",
            hint="use the version that wrote it",
        )
    body = bytes(buffer[start:])
    if held != number or len(body) != size or xxh3_64(body) != checksum:
        raise ValueError("snapshot body is damaged")
    return Snapshot(number, log_id, body, path)


def remove_older(
    fs: Filesystem, directory: str, *, is_spare: Callable[[Snapshot], bool] = lambda snapshot: True
) -> None:
    """Keep the newest usable snapshots. A damaged snapshot, or one whose body `is_spare` refuses,
    does not count."""
    kept = 0
    for number in numbers(fs, directory):
        if kept < KEEP and _can_be_used(fs, directory, number, is_spare):
            kept += 1
            continue
        with contextlib.suppress(FileNotFoundError):
            fs.unlink(path_of(directory, number))


def _can_be_used(
    fs: Filesystem, directory: str, number: int, is_spare: Callable[[Snapshot], bool]
) -> bool:
    try:
        return is_spare(read(fs, directory, number))
    except ValueError:
        return False
