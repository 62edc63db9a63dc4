"""What a slot's files add up to: which frames are there, which are lost, where numbers go on.

Pure: it judges what `opening` has read. Segments are numbered without a hole, so a missing file
is told from frames that a power cut or a bad disk took: the first is fatal and explained, the
second is loss, reported and passed.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from penstock.errors import SpoolHole
from penstock.sender.index import Segment
from penstock.sender.segment import Head, Scan
from penstock.sender.watermark import Marks

_HINT: Final = {  # by what is wrong; the slot is filled in, so that the line can be pasted
    "missing": "nothing was changed; put the missing files back, or run "
    "`penstock spool skip --hole {slot}` to go on without these frames",
    "head": "nothing was changed; put a good copy of this file in its place, or run "
    "`penstock spool skip --hole {slot}`, which moves it aside and goes on without its frames",
    "double": "nothing was changed; these look like the files of two spools: move those of one "
    "to a folder of their own",
}


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One segment file as it was found. `head` is None when it cannot be read; then
    `has_frames` says whether there is anything in it."""

    path: str
    number: int
    size: int
    head: Head | None
    scan: Scan
    has_frames: bool

    @property
    def first(self) -> int | None:
        """The number of its first frame, if anything tells."""
        if self.head is not None and self.head.base is not None:
            return self.head.base
        if not self.scan.frames:
            return None
        is_whole = not self.scan.damage or self.scan.damage[0].first_fsn is not None
        return self.scan.frames.first_fsn if is_whole else None

    @property
    def last(self) -> int | None:
        if self.scan.frames:
            return self.scan.frames.last_fsn
        return None if self.first is None else self.first - 1


@dataclass(frozen=True, slots=True)
class Damage:
    """Frames that are gone, and the bytes where they were; `length` may be 0."""

    path: str
    offset: int
    length: int
    first_fsn: int
    last_fsn: int
    reason: str

    def frames_above(self, acked: int) -> int:
        """How many of them had not been acknowledged."""
        return max(0, self.last_fsn - max(self.first_fsn, acked + 1) + 1)


@dataclass(frozen=True, slots=True)
class Torn:
    """Bytes behind the last frame of a file. Nobody can tell a write that was cut short from a
    frame that was damaged. `incarnation` is the segment's: its number may be used again."""

    path: str
    offset: int
    length: int
    incarnation: bytes


@dataclass(slots=True)
class Verdict:
    """What to do with a slot."""

    acked: int = -1
    next_fsn: int = 0
    next_number: int = 1
    segments: list[Segment] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)  # acknowledged: to be removed
    empty: list[str] = field(default_factory=list)  # spares, and what never held a frame
    unreadable: list[str] = field(default_factory=list)  # to be moved aside: no head, no frames
    torn: list[Torn] = field(default_factory=list)  # never published, as far as we know

    @property
    def torn_bytes(self) -> int:
        return sum(torn.length for torn in self.torn)

    def tear(self, facts: SegmentFacts) -> None:
        """Note what lies behind the last frame of this file, if anything."""
        scan = facts.scan
        if scan.torn_bytes and facts.head is not None:
            self.torn.append(Torn(facts.path, scan.end, scan.torn_bytes, facts.head.incarnation))


def judge(files: list[SegmentFacts], marks: Marks | None, *, slot: str) -> Verdict:
    """SpoolHole when frames are missing and no damage explains it."""
    files = sorted(files, key=lambda facts: facts.number)
    verdict = Verdict(acked=_acked(files, marks))
    verdict.next_number = max((facts.number for facts in files), default=0) + 1
    seen = [facts.last for facts in files if facts.last is not None]
    verdict.next_fsn = max([verdict.acked, *seen]) + 1

    needed = _drop_acked(files, verdict)
    _drop_empty_end(needed, verdict)
    _drop_front(needed, verdict)
    _check_numbers(needed, slot)
    _check_front(needed, marks, slot)
    if needed:
        verdict.next_number = needed[-1].number + 1
    _lay_out(needed, verdict, slot)
    _miss_the_end(needed, marks, verdict, slot)
    return verdict


def _acked(files: list[SegmentFacts], marks: Marks | None) -> int:
    """From the watermark, else all that came before the oldest frame. Nothing, when the oldest
    file cannot be read: it may hold anything."""
    if marks is not None:
        return marks.acked
    for facts in files:
        if facts.head is None:
            return -1
        if facts.first is not None:
            return facts.first - 1
        if facts.scan.frames:
            return facts.scan.frames.first_fsn - 1
    return -1


def _drop_acked(files: list[SegmentFacts], verdict: Verdict) -> list[SegmentFacts]:
    """Leave out what was acknowledged to its end: its removal was cut short."""
    needed = []
    for at, facts in enumerate(files):
        following = files[at + 1] if at + 1 < len(files) else None
        seen = -1 if facts.last is None else facts.last
        upto = facts.last
        # Frames at its end may be damaged: the next segment says how far it went at least. Not at
        # most: when taking that one into use failed, more frames came into this one.
        if following and following.number == facts.number + 1:
            upto = None if following.first is None else max(following.first - 1, seen)
        if upto is None or upto > verdict.acked:
            needed.append(facts)
            continue
        if following is None:  # nothing says that it went no further
            verdict.tear(facts)
        if facts.head is None:
            verdict.unreadable.append(facts.path)
        else:
            verdict.leftovers.append(facts.path)
    return needed


def _drop_empty_end(needed: list[SegmentFacts], verdict: Verdict) -> None:
    """Leave out spares, and a newest file of which nothing can be read."""
    while needed and not needed[-1].has_frames:
        facts = needed.pop()
        verdict.tear(facts)
        (verdict.unreadable if facts.head is None else verdict.empty).append(facts.path)


def _drop_front(needed: list[SegmentFacts], verdict: Verdict) -> None:
    """Leave out what lies before a missing file and holds nothing we need: removals may reach the
    disk in any order, and files may have lost their frames before they were to go."""
    while (gap := _first_gap(needed)) and all(
        facts.head and (not facts.scan.frames or facts.scan.frames.last_fsn <= verdict.acked)
        for facts in needed[:gap]
    ):
        verdict.leftovers += [facts.path for facts in needed[:gap]]
        del needed[:gap]


def _first_gap(needed: list[SegmentFacts]) -> int:
    """Where the numbers first jump; 0 if they do not."""
    for at, (before, after) in enumerate(pairwise(needed), 1):
        if after.number != before.number + 1:
            return at
    return 0


def _hole(path: str, reason: str, what: str, slot: str) -> SpoolHole:
    return SpoolHole(path, reason=reason, hint=_HINT[what].format(slot=shlex.quote(slot)))


def _check_numbers(needed: list[SegmentFacts], slot: str) -> None:
    for facts in needed:
        if facts.head is None:
            raise _hole(facts.path, "the head of this segment is damaged", "head", slot)
    if gap := _first_gap(needed):
        before, after = needed[gap - 1], needed[gap]
        reason = (
            f"the segments between this one, which ends at frame {before.last}, "
            f"and {after.path}, which begins at frame {after.first}, are missing"
        )
        raise _hole(before.path, reason, "missing", slot)


def _check_front(needed: list[SegmentFacts], marks: Marks | None, slot: str) -> None:
    if not needed or marks is None or needed[0].first is None:
        return
    if needed[0].first > marks.acked + 1:
        reason = (
            f"acknowledged up to frame {marks.acked}, and the oldest segment, {needed[0].path}, "
            f"begins at frame {needed[0].first}: what lay between is missing"
        )
        raise _hole(slot, reason, "missing", slot)


def _lay_out(needed: list[SegmentFacts], verdict: Verdict, slot: str) -> None:
    """Build the index, and note every frame that should be there and is not."""
    expected: int | None = None
    before: SegmentFacts | None = None
    for facts in needed:
        first = facts.first
        if first is None:
            first = expected if expected is not None else _guess(facts, verdict.acked)
        if before is not None and expected is not None and first != expected:
            if first < expected:
                reason = f"{facts.path} begins at frame {first}, which this one holds already"
                raise _hole(before.path, reason, "double", slot)
            _miss(verdict, before.path, before.scan, expected, first - 1)
        elif before is not None:
            verdict.tear(before)
        segment = _segment(facts, first, verdict)
        verdict.segments.append(segment)
        expected, before = segment.last + 1, facts
    if expected is not None:
        verdict.next_fsn = max(verdict.next_fsn, expected)


def _guess(facts: SegmentFacts, acked: int) -> int:
    """Where the oldest segment begins when nothing in it tells: nowhere later than this."""
    good = facts.scan.frames.first_fsn if facts.scan.frames else acked + 1
    return min(good, acked + 1)


def _segment(facts: SegmentFacts, first: int, verdict: Verdict) -> Segment:
    if facts.head is None:
        raise AssertionError("judged without a head")
    segment = Segment(
        facts.path,
        facts.number,
        facts.head.incarnation,
        first,
        facts.head.created_us // 1000,
        facts.size,
        facts.scan.end,
        *facts.scan.frames.laid_out(first),
    )
    for stretch in facts.scan.damage:
        first_fsn = first if stretch.first_fsn is None else stretch.first_fsn
        verdict.damage.append(
            Damage(
                facts.path,
                stretch.offset,
                stretch.length,
                first_fsn,
                stretch.last_fsn,
                "these bytes are no frame, and good ones follow",
            )
        )
    return segment


def _miss(verdict: Verdict, path: str, scan: Scan, first: int, last: int) -> None:
    reason = "the end of this segment is gone, and the next one follows"
    verdict.damage.append(Damage(path, scan.end, scan.torn_bytes, first, last, reason))


def _miss_the_end(
    needed: list[SegmentFacts], marks: Marks | None, verdict: Verdict, slot: str
) -> None:
    """Frames the watermark knows of, and no segment holds."""
    torn = needed[-1].scan.torn_bytes if needed else 0
    published = -1 if marks is None else marks.published
    if published < verdict.next_fsn:
        for facts in needed[-1:]:
            verdict.tear(facts)
        return
    path, end = (needed[-1].path, needed[-1].scan.end) if needed else (slot, 0)
    reason = "the watermark knows of frames that no segment holds"
    verdict.damage.append(Damage(path, end, torn, verdict.next_fsn, published, reason))
    verdict.next_fsn = published + 1
