"""`penstock spool skip --hole`: makes a slot with missing segments usable again, after `SpoolHole`.

No readable frame is changed. An empty segment replaces each missing one, so that the next opening
reports the missing frames as lost.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from penstock.clock import Clock, SystemClock
from penstock.errors import SpoolHole
from penstock.sender.ack_watermark import AckWatermark
from penstock.sender.opening import read_segments
from penstock.sender.recovery import SpoolSegmentFacts
from penstock.sender.segment import HEAD_BYTES, INCARNATION_BYTES
from penstock.sender.segment_files import SegmentFiles
from penstock.sender.slot import Slot

_MISSING_MAX: Final = 10_000  # more files than a spool has: two spools in one slot


def skip_holes(slot: Slot, *, clock: Clock | None = None) -> list[str]:
    """Repair the slot. Returns a list of the changes. May be called again."""
    done = []
    for facts in read_segments(slot):
        if facts.head is None:
            slot.quarantine_file(facts.path)
            done.append(f"quarantined {facts.path}: its head cannot be read")
    files = read_segments(slot)
    done += _fill(slot, files, now_ms=(clock or SystemClock()).now_ms())
    done += _raise_watermark(slot, files)
    return done


def _fill(slot: Slot, files: list[SpoolSegmentFacts], *, now_ms: int) -> list[str]:
    empty = SegmentFiles(slot.fs, slot.path, HEAD_BYTES)
    done = []
    for before, after in pairwise(files):
        missing = range(before.number + 1, after.number)
        if len(missing) > _MISSING_MAX:
            raise SpoolHole(before.path, reason=f"{len(missing)} segments are missing after it")
        for number in missing:
            preallocated = empty.prepare(number, bytes(INCARNATION_BYTES), now_ms=now_ms)
            preallocated.file.close()
            done.append(f"created an empty {preallocated.path} for a missing segment")
    return done


def _raise_watermark(slot: Slot, files: list[SpoolSegmentFacts]) -> list[str]:
    """Advance the watermark over frames that are missing before the oldest segment."""
    watermark = AckWatermark(slot.fs, slot.path)
    try:
        marks = watermark.read()
        first = next((facts.first for facts in files if facts.first is not None), None)
        if marks is None or first is None or marks.acked + 1 >= first:
            return []
        watermark.record_durably(first - 1, marks.published)
        return [f"skipped frames {marks.acked + 1} to {first - 1}: no segment contains them"]
    finally:
        watermark.close()
