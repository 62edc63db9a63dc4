"""Pieces of state as bytes, and copy on write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.features.part_snapshot import PartSnapshot, decode, encode

PIECE: dict[str, dict[str, Any]] = {
    "a": {
        "longs": np.array([1, -(2**63)]),
        "bytes": np.array([1, 2, 3], np.uint8),
        "grid": np.arange(6, dtype=np.float64).reshape(2, 3),
        "none": np.zeros((0, 4), np.int32),
        "flags": np.array([True, False]),
    },
    "b": {"texts": ["é", None, b"\0\xff"], "numbers": [1, 2.5, True], "large": [2**70, {"x": [1]}]},
    "empty": {},
}


def test_pieces_come_back_as_they_were() -> None:
    found = decode(memoryview(encode(PIECE)))

    assert list(found) == list(PIECE)
    for name, array in PIECE["a"].items():
        assert found["a"][name].dtype == array.dtype
        assert found["a"][name].tolist() == array.tolist()
        assert found["a"][name].shape == array.shape
    assert found["b"] == PIECE["b"]


def test_equal_state_gives_equal_bytes() -> None:
    assert encode(PIECE) == encode({name: dict(group) for name, group in PIECE.items()})


def test_decoded_arrays_are_copies() -> None:
    data = bytearray(encode(PIECE))
    found = decode(memoryview(data))
    found["a"]["longs"][0] = 7

    assert data == encode(PIECE)


@pytest.mark.parametrize("size", [0, 7, 8, 50, -8])
def test_a_piece_that_ends_early_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=r"ends early|truncated"):
        decode(memoryview(encode(PIECE)[:size]))


def test_an_array_of_objects_is_refused() -> None:
    data = encode({"a": {"x": np.zeros(1)}}).replace(b"<f8", b"|O8")

    with pytest.raises(ValueError, match="not saved by this version"):
        decode(memoryview(data))


class Numbers:
    """State of a few slots, saved as text."""

    def __init__(self, count: int) -> None:
        self.values = list(range(count))

    def snapshot(self, is_pending: list[bool], piece_slots: int) -> PartSnapshot:
        return PartSnapshot(
            b"head",
            np.array(is_pending),
            piece_slots,
            lambda slots: repr([(slot, self.values[slot]) for slot in slots.tolist()]).encode(),
        )

    def change(self, snapshot: PartSnapshot, *slots: int) -> None:
        snapshot.before_change(np.array(slots))
        for slot in slots:
            if 0 <= slot < len(self.values):
                self.values[slot] = -1


def test_slots_are_saved_piece_by_piece() -> None:
    pieces = list(Numbers(5).snapshot([True, True, False, True, True], 2))

    assert pieces == [b"head", b"[(0, 0), (1, 1)]", b"[(3, 3)]", b"[(4, 4)]"]


def test_a_slot_is_saved_before_it_changes_and_only_once() -> None:
    state = Numbers(6)
    snapshot = state.snapshot([True] * 6, 2)
    next(snapshot)
    next(snapshot)

    state.change(snapshot, 5, 0, 5, -1, 9)
    state.change(snapshot, 5, 1)

    assert list(snapshot) == [b"[(5, 5)]", b"[(2, 2), (3, 3)]", b"[(4, 4)]"]
