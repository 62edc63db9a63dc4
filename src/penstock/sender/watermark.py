"""How far the server has acknowledged, kept beside the segments.

Two records lie in one file. An acknowledgement is written over one of them and not synced: a
stale mark only means that frames are sent again. Before segments go both are made to say so, one
after the other and each past a sync. So whatever a power cut tears, one record is whole, and none
claims less than what was removed. An unreadable file claims nothing and is written again.
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
    """Everything up to `acked` is done with; frames up to `published` have existed. -1: none."""

    generation: int
    acked: int
    published: int

    def encode(self) -> bytes:
        body = _BODY.pack(_MAGIC, 1, self.generation, self.acked, self.published)
        return body + _SUM.pack(value(body))


def decode(data: bytes) -> Marks | None:
    """One record, or None when the bytes are none."""
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


class Watermark:
    """The file. Safe from several threads."""

    def __init__(self, fs: Filesystem, slot: str) -> None:
        self._fs = fs
        self._slot = slot
        self._path = f"{slot}/{WATERMARK_NAME}"
        self._lock = threading.Lock()  # guards all below
        self._file: File | None = None
        self._is_named = False  # its name survives a power cut; an earlier run may not have cared
        self._is_spoiled = False  # a sync failed: this file is never synced again
        self._is_silent = True
        self._marks = Marks(0, -1, -1)
        self._kept, self._noted = _PLACES  # the record that is past a sync, and the other

    @property
    def is_silent(self) -> bool:
        """There is no record that could claim too little."""
        with self._lock:
            return self._is_silent

    def read(self) -> Marks | None:
        """What an earlier run left. A file that cannot be read claims nothing."""
        with self._lock:
            if not self._fs.exists(self._path):
                return None
            try:
                self._file = self._fs.open(self._path, writable=True)
                data = self._file.read_at(0, WATERMARK_BYTES)
            except OSError:
                self._is_spoiled = True
                return None
            try:
                self._file.sync()  # what a killed process wrote may not be
            except OSError:
                self._is_spoiled = True
            marks = newest(data)
            if _records(data)[0] is None:
                self._noted, self._kept = _PLACES
            if marks is not None:
                self._marks, self._is_silent = marks, False
            return marks

    def note(self, acked: int, published: int) -> None:
        """Write the next record, unsynced. Marks never go back."""
        with self._lock:
            if acked <= self._marks.acked and published <= self._marks.published:
                return
            self._raise_marks(acked, published)
            file = self._opened()
            self._is_silent = False
            file.write_at(self._marks.encode(), self._noted)

    def settle(self, acked: int, published: int) -> None:
        """Make both records say this, durably."""
        with self._lock:
            self._raise_marks(acked, published)
            if self._is_spoiled:
                self._replace()
                return
            file = self._opened()
            self._is_silent = False
            for place in (self._noted, self._kept):
                file.write_at(self._marks.encode(), place)
                try:
                    file.sync()
                except OSError:
                    self._is_spoiled = True
                    raise
            if not self._is_named:
                self._fs.sync_dir(self._slot)
                self._is_named = True

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
                self._is_named = False
        if self._file.size() < WATERMARK_BYTES:
            self._file.allocate(WATERMARK_BYTES)  # now, and not when the disk is full
        return self._file

    def _replace(self) -> None:
        """Put a new file in the place of one that failed to sync."""
        record = self._marks.encode().ljust(_PLACES[1], b"\0")
        write_whole(self._fs, self._path, [record, record])
        self._is_silent = False
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = self._fs.open(self._path, writable=True)
        self._fs.sync_dir(self._slot)
        self._is_spoiled, self._is_named = False, True
