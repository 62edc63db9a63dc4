"""Ids within a dedupe window."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from penstock.codec.columns import Columns
from penstock.features.dedupe_index import DedupeIndex, id_of
from penstock.features.event_decoder import FieldSchema


def columns_of(events: Sequence[tuple[int, Any]], first_seq: int = 1) -> Columns:
    """Records with these times and data."""
    texts = [msgspec.json.encode(data) for _, data in events]
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    count = len(events)
    return Columns(
        count,
        struct.pack(f"<{count}q", *range(first_seq, first_seq + count)),
        struct.pack(f"<{count}q", *(ts for ts, _ in events)),
        None,
        None,
        None,
        (
            struct.pack(f"<{count + 1}I", *offsets),
            b"".join(texts),
            b"\xff" * (-(-count // 8)),
        ),
    )


def index(window_ms: int = 800) -> DedupeIndex:
    return DedupeIndex("Ride", "id", FieldSchema("str"), window_ms)


def test_an_id_is_found_with_the_seq_of_its_first_event() -> None:
    ids = index()

    ids.apply(columns_of([(1000, {"id": "a"}), (1001, {"id": "b"}), (1002, {"id": "a"})]))
    ids.apply(columns_of([(1300, {"id": "b"})], 4))

    assert (ids.find("a", 1400), ids.find("b", 1400), ids.find("c", 1400)) == (1, 2, None)


def test_an_id_is_remembered_for_the_window_and_not_much_longer() -> None:
    ids = index(800)
    ids.apply(columns_of([(1000, {"id": "a"})]))

    assert ids.find("a", 1000 + 799) == 1
    assert ids.find("a", 1000 + 900) is None


def test_forgotten_ids_free_their_memory() -> None:
    ids = index(800)

    for at in range(100):
        ids.apply(columns_of([(1000 + at * 100, {"id": f"{at}"})], at + 1))

    assert ids.bytes < 20 * 500


def test_events_without_an_id_are_ignored() -> None:
    ids = index()

    ids.apply(columns_of([(1000, {}), (1000, [1]), (1000, {"id": None})]))

    assert ids.bytes == 0


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_a_restored_index_goes_on_as_the_first_one_does(cut: int) -> None:
    events = [(1000, {"id": "a"}), (1200, {"id": "b"}), (1900, {"id": "a"}), (1950, {"id": "b"})]
    whole, begun, restored = index(), index(), index()
    whole.apply(columns_of(events))
    begun.apply(columns_of(events[:cut]))

    parts = list(begun.snapshot())
    restored.restore([memoryview(part) for part in parts])
    restored.apply(columns_of(events[cut:], cut + 1))

    for one in "ab":
        assert restored.find(one, 2000) == whole.find(one, 2000)


def test_a_snapshot_shows_nothing_that_was_applied_after_it_was_taken() -> None:
    ids, restored = index(), index()
    ids.apply(columns_of([(1000, {"id": "a"})]))

    parts = ids.snapshot()
    ids.apply(columns_of([(1001, {"id": "b"})], 2))
    restored.restore([memoryview(part) for part in parts])

    assert restored.find("b", 1001) is None


def test_parts_of_another_form_are_refused() -> None:
    with pytest.raises(ValueError, match=r"."):
        index().restore([memoryview(b"\x01")])


@pytest.mark.parametrize("left_out", [0, -1])
def test_a_snapshot_without_one_of_its_parts_is_refused(left_out: int) -> None:
    ids = index(800)
    ids.apply(columns_of([(1000, {"id": "a"}), (1100, {"id": "b"})]))
    parts = list(ids.snapshot())

    del parts[left_out]

    with pytest.raises(ValueError, match=r"."):
        index().restore([memoryview(part) for part in parts])


def test_the_id_of_an_event_is_a_text_or_an_integer() -> None:
    assert id_of({"id": "a"}, "id") == "a"
    assert id_of({"id": 7}, "id") == 7
    assert id_of({}, "id") is None
