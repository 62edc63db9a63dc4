"""Several snapshots of parts without a key in common become one part."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from penstock.features import part_snapshot
from penstock.features.part_fragment import Fragment
from penstock.features.table_part import TablePart
from penstock.features.windows import window_of
from tests.unit.features.part_rig import WINDOWS, batch, plan_of, random_events

WITH_CELLS = [window_of(given) for given in WINDOWS.values() if given is not None]


def folded(*names: str) -> TablePart:
    part = TablePart(plan_of())
    events = random_events(random.Random(5), 300)
    part.apply(batch([event for event in events if event["name"] in names]))
    return part


def pieces_of(part: TablePart) -> list[memoryview]:
    return [memoryview(bytes(piece)) for piece in part.snapshot()]


def test_a_part_of_two_snapshots_has_the_rows_of_both() -> None:
    ours, others = folded("a"), folded("b", "é")
    both = TablePart(plan_of())

    both.restore_all([pieces_of(ours), pieces_of(others)])

    largest = max(ours.largest_time or 0, others.largest_time or 0)
    assert both.keys == ours.keys + others.keys
    assert both.largest_time == largest
    for name in ("a", "b", "é"):
        for day in range(3):
            part = ours if name == "a" else others
            expected = part.row((name, day), largest, largest=largest)
            assert both.row((name, day), largest) == expected
    assert both.counters["events"] == ours.counters["events"] + others.counters["events"]


def test_slots_get_the_numbers_that_they_have_in_the_part() -> None:
    head, *pieces = pieces_of(folded("a"))
    fragment = Fragment()
    fragment.begin([head], WITH_CELLS)
    fragment.first_slot = 100

    slots = np.concatenate([fragment.piece(piece)["keys"]["slots"] for piece in pieces])

    assert sorted(slots.tolist()) == [100, 101, 102]
    assert (fragment.used, len(fragment.free)) == (3, 0)


def test_a_snapshot_without_one_of_the_windows_is_refused() -> None:
    head, *_ = pieces_of(folded("a"))

    with pytest.raises(ValueError, match="windows"):
        Fragment().begin([head], [*WITH_CELLS, window_of("5m")])


@pytest.mark.parametrize("slots", [[3], [-1]])
def test_a_slot_that_is_not_there_is_refused(slots: Any) -> None:
    head, first, *_ = pieces_of(folded("a"))
    fragment = Fragment()
    fragment.begin([head], WITH_CELLS)
    piece = part_snapshot.decode(first)
    piece["keys"]["slots"] = np.array(slots, np.int64)

    with pytest.raises(ValueError, match="slot"):
        fragment.piece(memoryview(part_snapshot.encode(piece)))


@pytest.mark.parametrize("name", ["used", "key_bytes"])
def test_a_head_that_promises_more_than_there_is_takes_no_memory(name: str) -> None:
    pieces = pieces_of(folded("a"))
    head = part_snapshot.decode(pieces[0])
    head["part"]["head"][name] = 1 << 50
    pieces[0] = memoryview(part_snapshot.encode(head))

    with pytest.raises(ValueError, match="promises more keys than"):
        TablePart(plan_of()).restore(pieces)
