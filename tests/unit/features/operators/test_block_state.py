"""Rows that take as many words as they need."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.features import fold_kernel
from penstock.features.operators.block_state import BlockState
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import assert_same, events_of, fold_of, made, plain
from tests.support.seeds import RIGS

OPERATORS: dict[str, dict[str, Any]] = {
    "n_unique": {},
    "entropy": {},
    "top_k": {"k": 3},
    "bloom_member": {"expected_n": 20},
    "most_recent_n": {"n": 5},
    "reservoir_sample": {"samples": 5},
}


def filled(name: str, rows: Sequence[int], values: Sequence[str]) -> BlockState:
    state = made(KINDS[name], ("str",), rows=20, **OPERATORS[name])
    assert isinstance(state, BlockState)
    state.fold(fold_of(rows, events_of(*values), ("str",)))  # type: ignore[attr-defined]
    return state


@pytest.mark.parametrize("name", ["n_unique", "entropy", "top_k"])
def test_equal_states_are_saved_as_equal_bytes(name: str) -> None:
    """Whatever the order of the events was."""
    values = [f"{i * i % 60}" for i in range(200)]
    shuffled = Random(RIGS).sample(values, len(values))

    one, other = (
        filled(name, [3] * 200, order).save(np.array([3])) for order in (values, shuffled)
    )

    assert_same(one, other, "another order")


@pytest.mark.parametrize("name", OPERATORS)
def test_rows_do_not_touch_each_other(name: str) -> None:
    """Blocks of many rows that grow, are released and are used again."""
    random = Random(RIGS)
    alone: dict[int, list[str]] = {row: [] for row in range(20)}
    state = filled(name, [], [])
    for _ in range(30):
        rows = [random.randrange(20) for _ in range(40)]
        values = [f"{random.randrange(50)}" * random.randrange(1, 20) for _ in rows]
        state.fold(fold_of(rows, events_of(*values), ("str",)))  # type: ignore[attr-defined]
        for row, value in zip(rows, values, strict=True):
            alone[row].append(value)
        gone = random.sample(range(20), 3)
        state.clear(np.array(gone))
        for row in gone:
            alone[row] = []

    for row, values in alone.items():
        expected = filled(name, [7] * len(values), values).save(np.array([7]))
        assert plain(state.save(np.array([row]))) == plain(expected)


@pytest.mark.parametrize("name", OPERATORS)
def test_memory_does_not_grow_when_rows_come_and_go(name: str) -> None:
    state = filled(name, [], [])
    sizes = []
    for turn in range(40):
        values = [f"name {i}" for i in range(60)]
        state.fold(fold_of([turn % 20] * 60, events_of(*values), ("str",)))  # type: ignore[attr-defined]
        state.clear(np.array([turn % 20]))
        sizes.append(state.bytes)

    assert sizes[0] == sizes[-1]


@settings(max_examples=20, deadline=None)
@given(values=st.lists(st.text(st.characters(exclude_categories=()), max_size=20), max_size=30))
def test_any_text_is_saved_and_loaded(values: list[str]) -> None:
    state = filled("most_recent_n", [1] * len(values), values)
    other = filled("most_recent_n", [], [])

    other.load(np.array([4]), state.save(np.array([1])))

    assert state.value([1], 0) == other.value([4], 0) == values[::-1][:5]  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", [-1, 20])
def test_a_row_beyond_the_state_is_refused(row: int) -> None:
    for name in OPERATORS:
        state = filled(name, [0, 1], ["a", "b"])
        with pytest.raises(IndexError):
            state.fold(fold_of([row], events_of("a"), ("str",)))  # type: ignore[attr-defined]
        with pytest.raises(IndexError):
            state.save(np.array([row]))
        with pytest.raises(IndexError):
            state.clear(np.array([row]))


def test_a_row_is_loaded_only_when_it_is_empty() -> None:
    state = filled("n_unique", [0, 1], ["a", "b"])

    with pytest.raises(ValueError, match="row 1"):
        state.load(np.array([1]), state.save(np.array([0])))


def test_no_text_is_read_from_where_none_can_be() -> None:
    kernel: ModuleType = fold_kernel.chosen
    blocks = kernel.new_row_blocks()

    for at in (-1, 0, 1, 2**31):
        with pytest.raises(IndexError):
            kernel.text_at(blocks, at)


def test_rows_in_any_layout_of_memory_are_taken() -> None:
    state = filled("n_unique", [0, 1, 2, 3], ["a", "b", "c", "d"])
    rows = np.arange(6)[::2]

    state.clear(rows)

    assert [state.value([row], 0) for row in range(4)] == [0, 1, 0, 1]  # type: ignore[attr-defined]
