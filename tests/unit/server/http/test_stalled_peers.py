"""When a peer that takes no bytes is stalled, and when it only takes its time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http.stalled_peers import Stall


def test_a_stall_is_bytes_that_do_not_get_fewer_for_too_long() -> None:
    stall = Stall(60.0)
    looks = [(100, 1.0), (100, 50.0), (99, 60.0), (99, 119.9), (99, 120.0), (200, 120.0)]

    assert not any(stall.is_over(left, now) for left, now in looks)
    assert stall.is_over(200, 120.1), "more of ours is no progress of theirs"


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.1, 59.0)), max_size=30),
)
def test_who_takes_everything_now_and_then_is_never_stalled(
    looks: list[tuple[int, float]],
) -> None:
    stall = Stall(60.0)
    now = 1.0

    for left, passed in looks:
        now += passed
        assert not stall.is_over(left, now)
        assert not stall.is_over(0, now)
