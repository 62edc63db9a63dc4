from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.limits import COMMIT_WINDOW_MAX_S, COMMIT_WINDOW_MIN_S
from penstock.storage.wal.commit_window import CommitWindow

commits = st.lists(
    st.tuples(st.integers(1, 500), st.integers(0, 500), st.floats(0, 5, allow_nan=False))
)


def after(*commits: tuple[int, int, float]) -> CommitWindow:
    """A window that saw these groups: size, how many waited meanwhile, seconds of the sync."""
    window = CommitWindow()
    for commit in commits:
        window.committed(*commit)
    return window


def test_the_very_first_write_does_not_wait() -> None:
    assert CommitWindow().wait_s(1, 0.0) == 0.0


@given(syncs=st.lists(st.floats(0, 5, allow_nan=False)))
def test_a_lone_writer_never_waits(syncs: list[float]) -> None:
    assert after(*((1, 0, sync_s) for sync_s in syncs)).wait_s(1, 0.0) == 0.0


@given(seen=commits, waiting=st.integers(1, 600), waited_s=st.floats(0, 1))
def test_a_wait_stays_within_its_window(
    seen: list[tuple[int, int, float]], waiting: int, waited_s: float
) -> None:
    window = after(*seen)

    left_s = window.wait_s(waiting, waited_s)

    assert 0.0 <= left_s <= COMMIT_WINDOW_MAX_S
    if waiting >= window.expected or waited_s >= COMMIT_WINDOW_MAX_S:
        assert left_s == 0.0
    elif waited_s == 0.0:
        assert left_s == 0.0 or left_s >= COMMIT_WINDOW_MIN_S


def test_it_waits_for_the_writers_that_the_last_sync_released() -> None:
    window = after((4, 4, 0.004))

    assert window.wait_s(7, 0.0) > 0
    assert window.wait_s(8, 0.0) == 0.0


def test_a_slow_disk_makes_the_window_wider_and_a_fast_one_needs_none() -> None:
    fast, brisk, usual, slow = (
        after((8, 0, sync_s)).wait_s(1, 0.0) for sync_s in (0.0001, 0.0006, 0.004, 1.0)
    )

    assert fast == 0.0
    assert COMMIT_WINDOW_MIN_S == brisk < usual < slow == COMMIT_WINDOW_MAX_S


def test_the_expectation_grows_at_once_and_decays_slowly() -> None:
    window = after((64, 0, 0.002))
    assert window.expected == 64

    window.committed(1, 0, 0.002)
    after_one_short_group = window.expected
    for _ in range(30):
        window.committed(1, 0, 0.002)

    assert 1 < after_one_short_group < 64
    assert window.expected == 1
    assert window.wait_s(1, 0.0) == 0.0


def test_a_widened_window_waits_whatever_the_disk_and_not_for_a_lone_writer() -> None:
    window = CommitWindow()
    window.widened_s = 0.008
    assert window.wait_s(1, 0.0) == 0.0

    window.committed(5, 5, 0.0001)  # a disk this fast needs no window of its own

    assert window.wait_s(3, 0.0) == 0.008
    assert window.wait_s(3, 0.006) == pytest.approx(0.002)
    assert window.wait_s(3, 0.009) == 0.0
    assert window.wait_s(10, 0.0) == 0.0
    window.widened_s = None
    assert window.wait_s(3, 0.0) == 0.0
