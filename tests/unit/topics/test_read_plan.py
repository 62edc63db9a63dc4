"""What a reader is told before it sees a record: where it starts and what it missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.topics import read_plan, sealing
from penstock.topics.read_plan import ReadPlan
from penstock.topics.topic import Topic
from penstock.types import Cause, Gap
from tests.unit.topics.support import (
    Row,
    appended,
    delete,
    floors,
    live_seqs,
    place,
    stories,
    told_as,
    topic_of,
)

TEN = [Row()] * 10


def plan(
    topic: Topic, after: int = 0, *, epoch: int | None = None, records_max: int = 99
) -> ReadPlan:
    return read_plan.plan(topic, after=after, epoch=epoch, records_max=records_max)


def seqs(found: ReadPlan) -> list[int]:
    return [
        stretch.first + index
        for stretch in found.stretches
        for index in range(stretch.start, stretch.stop)
        if not stretch.dead or not int.from_bytes(stretch.dead, "little") >> index & 1
    ]


# Without loss.


@pytest.mark.parametrize("after", range(11))
def test_a_read_gives_everything_past_its_cursor(after: int) -> None:
    found = plan(topic_of(*TEN), after)

    assert seqs(found) == list(range(after + 1, 11))
    assert (found.gap, found.after, found.last, found.head) == (None, after, 10, 10)


def test_an_empty_topic_has_nothing_to_report() -> None:
    found = plan(topic_of())

    assert (found.stretches, found.gap, found.head, found.earliest) == ((), None, 0, 1)


def test_the_same_epoch_is_no_news() -> None:
    assert plan(topic_of(*TEN), epoch=1).gap is None


# Gaps.


@pytest.mark.parametrize(
    ("evict", "expiry", "reason"),
    [(4, 0, "cap"), (0, 4, "ttl"), (4, 4, "mixed"), (2, 4, "mixed"), (4, 2, "mixed")],
)
def test_what_a_floor_took_is_one_gap_with_its_cause(evict: int, expiry: int, reason: str) -> None:
    found = plan(floors(topic_of(*TEN), evict=evict, expiry=expiry))

    assert found.gap == Gap(1, 4, reason, 4, earliest_seq=5, head_seq=10)
    assert seqs(found) == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("after", "evict", "expiry", "reason"), [(3, 2, 6, "ttl"), (3, 6, 2, "cap"), (1, 2, 6, "mixed")]
)
def test_only_floors_that_reach_the_gap_are_its_cause(
    after: int, evict: int, expiry: int, reason: str
) -> None:
    found = plan(floors(topic_of(*TEN), evict=evict, expiry=expiry), after)

    assert found.gap == Gap(after + 1, 6, reason, 6 - after, 7, 10)


def test_a_cursor_at_the_floor_has_missed_nothing() -> None:
    assert plan(floors(topic_of(*TEN), evict=4), after=4).gap is None


def test_a_cursor_beyond_the_head_belongs_to_an_earlier_life() -> None:
    found = plan(topic_of(*TEN), after=11)

    assert found.gap == Gap(1, 10, "recreated", 10, earliest_seq=1, head_seq=10)
    assert seqs(found) == list(range(1, 11))


def test_another_epoch_starts_over_even_when_the_cursor_would_fit() -> None:
    found = plan(topic_of(*TEN), after=5, epoch=99)

    assert (found.gap.reason, found.after, found.epoch) == ("recreated", 0, 1)
    assert seqs(found) == list(range(1, 11))


def test_a_recreated_topic_starts_past_what_it_lost_itself() -> None:
    found = plan(floors(topic_of(*TEN), evict=4), after=5, epoch=99)

    assert seqs(found) == [5, 6, 7, 8, 9, 10]


def test_a_loss_in_the_middle_is_reported_in_its_place() -> None:
    topic = topic_of(*TEN)
    topic.apply_append(appended(14, 2), place)

    before = plan(topic)
    at = plan(topic, after=10)
    behind = plan(topic, after=13)

    assert (seqs(before), before.gap, before.last) == (list(range(1, 11)), None, 10)
    assert (seqs(at), at.gap) == ([14, 15], Gap(11, 13, "lost", 3, 1, 15))
    assert (seqs(behind), behind.gap) == ([14, 15], None)


def test_a_cursor_inside_a_loss_hears_of_the_rest_of_it() -> None:
    topic = topic_of(*TEN)
    topic.apply_append(appended(14, 2), place)

    assert plan(topic, after=11).gap == Gap(12, 13, "lost", 2, 1, 15)


def test_each_read_reports_one_gap_and_the_next_read_the_next() -> None:
    topic = floors(topic_of(*TEN), evict=2)
    topic.lose(11, 12, Cause.LOST)
    topic.lose(13, 14, Cause.DAMAGE)

    told: list[Gap | None] = []
    after = 0
    for _ in range(4):
        found = plan(topic, after)
        told.append(found.gap)
        after = max([found.after, found.last, *seqs(found)])

    assert [gap and (gap.first, gap.last, gap.reason) for gap in told] == [
        (1, 2, "cap"),
        (11, 12, "lost"),
        (13, 14, "damage"),
        None,
    ]


# Deletes.


def test_deletes_are_silent_wherever_they_are() -> None:
    topic = topic_of(*TEN)
    delete(topic, before=4)
    delete(topic, seqs=(6, 7))

    for after in range(11):
        found = plan(topic, after)
        assert found.gap is None
        assert seqs(found) == [seq for seq in (4, 5, 8, 9, 10) if seq > after]


def test_a_delete_past_an_eviction_hides_nothing_of_it() -> None:
    topic = floors(topic_of(*TEN), evict=3)
    delete(topic, before=6)

    found = plan(topic)

    assert found.gap == Gap(1, 3, "cap", 3, earliest_seq=4, head_seq=10)
    assert (seqs(found), found.earliest) == ([6, 7, 8, 9, 10], 6)


# Limits.


@pytest.mark.parametrize("records_max", range(1, 12))
def test_a_plan_covers_so_many_and_says_whether_there_is_more(records_max: int) -> None:
    found = plan(topic_of(*TEN), records_max=records_max)

    assert seqs(found) == list(range(1, min(records_max, 10) + 1))
    assert found.is_cut == (records_max < 10)


def test_a_plan_is_a_picture_that_later_appends_do_not_enter() -> None:
    topic = topic_of(*TEN)

    found = plan(topic)
    topic.apply_append(appended(11, 3), place)

    assert seqs(found) == list(range(1, 11))


# Places.


@given(story=stories, seqs=st.lists(st.integers(0, 20)))
def test_what_is_unread_is_counted_without_a_walk(
    story: tuple[list[int], set[int], int, int], seqs: list[int]
) -> None:
    topic, held = told_as(story)

    found = list(read_plan.unread(topic, seqs))

    for seq, answer in zip(seqs, found, strict=True):
        ahead = [one for one in live_seqs(topic) if one > seq]
        assert answer == (len(ahead), held[ahead[0]] if ahead else 0)


def test_a_piece_without_a_live_record_hides_no_other() -> None:
    """While a tail is being sealed, a piece of it may be all dead."""
    topic = topic_of()
    topic.apply_append(appended(1, [Row(ts=1), Row(ts=2), Row(ts=3)]), place)
    delete(topic, seqs=(2,))
    front, rest = sealing.split(topic.spans[0], 1)
    topic.spans[:1] = [front, *sealing.split(rest, 2)]

    assert [span.live for span in topic.spans] == [1, 0, 1]
    assert list(read_plan.unread(topic, [0, 1, 2, 3])) == [(2, 1), (1, 3), (1, 3), (0, 0)]
