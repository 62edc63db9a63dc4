"""The index of a spool: its segments in order, with the offset and length of each frame.

It takes eight bytes per frame and does no I/O. The spool's state lock guards it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.sender.segment import PLACE_BYTES
from penstock.wire.spool_frame import FSN_MAX


@dataclass(slots=True)
class SpoolSegment:
    """A segment file and its frames, numbered from `base` without gaps. A lost frame has offset
    0."""

    path: str
    number: int
    incarnation: bytes
    base: int
    created_ms: int
    size: int  # of the file
    end: int  # where the next frame goes
    offsets: array[int] = field(default_factory=lambda: array("I"))
    lengths: array[int] = field(default_factory=lambda: array("I"))
    must_quarantine: bool = False  # it has damaged bytes that were not copied yet

    @property
    def last(self) -> int:
        """The number of its last frame; below `base` when it has none."""
        return self.base + len(self.offsets) - 1

    def add(self, offset: int, length: int) -> None:
        self.offsets.append(offset)
        self.lengths.append(length)
        self.end = offset + length

    def cut(self, fsn: int) -> None:
        """Remove frames from this number on, including one that was added in part."""
        count = fsn - self.base
        if len(self.offsets) > count:
            self.end = self.offsets[count] - PLACE_BYTES
            del self.offsets[count:], self.lengths[count:]

    def mark_lost(self, fsn: int) -> None:
        self.offsets[fsn - self.base] = 0
        self.lengths[fsn - self.base] = 0


class FrameRun(NamedTuple):
    """Consecutive intact frames of one segment."""

    segment: SpoolSegment
    first_fsn: int
    frames: list[tuple[int, int]]  # offset, length


class FrameIndex:
    """All segments with frames that are not acknowledged yet, oldest first."""

    def __init__(self, segments: list[SpoolSegment]) -> None:
        self.segments = segments

    def find(self, fsn: int) -> SpoolSegment | None:
        """The segment of a frame; None when the frame is lost between two segments or removed."""
        at = bisect_right(self.segments, fsn, key=lambda segment: segment.base)
        # Segments without a frame share their base with the next one.
        while at > 0 and (segment := self.segments[at - 1]).base <= fsn:
            if fsn <= segment.last:
                return segment
            if segment.offsets:
                return None
            at -= 1
        return None

    def is_lost(self, fsn: int) -> bool:
        segment = self.find(fsn)
        return segment is None or segment.offsets[fsn - segment.base] == 0

    def piece(self, fsn: int, bytes_max: int, last: int = FSN_MAX) -> FrameRun | None:
        """Consecutive frames from `fsn` up to `last` in one segment: at least one, then as many as
        fit `bytes_max`. None when frame `fsn` is lost."""
        segment = self.find(fsn)
        if segment is None:
            return None
        frames: list[tuple[int, int]] = []
        left = bytes_max
        for at in range(fsn - segment.base, min(len(segment.lengths), last + 1 - segment.base)):
            offset, length = segment.offsets[at], segment.lengths[at]
            if offset == 0 or (frames and length > left):
                break
            frames.append((offset, length))
            left -= length
        return FrameRun(segment, fsn, frames) if frames else None

    def acked_prefix(self, acked: int, *, tail: SpoolSegment | None) -> list[SpoolSegment]:
        """The oldest segments whose frames are all acknowledged. Never the tail."""
        gone: list[SpoolSegment] = []
        for segment in self.segments:
            if segment is tail or segment.last > acked:
                break
            gone.append(segment)
        return gone
