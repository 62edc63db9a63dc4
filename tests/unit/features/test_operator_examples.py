"""Every operator on six events, with values that were computed by hand from the documentation.

The events have a missing value, two at one time and one that is late. Times are in seconds from a
Monday, 2024-01-01T00:00:00Z; the reads are at second 210:

    event   1      2        3      4       5 (late)  6
    at      0      60       120    180     150       180
    amount  10     20       null   40      30        40
    n       5      -3       null   5       7         7
    city    Oslo   Bergen   null   Oslo    Oslo      Oslo
    ok      true   true     true   false   true      true
    lat,lon 0,0    0,1      null   0,2     0,3       0,2
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from penstock.engine.open_log import open_log
from penstock.features.operators.catalogue import KINDS
from penstock.testing.clock import FakeClock
from penstock.testing.fs import MemoryFilesystem

MONDAY = 1_704_067_200_000
NOW_S = 210
DEGREE_KM = 6371 * math.pi / 180
EVENTS: list[tuple[int, Any, Any, Any, bool, Any, Any]] = [
    (0, 10.0, 5, "Oslo", True, 0.0, 0.0),
    (60, 20.0, -3, "Bergen", True, 0.0, 1.0),
    (120, None, None, None, True, None, None),
    (180, 40.0, 5, "Oslo", False, 0.0, 2.0),
    (150, 30.0, 7, "Oslo", True, 0.0, 3.0),
    (180, 40.0, 7, "Oslo", True, 0.0, 2.0),
]
FIELDS = {
    "key": "str",
    "at": "i64",
    "ok": "bool",
    **{
        name: {"type": type_, "optional": True}
        for name, type_ in {
            "amount": "f64",
            "n": "i64",
            "city": "str",
            "lat": "f64",
            "lon": "f64",
        }.items()
    },
}
AMOUNT = {"field": "amount"}
CITY = {"field": "city"}
PLACE = {"lat_field": "lat", "lon_field": "lon"}
NOT_LATE = {"where": "amount != 30"}
HALF_LIFE = {"half_life": "1m"}

Example = tuple[str, dict[str, Any], Any]

OF_ALL_EVENTS: list[Example] = [
    ("count", {}, 6),
    ("count", {"where": "ok"}, 5),
    ("count", {"where": "city == 'Oslo'"}, 4),  # null is not Oslo
    ("sum", AMOUNT, 140.0),
    ("sum", {"field": "n"}, 21),
    ("sum", {"field": "amount", "where": "amount > 100"}, None),
    ("mean", AMOUNT, 28.0),
    ("mean", {"field": "n"}, 4.2),
    ("min", AMOUNT, 10.0),
    ("min", {"field": "n"}, -3),
    ("min", CITY, "Bergen"),
    ("min", {"field": "ok"}, False),
    ("max", AMOUNT, 40.0),
    ("max", CITY, "Oslo"),
    ("var", AMOUNT, 680 / 4),
    ("std", AMOUNT, math.sqrt(170)),
    ("ratio", {"where": "ok"}, 5 / 6),
    ("ratio", {}, 1.0),
    ("n_unique", CITY, 2),
    ("n_unique", {"field": "n"}, 3),
    ("quantile", AMOUNT, 30.0),
    ("quantile", {"field": "amount", "q": 0.6}, 34.0),  # 2/5 of the way from 30 to 40
    ("top_k", {"field": "city", "k": 1}, [{"count": 4, "value": "Oslo"}]),
    ("top_k", {"field": "n", "k": 2}, [{"count": 2, "value": 5}, {"count": 2, "value": 7}]),
    ("bloom_member", CITY, True),
    ("bloom_member", {"field": "city", "where": "n == -3"}, False),
    ("entropy", CITY, 0.8 * math.log2(1 / 0.8) + 0.2 * math.log2(1 / 0.2)),
    ("first", AMOUNT, 10.0),
    ("last", CITY, "Oslo"),
    ("first_n", {"field": "amount", "n": 3}, [10.0, 20.0, 40.0]),
    ("last_n", {"field": "amount", "n": 2}, [30.0, 40.0]),
    ("lag", AMOUNT, 30.0),
    ("lag", {"field": "amount", "n": 2}, 40.0),
    ("lag", {"field": "amount", "n": 5}, None),
    ("first_seen", {}, MONDAY),
    ("last_seen", {}, MONDAY + 180_000),
    ("age", {}, 210_000),
    ("has_seen", {"where": "amount > 100"}, False),
    ("has_seen", {"where": "amount > 30"}, True),
    ("time_since", {}, 30_000),
    ("time_since", {"where": "city == 'Bergen'"}, 150_000),
    ("time_since_last_n", {"n": 3}, 60_000),  # by time: the late event
    ("streak", {"where": "ok"}, 2),
    ("max_streak", {"where": "ok"}, 3),
    ("negative_streak", {"where": "ok"}, 0),
    ("negative_streak", {"where": "n == -3"}, 4),
    ("first_seen_in_window", {"window": "30s"}, False),
    ("first_seen_in_window", {"window": "31s"}, True),
    ("ewma", {**AMOUNT, **HALF_LIFE, **NOT_LATE}, 36.875),
    ("ewvar", {**AMOUNT, **HALF_LIFE, **NOT_LATE}, 71.484375),
    ("ew_zscore", {**AMOUNT, **HALF_LIFE, **NOT_LATE}, 3.125 / math.sqrt(71.484375)),
    (
        "decayed_sum",
        {**AMOUNT, **HALF_LIFE},
        10 * 2**-3.5 + 20 * 2**-2.5 + 2 * 40 * 2**-0.5 + 30 * 2**-1,
    ),
    ("decayed_count", HALF_LIFE, 2**-3.5 + 2**-2.5 + 2**-1.5 + 2 * 2**-0.5 + 2**-1),
    ("twa", AMOUNT, (10 * 60 + 20 * 120) / 180),  # the late value falls between two others
    ("rate_of_change", AMOUNT, 30 / 180),
    ("inter_arrival_stats", {}, 36_000.0),
    ("burst_count", {"sub_window": "1m"}, 2),
    ("burst_count", {"sub_window": "2m"}, 4),  # the late event is in the last sub-window
    ("delta_from_prev", AMOUNT, 10.0),
    ("delta_from_prev", {"field": "n"}, 0),
    ("trend", AMOUNT, 4_140 / 25_920),
    ("trend_residual", AMOUNT, math.sqrt(3.75)),
    ("outlier_count", AMOUNT, 0),
    ("value_change_count", CITY, 2),
    ("z_score", AMOUNT, 12 / math.sqrt(170)),
    ("z_score", {"field": "amount", "baseline_window": "64s"}, 10 / 3 / math.sqrt(100 / 3)),
    ("histogram", {"field": "n", "buckets": [0, 6.5]}, {"<0": 1, "0-6.5": 2, ">=6.5": 2}),
    ("hour_of_day_histogram", {}, [6] + 23 * [0]),
    ("seasonal_deviation", AMOUNT, 12 / math.sqrt(170)),
    ("event_type_mix", CITY, {"Bergen": 0.2, "Oslo": 0.8}),
    ("event_type_mix", {"field": "city", "categories": ["Oslo", "Rome"]}, {"Oslo": 0.8}),
    ("most_recent_n", {"field": "amount", "n": 2}, [40.0, 30.0]),
    ("reservoir_sample", {"field": "n", "samples": 9}, [5, -3, 5, 7, 7]),
    ("geo_velocity", PLACE, 60 * DEGREE_KM),
    ("geo_distance", PLACE, 2 * DEGREE_KM),
    ("geo_spread", PLACE, 111.32 * math.sqrt(1.04)),
    ("distance_from_home", PLACE, 0.4 * DEGREE_KM),
]
# The running two minutes have the events 3 to 6 in one bucket.
OF_TWO_MINUTES: list[Example] = [
    ("count", {}, 4),
    ("sum", AMOUNT, 110.0),
    ("sum", {"field": "n"}, 19),
    ("mean", AMOUNT, 110 / 3),
    ("min", AMOUNT, 30.0),
    ("max", AMOUNT, 40.0),
    ("var", AMOUNT, 100 / 3),
    ("std", AMOUNT, math.sqrt(100 / 3)),
    ("ratio", {"where": "ok"}, 0.75),
    ("n_unique", CITY, 1),
    ("quantile", AMOUNT, 40.0),
    ("top_k", CITY, [{"count": 3, "value": "Oslo"}]),
    ("entropy", CITY, 0.0),
    ("first", AMOUNT, 40.0),
    ("last", AMOUNT, 40.0),
    ("first_n", {"field": "amount", "n": 2}, [40.0, 30.0]),
    ("last_n", {"field": "amount", "n": 2}, [30.0, 40.0]),
    ("lag", AMOUNT, 30.0),
    ("twa", AMOUNT, 30.0),
    ("rate_of_change", AMOUNT, 10 / 30),
    ("inter_arrival_stats", {}, 20_000.0),
    ("burst_count", {"sub_window": "1m"}, 2),
    ("delta_from_prev", AMOUNT, 10.0),
    ("trend", AMOUNT, 200 / 600),
    ("trend_residual", AMOUNT, 0.0),
    ("value_change_count", CITY, 0),
]
# The last 64 seconds have the late event in one bucket, and 4 and 6 in a newer one.
OF_64_SECONDS: list[Example] = [
    ("count", {}, 3),
    ("sum", AMOUNT, 110.0),
    ("mean", AMOUNT, 110 / 3),
    ("min", {"field": "n"}, 5),
    ("max", {"field": "n"}, 7),
    ("var", AMOUNT, 100 / 3),
    ("std", AMOUNT, math.sqrt(100 / 3)),
    ("ratio", {"where": "ok"}, 2 / 3),
    ("n_unique", {"field": "n"}, 2),
    ("quantile", {"field": "amount", "q": 0.25}, 35.0),
    ("top_k", {"field": "n", "k": 1}, [{"count": 2, "value": 7}]),
    ("entropy", {"field": "n"}, math.log2(3) - 2 / 3),
    ("first", AMOUNT, 30.0),
    ("last", {"field": "n"}, 7),
    ("first_n", {"field": "n", "n": 2}, [7, 5]),
    ("last_n", {"field": "n", "n": 5}, [7, 5, 7]),
    ("lag", {"field": "n", "n": 2}, 7),
    ("twa", AMOUNT, 30.0),
    ("rate_of_change", AMOUNT, 10 / 30),
    ("inter_arrival_stats", {}, 15_000.0),
    ("burst_count", {"sub_window": "1s"}, 2),
    ("delta_from_prev", AMOUNT, 0.0),
    ("trend", AMOUNT, 200 / 600),
    ("trend_residual", AMOUNT, 0.0),
    ("outlier_count", AMOUNT, 0),
    ("value_change_count", {"field": "n"}, 2),
]
# Three minutes, of which one is a bucket, have the events 2 to 6.
OF_THREE_MINUTES: list[Example] = [
    ("count", {"where": "amount >= 30"}, 3),
    ("sum", AMOUNT, 130.0),
    ("first_n", {"field": "amount", "n": 9}, [20.0, 30.0, 40.0, 40.0]),
    ("twa", AMOUNT, (20 * 90 + 30 * 30) / 120),
    ("rate_of_change", AMOUNT, 20 / 120),
    ("burst_count", {"sub_window": "2m"}, 4),
    ("value_change_count", CITY, 1),
]
WINDOWS: dict[str, tuple[Any, list[Example]]] = {
    "all": (None, OF_ALL_EVENTS),
    "tumbling": ({"tumbling": "2m"}, OF_TWO_MINUTES),
    "sliding": ("64s", OF_64_SECONDS),
    "hopping": ({"hopping": "3m", "every": "1m"}, OF_THREE_MINUTES),
}


def features_of(window: Any, examples: list[Example]) -> dict[str, Any]:
    given = {} if window is None else {"window": window}
    return {
        f"f{number}": {"op": name, **arguments, **given}
        for number, (name, arguments, _) in enumerate(examples)
    }


def row_after_all_events(window: Any, examples: list[Example]) -> dict[str, Any]:
    """Of key "ann", at second 210. Another key has an event of its own."""
    event = {
        "name": "E",
        "fields": FIELDS,
        "time": {"field": "at", "lateness": "1m"},
    }
    table = {"name": "T", "from": "E", "key": ["key"], "features": features_of(window, examples)}
    clock = FakeClock()
    clock.jump(MONDAY + 1_000 * NOW_S - clock.now_ms())
    with open_log("/data", fs=MemoryFilesystem(), clock=clock, background=False) as log:
        log.features.register({"events": [event], "tables": [table]})
        for at, amount, n, city, ok, lat, lon in EVENTS:
            log.features.push(
                "E",
                {
                    "key": "ann",
                    "at": MONDAY + 1_000 * at,
                    "ok": ok,
                    **{"amount": amount, "n": n, "city": city, "lat": lat, "lon": lon},
                },
            )
            log.features.push("E", {"key": "bob", "at": MONDAY + 1_000 * at, "ok": False})
        return log.features.get("T", "ann")


@pytest.mark.parametrize("name", WINDOWS)
def test_a_feature_has_the_value_that_was_computed_by_hand(name: str) -> None:
    window, examples = WINDOWS[name]

    row = row_after_all_events(window, examples)

    for (operator, arguments, expected), got in zip(examples, row.values(), strict=True):
        assert type(got) is type(expected), (operator, arguments)
        if not is_exact(expected):
            expected = pytest.approx(expected, rel=1e-9, abs=1e-6)
        assert got == expected, (operator, arguments)


def is_exact(value: Any) -> bool:
    return value is None or isinstance(value, (str, bool, int, list))


def test_a_value_far_from_those_before_it_is_an_outlier() -> None:
    """Mean and deviation of 1, 2, 1, 2, 1 are 1.4 and 0.55; the sixth value is the first judged."""
    values = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 100.0, 1.0]
    event = {"name": "E", "fields": {"x": "f64"}}
    features = {"all": {"op": "outlier_count", "field": "x"}}
    features["recent"] = {"op": "outlier_count", "field": "x", "window": "64s"}
    clock = FakeClock()
    with open_log("/data", fs=MemoryFilesystem(), clock=clock, background=False) as log:
        log.features.register(
            {"events": [event], "tables": [{"name": "T", "from": "E", "features": features}]}
        )
        for value in values:
            log.features.push("E", {"x": value})
            clock.advance(1_000)

        assert log.features.get("T") == {"all": 1, "recent": 1}
        clock.advance(100_000)
        assert log.features.get("T") == {"all": 1, "recent": 0}


def test_every_operator_has_an_example() -> None:
    of_all = {name for name, _, _ in OF_ALL_EVENTS}
    windowed = {name for name, _, _ in OF_TWO_MINUTES + OF_64_SECONDS}

    assert set(KINDS) - of_all == {"dow_hour_histogram"}  # too long to write down
    assert windowed == {name for name, kind in KINDS.items() if kind.window == "optional"}
