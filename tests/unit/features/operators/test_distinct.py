"""n_unique and bloom_member."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.features.event_column import ColumnType
from penstock.features.kernel_source.row_shapes import DISTINCT_EXACT_MAX, REGISTER_COUNT
from penstock.features.operators.catalogue import KINDS
from penstock.features.operators.distinct import cardinality, filter_words
from tests.support.operators import (
    CELL_MS,
    Event,
    check,
    events_of,
    fold_of,
    made,
    split_mix,
    value_of,
)
from tests.support.seeds import RIGS

UNIQUE, MEMBER = KINDS["n_unique"], KINDS["bloom_member"]
TYPES: tuple[ColumnType, ...] = ("i64", "f64", "bool", "str", "json")
STANDARD_ERROR = 1.04 / REGISTER_COUNT**0.5


def identity(value: Any) -> str:
    """Equal values have equal ones."""
    return json.dumps(value, sort_keys=True)


def values_of(events: Sequence[Event]) -> list[str]:
    return [identity(e.value) for e in events if e.passes and e.value is not None]


def distinct(events: Sequence[Event], now_ms: int) -> int:
    return len(set(values_of(events)))


def is_repeated(events: Sequence[Event], now_ms: int) -> bool | None:
    values = values_of(events)
    return values[-1] in values[:-1] if values else None


@pytest.mark.parametrize("window_ms", [None, 3 * CELL_MS])
@pytest.mark.parametrize("type_", TYPES)
def test_few_different_values_are_counted(type_: ColumnType, window_ms: int | None) -> None:
    check(UNIQUE, (type_,), distinct, window_ms=window_ms, is_in_order=False)


@pytest.mark.parametrize("type_", ["i64", "str"])
def test_a_thousand_different_values_are_counted_exactly(type_: ColumnType) -> None:
    numbers = [i * 7 for i in range(DISTINCT_EXACT_MAX)] * 2
    values = numbers if type_ == "i64" else [f"v{i}" for i in numbers]

    assert value_of(UNIQUE, (type_,), events_of(*values)) == DISTINCT_EXACT_MAX


@pytest.mark.parametrize("count", [1_025, 2_000, 20_000])
@pytest.mark.parametrize("type_", ["i64", "f64", "str"])
def test_many_different_values_are_estimated(type_: ColumnType, count: int) -> None:
    """Within three standard errors: the hashes are fixed, so the estimate is always the same."""
    values = {
        "i64": list(range(count)),
        "f64": [i / 8 for i in range(count)],
        "str": [f"customer-{i}" for i in range(count)],
    }[type_]

    got = value_of(UNIQUE, (type_,), events_of(*values))

    assert got == pytest.approx(count, rel=3 * STANDARD_ERROR)
    assert got > DISTINCT_EXACT_MAX


def test_the_estimate_has_no_bias_and_the_stated_error() -> None:
    """Registers as after `count` random hashes, drawn at once: each is the maximum of its share."""
    random = np.random.default_rng(RIGS)
    for count in (3_000, 30_000, 3_000_000):
        errors = []
        for _ in range(200):
            shares = random.multinomial(count, np.full(REGISTER_COUNT, 1 / REGISTER_COUNT))
            # P(max <= r) = (1 - 2**-r)**share, inverted.
            drawn = random.random(REGISTER_COUNT) ** (1 / np.maximum(shares, 1))
            ranks = np.ceil(-np.log2(-np.expm1(np.log(drawn)))).clip(1, 53)
            registers = np.where(shares > 0, ranks, 0).astype(np.uint8)
            errors.append(cardinality(registers) / count - 1)
        assert abs(np.mean(errors)) < 4 * STANDARD_ERROR / len(errors) ** 0.5
        assert np.std(errors) < 1.15 * STANDARD_ERROR


def test_no_registers_are_no_values_and_full_ones_are_very_many() -> None:
    assert cardinality(np.zeros(REGISTER_COUNT, np.uint8)) == 0
    assert cardinality(np.full(REGISTER_COUNT, 52, np.uint8)) > 1e18


def test_a_sketch_does_not_depend_on_batches_forms_or_snapshots() -> None:
    def draw(random: Random) -> tuple[int]:
        return (random.randrange(10**9),)

    def expected(events: Sequence[Event], now_ms: int) -> int:
        return estimate({int(value) for value in values_of(events)})

    check(UNIQUE, ("i64",), expected, draw=draw, count=6_000)


def estimate(values: set[int]) -> int:
    """The registers of HyperLogLog by their definition."""
    registers = np.zeros(REGISTER_COUNT, np.uint8)
    for value in values:
        bits = f"{split_mix(value):064b}"
        number, rest = int(bits[-12:], 2), bits[:-12]
        rank = len(rest) - len(rest.rstrip("0")) + 1
        registers[number] = max(registers[number], rank)
    return round(cardinality(registers))


def test_windows_are_merged_exactly_while_the_union_is_small() -> None:
    operator = made(UNIQUE, ("i64",), 60_000)
    values = [i % 900 for i in range(4_000)]
    operator.fold(fold_of([i // 1_000 for i in range(4_000)], events_of(*values), ("i64",)))

    assert operator.value([0, 1, 2, 3], 0) == 900


def test_windows_are_merged_as_if_they_were_one() -> None:
    operator = made(UNIQUE, ("i64",), 60_000)
    values = list(range(9_000))
    rows = [0 if i < 5_000 else 1 + i % 4 if i < 8_900 else 5 for i in values]
    operator.fold(fold_of(rows, events_of(*values), ("i64",)))

    whole = value_of(UNIQUE, ("i64",), events_of(*values))

    assert operator.value([0, 1, 2, 3, 4, 5], 0) == whole
    assert operator.value([5, 1, 4, 3, 0, 2], 0) == whole
    assert operator.value([5, 1, 2, 3, 4, 5], 0) == pytest.approx(4_000, rel=3 * STANDARD_ERROR)


def test_json_values_are_compared_as_values() -> None:
    def count(*values: Any) -> int:
        return value_of(UNIQUE, ("json",), events_of(*values))

    assert count(2, 2.0) == 1
    assert count(1, True, "1", [1], "true") == 5
    assert count({"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}) == 1
    assert count({"a": 1}, {"a": 2}, {}, []) == 4
    assert value_of(UNIQUE, ("f64",), events_of(0.0, -0.0, 1.0)) == 2


def test_a_text_that_is_no_utf_8_is_a_value() -> None:
    assert value_of(UNIQUE, ("str",), events_of("\ud800", "\ud801", "\ud800", "")) == 3


def test_without_events_there_are_no_values() -> None:
    assert made(UNIQUE, ("i64",)).value([], 0) == 0
    assert made(UNIQUE, ("i64",)).value([3], 0) == 0
    assert made(MEMBER, ("i64",)).value([], 0) is None
    assert made(MEMBER, ("i64",)).value([3], 0) is None


@pytest.mark.parametrize("type_", TYPES)
def test_a_member_was_there_before(type_: ColumnType) -> None:
    check(MEMBER, (type_,), is_repeated)


def test_a_filter_does_not_depend_on_batches_forms_or_snapshots() -> None:
    """A filter so small that it says yes to everything: the values do not matter."""

    def draw(random: Random) -> tuple[int]:
        return (random.randrange(10**9),)

    def expected(events: Sequence[Event], now_ms: int) -> bool | None:
        return True if values_of(events) else None

    check(MEMBER, ("i64",), expected, draw=draw, count=600, expected_n=4)


def answers_of(values: Sequence[int], **parameters: Any) -> list[bool]:
    """What a key answers after each value."""
    operator = made(MEMBER, ("i64",), rows=1, **parameters)
    answers = []
    for event in events_of(*values):
        operator.fold(fold_of([0], [event], ("i64",)))
        answers.append(operator.value([0], 0))
    return answers


def test_a_value_that_was_there_is_always_a_member() -> None:
    values = list(range(1_500))

    assert all(answers_of([*values, *values])[len(values) :])


@pytest.mark.parametrize("fpr", [0.1, 0.01])
def test_a_new_value_is_seldom_taken_for_a_member(fpr: float) -> None:
    expected = 1_000
    answers = answers_of(range(2 * expected), expected_n=expected, target_fpr=fpr)

    before, after = sum(answers[:expected]), sum(answers[expected : expected + 200])

    assert before <= fpr * expected
    assert 0 < after <= 200 * 3 * fpr + 5


def test_few_values_are_never_taken_for_each_other() -> None:
    assert not any(answers_of(range(90)))


def test_a_key_with_few_values_takes_little_memory() -> None:
    rows = np.arange(10_000)
    for kind in (UNIQUE, MEMBER):
        operator = made(kind, ("i64",), rows=len(rows))
        events = events_of(*range(len(rows)))
        for _ in range(3):
            operator.fold(fold_of(rows.tolist(), events, ("i64",)))
        assert operator.bytes / len(rows) < 60


def test_a_filter_has_the_bits_of_the_textbook() -> None:
    assert filter_words(1_024, 0.01) == pytest.approx(1_024 * 9.585 / 64, abs=1)


def test_saved_state_that_cannot_be_is_refused() -> None:
    for kind in (UNIQUE, MEMBER):
        operator = made(kind, ("i64",), rows=2)
        operator.fold(fold_of([0] * 3, events_of(1, 2, 3), ("i64",)))
        rows = np.array([0])
        saved = dict(operator.save(rows))
        doubled = {**saved, "words": np.repeat(saved["words"][:1], 3)}
        for changed in (
            doubled,
            {**saved, "words": saved["words"] * np.uint64(0)},
            {**saved, "words": saved["words"][:2]},
            {**saved, "modes": np.array([128], np.uint8)},
            {**saved, "counts": np.array([-1])},
        ):
            with pytest.raises(ValueError, match="saved"):
                made(kind, ("i64",), rows=2).load(rows, changed)
