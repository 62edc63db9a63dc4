"""Ways and distances on the Earth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from penstock.features.operators.catalogue import KINDS
from tests.support.operators import START, Event, check, made, value_of

POINT = ("f64", "f64")
OSLO, TOKYO = (59.9139, 10.7522), (35.6762, 139.6503)


def draw(random: Random) -> tuple[Any, ...]:
    """Points anywhere, at the poles, close to each other, and none at all."""
    return random.choice(
        [
            (random.uniform(-90, 90), random.uniform(-180, 180)),
            (59.9 + random.uniform(0, 0.01), 10.7 + random.uniform(0, 0.01)),
            (random.choice([-90.0, 90.0, 0.0]), random.choice([-180.0, 180.0, 0.0])),
            (random.choice([90.1, -91.0, math.nan, math.inf]), 10.0),
            (45.0, random.choice([180.5, -181.0, 360.0, math.nan])),
        ]
    )


def near_the_date_line(random: Random) -> tuple[Any, ...]:
    lon = 180.0 + random.uniform(-3, 3)
    return random.uniform(-20, 20), lon if lon <= 180 else lon - 360


def is_point(event: Event) -> bool:
    lat, lon = event.values
    return (
        event.passes and lat is not None and lon is not None and abs(lat) <= 90 and abs(lon) <= 180
    )


def km(one: Sequence[float], two: Sequence[float]) -> float:
    """The angle between two vectors, times the radius."""
    ends = []
    for lat, lon in (one, two):
        north, east = math.radians(lat), math.radians(lon)
        flat = math.cos(north)
        ends.append((flat * math.cos(east), flat * math.sin(east), math.sin(north)))
    (a, b, c), (d, e, f) = ends
    cross = math.hypot(b * f - c * e, c * d - a * f, a * e - b * d)
    return 6371.0 * math.atan2(cross, a * d + b * e + c * f)


def path(events: Sequence[Event]) -> list[Event]:
    """Points that are not older than the newest one before them."""
    found: list[Event] = []
    for event in events:
        if is_point(event) and (not found or event.ts >= found[-1].ts):
            found.append(event)
    return found


def length(events: Sequence[Event], now_ms: int) -> float:
    return math.fsum(km(one.values, two.values) for one, two in pairwise(path(events)))


def top_speed(events: Sequence[Event], now_ms: int) -> float | None:
    steps = [(one, two) for one, two in pairwise(path(events)) if two.ts > one.ts]
    return max(
        (km(one.values, two.values) / ((two.ts - one.ts) / 3_600_000) for one, two in steps),
        default=None,
    )


@pytest.mark.parametrize("is_in_order", [True, False])
@pytest.mark.parametrize(
    ("name", "expected"), [("geo_distance", length), ("geo_velocity", top_speed)]
)
def test_the_way_goes_through_all_points(name: str, expected: Any, is_in_order: bool) -> None:
    check(KINDS[name], POINT, expected, relative=1e-7, draw=draw, is_in_order=is_in_order)


def spread(events: Sequence[Event], now_ms: int) -> float | None:
    points = [event.values for event in events if is_point(event)]
    if len(points) < 2:
        return None
    lats = [lat for lat, _ in points]
    lons = [lon % 360 for _, lon in points]
    lat, lon = math.fsum(lats) / len(lats), math.fsum(lons) / len(lons)
    north = math.fsum((x - lat) ** 2 for x in lats) / len(lats)
    east = math.fsum((x - lon) ** 2 for x in lons) / len(lons)
    return 111.32 * math.sqrt(north + east * math.cos(math.radians(lat)) ** 2)


def test_the_spread_is_around_the_mean_on_both_sides_of_the_date_line() -> None:
    check(
        KINDS["geo_spread"],
        POINT,
        spread,
        relative=1e-9,
        draw=near_the_date_line,
        is_in_order=False,
    )


@pytest.mark.parametrize("samples", [1, 7, 100])
def test_home_is_the_mean_of_the_last_points(samples: int) -> None:
    def expected(events: Sequence[Event], now_ms: int) -> float | None:
        points = [event.values for event in events if is_point(event)][-samples:]
        if not points:
            return None
        lat = math.fsum(lat for lat, _ in points) / len(points)
        lon = math.fsum(lon % 360 for _, lon in points) / len(points)
        return km(points[-1], (lat, lon))

    check(
        KINDS["distance_from_home"],
        POINT,
        expected,
        relative=1e-7,
        draw=near_the_date_line,
        samples=samples,
    )


def moves(*points: Sequence[Any], step_ms: int = 3_600_000) -> list[Event]:
    return [Event(START + step_ms * i, True, tuple(point)) for i, point in enumerate(points)]


def test_known_distances() -> None:
    there = moves(OSLO, TOKYO)

    assert value_of(KINDS["geo_distance"], POINT, there) == pytest.approx(8405, abs=1)
    assert value_of(KINDS["geo_velocity"], POINT, there) == pytest.approx(8405, abs=1)
    assert value_of(KINDS["geo_distance"], POINT, moves((0, 0), (0, 180))) == pytest.approx(
        math.pi * 6371
    )
    assert value_of(KINDS["distance_from_home"], POINT, moves(OSLO)) == 0.0


def test_between_points_of_one_time_there_is_a_way_and_no_speed() -> None:
    jump = moves(OSLO, TOKYO, step_ms=0)

    assert value_of(KINDS["geo_distance"], POINT, jump) > 8_000
    assert value_of(KINDS["geo_velocity"], POINT, jump) is None


@pytest.mark.parametrize("bad", [(91, 0), (0, -180.5), (math.nan, 0), (None, 5), (5, None)])
@pytest.mark.parametrize(
    "name", ["geo_velocity", "geo_distance", "geo_spread", "distance_from_home"]
)
def test_a_point_that_is_not_on_the_earth_is_skipped(name: str, bad: Sequence[Any]) -> None:
    before, after = moves(OSLO, TOKYO), moves(OSLO, bad, TOKYO)
    after[-1] = before[-1]

    assert value_of(KINDS[name], POINT, before) == value_of(KINDS[name], POINT, after)


def test_degrees_may_be_integers() -> None:
    types = ("i64", "i64")

    assert value_of(KINDS["geo_distance"], types, moves((0, 0), (0, 1))) == pytest.approx(
        6371 * math.pi / 180
    )


def test_without_points() -> None:
    values = {
        name: {repr(made(KINDS[name], POINT).value(rows, START)) for rows in ([], [2])}
        for name in ("geo_velocity", "geo_distance", "geo_spread", "distance_from_home")
    }

    assert values == {
        "geo_velocity": {"None"},
        "geo_distance": {"0.0"},
        "geo_spread": {"None"},
        "distance_from_home": {"None"},
    }
