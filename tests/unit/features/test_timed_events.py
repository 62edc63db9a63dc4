"""Events with their times: late ones and those without a time are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock.features.definition import Definition
from penstock.features.definition_nodes import AHEAD_MS
from penstock.features.time_bounds import TimeBounds
from penstock.features.timed_events import BAD_KEPT, TimedEventReader
from tests.unit.features.part_rig import batch, definition, plan_of

EVENT: dict[str, Any] = {"name": "a", "day": 1, "x": 1, "at": 1000}


def events(*times: int) -> list[dict[str, Any]]:
    return [EVENT | {"at": time} for time in times]


def test_the_time_of_an_event_is_its_field() -> None:
    reader = TimedEventReader(plan_of())

    found = reader.read(batch(events(1000, 1100, 900, 899)))

    assert found.times.tolist() == [1000, 1100, 900]
    assert found.largest.tolist() == [1000, 1100, 1100]
    assert reader.counts.late == 1
    assert reader.largest == 1100


def test_the_largest_time_is_kept_from_batch_to_batch() -> None:
    reader = TimedEventReader(plan_of())
    reader.read(batch(events(1000)))

    assert len(reader.read(batch(events(799)))) == 0
    assert reader.read(batch(events(800))).largest.tolist() == [1000]


def test_without_a_field_the_time_is_that_of_the_record() -> None:
    document = definition()
    del document["events"][0]["time"]
    reader = TimedEventReader(Definition.parse(document).plan("T"))

    assert reader.read(batch(events(1, 2))).times.tolist() == [5000, 5000]


@pytest.mark.parametrize("time", [2**53, -(2**53), 2**62])
def test_a_time_that_no_clock_shows_is_bad(time: int) -> None:
    reader = TimedEventReader(plan_of())

    assert reader.read(batch(events(time, 1000))).times.tolist() == [1000]
    assert reader.counts.bad == 1
    assert reader.largest == 1000


def test_steps_add_columns_and_filter() -> None:
    reader = TimedEventReader(plan_of())

    found = reader.read(batch([EVENT, EVENT | {"x": 3}, EVENT | {"x": 4}]))

    assert found.columns["twice"].values.tolist() == [2, 8]
    assert reader.counts.filtered == 1


def test_reasons_of_the_first_bad_records_are_kept() -> None:
    reader = TimedEventReader(plan_of())

    for first in (1, 6):
        reader.read(batch([1] * 5, first_seq=first))

    assert reader.counts.bad == 10
    assert len(reader.counts.bad_reasons) == BAD_KEPT
    assert reader.counts.bad_reasons[-1] == "record 8: it is not a JSON object"


def test_a_choice_of_events_and_columns() -> None:
    found = TimedEventReader(plan_of()).read(batch(events(1000, 1001)))

    kept = found.only(np.array([False, True])).with_columns(frozenset({"x"}))

    assert list(kept.columns) == ["x"]
    assert (len(kept), kept.times.tolist()) == (1, [1001])
    assert found.only(np.array([True, True])) is found


def test_a_time_too_far_ahead_of_its_record_is_bad_and_makes_no_other_event_late() -> None:
    reader = TimedEventReader(plan_of())
    ahead = 5000 + AHEAD_MS

    found = reader.read(batch(events(1000, ahead + 1, 5000 * 1000, 990, ahead), first_seq=7))

    assert found.times.tolist() == [1000, 990, ahead]
    assert (reader.counts.bad, reader.counts.late, reader.largest) == (2, 0, ahead)
    assert reader.counts.bad_reasons == [
        f"record {seq}: {TimeBounds('at', AHEAD_MS).complaint(time, 5000)}"
        for seq, time in ((8, ahead + 1), (9, 5_000_000))
    ]


def test_the_bound_of_a_definition_and_the_clock_of_the_log_decide() -> None:
    document = definition()
    document["events"][0]["time"]["ahead"] = "10ms"
    reader = TimedEventReader(Definition.parse(document).plan("T"))

    assert reader.read(batch(events(5010, 5011))).times.tolist() == [5010]
    assert reader.read(batch(events(5011, 5012), 3, ts=5001)).times.tolist() == [5011]


def test_the_largest_time_of_all_keys_has_no_bad_times() -> None:
    """A task that folds some keys alone gets it for each record."""
    reader = TimedEventReader(plan_of())
    largest = np.array([1000, 1000, 1200])

    found = reader.read(batch(events(1000, 1 << 50, 1200)), largest)

    assert found.largest.tolist() == [1000, 1200]
    assert reader.largest == 1200
