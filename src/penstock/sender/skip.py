"""Go on past a hole: what an operator asks for after `SpoolHole`, and nobody else.

No frame that can be read is touched. An empty segment takes the place of each missing one, so
that the next opening finds the frames between lost, and reports them as it reports any loss.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from penstock.clock import Clock, SystemClock
from penstock.errors import SpoolHole
from penstock.sender.files import SegmentFiles
from penstock.sender.opening import read_segments
from penstock.sender.recovery import SegmentFacts
from penstock.sender.segment import HEAD_BYTES, INCARNATION_BYTES
from penstock.sender.slot import Slot
from penstock.sender.watermark import Watermark

_MISSING_MAX: Final = 10_000  # more files than any spool has: these are two spools in one slot


def skip_holes(slot: Slot, *, clock: Clock | None = None) -> list[str]:
    """Make a slot that was refused open again, and say what was done. May be repeated."""
    done = []
    for facts in read_segments(slot):
        if facts.head is None:
            slot.quarantine_file(facts.path)
            done.append(f"moved {facts.path} aside, whose head cannot be read")
    files = read_segments(slot)
    done += _fill(slot, files, now_ms=(clock or SystemClock()).now_ms())
    done += _raise_watermark(slot, files)
    return done


def _fill(slot: Slot, files: list[SegmentFacts], *, now_ms: int) -> list[str]:
    empty = SegmentFiles(slot.fs, slot.path, HEAD_BYTES)
    done = []
    for before, after in pairwise(files):
        missing = range(before.number + 1, after.number)
        if len(missing) > _MISSING_MAX:
            raise SpoolHole(before.path, reason=f"{len(missing)} segments are missing behind it")
        for number in missing:
            spare = empty.prepare(number, bytes(INCARNATION_BYTES), now_ms=now_ms)
            spare.file.close()
            done.append(f"put an empty {spare.path} in the place of a missing one")
    return done


def _raise_watermark(slot: Slot, files: list[SegmentFacts]) -> list[str]:
    """Frames that are missing in front are given up."""
    watermark = Watermark(slot.fs, slot.path)
    try:
        marks = watermark.read()
        first = next((facts.first for facts in files if facts.first is not None), None)
        if marks is None or first is None or marks.acked + 1 >= first:
            return []
        watermark.settle(first - 1, marks.published)
        return [f"gave up frames {marks.acked + 1} to {first - 1}, which no segment holds"]
    finally:
        watermark.close()
