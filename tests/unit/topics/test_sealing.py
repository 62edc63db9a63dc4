from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.topics.bitmap import pack_indices
from penstock.topics.sealing import SealLimits, TailFacts, due_ms, split, stretches, tail_spans
from penstock.topics.spans import Span
from tests.unit.topics.support import Row, Rows, cut, span_of, topic_of

NO_LIMITS = SealLimits(records_max=1000, bytes_max=1000, age_ms_max=0)


def seqs(spans: list[Span]) -> list[int]:
    return [span.first + index for span in spans for index in range(span.start, span.count)]


def neighbours(*lengths: int) -> list[Span]:
    """Spans of so many one-byte records, one after the other."""
    spans: list[Span] = []
    for length in lengths:
        first = spans[-1].last + 1 if spans else 1
        spans.append(span_of(*[1] * length, first=first))
    return spans


@pytest.mark.parametrize(
    ("tail", "now_ms", "due"),
    [
        (TailFacts(0, 0, None), 1 << 60, False),
        (TailFacts(99, 999, 0), 9, False),
        (TailFacts(100, 0, 0), 9, True),
        (TailFacts(1, 1000, 0), 9, True),
        (TailFacts(1, 1, 0), 10, True),
        (TailFacts(1, 1, None), 1 << 60, False),
    ],
)
def test_count_bytes_and_age_are_the_three_triggers(
    tail: TailFacts, now_ms: int, due: bool
) -> None:
    assert (due_ms(tail, SealLimits(100, 1000, 10)) <= now_ms) is due


def test_no_age_means_never_by_age() -> None:
    assert due_ms(TailFacts(1, 1, 0), SealLimits(100, 1000, 0)) > 1 << 60


def test_the_tail_is_what_follows_the_last_sealed_span() -> None:
    topic = topic_of(*[Row()] * 12)
    topic.spans[0].run = Rows([Row()] * 4, is_sealed=True)

    assert seqs(tail_spans(topic)) == [5, 6, 7, 8, 9, 10, 11, 12]
    assert tail_spans(topic_of()) == []


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    records_max=st.integers(1, 10),
    bytes_max=st.integers(1, 10),
)
def test_every_record_lands_in_one_segment_that_keeps_the_limits(
    lengths: list[int], records_max: int, bytes_max: int
) -> None:
    spans = neighbours(*lengths)

    groups = stretches(spans, SealLimits(records_max, bytes_max, 0))

    assert [seq for group in groups for seq in seqs(group)] == seqs(spans)
    for group in groups:
        assert seqs(group) == list(range(seqs(group)[0], seqs(group)[-1] + 1))
        assert len(seqs(group)) <= records_max
        # One piece alone may be too large in bytes: only records are counted when cutting.
        assert len(group) == 1 or sum(span.bytes for span in group) <= bytes_max


def test_a_gap_in_seqs_ends_a_segment() -> None:
    spans = [span_of(1, 1, first=1), span_of(1, 1, first=3), span_of(1, first=7)]

    assert [seqs(group) for group in stretches(spans, NO_LIMITS)] == [[1, 2, 3, 4], [7]]


def test_a_cut_front_joins_where_it_now_begins() -> None:
    first, second = neighbours(3, 3)
    cut(first, 2)

    assert [seqs(group) for group in stretches([first, second], NO_LIMITS)] == [[3, 4, 5, 6]]


def test_nothing_to_seal_makes_no_segment() -> None:
    assert stretches([], NO_LIMITS) == []


@given(
    sizes=st.lists(st.integers(0, 9), min_size=2, max_size=20),
    dead=st.sets(st.integers(0, 19)),
    start=st.integers(0, 10),
    data=st.data(),
)
def test_two_halves_hold_what_the_whole_held(
    sizes: list[int], dead: set[int], start: int, data: st.DataObject
) -> None:
    span = span_of(*sizes)
    span.kill(pack_indices(i for i in sorted(dead) if i < len(sizes)))
    cut(span, min(start, len(sizes) - 1))
    index = data.draw(st.integers(span.start, span.count))

    front, back = split(span, index)

    assert seqs([front]) + seqs([back]) == seqs([span])
    assert (front.live + back.live, front.bytes + back.bytes) == (span.live, span.bytes)
    for half in (front, back):
        assert half.run.measure(half.start, half.count, half.bits) == (half.live, half.bytes)


def test_a_record_killed_after_the_split_dies_in_its_half_only() -> None:
    span = span_of(1, 1, 1, 1)
    span.kill(pack_indices([0]))
    front, back = split(span, 2)

    back.kill(pack_indices([3]))

    assert (front.live, back.live) == (1, 1)
    assert front.run.measure(0, 2, front.bits) == (1, 1)


def test_the_bitmap_of_a_half_ends_with_it() -> None:
    """The snapshot keeps each with its span, and refuses one that is longer."""
    span = span_of(*[1] * 40)
    span.kill(pack_indices([1, 9, 17, 39]))

    front, back = split(span, 10)

    assert front.dead is not None
    assert back.dead is not None
    assert [n for n in range(40) if n in front.dead] == [1, 9]
    assert len(front.dead.bits) == 2
    back.kill(pack_indices([12]))
    assert 12 not in front.dead
