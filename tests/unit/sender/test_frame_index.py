"""Where each frame lies."""

from __future__ import annotations

from penstock.sender.frame_index import FrameIndex, SpoolSegment


def segment_of(base: int, lengths: list[int], number: int = 1) -> SpoolSegment:
    """Frames one after the other; a length of 0 stands for a lost frame."""
    segment = SpoolSegment(f"/s/{number}", number, b"i" * 16, base, 0, 4096, 128)
    for length in lengths:
        segment.add(segment.end + 4 if length else 0, length)
        if not length:
            segment.end = 128
    return segment


def test_a_number_leads_to_its_segment() -> None:
    first, empty, second = segment_of(5, [10, 10]), segment_of(7, []), segment_of(7, [10])
    late = segment_of(20, [10])
    index = FrameIndex([first, empty, second, late])

    found = {fsn: index.find(fsn) for fsn in (4, 5, 6, 7, 8, 19, 20, 21)}

    assert found == {
        4: None,
        5: first,
        6: first,
        7: second,
        8: None,
        19: None,
        20: late,
        21: None,
    }
    assert FrameIndex([]).find(0) is None


def test_a_piece_ends_with_its_bytes_its_segment_or_a_lost_frame() -> None:
    index = FrameIndex([segment_of(0, [10, 20, 30, 0, 40]), segment_of(5, [50])])

    def taken(fsn: int, bytes_max: int) -> list[int]:
        piece = index.piece(fsn, bytes_max)
        return [] if piece is None else [length for _, length in piece.frames]

    assert taken(0, 0) == [10]
    assert taken(0, 30) == [10, 20]
    assert taken(0, 1000) == [10, 20, 30]
    assert taken(3, 1000) == []
    assert taken(4, 1000) == [40]
    assert taken(5, 1000) == [50]
    assert taken(6, 1000) == []


def test_a_frame_can_be_lost_later() -> None:
    segment = segment_of(3, [10, 10])
    segment.mark_lost(3)

    assert FrameIndex([segment]).piece(3, 100) is None
    assert FrameIndex([segment]).piece(4, 100) is not None


def test_only_whole_segments_before_the_tail_are_done_with() -> None:
    first, second, tail = segment_of(0, [9, 9]), segment_of(2, [9]), segment_of(3, [9])
    index = FrameIndex([first, second, tail])

    assert index.acked_prefix(0, tail=tail) == []
    assert index.acked_prefix(1, tail=tail) == [first]
    assert index.acked_prefix(9, tail=tail) == [first, second]
    assert index.acked_prefix(9, tail=None) == [first, second, tail]
