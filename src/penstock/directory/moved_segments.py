"""Finds the records of a slice whose segment was rewritten, moved or dropped since it was made.

Records that are gone for good are reported as lost. Deleted ones are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.directory.block import Block
from penstock.directory.directory_view import DirectoryView, look
from penstock.directory.slices import Slice
from penstock.errors import CorruptFrame
from penstock.storage.fs import Filesystem
from penstock.storage.segments.reader import Segment
from penstock.topics import read_plan

OnLoss = Callable[[Slice, int, int, str], None]
"""Called with the first and last seq that were lost since the slice was made, and the reason."""
Stretch = tuple[Block | Segment, int, int, int, bytearray | None]
"""A run, its first seq, the indexes of the first record and past the last one, the dead ones."""


class SegmentGone(Exception):
    """A segment was dropped or rewritten while it was read."""


class MovedSegments:
    """The newest known state of a data directory. Not for several threads."""

    def __init__(self) -> None:
        self._view: DirectoryView | None = None

    def find(self, part: Slice, at: int, fs: Filesystem, on_loss: OnLoss) -> Iterator[Stretch]:
        """Where the remaining records of the slice are now, from seq `at` on."""
        view = self._view
        topic = None if view is None else view.topic(part.topic)
        if topic is None or topic.id != part.topic_id or topic.head < part.last:
            view = self._view = look(part.root, fs=fs)
            topic = view.topic(part.topic)
        if topic is None or topic.id != part.topic_id:
            on_loss(part, at, part.last, "topic_deleted" if topic is None else "recreated")
            return
        while at <= part.last:
            plan = read_plan.plan(topic, after=at - 1, epoch=None, records_max=1 << 62)
            if plan.last < at:
                raise CorruptFrame(
                    part.root,
                    reason=f"topic {part.topic} ends at seq {topic.head}, before seq {at}",
                    hint="read its data directory, or try again later",
                )
            if plan.gap is not None:
                on_loss(part, at, min(plan.gap.last, part.last), plan.gap.reason)
            for stretch in plan.stretches:
                base, run = stretch.first, stretch.run
                stop = min(stretch.stop, part.last + 1 - base)
                if not isinstance(run, (Block, Segment)):
                    raise AssertionError("neither block nor segment")  # noqa: TRY004 - a bug
                yield run, base, stretch.start, stop, stretch.dead
            at = plan.last + 1

    def check(self, part: Slice, segment: Segment, fs: Filesystem) -> None:
        """For a file that does not exist: raise SegmentGone, unless it should by the state of the
        log."""
        self._view = look(part.root, fs=fs)
        fresh = self._view.topic(part.topic)
        names = [] if fresh is None else [getattr(span.run, "stem", "") for span in fresh.spans]
        if segment.stem not in names:
            raise SegmentGone
