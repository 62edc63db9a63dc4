"""Segment files on disk: creation, first use, writes, and replacement after a failed sync.

A file gets its name only when its head is durable. So a segment with an unreadable head was damaged
later, and a crash during its creation leaves only a temporary file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.sender.frame_index import SpoolSegment
from penstock.sender.segment import (
    HEAD_BYTES,
    PLACE_BYTES,
    RECORD_BYTES,
    Head,
    name_of,
    place_of,
)
from penstock.storage.fs import File, Filesystem
from penstock.wire.spool_frame import encode_head

# Two, because a file may be preallocated while a failed one is replaced.
_NEW_TEMPORARY: Final = ".preallocated.tmp"
_RENEWED_TEMPORARY: Final = ".renewed.tmp"
TEMPORARY_NAMES: Final = (_NEW_TEMPORARY, _RENEWED_TEMPORARY)
_ZEROS: Final = memoryview(bytes(256 * 1024))


@dataclass(slots=True)
class PreallocatedSegment:
    """A segment file without its base and without frames."""

    head: Head
    path: str
    size: int
    file: File


class Writer:
    """The open file of a segment. For one caller at a time."""

    __slots__ = ("_seed", "file", "has_failed", "segment")

    def __init__(self, segment: SpoolSegment, file: File, seed: int) -> None:
        self.segment = segment
        self.file = file
        self.has_failed = False  # a write or sync failed: `renew` it before it is used again
        self._seed = seed

    def fits(self, frame_bytes: int) -> bool:
        return self.segment.end + PLACE_BYTES + frame_bytes <= self.segment.size

    def write(self, fsn: int, parts: Sequence[bytes]) -> tuple[int, int]:
        """Write a frame after the last one. Returns its offset and length; the caller adds it to
        the segment."""
        at = self.segment.end
        head = encode_head(fsn, parts)
        laid = (place_of(self._seed, at, head), head, *parts)
        self.file.write_parts_at(
            laid, at, is_brief=True
        )  # without giving up the interpreter: ADR 0022
        return at + PLACE_BYTES, len(head) + sum(map(len, parts))


class SegmentFiles:
    """The segment files of one slot."""

    def __init__(self, fs: Filesystem, slot: str, segment_bytes: int) -> None:
        self._fs = fs
        self._slot = slot
        self.segment_bytes = segment_bytes

    def prepare(self, number: int, incarnation: bytes, *, now_ms: int) -> PreallocatedSegment:
        """Create a file of full size with a durable head and name. After an OSError no file is
        left, or a temporary file that the next call replaces."""
        head = Head(number, incarnation, now_ms * 1000)
        path = f"{self._slot}/{name_of(number)}"
        file = self._place(_NEW_TEMPORARY, path, head.encode(), self.segment_bytes)
        return PreallocatedSegment(head, path, self.segment_bytes, file)

    def prefault(self, preallocated: PreallocatedSegment) -> None:
        """Write zeros over the zeros, so that the pages are in memory: to allocate them takes
        longer than to write a frame. An error is ignored here; the writes of frames report it."""
        with contextlib.suppress(OSError):
            for at in range(RECORD_BYTES, preallocated.size, len(_ZEROS)):
                preallocated.file.write_at(_ZEROS[: preallocated.size - at], at)

    def promote(self, preallocated: PreallocatedSegment, base: int) -> Writer:
        """Write the base into a preallocated file. The second record is synced with the frames:
        without it the first frame tells the base."""
        head = Head(
            preallocated.head.number,
            preallocated.head.incarnation,
            preallocated.head.created_us,
            base,
        )
        preallocated.file.write_at(head.encode(), RECORD_BYTES)
        segment = SpoolSegment(
            preallocated.path,
            head.number,
            head.incarnation,
            base,
            head.created_us // 1000,
            preallocated.size,
            HEAD_BYTES,
        )
        return Writer(segment, preallocated.file, head.seed)

    def discard(self, preallocated: PreallocatedSegment) -> None:
        preallocated.file.close()
        with contextlib.suppress(OSError):
            self._fs.unlink(preallocated.path)

    def reopen(self, segment: SpoolSegment) -> Writer:
        """Open a segment of an earlier run, to sync it."""
        file = self._fs.open(segment.path, writable=True)
        head = Head(segment.number, segment.incarnation, 0)
        return Writer(segment, file, head.seed)

    def renew(self, writer: Writer, data: bytes) -> None:
        """Replace a failed file by a durable new one with `data`. The old one is never synced
        again, and keeps its name if this fails."""
        segment = writer.segment
        file = self._place(_RENEWED_TEMPORARY, segment.path, data, segment.size)
        with contextlib.suppress(OSError):
            writer.file.close()
        writer.file = file
        writer.has_failed = False

    def _place(self, name: str, path: str, data: bytes, size: int) -> File:
        temporary = f"{self._slot}/{name}"
        with contextlib.suppress(FileNotFoundError):
            self._fs.unlink(temporary)
        file = self._fs.create(temporary)
        try:
            file.allocate(size)
            file.write_at(data, 0)
            file.sync()
            self._fs.rename(temporary, path)
            self._fs.sync_dir(self._slot)
        except OSError:
            file.close()
            with contextlib.suppress(OSError):
                self._fs.unlink(temporary)
            raise
        return file
