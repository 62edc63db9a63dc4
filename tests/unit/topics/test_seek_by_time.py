"""A read that starts at a point in time begins behind everything older."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.topics import seek_by_time
from tests.unit.topics.support import stories, told_as


@given(story=stories, ts=st.integers(0, 45))
def test_seeking_gives_the_seq_before_the_first_record_that_is_not_older(
    story: tuple[list[int], set[int], int, int], ts: int
) -> None:
    topic, held = told_as(story)

    found = seek_by_time.seek(topic, ts)

    assert found == min((seq for seq in held if held[seq] >= ts), default=topic.head + 1) - 1
    assert not topic.spans or found >= topic.earliest - 1
