"""Where each frame of a spool lies: the segments in order, and the numbers that are lost.

Eight bytes a frame. Nothing here touches a file; the spool's state lock guards it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.sender.segment import PLACE_BYTES
from penstock.wire.spool_frame import FSN_MAX


@dataclass(slots=True)
class Segment:
    """A segment file and its frames, numbered from `base` without a hole. A lost one has
    offset 0."""

    path: str
    number: int
    incarnation: bytes
    base: int
    created_ms: int
    size: int  # of the file
    end: int  # where the next frame goes
    offsets: array[int] = field(default_factory=lambda: array("I"))
    lengths: array[int] = field(default_factory=lambda: array("I"))
    is_kept_aside: bool = False  # it holds damage of which there is no copy yet

    @property
    def last(self) -> int:
        """The number of its last frame; below `base` when it has none."""
        return self.base + len(self.offsets) - 1

    def add(self, offset: int, length: int) -> None:
        self.offsets.append(offset)
        self.lengths.append(length)
        self.end = offset + length

    def cut(self, fsn: int) -> None:
        """Forget frames from this number on, half noted ones too."""
        count = fsn - self.base
        if len(self.offsets) > count:
            self.end = self.offsets[count] - PLACE_BYTES
            del self.offsets[count:], self.lengths[count:]

    def lose(self, fsn: int) -> None:
        self.offsets[fsn - self.base] = 0
        self.lengths[fsn - self.base] = 0


class Piece(NamedTuple):
    """Good frames of one segment, in the order of their numbers."""

    segment: Segment
    first_fsn: int
    frames: list[tuple[int, int]]  # offset, length


class Index:
    """All segments that hold frames somebody may still ask for, oldest first."""

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments

    def find(self, fsn: int) -> Segment | None:
        """The segment a number belongs to, or None when it lies between two or was removed."""
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

    def piece(self, fsn: int, bytes_max: int, last: int = FSN_MAX) -> Piece | None:
        """Frames from `fsn` on up to `last`, at least one, of not more than `bytes_max` bytes if
        they are more. None when that frame is lost."""
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
        return Piece(segment, fsn, frames) if frames else None

    def acked_prefix(self, acked: int, *, tail: Segment | None) -> list[Segment]:
        """Segments nobody needs any more, oldest first. Never the tail."""
        gone: list[Segment] = []
        for segment in self.segments:
            if segment is tail or segment.last > acked:
                break
            gone.append(segment)
        return gone
