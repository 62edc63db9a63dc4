"""The file of the acknowledgement watermark, beside the segments.

The file has two records. An acknowledgement overwrites one of them without a sync: after a crash a
stale watermark only means that frames are sent again. Before segments are removed, both records are
written and synced, one after the other. So after any power cut one record is whole, and no record
is below the removed frames. An unreadable file counts as no watermark and is written again.
"""

from __future__ import annotations

import contextlib
import struct
import threading
from dataclasses import dataclass
from typing import Final

from google_crc32c import value

from penstock.storage.atomic import write_whole
from penstock.storage.fs import File, Filesystem

WATERMARK_NAME: Final = ".ack-watermark"
WATERMARK_BYTES: Final = 8192
_PLACES: Final = (0, 4096)
_MAGIC: Final = b"PSwm"
_BODY: Final = struct.Struct("<4sIQqq28x")  # magic, version, generation, acked, published
_SUM: Final = struct.Struct("<I")
RECORD_BYTES: Final = _BODY.size + _SUM.size


@dataclass(frozen=True, slots=True)
class Marks:
    """Frames up to `acked` are acknowledged, frames up to `published` have existed. -1: none."""

    generation: int
    acked: int
    published: int

    def encode(self) -> bytes:
        body = _BODY.pack(_MAGIC, 1, self.generation, self.acked, self.published)
        return body + _SUM.pack(value(body))


def decode(data: bytes) -> Marks | None:
    """One record; None when the bytes are not a valid record."""
    if len(data) < RECORD_BYTES:
        return None
    body = data[: _BODY.size]
    magic, version, generation, acked, published = _BODY.unpack(body)
    if magic != _MAGIC or version != 1 or _SUM.unpack_from(data, _BODY.size)[0] != value(body):
        return None
    return Marks(generation, acked, published)


def newest(data: bytes) -> Marks | None:
    """The valid record with the larger generation."""
    valid = [marks for marks in _records(data) if marks is not None]
    return max(valid, key=lambda marks: marks.generation) if valid else None


def _records(data: bytes) -> list[Marks | None]:
    return [decode(data[place : place + RECORD_BYTES]) for place in _PLACES]


class AckWatermark:
    """The file. Safe from several threads."""

    def __init__(self, fs: Filesystem, slot: str) -> None:
        self._fs = fs
        self._slot = slot
        self._path = f"{slot}/{WATERMARK_NAME}"
        self._lock = threading.Lock()  # guards all below
        self._file: File | None = None
        self._is_name_synced = False  # an earlier run may not have synced the directory
        self._has_failed = False  # a sync failed: this file is never synced again
        self._is_empty = True
        self._marks = Marks(0, -1, -1)
        self._synced_place, self._unsynced_place = (
            _PLACES  # the record that is past a sync, and the other
        )

    @property
    def is_empty(self) -> bool:
        """The file has no record."""
        with self._lock:
            return self._is_empty

    def read(self) -> Marks | None:
        """The watermark of an earlier run; None when there is none or it cannot be read."""
        with self._lock:
            if not self._fs.exists(self._path):
                return None
            try:
                self._file = self._fs.open(self._path, writable=True)
                data = self._file.read_at(0, WATERMARK_BYTES)
            except OSError:
                self._has_failed = True
                return None
            try:
                self._file.sync()  # a killed process may have left unsynced writes
            except OSError:
                self._has_failed = True
            marks = newest(data)
            if _records(data)[0] is None:
                self._unsynced_place, self._synced_place = _PLACES
            if marks is not None:
                self._marks, self._is_empty = marks, False
            return marks

    def record(self, acked: int, published: int) -> None:
        """Write the next record without a sync. The watermark never decreases."""
        with self._lock:
            if acked <= self._marks.acked and published <= self._marks.published:
                return
            self._raise_marks(acked, published)
            file = self._opened()
            self._is_empty = False
            file.write_at(self._marks.encode(), self._unsynced_place)

    def record_durably(self, acked: int, published: int) -> None:
        """Write and sync both records."""
        with self._lock:
            self._raise_marks(acked, published)
            if self._has_failed:
                self._replace()
                return
            file = self._opened()
            self._is_empty = False
            for place in (self._unsynced_place, self._synced_place):
                file.write_at(self._marks.encode(), place)
                try:
                    file.sync()
                except OSError:
                    self._has_failed = True
                    raise
            if not self._is_name_synced:
                self._fs.sync_dir(self._slot)
                self._is_name_synced = True

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _raise_marks(self, acked: int, published: int) -> None:
        old = self._marks
        acked, published = max(acked, old.acked), max(published, old.published)
        self._marks = Marks(old.generation + 1, acked, published)

    def _opened(self) -> File:
        if self._file is None:
            if self._fs.exists(self._path):
                self._file = self._fs.open(self._path, writable=True)
            else:
                self._file = self._fs.create(self._path)
                self._is_name_synced = False
        if self._file.size() < WATERMARK_BYTES:
            self._file.allocate(WATERMARK_BYTES)  # now, before the disk may be full
        return self._file

    def _replace(self) -> None:
        """Replace a file that failed to sync by a new one."""
        record = self._marks.encode().ljust(_PLACES[1], b"\0")
        write_whole(self._fs, self._path, [record, record])
        self._is_empty = False
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = self._fs.open(self._path, writable=True)
        self._fs.sync_dir(self._slot)
        self._has_failed, self._is_name_synced = False, True
