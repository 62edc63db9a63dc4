"""The progress of a spool."""

from __future__ import annotations

from penstock.sender.frame_index import FrameIndex, SpoolSegment
from penstock.sender.progress import Progress


def index_of(base: int, lengths: list[int], created_ms: int = 0) -> FrameIndex:
    """One segment; a length of 0 stands for a lost frame."""
    segment = SpoolSegment("/s/1", 1, b"i" * 16, base, created_ms, 4096, 128)
    for at, length in enumerate(lengths):
        segment.add(200 + at if length else 0, length)
    return FrameIndex([segment])


def test_an_acknowledgement_covers_all_before_it_and_never_goes_back() -> None:
    progress = Progress(index_of(0, [1] * 5), acked=-1, published=4)

    seen = []
    for fsn in (1, 0, 3, 99):
        progress.ack(fsn)
        seen.append(progress.acked)

    assert seen == [1, 1, 3, 4]


def test_a_settled_frame_is_passed_when_its_turn_comes() -> None:
    progress = Progress(index_of(0, [1] * 5), acked=-1, published=4)
    progress.resolve(2)
    progress.resolve(1)
    assert progress.acked == -1

    progress.ack(0)
    assert progress.acked == 2

    progress.resolve(3)
    assert progress.acked == 3


def test_lost_frames_are_passed_wherever_they_lie() -> None:
    in_front = Progress(index_of(3, [0, 1, 0]), acked=0, published=7)
    assert in_front.acked == 3  # 1 and 2 are in no segment, 3 is damaged

    in_front.ack(4)

    assert in_front.acked == 7  # 5 is damaged, 6 and 7 are in no segment


def test_nothing_is_passed_that_does_not_exist() -> None:
    progress = Progress(FrameIndex([]), acked=4, published=4)
    progress.ack(10)

    assert progress.acked == 4


def test_the_age_is_that_of_the_oldest_frame_not_done_with() -> None:
    index = index_of(0, [1, 1], created_ms=1000)
    progress = Progress(index, acked=-1, published=1)
    assert progress.oldest_ms(1500) == 500

    for fsn, now_ms in ((2, 2000), (3, 2050), (4, 3000)):
        index.segments[0].add(300 + fsn, 1)
        progress.publish(fsn, now_ms=now_ms)
    ages = []
    for fsn in range(5):
        progress.ack(fsn)
        ages.append(progress.oldest_ms(4000))

    assert ages == [3000, 2000, 2000, 1000, 0]
    assert Progress(index, acked=3, published=4).oldest_ms(0) == 0  # the clock was set back


def test_a_frame_that_comes_when_all_are_done_with_is_new() -> None:
    progress = Progress(FrameIndex([]), acked=-1, published=-1)
    progress.publish(0, now_ms=1000)
    progress._index = index_of(0, [1, 1])
    progress.ack(0)

    progress.publish(1, now_ms=3_600_000)

    assert progress.oldest_ms(3_600_005) == 5


def test_ages_take_little_memory_however_long_an_outage_lasts() -> None:
    count = 100_000
    progress = Progress(index_of(0, [1] * count), acked=-1, published=-1)
    for fsn in range(count):
        progress.publish(fsn, now_ms=fsn * 100)
    assert len(progress._ages) <= 1024

    for fsn in (0, 10_000, 50_000, 99_000):
        progress.ack(fsn - 1)
        age_ms = progress.oldest_ms(count * 100)
        assert (count - fsn) * 100 <= age_ms <= (count - fsn) * 100 + 30_000
