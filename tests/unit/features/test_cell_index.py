"""Cells of a window, held against a dict of buckets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.features import fold_kernel
from penstock.features.cell_index import CellIndex
from penstock.features.windows import Window, hopping, sliding, tumbling

WINDOWS = [
    sliding("64ms"),
    sliding("100ms"),
    sliding("3s"),
    tumbling("50ms"),
    hopping("60ms", "20ms"),
]


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def each_form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_kernel, "chosen", fold_kernel.load(request.param == "interpreted"))


class Events:
    """Puts events into an index, and knows which bucket each row stands for."""

    def __init__(self, window: Window) -> None:
        self.index = CellIndex(window)
        self.largest = 0
        self.buckets: dict[int, tuple[int, int]] = {}

    def put(self, *events: tuple[int, int]) -> list[int]:
        slots, times = (np.array(column, np.int64) for column in zip(*events, strict=True))
        largest = np.maximum(np.maximum.accumulate(times), self.largest)
        self.largest = int(largest[-1])
        self.index.grow(int(slots.max()) + 1)
        rows, missing = self.index.rows(slots, times, largest)
        assert missing == (rows < 0).sum()
        for row, (slot, time) in zip(rows.tolist(), events, strict=True):
            if row >= 0:
                cell = slot, self.index.window.bucket_of(time)
                assert self.buckets.setdefault(row, cell) == cell
        placed: list[int] = rows.tolist()
        return placed

    def clear(self) -> list[int]:
        rows = self.index.dropped()
        self.index.free(rows)
        for row in rows.tolist():
            del self.buckets[row]
        gone: list[int] = rows.tolist()
        return gone

    def live(self, slot: int, now: int) -> list[int]:
        return [self.buckets[row][1] for row in self.index.live(slot, now, self.largest)]


def test_events_of_one_bucket_share_a_row() -> None:
    events = Events(sliding("640ms"))

    assert events.put((0, 5), (0, 9), (1, 9), (0, 10), (0, 2)) == [0, 0, 1, 2, 0]
    assert events.live(0, 10) == [0, 10]
    assert events.live(1, 10) == [0]
    assert events.live(0, 9) == [0]


def test_an_event_that_no_read_can_reach_has_no_row() -> None:
    events = Events(tumbling("50ms"))

    assert events.put((0, 49), (0, 50), (0, 49)) == [0, 1, -1]


def test_a_new_cell_drops_the_old_ones() -> None:
    events = Events(tumbling("50ms"))
    events.put((0, 0), (1, 0))

    events.put((0, 60))

    assert events.clear() == [0]
    assert events.put((0, 100)) == [0]
    events.index.drop_old(0, 2, events.largest)
    assert sorted(events.clear()) == [1, 2]
    assert len(events.index) == 1


def test_dropped_rows_are_not_used_before_they_are_cleared() -> None:
    events = Events(tumbling("50ms"))

    assert events.put((0, 0), (0, 60), (1, 60)) == [0, 1, 2]


@given(
    st.sampled_from(WINDOWS),
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(-60, 60)), min_size=1, max_size=12),
        max_size=12,
    ),
)
@settings(max_examples=20)
def test_every_bucket_that_counts_has_its_row(
    window: Window, batches: list[list[tuple[int, int]]]
) -> None:
    for pure in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fold_kernel, "chosen", fold_kernel.load(pure))
            events, clock = Events(window), 1000
            seen: dict[int, set[int]] = {slot: set() for slot in range(4)}
            for batch in batches:
                placed = []
                for slot, step in batch:
                    clock += max(0, step)
                    placed.append((slot, clock + step))
                    seen[slot].add(window.bucket_of(clock + step))
                events.put(*placed)
                for slot in range(4):
                    events.index.grow(4)
                    for now in (events.largest, events.largest + 30, events.largest + 10_000):
                        counting = sorted(seen[slot] & set(window.live(now)))
                        assert events.live(slot, now) == counting
                events.clear()
                assert len(events.index) <= 4 * 65


def test_dropping_a_slot_leaves_nothing() -> None:
    events = Events(sliding("640ms"))
    events.put(*((slot, 10 * n) for n in range(20) for slot in range(2)))

    events.index.drop(np.array([1]))

    assert len(events.clear()) == 20
    assert events.live(1, 190) == []
    assert len(events.live(0, 190)) == 20


def test_saved_cells_come_back_in_order() -> None:
    events = Events(hopping("60ms", "20ms"))
    events.put((0, 40), (2, 20), (0, 20), (2, 65), (0, 59))
    counts, starts, rows = events.index.save(np.arange(3), events.largest)

    copy = CellIndex(events.index.window)
    copy.grow(3)
    loaded = copy.load(np.arange(3), counts, starts)

    assert counts.tolist() == [2, 0, 2]
    assert [events.buckets[row] for row in rows.tolist()] == [(0, 20), (0, 40), (2, 20), (2, 60)]
    assert loaded.tolist() == [0, 1, 2, 3]
    assert copy.live(2, 65, 65) == [2, 3]
    assert len(copy) == 4


def test_damaged_cells_are_not_loaded() -> None:
    index = CellIndex(tumbling("50ms"))

    with pytest.raises(ValueError, match="order"):
        index.load(np.array([0]), np.array([2], np.int32), np.array([50, 0]))
    with pytest.raises(ValueError, match="counts"):
        index.load(np.array([0, 1]), np.array([3, -1], np.int32), np.array([0, 50]))
