"""Every operator, in a whole table, against naive functions over the list of events.

Hypothesis draws events with missing values, equal and late times, negative and huge numbers, whole
numbers in a column of floats, and conditions that are null; it cuts them into batches, and reads
them at any time. Every operator is in the table for each type of column that it takes, with a
condition and without, without a window and in a sliding, a tumbling and a hopping one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from penstock.features.definition import Definition
from penstock.features.operator_arguments import NEEDS
from penstock.features.operators.catalogue import KINDS
from penstock.features.operators.operator_kind import OperatorKind
from penstock.features.table_part import TablePart
from penstock.features.windows import Window, window_of
from tests.support import rig, seeds
from tests.support.feature_oracle import (
    ORACLE,
    PARAMETERS,
    WINDOW_MS,
    Seen,
    outliers,
    valued,
)
from tests.unit.features.part_rig import batch

START = 1_700_000_000_000
LATENESS_MS = 200
WINDOWS: dict[str, Any] = {
    "all": None,
    "sliding": f"{WINDOW_MS}ms",
    "tumbling": {"tumbling": "1s"},
    "hopping": {"hopping": "300ms", "every": "100ms"},
}
COLUMNS = {"f64": "x", "i64": "n", "str": "s", "bool": "b", "json": "j"}
EVENT = {
    "name": "E",
    "fields": {
        "key": "str",
        "at": "i64",
        "ok": {"type": "bool", "optional": True},
        "lat": {"type": "f64", "optional": True},
        "lon": {"type": "f64", "optional": True},
        **{column: {"type": type_, "optional": True} for type_, column in COLUMNS.items()},
    },
    "time": {"field": "at", "lateness": f"{LATENESS_MS}ms"},
}


def features() -> Iterator[tuple[str, dict[str, Any]]]:
    """One for each operator, window, type of column and, without a column, condition."""
    for kind in KINDS.values():
        for window, spelled in WINDOWS.items():
            if spelled is not None and kind.window == "none":
                continue
            if spelled is None and kind.window == "required":
                continue
            if kind.is_self_windowed and window in ("tumbling", "hopping"):
                continue
            for number, fields in enumerate(fields_of(kind)):
                feature = {"op": kind.name, **fields, **parameters_of(kind)}
                if spelled is not None:
                    feature["window"] = spelled
                if number % 2 == 0:
                    feature["where"] = "ok"
                yield f"{kind.name}_{window}_{number}", feature


def fields_of(kind: OperatorKind) -> list[dict[str, str]]:
    if len(kind.fields) == 2:
        return [{"lat_field": "lat", "lon_field": "lon"}] * 2
    if not kind.fields:
        return [{}, {}]
    types, _ = NEEDS[kind.fields[0][1]]
    columns = [{"field": column} for type_, column in COLUMNS.items() if type_ in types]
    return columns * 2 if len(columns) % 2 else columns


def parameters_of(kind: OperatorKind) -> dict[str, Any]:
    names = {one.name for one in kind.parameters}
    return {name: value for name, value in PARAMETERS.items() if name in names}


FEATURES = dict(features())
PLAN = Definition.parse(
    {
        "events": [EVENT],
        "tables": [{"name": "T", "from": "E", "key": ["key"], "features": FEATURES}],
    }
).plan("T")

floats = st.one_of(
    st.integers(-8, 8).map(lambda x: x / 2),
    st.integers(-5, 5),  # whole numbers in a column of floats
    st.sampled_from([-0.0, 1e-9, 1e6, -1e6, 1e12, -1e15]),
)
integers = st.one_of(
    st.integers(-4, 4), st.sampled_from([1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63)])
)
documents = st.sampled_from([1, 1.0, True, "1", [1, 2], [2, 1], {"a": [1.0], "b": 2}, {"b": 2}])
events = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["ann", "ann", "bob"]),
            "step": st.sampled_from([0, 0, 0, 1, 9, 60, 130, 400, 3_000]),
            "late": st.sampled_from([0, 0, 0, 5, 90, LATENESS_MS, LATENESS_MS + 1]),
            "ok": st.sampled_from([True, True, True, False, None]),
        },
        optional={
            "x": floats,
            "n": integers,
            "s": st.sampled_from(["", "a", "b", "ä", "z" * 20]),
            "b": st.booleans(),
            "j": documents,
            "lat": st.integers(-120, 120).map(lambda x: x / 2),
            "lon": st.integers(-80, 80).map(lambda x: x / 2),
        },
    ),
    min_size=6,
    max_size=40,
)


def with_times(drawn: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    clock = START
    timed = []
    for event in drawn:
        clock += event["step"]
        kept = {name: value for name, value in event.items() if name not in ("step", "late")}
        timed.append(kept | {"at": clock - event["late"]})
    return timed


def in_time(timed: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The events that are not late, and the largest time."""
    largest, kept = START - LATENESS_MS, []
    for event in timed:
        largest = max(largest, event["at"])
        if event["at"] >= largest - LATENESS_MS:
            kept.append(event)
    return kept, largest


def seen(feature: dict[str, Any], event: dict[str, Any]) -> Seen:
    names = [feature[name] for name in ("field", "lat_field", "lon_field") if name in feature]
    values = tuple(float(event[n]) if n == "x" and n in event else event.get(n) for n in names)
    return Seen(event["at"], "where" not in feature or event["ok"] is True, values)


def expected(
    name: str, kept: Sequence[dict[str, Any]], largest: int, now_ms: int
) -> tuple[Any, list[list[Seen]]]:
    """The value, and the events it is computed from."""
    feature = FEATURES[name]
    kind = KINDS[feature["op"]]
    window: Window = window_of(None if kind.is_self_windowed else feature.get("window"))
    first = window.first_live_start(max(now_ms, largest))
    buckets: dict[int, list[Seen]] = {}
    for event in kept:
        start = window.bucket_of(event["at"])
        if window.is_forever or first <= start <= now_ms:
            buckets.setdefault(start, []).append(seen(feature, event))
    counted = [buckets[start] for start in sorted(buckets)]
    if kind.name == "outlier_count" and "window" in feature:
        return outliers(valued(counted), now_ms, WINDOW_MS), counted
    if kind.window == "none" and not counted:
        counted = [[]]
    return ORACLE[kind.name](counted, now_ms), counted


def assert_equal(name: str, got: Any, want: Any, counted: Sequence[Sequence[Seen]]) -> None:
    """Floats may differ by rounding, in relation to the largest value."""
    assert type(got) is type(want), (name, got, want)
    if not isinstance(want, float) and FEATURES[name]["op"] != "event_type_mix":
        assert got == want, name
        return
    scale = max((abs(event.value) for event in numbers(counted)), default=1.0)
    power = 2 if KINDS[FEATURES[name]["op"]].name in ("var", "ewvar") else 1
    assert got == pytest.approx(want, rel=1e-6, abs=1e-7 * max(scale, 1.0) ** power), name


def numbers(counted: Sequence[Sequence[Seen]]) -> list[Seen]:
    return [event for event in valued(counted) if event.values and is_number(event.value)]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_lost_to_rounding(name: str, counted: Sequence[Sequence[Seen]]) -> bool:
    """Numbers so unequal, beside their size, that their deviation is rounding."""
    if FEATURES[name]["op"] not in (
        *("z_score", "ew_zscore", "seasonal_deviation", "outlier_count", "trend_residual"),
    ):
        return False
    found = [float(event.value) for event in numbers(counted)]
    return max(map(abs, found), default=0.0) > 1e7


# Of the read after the largest time: also before it, and at the edges of buckets and windows.
later_times = st.one_of(
    st.integers(-300, 4_000),
    st.sampled_from([0, 1, 9, 10, 99, 100, 300, 630, 639, 640, 641, 1_000, -1, -100, -300]),
)


@given(drawn=events, cuts=st.sets(st.integers(0, 40)), later=later_times)
@seed(seeds.RIGS)
@settings(
    max_examples=1_000 if rig.IS_FULL else 60,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # an example takes 0.1 s: shrinking takes minutes
)
def test_every_operator_is_what_its_definition_says(
    drawn: list[dict[str, Any]], cuts: set[int], later: int
) -> None:
    timed = with_times(drawn)
    part = TablePart(PLAN)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(timed)], strict=True):
        if timed[start:stop]:
            part.apply(batch(timed[start:stop], 1 + start, START))
    kept, largest = in_time(timed)
    now_ms = largest + later

    for key in ("ann", "bob"):
        own = [event for event in kept if event["key"] == key]
        row = part.row((key,), now_ms)
        assert (row is None) == (not own)
        for name, got in (row or {}).items():
            want, counted = expected(name, own, largest, now_ms)
            if not is_lost_to_rounding(name, counted):
                assert_equal(name, got, want, counted)


def test_the_oracle_has_every_operator() -> None:
    assert set(ORACLE) == set(KINDS)
    assert {feature["op"] for feature in FEATURES.values()} == set(KINDS)
