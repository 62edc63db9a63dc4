"""top_k and entropy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.features.event_column import ColumnType
from penstock.features.kernel_source.row_shapes import RANKED_COUNT_MAX
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, Event, check, events_of, fold_of, made, value_of
from tests.support.seeds import RIGS

TOP, ENTROPY = KINDS["top_k"], KINDS["entropy"]
SCALARS: tuple[ColumnType, ...] = ("i64", "f64", "bool", "str")


def counted(events: Sequence[Event]) -> Counter[Any]:
    return Counter(
        repr(event.value) if isinstance(event.value, (list, dict)) else event.value
        for event in events
        if event.passes and event.value is not None
    )


def ranked(counts: Counter[Any], k: int) -> list[dict[str, Any]]:
    first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"count": count, "value": value} for value, count in first[:k]]


def bits(counts: Sequence[int]) -> float:
    total = sum(counts)
    return -sum(count / total * math.log2(count / total) for count in counts) if counts else 0.0


@pytest.mark.parametrize("window_ms", [None, 3 * CELL_MS])
@pytest.mark.parametrize("type_", SCALARS)
@pytest.mark.parametrize("k", [1, 3, 1_024])
def test_the_most_frequent_values(type_: ColumnType, window_ms: int | None, k: int) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> list[dict[str, Any]]:
        return ranked(counted(events), k)

    check(TOP, (type_,), expected, window_ms=window_ms, is_in_order=False, k=k)


def test_equal_counts_are_in_the_order_of_values() -> None:
    found = value_of(TOP, ("str",), events_of("b", "é", "a", "\U0001f600", "b", "z"), k=4)

    assert [entry["value"] for entry in found] == ["b", "a", "z", "é"]
    found = value_of(TOP, ("i64",), events_of(5, -3, 2**62, 0, -(2**63)), k=3)
    assert found == [{"count": 1, "value": value} for value in (-(2**63), -3, 0)]


def stream(type_: ColumnType, count: int = 30_000) -> list[Any]:
    """A few frequent values among very many rare ones."""
    random = Random(RIGS)
    numbers = [
        int(random.paretovariate(0.9)) if random.random() < 0.6 else random.randrange(10**7)
        for _ in range(count)
    ]
    return [f"item-{i}" for i in numbers] if type_ == "str" else numbers


@pytest.mark.parametrize("type_", ["i64", "str"])
def test_among_many_values_a_count_is_within_the_error(type_: ColumnType) -> None:
    values = stream(type_)
    true = Counter(values)
    off = len(values) / (RANKED_COUNT_MAX // 2)

    found = value_of(TOP, (type_,), events_of(*values), k=20)

    assert len(true) > 5 * RANKED_COUNT_MAX
    for entry in found:
        assert true[entry["value"]] - off <= entry["count"] <= true[entry["value"]]
    frequent = {value for value, count in true.items() if count > 3 * off}
    assert len(frequent) > 5
    assert frequent <= {entry["value"] for entry in found}


@pytest.mark.parametrize("type_", ["i64", "str"])
def test_a_sketch_does_not_depend_on_batches_forms_or_snapshots(type_: ColumnType) -> None:
    def draw(random: Random) -> tuple[Any]:
        number = random.randrange(20 if random.random() < 0.2 else 10**9)
        return (f"{number}" if type_ == "str" else number,)

    def expected(events: Sequence[Event], now_ms: int) -> list[dict[str, Any]]:
        """The sketch as its definition has it."""
        return misra_gries([e.value for e in events if e.passes and e.value is not None], 10)

    check(TOP, (type_,), expected, draw=draw, count=10_500, k=10)


def misra_gries(values: Sequence[Any], k: int) -> list[dict[str, Any]]:
    """Counts of values that were never dropped since; a full table drops by the median."""
    counts: Counter[Any] = Counter()
    bases: dict[Any, int] = {}
    dropped = 0
    for value in values:
        if value not in counts:
            if len(counts) == RANKED_COUNT_MAX:
                left = {v: counts[v] + bases[v] - dropped for v in counts}
                cut = sorted(left.values())[RANKED_COUNT_MAX // 2 - 1]
                for v in left:
                    if left[v] <= cut:
                        del counts[v], bases[v]
                dropped += cut
            bases[value] = dropped
        counts[value] += 1
    return ranked(counts, k)


def test_windows_are_merged() -> None:
    values = [f"{i * i % 4_001}" for i in range(3_000)]
    rows = [i // 1_000 for i in range(3_000)]
    operator = made(TOP, ("str",), 60_000, k=50)
    operator.fold(fold_of(rows, events_of(*values), ("str",)))

    assert operator.value([0, 1, 2], 0) == ranked(Counter(values), 50)
    assert operator.value([1], 0) == ranked(Counter(values[1_000:2_000]), 50)


def test_memory_is_bounded_however_many_values_there_are() -> None:
    operator = made(TOP, ("str",), rows=1, k=10)
    values = [f"a rather long name {i}" for i in range(12_000)]
    sizes = []
    for start in range(0, len(values), 3_000):
        events = events_of(*values[start : start + 3_000])
        operator.fold(fold_of([0] * len(events), events, ("str",)))
        sizes.append(operator.bytes)

    assert sizes[-1] == sizes[0] < 6 * 10**5


def test_cleared_texts_make_room_for_others() -> None:
    operator = made(TOP, ("str",), rows=1, k=10)
    values = events_of(*(f"name {i}" for i in range(500)))
    sizes = []
    for _ in range(4):
        operator.fold(fold_of([0] * len(values), values, ("str",)))
        operator.clear(np.array([0]))
        sizes.append(operator.bytes)

    assert len(set(sizes)) == 1


@pytest.mark.parametrize("window_ms", [None, 3 * CELL_MS])
@pytest.mark.parametrize("type_", [*SCALARS, "json"])
def test_entropy_in_bits(type_: ColumnType, window_ms: int | None) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> float:
        return abs(bits(list(counted(events).values())))

    check(ENTROPY, (type_,), expected, window_ms=window_ms, is_in_order=False, relative=1e-12)


def test_entropy_of_equal_shares_is_exact() -> None:
    assert value_of(ENTROPY, ("i64",), events_of(*range(1_024))) == 10.0
    assert value_of(ENTROPY, ("bool",), events_of(True, False, True, False)) == 1.0
    assert value_of(ENTROPY, ("str",), events_of("a", "a", "a")) == 0.0


def test_categories_above_the_limit_count_as_one() -> None:
    values = [1, 2, 3, 3, 4, 4, 5, 1, 1, 2, 5]

    found = value_of(ENTROPY, ("i64",), events_of(*values), max_categories=2)

    assert found == pytest.approx(bits([3, 2, 6]))


def test_the_limit_of_categories_is_that_of_each_window_cell() -> None:
    operator = made(ENTROPY, ("i64",), 60_000, max_categories=2)
    operator.fold(fold_of([0, 0, 0, 1, 1, 1], events_of(1, 2, 3, 3, 4, 5), ("i64",)))

    assert operator.value([0, 1], 0) == pytest.approx(bits([1, 1, 1, 1, 2]))


def test_a_full_table_does_not_depend_on_batches_forms_or_snapshots() -> None:
    def draw(random: Random) -> tuple[int]:
        return (random.randrange(10**6),)

    def expected(events: Sequence[Event], now_ms: int) -> float:
        first: Counter[str] = Counter()
        for event in events:
            if event.passes and event.value is not None:
                is_known = str(event.value) in first or len(first) < 64
                first[str(event.value) if is_known else "others"] += 1
        return bits(list(first.values()))

    check(ENTROPY, ("i64",), expected, draw=draw, count=800, relative=1e-12, max_categories=64)


def test_without_events_there_is_no_spread() -> None:
    for rows in ([], [3]):
        assert made(ENTROPY, ("i64",)).value(rows, 0) == 0.0
        assert made(TOP, ("i64",)).value(rows, 0) == []


def test_saved_state_that_cannot_be_is_refused() -> None:
    operator = made(TOP, ("str",), rows=2)
    operator.fold(fold_of([0] * 3, events_of("a", "b", "a"), ("str",)))
    rows = np.array([0])
    saved = dict(operator.save(rows))
    based = saved["words"].copy()
    based[2] |= np.uint64(1 << 40)
    huge = saved["words"].copy()
    huge[1] = np.uint64(1 << 63)

    for changed in (
        {**saved, "words": based},
        {**saved, "words": huge},
        {**saved, "texts": saved["texts"][:1]},
        {**saved, "texts": None},
        {**saved, "modes": np.array([64], np.uint8)},
    ):
        with pytest.raises(ValueError, match="saved"):
            made(TOP, ("str",), rows=2).load(rows, changed)
