"""From one offset to another, whatever happened to the topic in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.gaps import GapRow
from penstock.spark.offsets import StreamOffset
from penstock.spark.ranges import Facts, between, vanished

NOW = Facts("t", 5, 10)
offsets = st.builds(StreamOffset, st.integers(3, 5), st.integers(0, 15))


@pytest.mark.parametrize(
    ("start", "end", "range_", "gaps"),
    [
        (StreamOffset(5, 3), StreamOffset(5, 7), (3, 7), []),
        (StreamOffset(5, 7), StreamOffset(5, 7), (7, 7), []),
        (StreamOffset(5, 7), StreamOffset(5, 3), (7, 7), []),
        (StreamOffset(5, 3), StreamOffset(5, 12), (3, 10), [(5, 11, 12, "not_written")]),
        (StreamOffset(4, 3), StreamOffset(5, 7), (0, 7), [(4, 4, None, "recreated")]),
        (StreamOffset(5, 12), StreamOffset(5, 10), (0, 10), [(5, 11, 12, "recreated")]),
        (StreamOffset(4, 3), StreamOffset(4, 7), (0, 0), [(4, 4, 7, "recreated")]),
        (StreamOffset(4, 7), StreamOffset(4, 7), (0, 0), []),
        (
            StreamOffset(3, 2),
            StreamOffset(4, 7),
            (0, 0),
            [(3, 3, None, "recreated"), (4, 1, 7, "recreated")],
        ),
    ],
)
def test_a_range_and_what_is_missing_of_it(
    start: StreamOffset, end: StreamOffset, range_: tuple[int, int], gaps: list[tuple[object, ...]]
) -> None:
    found = between(NOW, start, end)

    assert (found.after, found.last) == range_
    assert found.gaps == [GapRow("t", *gap) for gap in gaps]  # type: ignore[arg-type]


@given(offsets, offsets)
def test_what_was_asked_for_is_read_or_told(start: StreamOffset, end: StreamOffset) -> None:
    found = between(NOW, start, end)

    read = {(5, seq) for seq in range(found.after + 1, found.last + 1)}
    told = {
        (gap.epoch, seq) for gap in found.gaps for seq in range(gap.first, (gap.last or 99) + 1)
    }
    first = start.seq + 1 if start.epoch == end.epoch else 1
    if start.epoch <= end.epoch:
        assert {(end.epoch, seq) for seq in range(first, end.seq + 1)} <= read | told
    assert all(seq <= NOW.head for _, seq in read)


def test_a_topic_that_is_no_more_is_missed_from_where_it_was_read_to() -> None:
    assert vanished("t", StreamOffset(5, 3), None) == [GapRow("t", 5, 4, None, "topic_deleted")]
    assert vanished("t", StreamOffset(5, 3), StreamOffset(5, 7)) == [
        GapRow("t", 5, 4, 7, "topic_deleted")
    ]
    assert vanished("t", StreamOffset(5, 3), StreamOffset(5, 3)) == []
