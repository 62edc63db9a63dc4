"""The analysis of a slot's files: which frames exist, which are lost, and the next numbers.

Pure: `opening` reads the files. Segments are numbered without gaps, so a missing file can be told
from frames that were lost in a power cut or to a bad disk. A missing file is the error SpoolHole;
lost frames are reported and skipped.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from penstock.errors import SpoolHole
from penstock.sender.ack_watermark import Marks
from penstock.sender.frame_index import SpoolSegment
from penstock.sender.segment import Head, SegmentScan

_HINT: Final = {  # by problem; with the slot filled in, the command can be pasted
    "missing": "nothing was changed; put the missing files back, or run "
    "`penstock spool skip --hole {slot}` to continue without these frames",
    "head": "nothing was changed; replace this file by an intact copy, or run "
    "`penstock spool skip --hole {slot}`, which quarantines it and continues without its frames",
    "double": "nothing was changed; these look like the files of two spools: move the files of one "
    "to another folder",
}


@dataclass(frozen=True, slots=True)
class SpoolSegmentFacts:
    """One segment file as it was read. `head` is None when it is damaged; then `has_frames` says
    whether the file contains frames."""

    path: str
    number: int
    size: int
    head: Head | None
    scan: SegmentScan
    has_frames: bool

    @property
    def first(self) -> int | None:
        """The number of its first frame, if it is known."""
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
    """Lost frames and the damaged bytes; `length` may be 0."""

    path: str
    offset: int
    length: int
    first_fsn: int
    last_fsn: int
    reason: str

    def frames_above(self, acked: int) -> int:
        """The number of unacknowledged frames among them."""
        return max(0, self.last_fsn - max(self.first_fsn, acked + 1) + 1)


@dataclass(frozen=True, slots=True)
class Torn:
    """Bytes after the last frame of a file: an incomplete write or a damaged frame, which cannot be
    told apart. `incarnation` is the segment's, because its number may be used again."""

    path: str
    offset: int
    length: int
    incarnation: bytes


@dataclass(slots=True)
class SlotFindings:
    """The result of the analysis of a slot."""

    acked: int = -1
    next_fsn: int = 0
    next_number: int = 1
    segments: list[SpoolSegment] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)  # acknowledged: to be removed
    empty: list[str] = field(default_factory=list)  # preallocated files, and files without a frame
    unreadable: list[str] = field(default_factory=list)  # to be quarantined: no head, no frames
    torn: list[Torn] = field(default_factory=list)  # not known to be published

    @property
    def torn_bytes(self) -> int:
        return sum(torn.length for torn in self.torn)

    def record_torn(self, facts: SpoolSegmentFacts) -> None:
        """Record the bytes after the last frame of this file, if any."""
        scan = facts.scan
        if scan.torn_bytes and facts.head is not None:
            self.torn.append(Torn(facts.path, scan.end, scan.torn_bytes, facts.head.incarnation))


def analyze(files: list[SpoolSegmentFacts], marks: Marks | None, *, slot: str) -> SlotFindings:
    """Raises SpoolHole when segments are missing or cannot be read."""
    files = sorted(files, key=lambda facts: facts.number)
    findings = SlotFindings(acked=_acked(files, marks))
    findings.next_number = max((facts.number for facts in files), default=0) + 1
    seen = [facts.last for facts in files if facts.last is not None]
    findings.next_fsn = max([findings.acked, *seen]) + 1

    needed = _drop_acked(files, findings)
    _drop_empty_end(needed, findings)
    _drop_front(needed, findings)
    _check_numbers(needed, slot)
    _check_front(needed, marks, slot)
    if needed:
        findings.next_number = needed[-1].number + 1
    _build_segments(needed, findings, slot)
    _record_missing_end(needed, marks, findings, slot)
    return findings


def _acked(files: list[SpoolSegmentFacts], marks: Marks | None) -> int:
    """The watermark; without one, the frames before the oldest frame. -1 when the oldest file
    cannot be read."""
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


def _drop_acked(files: list[SpoolSegmentFacts], findings: SlotFindings) -> list[SpoolSegmentFacts]:
    """Leave out segments whose frames are all acknowledged: a crash interrupted their removal."""
    needed = []
    for at, facts in enumerate(files):
        following = files[at + 1] if at + 1 < len(files) else None
        seen = -1 if facts.last is None else facts.last
        upto = facts.last
        # Frames at its end may be damaged: the base of the next segment is a lower bound for it.
        # Not an upper bound: if the next segment could not be used, more frames followed here.
        if following and following.number == facts.number + 1:
            upto = None if following.first is None else max(following.first - 1, seen)
        if upto is None or upto > findings.acked:
            needed.append(facts)
            continue
        if following is None:  # no other segment tells where it ends
            findings.record_torn(facts)
        if facts.head is None:
            findings.unreadable.append(facts.path)
        else:
            findings.leftovers.append(facts.path)
    return needed


def _drop_empty_end(needed: list[SpoolSegmentFacts], findings: SlotFindings) -> None:
    """Leave out preallocated files, and a newest file without a readable frame."""
    while needed and not needed[-1].has_frames:
        facts = needed.pop()
        findings.record_torn(facts)
        (findings.unreadable if facts.head is None else findings.empty).append(facts.path)


def _drop_front(needed: list[SpoolSegmentFacts], findings: SlotFindings) -> None:
    """Leave out files before a missing one that have no unacknowledged frame: removals may reach
    the disk in any order, and files may have lost their frames before their removal."""
    while (gap := _first_gap(needed)) and all(
        facts.head and (not facts.scan.frames or facts.scan.frames.last_fsn <= findings.acked)
        for facts in needed[:gap]
    ):
        findings.leftovers += [facts.path for facts in needed[:gap]]
        del needed[:gap]


def _first_gap(needed: list[SpoolSegmentFacts]) -> int:
    """The index after the first gap in the numbers; 0 without a gap."""
    for at, (before, after) in enumerate(pairwise(needed), 1):
        if after.number != before.number + 1:
            return at
    return 0


def _hole(path: str, reason: str, what: str, slot: str) -> SpoolHole:
    return SpoolHole(path, reason=reason, hint=_HINT[what].format(slot=shlex.quote(slot)))


def _check_numbers(needed: list[SpoolSegmentFacts], slot: str) -> None:
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


def _check_front(needed: list[SpoolSegmentFacts], marks: Marks | None, slot: str) -> None:
    if not needed or marks is None or needed[0].first is None:
        return
    if needed[0].first > marks.acked + 1:
        reason = (
            f"acknowledged up to frame {marks.acked}, and the oldest segment, {needed[0].path}, "
            f"begins at frame {needed[0].first}: the frames between are missing"
        )
        raise _hole(slot, reason, "missing", slot)


def _build_segments(needed: list[SpoolSegmentFacts], findings: SlotFindings, slot: str) -> None:
    """Build the index, and record every missing frame as damage."""
    expected: int | None = None
    before: SpoolSegmentFacts | None = None
    for facts in needed:
        first = facts.first
        if first is None:
            first = expected if expected is not None else _guess(facts, findings.acked)
        if before is not None and expected is not None and first != expected:
            if first < expected:
                reason = f"{facts.path} begins at frame {first}, which this segment contains, too"
                raise _hole(before.path, reason, "double", slot)
            _record_missing(findings, before.path, before.scan, expected, first - 1)
        elif before is not None:
            findings.record_torn(before)
        segment = _segment(facts, first, findings)
        findings.segments.append(segment)
        expected, before = segment.last + 1, facts
    if expected is not None:
        findings.next_fsn = max(findings.next_fsn, expected)


def _guess(facts: SpoolSegmentFacts, acked: int) -> int:
    """The first frame of the oldest segment when its base is unknown: the latest possible."""
    good = facts.scan.frames.first_fsn if facts.scan.frames else acked + 1
    return min(good, acked + 1)


def _segment(facts: SpoolSegmentFacts, first: int, findings: SlotFindings) -> SpoolSegment:
    if facts.head is None:
        raise AssertionError("a segment without a head")
    segment = SpoolSegment(
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
        findings.damage.append(
            Damage(
                facts.path,
                stretch.offset,
                stretch.length,
                first_fsn,
                stretch.last_fsn,
                "these bytes are not a frame, and intact frames follow",
            )
        )
    return segment


def _record_missing(
    findings: SlotFindings, path: str, scan: SegmentScan, first: int, last: int
) -> None:
    reason = "the end of this segment is missing, and another segment follows"
    findings.damage.append(Damage(path, scan.end, scan.torn_bytes, first, last, reason))


def _record_missing_end(
    needed: list[SpoolSegmentFacts], marks: Marks | None, findings: SlotFindings, slot: str
) -> None:
    """Record published frames of the watermark that no segment contains."""
    torn = needed[-1].scan.torn_bytes if needed else 0
    published = -1 if marks is None else marks.published
    if published < findings.next_fsn:
        for facts in needed[-1:]:
            findings.record_torn(facts)
        return
    path, end = (needed[-1].path, needed[-1].scan.end) if needed else (slot, 0)
    reason = "the watermark names frames that no segment contains"
    findings.damage.append(Damage(path, end, torn, findings.next_fsn, published, reason))
    findings.next_fsn = published + 1
