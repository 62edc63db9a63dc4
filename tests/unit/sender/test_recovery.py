"""The analysis of a slot's files."""

from __future__ import annotations

import pytest

from penstock.errors import SpoolHole
from penstock.sender.ack_watermark import Marks
from penstock.sender.recovery import SlotFindings, SpoolSegmentFacts, analyze
from penstock.sender.segment import HEAD_BYTES, DamagedBytes, Found, Frames, Head, SegmentScan


def facts(
    number: int,
    base: int | None,
    fsns: list[int],
    *,
    damage: list[DamagedBytes] | None = None,
    torn_bytes: int = 0,
    is_readable: bool = True,
) -> SpoolSegmentFacts:
    head = Head(number, b"i" * 16, 0, base) if is_readable else None
    frames = [Found(fsn, HEAD_BYTES + 4 + 100 * at, 90) for at, fsn in enumerate(fsns)]
    end = frames[-1].offset + 90 if frames else HEAD_BYTES
    scan = SegmentScan(Frames(frames), damage or [], end, torn_bytes)
    if not is_readable:
        scan = SegmentScan()
    return SpoolSegmentFacts(f"/s/{number}", number, 4096, head, scan, bool(fsns))


def judged(
    files: list[SpoolSegmentFacts], acked: int | None = None, published: int = -1
) -> SlotFindings:
    marks = None if acked is None else Marks(1, acked, max(acked, published))
    return analyze(files, marks, slot="/s")


def lost(findings: SlotFindings) -> list[tuple[int, int]]:
    return [(damage.first_fsn, damage.last_fsn) for damage in findings.damage]


def test_an_empty_slot_begins_at_zero_and_a_drained_one_goes_on() -> None:
    fresh, drained = judged([]), judged([], acked=41, published=41)

    assert (fresh.acked, fresh.next_fsn, fresh.next_number) == (-1, 0, 1)
    assert (drained.acked, drained.next_fsn) == (41, 42)


def test_segments_follow_each_other_whatever_order_they_are_listed_in() -> None:
    findings = judged([facts(3, 12, [12]), facts(2, 10, [10, 11])], acked=10)

    assert [(s.number, s.base, s.last) for s in findings.segments] == [(2, 10, 11), (3, 12, 12)]
    assert (findings.acked, findings.next_fsn, findings.next_number) == (10, 13, 4)


def test_without_a_watermark_the_oldest_segment_tells() -> None:
    assert judged([facts(2, 10, [10, 11])]).acked == 9


def test_acknowledged_segments_and_spares_are_left_out() -> None:
    files = [facts(1, 0, [0, 1]), facts(2, 2, [2, 3]), facts(3, None, [])]

    findings = judged(files, acked=1)

    assert findings.leftovers == ["/s/1"]
    assert findings.empty == ["/s/3"]
    assert [segment.number for segment in findings.segments] == [2]
    assert findings.next_number == 3  # a skipped number would look like a missing file


@pytest.mark.parametrize("first", [0, 105])
def test_a_segment_that_was_never_taken_into_use_says_nothing_of_the_one_before(first: int) -> None:
    """Its head could be written, but not the word that it was: the frame came into the old one."""
    files = [facts(1, max(0, first - 2), list(range(max(0, first - 2), first + 1)))]
    stale = facts(2, first, [])

    findings = judged([*files, stale], acked=first - 1)

    assert [(one.number, one.last) for one in findings.segments] == [(1, first)]
    assert findings.leftovers + findings.empty == ["/s/2"]
    assert (findings.acked, findings.next_fsn, findings.next_number) == (first - 1, first + 1, 2)


def test_numbers_go_on_when_every_segment_is_left_out() -> None:
    findings = judged([facts(7, 5, [5, 6])], acked=6)

    assert (findings.next_fsn, findings.next_number, findings.segments) == (7, 8, [])


def test_a_missing_file_is_fatal_and_names_both_sides() -> None:
    with pytest.raises(SpoolHole) as caught:
        judged([facts(1, 0, [0, 1]), facts(3, 4, [4])])

    assert caught.value.path == "/s/1"
    assert "/s/3" in str(caught.value)
    assert "put the missing files back" in caught.value.hint
    assert "`penstock spool skip --hole /s`" in caught.value.hint


def test_a_missing_file_in_front_is_fatal_when_the_watermark_tells() -> None:
    with pytest.raises(SpoolHole, match=r"acknowledged up to frame 1.*begins at frame 4"):
        judged([facts(3, 4, [4])], acked=1)


def test_a_file_left_behind_a_removed_one_is_no_hole() -> None:
    files = [facts(1, None, []), facts(2, 3, [3]), facts(4, 10, [10])]

    findings = judged(files, acked=9)

    assert findings.leftovers == ["/s/1", "/s/2"]
    assert [segment.number for segment in findings.segments] == [4]


def test_a_lost_end_is_loss_and_not_a_hole() -> None:
    findings = judged([facts(1, 0, [0, 1], torn_bytes=7), facts(2, 5, [5])])

    assert lost(findings) == [(2, 4)]
    assert findings.damage[0].length == 7
    assert findings.torn_bytes == 0
    assert findings.next_fsn == 6


def test_a_torn_end_that_lost_nothing_is_only_counted() -> None:
    findings = judged([facts(1, 0, [0, 1], torn_bytes=7), facts(2, 2, [2], torn_bytes=5)])

    assert (findings.damage, findings.torn_bytes) == ([], 12)


def test_damage_inside_leaves_the_other_frames() -> None:
    findings = judged([facts(1, 0, [0, 3], damage=[DamagedBytes(232, 200, 1, 2)])])

    assert lost(findings) == [(1, 2)]
    (segment,) = findings.segments
    assert [offset > 0 for offset in segment.offsets] == [True, False, False, True]


def test_a_beginning_without_a_base_is_told_by_what_came_before() -> None:
    harmed = facts(2, None, [4], damage=[DamagedBytes(128, 100, None, 3)])

    findings = judged([facts(1, 0, [0, 1]), harmed])
    assert lost(findings) == [(2, 3)]
    assert [segment.base for segment in findings.segments] == [0, 2]

    alone = judged([harmed], acked=1)
    assert lost(alone) == [(2, 3)]
    unknown = judged([harmed, facts(3, 5, [5])])
    assert (unknown.acked, lost(unknown)) == (3, [(4, 3)])


def test_frames_only_the_watermark_knows_of_are_lost() -> None:
    findings = judged([facts(1, 0, [0, 1], torn_bytes=3)], acked=0, published=5)

    assert lost(findings) == [(2, 5)]
    assert (findings.next_fsn, findings.torn_bytes) == (6, 0)


def test_a_head_that_cannot_be_read_is_fatal_unless_nothing_is_in_it() -> None:
    unreadable = facts(2, None, [2], is_readable=False)
    empty = facts(2, None, [], is_readable=False)
    first, third = facts(1, 0, [0, 1]), facts(3, 4, [4])

    for files in ([first, unreadable], [first, unreadable, third], [first, empty, third]):
        with pytest.raises(SpoolHole, match="/s/2: the head of this segment is damaged"):
            judged(files)
    with pytest.raises(SpoolHole, match="head of this segment"):
        judged([unreadable, third])  # without a watermark it may hold anything
    assert judged([first, empty]).unreadable == ["/s/2"]
    assert judged([unreadable, third], acked=3).unreadable == ["/s/2"]


def test_frames_that_are_there_twice_are_fatal() -> None:
    with pytest.raises(SpoolHole, match="begins at frame 1, which this segment contains, too"):
        judged([facts(1, 0, [0, 1]), facts(2, 1, [1, 2])])


def test_the_advice_fits_what_is_wrong_and_can_be_pasted() -> None:
    whole, headless = facts(1, 0, [0, 1]), facts(2, 2, [2], is_readable=False)
    with pytest.raises(SpoolHole) as damaged:
        analyze([whole, headless, facts(3, 3, [3])], None, slot="/my spool/a")
    with pytest.raises(SpoolHole) as double:
        analyze([whole, facts(2, 1, [1, 2])], None, slot="/s")

    assert "`penstock spool skip --hole '/my spool/a'`" in damaged.value.hint
    assert "missing" not in damaged.value.hint
    assert "skip" not in double.value.hint
