"""The file of a projection: its state and the offset that the state belongs to, as one.

`docs/format/projection.md` is the normative text. A file is written under a temporary name, synced
and renamed, so that a crash leaves the file before it or this one. It is streamed: neither the
number of its sections nor their bytes are known when it begins.
"""

from __future__ import annotations

import contextlib
import os.path
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from penstock.codec.checksum import xxh3_64
from penstock.storage.fs import Buffer, File, Filesystem
from penstock.types import Offset

FORMAT_VERSION: Final = 1
_MAGIC = b"PPRJ"
# magic, format version, bytes of the head, kind's version, checksum of the definition,
# epoch, seq, created, log id, bytes of the kind, bytes of the topic
_HEAD = struct.Struct("<4sIIIQQQQ16sHH")
_SUM = struct.Struct("<Q")
_SECTION = struct.Struct("<QQ")  # bytes, checksum
_CHAIN = struct.Struct("<QQQ")  # the chain so far, bytes, checksum
_TRAILER = struct.Struct("<QQQ")  # the end mark, number of sections, chain
_END = (1 << 64) - 1  # in the place of a section's length
_SYNC_BYTES = 32 << 20  # synced in steps, so that the log's own syncs wait for no more than this


@dataclass(frozen=True, slots=True)
class CheckpointIdentity:
    """What the state in a file was folded from, and by whom. It must be the same to be used."""

    log_id: bytes
    topic: str
    kind: str
    version: int
    definition: bytes


@dataclass(frozen=True, slots=True)
class StoredProjection:
    """A file that was verified. The parts are views into the mapped file."""

    log_id: bytes
    topic: str
    kind: str
    version: int
    definition_sum: int
    offset: Offset
    created_ms: int
    size: int
    parts: list[memoryview]

    def differs(self, wanted: CheckpointIdentity) -> str | None:
        """Why this cannot be the state of that projection, or None."""
        if self.log_id != wanted.log_id:
            return "it belongs to another log"
        if self.topic != wanted.topic:
            return f"it was made from topic {self.topic!r}, not {wanted.topic!r}"
        if self.kind != wanted.kind:
            return f"it holds a projection of kind {self.kind!r}, not {wanted.kind!r}"
        if self.version != wanted.version:
            return f"its content has version {self.version}, not {wanted.version}"
        if self.definition_sum != xxh3_64(wanted.definition):
            return "it was made by another definition"
        return None


def write(
    fs: Filesystem,
    path: str,
    identity: CheckpointIdentity,
    offset: Offset,
    created_ms: int,
    parts: Iterable[Buffer],
    before_rename: Callable[[], None] = lambda: None,
) -> int:
    """Replace the file, and return its bytes. Durable on return; after an error, or a crash at any
    moment, the file is the one before or this one. `before_rename` is the last moment to raise."""
    temporary = path + ".tmp"
    with contextlib.suppress(FileNotFoundError):
        fs.unlink(temporary)
    file = fs.create(temporary)
    try:
        try:
            size = _write_all(file, encode_head(identity, offset, created_ms), parts)
            # The bytes before the name: a rename of an unsynced file may leave a torn file.
            file.sync()
        finally:
            file.close()
        before_rename()
    except BaseException:
        with contextlib.suppress(OSError):
            fs.unlink(temporary)
        raise
    fs.rename(temporary, path)
    fs.sync_dir(os.path.dirname(path))
    return size


def encode_head(identity: CheckpointIdentity, offset: Offset, created_ms: int) -> bytes:
    """The head of the file, its checksum included."""
    kind, topic = identity.kind.encode(), identity.topic.encode()
    head = _HEAD.pack(
        _MAGIC,
        FORMAT_VERSION,
        _HEAD.size + len(kind) + len(topic) + _SUM.size,
        identity.version,
        xxh3_64(identity.definition),
        offset.epoch,
        offset.seq,
        created_ms,
        identity.log_id,
        len(kind),
        len(topic),
    )
    head += kind + topic
    return head + _SUM.pack(xxh3_64(head))


def _write_all(file: File, head: bytes, parts: Iterable[Buffer]) -> int:
    file.write_at(head, 0)
    at = synced = len(head)
    chain, sections = xxh3_64(head), 0
    for part in parts:
        data = memoryview(part).cast("B")
        frame = _SECTION.pack(len(data), xxh3_64(data))
        file.write_parts_at([frame, data], at)
        at += len(frame) + len(data)
        chain, sections = xxh3_64(_SUM.pack(chain) + frame), sections + 1
        if at - synced >= _SYNC_BYTES:
            file.sync()
            synced = at
    trailer = _TRAILER.pack(_END, sections, chain)
    file.write_at(trailer + _SUM.pack(xxh3_64(trailer)), at)
    return at + _TRAILER.size + _SUM.size


def load(fs: Filesystem, path: str) -> StoredProjection:
    """Map the file and verify every byte. ValueError with the reason when it is damaged or of
    another format; FileNotFoundError when there is none."""
    view = fs.map(path)
    if len(view) < _HEAD.size + _SUM.size:
        raise ValueError("it is too short")
    (
        magic,
        format_version,
        head_bytes,
        version,
        definition_sum,
        epoch,
        seq,
        created_ms,
        log_id,
        kind_bytes,
        topic_bytes,
    ) = _HEAD.unpack_from(view)
    if magic != _MAGIC:
        raise ValueError("it is not the file of a projection")
    if format_version != FORMAT_VERSION:
        raise ValueError(f"its format has version {format_version}, not {FORMAT_VERSION}")
    names_end = _HEAD.size + kind_bytes + topic_bytes
    if head_bytes != names_end + _SUM.size or head_bytes > len(view):
        raise ValueError("its head is damaged")
    if _SUM.unpack_from(view, names_end)[0] != xxh3_64(view[:names_end]):
        raise ValueError("its head is damaged")
    kind_end = _HEAD.size + kind_bytes
    return StoredProjection(
        log_id=log_id,
        topic=bytes(view[kind_end:names_end]).decode(),
        kind=bytes(view[_HEAD.size : kind_end]).decode(),
        version=version,
        definition_sum=definition_sum,
        offset=Offset(epoch, seq),
        created_ms=created_ms,
        size=len(view),
        parts=_sections(view, head_bytes),
    )


def _sections(view: memoryview, head_bytes: int) -> list[memoryview]:
    """The verified sections up to the trailer, which must be the end of the file."""
    found: list[memoryview] = []
    at, size = head_bytes, len(view)
    chain = xxh3_64(view[:head_bytes])
    while True:
        if size - at < _SECTION.size:
            raise ValueError("it was cut off")
        length, checksum = _SECTION.unpack_from(view, at)
        if length == _END:
            break
        frame = view[at : at + _SECTION.size]
        at += _SECTION.size
        if length > size - at:
            raise ValueError(f"section {len(found)} is cut off or damaged")
        part = view[at : at + length]
        if xxh3_64(part) != checksum:
            raise ValueError(f"section {len(found)} is damaged")
        at += length
        chain = xxh3_64(_SUM.pack(chain) + bytes(frame))
        found.append(part)
    end = at + _TRAILER.size
    if size != end + _SUM.size:
        raise ValueError("its end is damaged")
    _, sections, stored_chain = _TRAILER.unpack_from(view, at)
    if _SUM.unpack_from(view, end)[0] != xxh3_64(view[at:end]):
        raise ValueError("its end is damaged")
    if (sections, stored_chain) != (len(found), chain):
        raise ValueError("its sections are not those that were written")
    return found


def check(fs: Filesystem, path: str) -> str | None:
    """For fsck: the reason why the file is damaged, or None."""
    try:
        load(fs, path)
    except ValueError as error:
        return str(error)
    return None
