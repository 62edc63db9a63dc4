"""Chains of items by key, in one pool."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from penstock.features import fold_kernel
from penstock.features.operators.chained_rows import ChainedRows
from tests.support import seeds


def state_of(lengths: Sequence[int]) -> ChainedRows:
    """A key with each of these numbers of items. The items are numbered."""
    state = ChainedRows(ints=2, floats=1)
    state.grow(len(lengths))
    state.reserve(sum(lengths))
    rows = np.arange(len(lengths))
    found = np.zeros(sum(lengths), np.int64)
    fold_kernel.chosen.link_chains(
        rows, np.array(lengths, np.int64), state.keys, state.items, found, state.pool
    )
    state.items[found, 0] = range(sum(lengths))
    state.item_floats[found, 1] = np.arange(sum(lengths)) / 2
    return state


def items_by_key(state: ChainedRows, rows: Sequence[int]) -> list[list[int]]:
    return [state.items[state.items_of(np.array([row], np.int64))[1], 0].tolist() for row in rows]


def test_items_are_found_in_the_order_of_their_chain() -> None:
    state = state_of([2, 0, 3])

    assert items_by_key(state, [0, 1, 2]) == [[0, 1], [], [2, 3, 4]]
    lengths, found = state.items_of(np.array([2, 1, 0]))
    assert lengths.tolist() == [3, 0, 2]
    assert state.items[found, 0].tolist() == [2, 3, 4, 0, 1]


def test_saved_chains_are_loaded_into_other_rows() -> None:
    state, other = state_of([2, 0, 3]), state_of([1, 4, 0, 0, 0])
    other.clear(np.array([1]))

    other.load(np.array([4, 2, 1]), state.save(np.array([0, 1, 2])))

    assert items_by_key(other, range(5)) == [[0], [2, 3, 4], [], [], [0, 1]]
    assert other.item_floats[other.items_of(np.array([1]))[1], 1].tolist() == [1.0, 1.5, 2.0]


def test_items_of_cleared_keys_are_used_again() -> None:
    random = Random(seeds.new_seed())
    state = state_of([4] * 10)
    every = np.arange(10)

    for _ in range(50):
        rows = every[[random.random() < 0.5 for _ in every]]
        saved = state.save(rows)
        state.clear(rows)
        state.load(rows, saved)

    assert state.pool[1] == 40
    assert len(state.items) <= 100
    kept = {item for items in items_by_key(state, range(10)) for item in items}
    assert kept == set(range(40))


@pytest.mark.parametrize("name", ["keys", "items", "item_floats"])
def test_saved_state_of_another_shape_is_refused(name: str) -> None:
    state, rows = state_of([2, 1]), np.array([0, 1])
    saved = dict(state.save(rows))
    saved[name] = saved[name][:-1]

    with pytest.raises(ValueError, match=name):
        state_of([0, 0]).load(rows, saved)


@pytest.mark.parametrize("lengths", [[-1, 4], [2, 2], [0, 0]])
def test_lengths_that_are_not_those_of_the_items_are_refused(lengths: list[int]) -> None:
    state, rows = state_of([2, 1]), np.array([0, 1])
    saved = dict(state.save(rows))
    saved["keys"][:, 0] = lengths

    with pytest.raises(ValueError, match="saved state"):
        state_of([0, 0]).load(rows, saved)
