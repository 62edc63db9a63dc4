"""quantile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.features.event_column import ColumnType
from penstock.features.kernel_source.row_shapes import BUCKET_COUNT_MAX, QUANTILE_EXACT_MAX
from penstock.features.operators.catalogue import KINDS
from tests.support.operators import CELL_MS, Event, check, events_of, fold_of, made, value_of
from tests.support.seeds import RIGS

KIND = KINDS["quantile"]
ERROR = 1 / 128


def interpolated(values: Sequence[float], q: float) -> float:
    """The definition: a line through the sorted values, the first at 0 and the last at 1."""
    ordered = sorted(map(float, values))
    place = q * (len(ordered) - 1)
    low = int(place)
    if low == place:
        return ordered[low]
    return ordered[low] + (ordered[low + 1] - ordered[low]) * (place - low)


def expected_at(q: float, events: Sequence[Event]) -> float | None:
    values = [event.value for event in events if event.passes and event.value is not None]
    return interpolated(values, q) if values else None


@pytest.mark.parametrize("window_ms", [None, 3 * CELL_MS])
@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_few_values_have_an_exact_quantile(type_: ColumnType, window_ms: int | None) -> None:
    for q in (0.0, 0.5, 0.9, 1.0):
        check(
            KIND,
            (type_,),
            lambda events, _, q=q: expected_at(q, events),
            window_ms=window_ms,
            is_in_order=False,
            count=80,
            q=q,
        )


@settings(max_examples=20, deadline=None)
@given(
    values=st.lists(
        st.floats(allow_nan=False, allow_infinity=False, width=32),
        min_size=1,
        max_size=QUANTILE_EXACT_MAX,
    ),
    q=st.floats(0, 1),
)
def test_the_quantile_of_any_floats_is_that_of_the_definition(
    values: list[float], q: float
) -> None:
    assert value_of(KIND, ("f64",), events_of(*values), q=q) == interpolated(values, q)


def draws(name: str) -> list[float]:
    random = Random(RIGS)
    draw = {
        "normal": lambda: random.gauss(100, 20),
        "of both signs": lambda: random.gauss(0, 3),
        "of many sizes": lambda: random.lognormvariate(3, 2),
        "whole": lambda: float(random.randrange(1, 500)),
    }[name]
    return [draw() for _ in range(2_000)]


@pytest.mark.parametrize("name", ["normal", "of both signs", "of many sizes", "whole"])
def test_many_values_have_a_quantile_within_the_error(name: str) -> None:
    values = draws(name)

    for q in (0.0, 0.01, 0.5, 0.99, 1.0):
        place = int(q * (len(values) - 1))
        near = sorted(values)[place : place + 2]
        got = value_of(KIND, ("f64",), events_of(*values), q=q)
        least, most = (edge - abs(edge) * ERROR for edge in (near[0], -near[-1]))
        assert least <= got <= -most


@pytest.mark.parametrize("type_", ["i64", "f64"])
def test_a_sketch_does_not_depend_on_batches_forms_or_snapshots(type_: ColumnType) -> None:
    def draw(random: Random) -> tuple[float]:
        return (random.randrange(1, 10**6) if type_ == "i64" else random.expovariate(1e-3),)

    def expected(events: Sequence[Event], now_ms: int) -> float | None:
        return expected_at(0.5, events)

    # Values near the median lie close together, so the error of the sketch is that of its buckets.
    check(KIND, (type_,), expected, draw=draw, count=1_400, relative=2 * ERROR + 0.02, q=0.5)


def test_windows_are_merged_exactly_while_they_are_small() -> None:
    values = [float(7 * i % QUANTILE_EXACT_MAX) for i in range(QUANTILE_EXACT_MAX)]
    operator = made(KIND, ("f64",), 60_000, q=0.3)
    operator.fold(fold_of([i % 4 for i in range(len(values))], events_of(*values), ("f64",)))

    assert operator.value([0, 1, 2, 3], 0) == interpolated(values, 0.3)


def test_windows_are_merged_within_the_error_when_they_are_large() -> None:
    values = sorted(draws("of many sizes"))
    operator = made(KIND, ("f64",), 60_000, q=0.25)
    rows = [0 if i < 1_000 else 1 + i % 7 for i in range(len(values))]  # a sketch, and lists
    operator.fold(fold_of(rows, events_of(*values), ("f64",)))

    got = operator.value([5, 0, 1, 2, 3, 4, 6, 7], 0)

    assert got == pytest.approx(interpolated(values, 0.25), rel=ERROR)


def test_values_in_too_many_buckets_get_wider_ones() -> None:
    values = [1.001**i for i in range(24_000)]  # 34 octaves of 64 buckets

    got = value_of(KIND, ("f64",), events_of(*values), q=0.5)
    operator = made(KIND, ("f64",), rows=1)
    operator.fold(fold_of([0] * len(values), events_of(*values), ("f64",)))
    saved = operator.save(fold_of([0], events_of(1.0), ("f64",)).rows)

    assert got == pytest.approx(interpolated(values, 0.5), rel=2 * ERROR)
    assert saved["extras"].tolist() == [1]
    assert saved["counts"].tolist()[0] <= BUCKET_COUNT_MAX


def test_buckets_of_different_width_are_merged() -> None:
    wide = [1.001**i for i in range(24_000)]
    narrow = [1e5 + i for i in range(500)]
    operator = made(KIND, ("f64",), 60_000, q=0.5)
    rows = [0] * len(wide) + [1] * len(narrow) + [2]
    operator.fold(fold_of(rows, events_of(*wide, *narrow, 1e5), ("f64",)))

    both = sorted([*wide, *narrow, 1e5])
    assert operator.value([0, 1, 2], 0) == pytest.approx(interpolated(both, 0.5), rel=2 * ERROR)
    assert operator.value([0, 1, 2], 0) == operator.value([2, 1, 0], 0)


def test_the_extremes_of_the_floats_have_buckets() -> None:
    values = [-1.7e308, -5e-324, -0.0, 0.0, 5e-324, 1.7e308] * 60

    found = [value_of(KIND, ("f64",), events_of(*values), q=q) for q in (0.0, 0.3, 0.5, 0.7, 1.0)]

    assert found[0] == pytest.approx(-1.7e308, rel=ERROR)
    assert found[1:4] == [0.0, 0.0, 0.0]
    assert found[4] == pytest.approx(1.7e308, rel=ERROR)


def test_a_quantile_grows_with_its_share() -> None:
    events = events_of(*draws("of both signs"))

    found = [value_of(KIND, ("f64",), events, q=i / 20) for i in range(21)]

    assert all(one <= other for one, other in pairwise(found))


def test_saved_state_that_cannot_be_is_refused() -> None:
    operator = made(KIND, ("f64",), rows=2)
    operator.fold(fold_of([0] * 3, events_of(1.0, 2.0, 3.0), ("f64",)))
    rows = fold_of([0], events_of(1.0), ("f64",)).rows
    saved = dict(operator.save(rows))

    for name, change in (("extras", 99), ("counts", 1), ("modes", 128)):
        changed = {**saved, name: saved[name] + saved[name].dtype.type(change)}
        with pytest.raises(ValueError, match="saved"):
            made(KIND, ("f64",), rows=2).load(rows, changed)
