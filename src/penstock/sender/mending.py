"""Go on without what is missing: only when somebody says so, and nothing that is there is lost."""

from __future__ import annotations

from itertools import pairwise

from penstock.errors import InvalidArgument, SpoolHole
from penstock.sender.opening import open_spool, read_segment
from penstock.sender.recovery import SegmentFacts, judge
from penstock.sender.segment import HEAD_BYTES, INCARNATION_BYTES, Head, name_of, number_of
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Rejection, Slot
from penstock.sender.watermark import Watermark
from penstock.storage.atomic import write_whole
from penstock.storage.fs import Filesystem


def skip_frames(fs: Filesystem, sf_dir: str, sender_id: str, through: int | None) -> list[int]:
    """Put the oldest frame, or all up to `through`, into the dead-letter folder; their numbers."""
    spool = open_spool(SpoolSettings(sf_dir=sf_dir, sender_id=sender_id), fs=fs)
    skipped = []
    try:
        last = spool.acked_fsn + 1 if through is None else through
        if last > spool.published_fsn:
            raise InvalidArgument(f"the slot ends at frame {spool.published_fsn}")
        while spool.acked_fsn < last:
            fsn = spool.acked_fsn + 1
            spool.reject(fsn, Rejection("skipped", -1, "put aside by an operator"))
            skipped.append(fsn)
    finally:
        spool.close()
    return skipped


def skip_holes(fs: Filesystem, path: str, *, now_us: int) -> list[str]:
    """Make a slot with missing segments open again: an empty one in each place, and one whose
    head is damaged moved aside. Says what was done; [] when the slot opens as it is. The frames
    that were there are reported as lost with the next opening, and all others are sent."""
    slot = Slot.open(fs, path)
    done: list[str] = []
    try:
        while True:
            facts = _facts(fs, path)
            watermark = Watermark(fs, path)
            try:
                judge(facts, watermark.read(), slot=path)
            except SpoolHole as error:
                done.append(_mend(slot, facts, watermark, str(error), now_us))
            else:
                return done
            finally:
                watermark.close()
    finally:
        slot.release()


def _facts(fs: Filesystem, path: str) -> list[SegmentFacts]:
    named = [(number_of(name), f"{path}/{name}") for name in fs.list(path)]
    facts = [read_segment(fs, place, number) for number, place in named if number is not None]
    return sorted(facts, key=lambda one: one.number)


def _mend(
    slot: Slot, facts: list[SegmentFacts], watermark: Watermark, why: str, now_us: int
) -> str:
    """The first thing that is wrong."""
    for one in facts:
        if one.head is None:
            slot.quarantine_file(one.path)
            return f"{one.path} has a damaged head and was moved to quarantine"
    for before, after in pairwise(facts):
        if after.number > before.number + 1:
            base = (before.last if before.last is not None else -1) + 1
            return _fill(slot, before.number + 1, base, now_us)
    marks = watermark.read()
    if facts and marks is not None and facts[0].number > 1:
        return _fill(slot, facts[0].number - 1, marks.acked + 1, now_us)
    raise InvalidArgument(f"this cannot be skipped: {why}")


def _fill(slot: Slot, number: int, base: int, now_us: int) -> str:
    """An empty segment, so that the next one is seen to begin later than it should."""
    head = Head(number, bytes(INCARNATION_BYTES), now_us, base).encode()
    path = f"{slot.path}/{name_of(number)}"
    write_whole(slot.fs, path, [(head + head)[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0")])
    slot.fs.sync_dir(slot.path)
    return f"an empty segment takes the place of {name_of(number)}, which is missing"
