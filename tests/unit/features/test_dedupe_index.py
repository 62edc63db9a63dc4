"""Ids within a dedupe window."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from penstock.codec.columns import Columns
from penstock.features.dedupe_index import DedupeIndex, bytes_of, id_of
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


@pytest.mark.parametrize("id_of_number", [str, "{:036d}".format, "ä{}".format, int])
def test_ids_take_about_the_memory_that_is_told(id_of_number: Any) -> None:
    kind: Any = "i64" if id_of_number is int else "str"
    ids = DedupeIndex("Ride", "id", FieldSchema(kind), 800)
    texts = [(1000 + n // 50, {"id": id_of_number(n + 10**9)}) for n in range(40_000)]
    batches = [columns_of(texts[n : n + 5000], 10**9 + n) for n in range(0, 40_000, 5000)]

    tracemalloc.start()
    try:
        for batch in batches:
            ids.apply(batch)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert ids.count == 40_000
    assert 0.6 * ids.bytes < used < 1.05 * ids.bytes


def test_a_long_id_counts_with_its_length() -> None:
    ids = index()

    ids.apply(columns_of([(1000, {"id": "x" * 100_000})]))

    assert 100_000 < ids.bytes == bytes_of(["x" * 100_000]) < 100_300


@pytest.mark.parametrize("now_ms", range(1450, 2450, 13))
def test_it_knows_what_an_event_of_now_would_leave(now_ms: int) -> None:
    ids = index(750)  # which is no multiple of its buckets
    ids.apply(columns_of([(1000, {"id": "a"}), (1100, {"id": "b"}), (1450, {"id": "c"})]))
    before = list(ids.snapshot())

    left, size = ids.count_at(now_ms), ids.bytes_at(now_ms)

    assert list(ids.snapshot()) == before
    ids.apply(columns_of([(now_ms, {"id": "d"})], 4))
    assert (ids.count, ids.bytes) == (left + 1, size + bytes_of(["d"]))


@pytest.mark.parametrize("at", [1000, 1001, 1099])
def test_it_knows_when_it_can_forget_some(at: int) -> None:
    ids = index()
    assert ids.frees_in_ms(1234) == 0
    ids.apply(columns_of([(at, {"id": "a"})]))
    end = 1200 + ids.frees_in_ms(1200)

    assert (ids.count_at(end - 1), ids.find("a", at + 800)) == (1, 1)
    assert (ids.count_at(end), ids.bytes_at(end)) == (0, 0)
    assert end <= at + 800 + 200
