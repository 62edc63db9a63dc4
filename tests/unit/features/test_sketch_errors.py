"""The errors of the sketches on data as it occurs: skewed amounts, and values by Zipf's law.

`docs/features/operators.md` has the figures of the full size, which prints them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from penstock.features.event_column import ColumnType, EventColumn
from penstock.features.operators.catalogue import KINDS
from penstock.features.operators.operator import Fold, Operator
from tests.support import rig, seeds
from tests.support.operators import made

BATCH = 5_000
CELLS = 64
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "log-normal": lambda random, count: random.lognormal(3, 1.2, count),
    "Pareto": lambda random, count: 5 * (1 + random.pareto(1.5, count)),
    "uniform, with both signs": lambda random, count: random.uniform(-100, 100, count),
}
SHARES = (0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)


def random_numbers() -> np.random.Generator:
    return np.random.default_rng(seeds.RIGS)


def folded(
    name: str, type_: ColumnType, values: Any, cells: int = 1, **parameters: Any
) -> Operator:
    """One key's values, dealt to the buckets of a window."""
    operator = made(KINDS[name], (type_,), rows=cells, **parameters)
    for start in range(0, len(values), BATCH):
        some = values[start : start + BATCH]
        count = len(some)
        rows = np.arange(start, start + count) % cells
        column = EventColumn(type_, some, np.ones(count, np.bool_))
        operator.fold(Fold(rows, np.zeros(count, np.int64), np.ones(count, np.bool_), (column,)))
    return operator


@pytest.mark.parametrize("cells", [1, CELLS])
def test_n_unique_has_the_stated_standard_error(cells: int) -> None:
    random = random_numbers()
    sizes = [2_000, 20_000, 100_000] if rig.IS_FULL else [2_000]
    for size in sizes:
        errors = []
        for _ in range(400 if rig.IS_FULL else 30):
            values = random.integers(0, 1 << 62, size)
            operator = folded("n_unique", "i64", values, cells)
            errors.append(operator.value(range(cells), 0) / len(np.unique(values)) - 1)
        error = math.sqrt(float(np.mean(np.square(errors))))
        if rig.IS_FULL:
            largest = max(map(abs, errors))
            rig.say(f"n_unique of {size:,} in {cells} buckets: {error:.2%}, at most {largest:.2%}")
        # The estimate of the error has an error too: four times that of 400, or 30, trials.
        assert error < 0.0163 * (1 + 4 / math.sqrt(2 * len(errors)))


@pytest.mark.parametrize("cells", [1, CELLS])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_quantile_is_within_the_stated_error(name: str, cells: int) -> None:
    random = random_numbers()
    worst = 0.0
    for count in (256, 10_000, 200_000) if rig.IS_FULL else (256, 10_000):
        values = DISTRIBUTIONS[name](random, count)
        ordered = np.sort(values)
        for share in SHARES:
            got = folded("quantile", "f64", values, cells, q=share).value(range(cells), 0)
            place = share * (count - 1)
            low, high = ordered[int(place)], ordered[math.ceil(place)]
            if count == 256:
                assert got == pytest.approx(low + (high - low) * (place - int(place)), rel=1e-12)
            worst = max(worst, outside(got, low, high))
    if rig.IS_FULL:
        rig.say(f"quantile, {name}, in {cells} buckets: at most {worst:.2%}")

    assert worst <= 0.5 / 64


def outside(got: float, low: float, high: float) -> float:
    """How far the value is from those that it lies between, relative to the nearer one."""
    if low <= got <= high:
        return 0.0
    return float(min(abs(got - low) / abs(low), abs(got - high) / abs(high)))


@pytest.mark.parametrize("cells", [1, CELLS])
@pytest.mark.parametrize("exponent", [1.05, 1.3])
def test_top_k_finds_the_values_that_are_frequent(exponent: float, cells: int) -> None:
    random = random_numbers()
    count = 1_000_000 if rig.IS_FULL else 60_000
    shares = 1 / np.arange(1, count // 2) ** exponent
    values = random.choice(len(shares), count, p=shares / shares.sum())

    found = folded("top_k", "i64", values, cells, k=10).value(range(cells), 0)

    counts = Counter(values.tolist())
    missing = [counts[one["value"]] - one["count"] for one in found]
    if rig.IS_FULL:
        rig.say(f"top_k, Zipf {exponent}, in {cells} buckets: too low by {missing} of {count:,}")
    assert all(0 <= lack <= count / 768 for lack in missing)
    frequent = {value for value, times in counts.most_common(10) if times > 2 * count / 768}
    assert frequent <= {one["value"] for one in found}


@pytest.mark.parametrize(("expected_n", "target_fpr"), [(1_024, 0.01), (10_000, 0.001)])
def test_bloom_member_takes_a_new_value_for_an_old_one_at_the_stated_rate(
    expected_n: int, target_fpr: float
) -> None:
    random = random_numbers()
    options = {"expected_n": expected_n, "target_fpr": target_fpr}
    values = random.integers(0, 1 << 62, expected_n)
    row = np.zeros(1, np.int64)
    saved = folded("bloom_member", "i64", values, **options).save(row)
    trials = 20_000 if rig.IS_FULL else 500

    taken = sum(is_member(saved, value, options) for value in new_values(random, trials, values))

    if rig.IS_FULL:
        rig.say(f"bloom_member for {expected_n:,} values: {taken / trials:.3%} of new ones")
    assert taken <= trials * target_fpr + 4 * math.sqrt(trials * target_fpr)
    assert all(is_member(saved, value, options) for value in values[: trials // 10])


def new_values(random: np.random.Generator, count: int, known: Any) -> Sequence[Any]:
    drawn = random.integers(0, 1 << 62, count)
    return [value for value in drawn if value not in known]


def is_member(saved: Any, value: Any, options: dict[str, Any]) -> bool:
    row = np.zeros(1, np.int64)
    operator = made(KINDS["bloom_member"], ("i64",), rows=1, **options)
    operator.load(row, saved)
    operator.fold(
        Fold(
            row,
            row,
            np.ones(1, np.bool_),
            (EventColumn("i64", np.array([value]), np.ones(1, np.bool_)),),
        )
    )
    return bool(operator.value([0], 0))
