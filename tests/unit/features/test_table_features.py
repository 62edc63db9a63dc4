"""The features of a part, by the slots of keys."""

from __future__ import annotations

import math

import numpy as np

from penstock.features.event_column import column_of
from penstock.features.table_features import TableFeatures, finite
from penstock.features.timed_events import TimedEvents
from tests.unit.features.part_rig import plan_of


def events(*times: int) -> TimedEvents:
    ts = np.array(times, np.int64)
    columns = {name: column_of("i64", [1] * len(ts)) for name in ("twice", "x")}
    columns["note"] = column_of("str", ["n"] * len(ts))
    return TimedEvents(columns, ts, np.maximum.accumulate(ts), np.arange(len(ts)))


def slots(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def features() -> TableFeatures:
    return TableFeatures(plan_of().features)


def test_features_of_one_window_share_its_cells() -> None:
    assert len(features().cells) == 3


def test_the_columns_are_those_of_features_and_their_conditions() -> None:
    assert features().columns == {"twice", "x", "note"}


def test_a_row_has_the_features_that_are_asked_for() -> None:
    found = features()
    found.fold(slots(0, 1, 0), 2, events(1000, 1000, 2100))

    assert found.row(0, 2100, 2100, ["n_all", "n_tumbling"]) == {"n_all": 2, "n_tumbling": 1}
    assert found.row(1, 2100, 2100, ["n_tumbling", "last"]) == {"n_tumbling": 0, "last": "n"}


def test_an_event_that_is_too_old_for_a_window_counts_without_one() -> None:
    found = features()
    found.fold(slots(0, 0), 1, events(5000, 1000))

    assert found.row(0, 5000, 5000, ["n_all", "n_hopping"]) == {"n_all": 2, "n_hopping": 1}


def test_cleared_slots_are_empty_and_their_cells_free() -> None:
    found = features()
    found.fold(slots(0, 1), 2, events(1000, 1000))

    found.clear(slots(0))

    assert found.row(0, 1000, 1000, ["n_all", "n_sliding"]) == {"n_all": 0, "n_sliding": 0}
    assert found.row(1, 1000, 1000, ["n_all", "n_sliding"]) == {"n_all": 1, "n_sliding": 1}
    assert [len(cells) for cells in found.cells.values()] == [1, 1, 1]


def test_old_cells_are_freed() -> None:
    found = features()
    found.fold(slots(0, 1), 2, events(1000, 1000))

    found.drop_old(0, 1, 10_000)

    assert [len(cells) for cells in found.cells.values()] == [1, 1, 1]


def test_saved_state_is_loaded_into_the_same_slots() -> None:
    found, copy = features(), features()
    found.fold(slots(0, 1, 2, 0), 3, events(1000, 1000, 1100, 1200))

    copy.load(slots(2, 0), dict(found.save(slots(2, 0), 1200)), 3)

    names = list(found.states)
    assert copy.row(0, 1200, 1200, names) == found.row(0, 1200, 1200, names)
    assert copy.row(2, 1200, 1200, names) == found.row(2, 1200, 1200, names)
    assert copy.row(1, 1200, 1200, ["n_all"]) == {"n_all": 0}


def test_what_json_cannot_say_is_null() -> None:
    given = {"a": [1.5, math.nan], "b": math.inf, "c": "x", "d": 1}

    assert finite(given) == {"a": [1.5, None], "b": None, "c": "x", "d": 1}
