"""Segment files on a disk: prepared ahead, taken into use, written, and made anew after a
failed sync.

A file gets its name only when its head is durable. So a segment whose head cannot be read was
harmed later, and a crash while one is prepared leaves nothing but a temporary file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.sender.index import Segment
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

# Two, because a spare may be prepared while a failed file is made anew.
_SPARE_TEMPORARY: Final = ".spare.tmp"
_RENEWED_TEMPORARY: Final = ".renewed.tmp"
TEMPORARY_NAMES: Final = (_SPARE_TEMPORARY, _RENEWED_TEMPORARY)
_ZEROS: Final = memoryview(bytes(256 * 1024))


@dataclass(slots=True)
class Spare:
    """A file that only lacks its first number."""

    head: Head
    path: str
    size: int
    file: File


class Writer:
    """The file a segment is written through. One caller at a time."""

    __slots__ = ("_seed", "file", "is_suspect", "segment")

    def __init__(self, segment: Segment, file: File, seed: int) -> None:
        self.segment = segment
        self.file = file
        self.is_suspect = False  # a write or sync failed: `renew` it before it is used again
        self._seed = seed

    def fits(self, frame_bytes: int) -> bool:
        return self.segment.end + PLACE_BYTES + frame_bytes <= self.segment.size

    def write(self, fsn: int, parts: Sequence[bytes]) -> tuple[int, int]:
        """Write a frame behind the last one and say where; it counts once the caller adds it to
        the segment."""
        at = self.segment.end
        head = encode_head(fsn, parts)
        laid = (place_of(self._seed, at, head), head, *parts)
        self.file.write_parts_at(laid, at, is_brief=True)  # the producer waits for nobody's turn
        return at + PLACE_BYTES, len(head) + sum(map(len, parts))


class SegmentFiles:
    """The segment files of one slot."""

    def __init__(self, fs: Filesystem, slot: str, segment_bytes: int) -> None:
        self._fs = fs
        self._slot = slot
        self.segment_bytes = segment_bytes

    def prepare(self, number: int, incarnation: bytes, *, now_ms: int) -> Spare:
        """A new file, allocated, its head and its name durable. After an OSError nothing is
        left, or a file that the next call replaces."""
        head = Head(number, incarnation, now_ms * 1000)
        path = f"{self._slot}/{name_of(number)}"
        file = self._place(_SPARE_TEMPORARY, path, head.encode(), self.segment_bytes)
        return Spare(head, path, self.segment_bytes, file)

    def warm(self, spare: Spare) -> None:
        """Give a spare its pages ahead of time, since finding memory for them takes longer than
        writing a frame does. They hold what is there already: zeros. A disk that fails is for the
        frames to meet: this only saves time."""
        with contextlib.suppress(OSError):
            for at in range(RECORD_BYTES, spare.size, len(_ZEROS)):
                spare.file.write_at(_ZEROS[: spare.size - at], at)

    def promote(self, spare: Spare, base: int) -> Writer:
        """Take a spare into use. The second record is synced with the frames: without it the
        first frame says where the segment begins."""
        head = Head(spare.head.number, spare.head.incarnation, spare.head.created_us, base)
        spare.file.write_at(head.encode(), RECORD_BYTES)
        segment = Segment(
            spare.path,
            head.number,
            head.incarnation,
            base,
            head.created_us // 1000,
            spare.size,
            HEAD_BYTES,
        )
        return Writer(segment, spare.file, head.seed)

    def discard(self, spare: Spare) -> None:
        spare.file.close()
        with contextlib.suppress(OSError):
            self._fs.unlink(spare.path)

    def reopen(self, segment: Segment) -> Writer:
        """A writer for a segment of an earlier run, to sync it."""
        file = self._fs.open(segment.path, writable=True)
        head = Head(segment.number, segment.incarnation, 0)
        return Writer(segment, file, head.seed)

    def renew(self, writer: Writer, data: bytes) -> None:
        """Replace a file that failed by a new one that holds `data`, all of it durable. The old
        one is never synced again, and keeps its name when this fails."""
        segment = writer.segment
        file = self._place(_RENEWED_TEMPORARY, segment.path, data, segment.size)
        with contextlib.suppress(OSError):
            writer.file.close()
        writer.file = file
        writer.is_suspect = False

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
