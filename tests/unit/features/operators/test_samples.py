"""most_recent_n and reservoir_sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.features.event_column import ColumnType
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import (
    Event,
    algorithm_r,
    check,
    events_of,
    fold_of,
    made,
    value_of,
)

RECENT, SAMPLE = KINDS["most_recent_n"], KINDS["reservoir_sample"]
TYPES: tuple[ColumnType, ...] = ("i64", "f64", "bool", "str", "json")


def values_of(events: Sequence[Event]) -> list[Any]:
    return [event.value for event in events if event.passes and event.value is not None]


@pytest.mark.parametrize("n", [1, 3, 5, 1_024])
@pytest.mark.parametrize("type_", TYPES)
def test_the_last_values_are_newest_first(type_: ColumnType, n: int) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> list[Any]:
        return values_of(events)[::-1][:n]

    check(RECENT, (type_,), expected, n=n)


@pytest.mark.parametrize("samples", [1, 3, 20, 1_024])
@pytest.mark.parametrize("type_", TYPES)
def test_a_sample_is_that_of_algorithm_r(type_: ColumnType, samples: int) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> list[Any]:
        return algorithm_r(values_of(events), samples)

    check(SAMPLE, (type_,), expected, samples=samples)


def test_every_value_is_in_the_sample_as_often_as_any_other() -> None:
    """Of 40 lists of numbers, each longer than the one before, the tenths of the list."""
    tenths: Counter[int] = Counter()
    for length in range(1_000, 5_000, 100):
        found = value_of(SAMPLE, ("i64",), events_of(*range(length)), samples=100)
        assert len(set(found)) == 100
        tenths.update(10 * value // length for value in found)

    assert all(count == pytest.approx(400, rel=0.25) for count in tenths.values())
    assert len(tenths) == 10


def test_json_values_come_back_as_they_were() -> None:
    values = [2.0, 2, True, "2", [1, {"b": None, "a": "\ud800"}], {}, 10**30]

    for kind, name in ((RECENT, "n"), (SAMPLE, "samples")):
        found = value_of(kind, ("json",), events_of(*values), **{name: 8})
        assert [repr(value) for value in found] in (
            [repr(value) for value in values],
            [repr(value) for value in values[::-1]],
        )


def test_replaced_texts_make_room_for_others() -> None:
    for kind, name in ((RECENT, "n"), (SAMPLE, "samples")):
        operator = made(kind, ("str",), rows=1, **{name: 10})
        events = events_of(*(f"a text of some length {i:06}" for i in range(2_000)))
        sizes = []
        for _ in range(3):
            operator.fold(fold_of([0] * len(events), events, ("str",)))
            sizes.append(operator.bytes)
        assert sizes[-1] == sizes[0] < 4_000


def test_a_key_with_few_values_takes_little_memory() -> None:
    rows = np.arange(10_000)
    operator = made(RECENT, ("i64",), rows=len(rows), n=1_000)
    operator.fold(fold_of(rows.tolist(), events_of(*range(len(rows))), ("i64",)))

    assert operator.bytes / len(rows) < 50


def test_without_events_there_are_no_values() -> None:
    for rows in ([], [3]):
        assert made(RECENT, ("i64",), n=3).value(rows, 0) == []
        assert made(SAMPLE, ("str",), samples=3).value(rows, 0) == []


def test_saved_state_that_cannot_be_is_refused() -> None:
    random = Random(1)
    for kind, name in ((RECENT, "n"), (SAMPLE, "samples")):
        operator = made(kind, ("i64",), rows=2, **{name: 3})
        values = events_of(*(random.random() for _ in range(2)))
        operator.fold(fold_of([0] * 2, values, ("f64",)))
        rows = np.array([0])
        saved = dict(operator.save(rows))
        for changed in (
            {**saved, "extras": np.array([3], np.uint64)},
            {**saved, "modes": np.array([0], np.uint8)},
            {**saved, "modes": np.array([200], np.uint8)},
        ):
            with pytest.raises(ValueError, match="saved"):
                made(kind, ("i64",), rows=2, **{name: 3}).load(rows, changed)


def test_a_saved_word_of_a_text_has_nothing_of_its_own() -> None:
    for number in (1, 1 << 40):
        operator = made(RECENT, ("str",), rows=2, n=3)
        operator.fold(fold_of([0], events_of("a"), ("str",)))
        saved = {**operator.save(np.array([0])), "words": np.array([number], np.uint64)}
        with pytest.raises(ValueError, match="saved"):
            made(RECENT, ("str",), rows=2, n=3).load(np.array([0]), saved)
