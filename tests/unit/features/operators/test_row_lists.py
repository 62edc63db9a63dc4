"""Lists by row in one arena: their memory, and what saved lists must be."""

from __future__ import annotations

import sys
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from penstock.features.event_column import EventColumn, column_of
from penstock.features.operators.row_lists import RowLists, block_of


def column_of_range(count: int) -> EventColumn:
    return EventColumn("i64", np.arange(count), np.ones(count, np.bool_))


def lists_with(counts: dict[int, int], limit: int = 50) -> RowLists:
    lists = RowLists("i64", limit, is_ring=True)
    lists.grow(max(counts) + 1)
    for row, count in counts.items():
        rows = np.full(count, row, np.int64)
        lists.append(rows, np.ones(count, np.bool_), column_of_range(count))
    return lists


@pytest.mark.parametrize("limit", [1, 2, 3, 8, 100])
def test_a_block_holds_its_list_and_is_at_most_twice_as_large(limit: int) -> None:
    for length in range(limit + 1):
        block = block_of(length, limit)

        assert length <= block <= limit
        assert block <= max(2, 2 * (length - 1)) or not length


def test_many_short_lists_take_little_memory() -> None:
    count = 10_000
    lists = RowLists("i64", 1024, is_ring=True)
    lists.grow(count)

    for _ in range(2):
        lists.append(np.arange(count), np.ones(count, np.bool_), column_of_range(count))

    assert lists.bytes < count * (12 + 2 * 8) * 1.3


def test_blocks_that_were_cleared_are_used_again() -> None:
    lists = RowLists("i64", 16, is_ring=False)
    lists.grow(100)
    rows = np.repeat(np.arange(100), 16)
    sizes = []

    for _ in range(10):
        lists.append(rows, np.ones(len(rows), np.bool_), column_of_range(len(rows)))
        sizes.append(lists.bytes)
        lists.clear(np.arange(100))

    assert max(sizes) < 3 * sizes[0]


def test_cleared_lists_let_go_of_their_values() -> None:
    value = ["a"]
    before = sys.getrefcount(value)
    lists = RowLists("json", 4, is_ring=True)
    lists.grow(1)
    lists.append(np.zeros(6, np.int64), np.ones(6, np.bool_), column_of("json", [value] * 6))

    held = sys.getrefcount(value)
    lists.clear(np.array([0]))

    assert (held, sys.getrefcount(value)) == (before + 4, before)


def test_the_latest_times_are_kept_in_order() -> None:
    for order in permutations([1, 2, 2, 3]):
        for limit in (1, 2, 3, 8):
            lists = RowLists("i64", limit, is_ring=True)
            lists.grow(1)

            lists.append_times(np.zeros(4, np.int64), np.ones(4, np.bool_), np.array(order))

            assert lists.values(0) == sorted(order)[-limit:]


def test_growing_lists_keep_the_values_of_others() -> None:
    lists = lists_with({0: 70, 1: 3, 2: 0, 3: 50, 4: 49})

    assert lists.values(0) == list(range(20, 70))
    assert lists.values(1) == [0, 1, 2]
    assert lists.values(2) == []
    assert lists.values(3) == list(range(50))
    assert lists.values(4) == list(range(49))


@pytest.mark.parametrize(
    "change",
    [
        {"lengths": np.array([60, 0], np.uint16), "values": np.zeros(60, np.int64)},
        {"lengths": np.array([1, 1], np.uint16)},
        {"lengths": np.array([3], np.uint16)},
        {"lengths": [1, 2]},
        {"values": np.zeros(3)},
        {"values": None},
    ],
)
def test_other_state_is_refused(change: dict[str, Any]) -> None:
    lists = lists_with({0: 1, 1: 2})
    saved = {**lists.save(np.array([0, 1])), **change}
    lists.clear(np.array([0, 1]))

    with pytest.raises(ValueError, match="saved"):
        lists.load(np.array([0, 1]), saved)
