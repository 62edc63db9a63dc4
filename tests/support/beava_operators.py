"""All operators of beava with their values for a few events, computed from their definitions."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import beava as bv

# As pushed: a number, a word, a flag and a point.
ROWS: list[tuple[float, str, bool, float, float]] = [
    (3.0, "red", True, 59.91, 10.75),
    (5.0, "green", True, 59.92, 10.80),
    (5.0, "red", False, 59.95, 10.70),
    (8.0, "red", True, 59.90, 10.77),
    (2.0, "blue", True, 59.93, 10.72),
    (100.0, "green", False, 59.91, 10.79),
]
HALF_LIFE_MS = 1_000
_WINDOW, _HALF_LIFE, _LONG_HALF_LIFE = "1d", "1s", "3650d"


class Seen(NamedTuple):
    """An event as it is in the log."""

    ts: int
    number: float
    word: str
    flag: bool
    lat: float
    lon: float


Events = Sequence[Seen]


def numbers(events: Events) -> list[float]:
    return [one.number for one in events]


def haversine_km(a: Seen, b: Seen) -> float:
    return _km(a.lat, a.lon, b.lat, b.lon)


def _km(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> float:
    la, oa, lb, ob = map(math.radians, (lat_a, lon_a, lat_b, lon_b))
    h = math.sin((lb - la) / 2) ** 2 + math.cos(la) * math.cos(lb) * math.sin((ob - oa) / 2) ** 2
    return 2 * 6371.0 * math.asin(math.sqrt(h))


def _weights(events: Events) -> list[tuple[float, float]]:
    """Each value with the share by which it moves a mean that is weighted by time."""
    found = [(events[0].number, 1.0)]
    for before, one in itertools.pairwise(events):
        gap = one.ts - before.ts
        found.append((one.number, 0.5 if not gap else 1 - 2 ** (-gap / HALF_LIFE_MS)))
    return found


def weighted(events: Events) -> tuple[float, float]:
    """Mean and variance."""
    mean, variance = 0.0, 0.0
    for value, share in _weights(events):
        off = value - mean
        mean += share * off
        variance = (1 - share) * (variance + share * off * off)
    return mean, variance


def weighted_score(events: Events) -> float:
    mean, variance = weighted(events)
    return (events[-1].number - mean) / math.sqrt(variance)


def twa(events: Events) -> float:
    spans = [b.ts - a.ts for a, b in itertools.pairwise(events)]
    if not sum(spans):
        return events[-1].number
    return sum(a.number * span for a, span in zip(events, spans, strict=False)) / sum(spans)


def line(events: Events) -> tuple[float, float] | None:
    """Slope per second and root mean square of the distances from the line."""
    times = [(one.ts - events[0].ts) / 1000 for one in events]
    if len(set(times)) < 2:
        return None
    slope, start = statistics.linear_regression(times, numbers(events))
    squares = [
        (one.number - start - slope * at) ** 2 for one, at in zip(events, times, strict=True)
    ]
    return slope, math.sqrt(statistics.fmean(squares))


def speed(events: Events) -> float | None:
    found = [
        haversine_km(a, b) / ((b.ts - a.ts) / 3_600_000)
        for a, b in itertools.pairwise(events)
        if a.ts != b.ts
    ]
    return max(found, default=None)


def spread(events: Events) -> float:
    lats, lons = [one.lat for one in events], [one.lon for one in events]
    across = 111.32 * math.cos(math.radians(statistics.fmean(lats)))
    return math.hypot(111.32 * statistics.pstdev(lats), across * statistics.pstdev(lons))


def from_home(events: Events) -> float:
    lats, lons = [one.lat for one in events], [one.lon for one in events]
    last = events[-1]
    return _km(last.lat, last.lon, statistics.fmean(lats), statistics.fmean(lons))


def rate(events: Events) -> float | None:
    gap_ms = events[-1].ts - events[0].ts
    return (events[-1].number - events[0].number) / (gap_ms / 1000) if gap_ms else None


def z_score(values: Sequence[float]) -> float | None:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return (values[-1] - statistics.fmean(values)) / deviation if deviation else None


def hour(one: Seen) -> datetime:
    return datetime.fromtimestamp(one.ts / 1000, UTC)


def hours(events: Events) -> list[int]:
    found = Counter(hour(one).hour for one in events)
    return [found[number] for number in range(24)]


def hours_of_week(events: Events) -> dict[str, int]:
    found = Counter(f"{hour(one):%a-%H}" for one in events)
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    names = [f"{day}-{number:02}" for day in days for number in range(24)]
    return {name: found[name] for name in names}


def in_season(events: Events) -> float | None:
    last = hour(events[-1]).hour
    return z_score([one.number for one in events if hour(one).hour == last])


def burst(events: Events) -> int:
    return max(Counter(one.ts // 3_600_000 for one in events).values())


def entropy(events: Events) -> float:
    shares = [n / len(events) for n in Counter(one.word for one in events).values()]
    return -sum(share * math.log2(share) for share in shares)


Expected = Callable[[Events], Any]
# The time from one of the events to the read: the expected value is the time of that event.
AGES = ("age", "time_since", "time_since_last_n")

_FLAG = bv.col("flag")
OPERATORS: dict[str, tuple[Any, Expected]] = {
    "count": (bv.count(window=_WINDOW), len),
    "sum": (bv.sum("number", window=_WINDOW), lambda e: sum(numbers(e))),
    "mean": (bv.mean("number"), lambda e: statistics.fmean(numbers(e))),
    "min": (bv.min("number", window=_WINDOW), lambda e: min(numbers(e))),
    "max": (bv.max("word"), lambda e: max(one.word for one in e)),
    "var": (bv.var("number"), lambda e: statistics.variance(numbers(e))),
    "std": (bv.std("number", window=_WINDOW), lambda e: statistics.stdev(numbers(e))),
    "ratio": (bv.ratio(where=_FLAG), lambda e: sum(one.flag for one in e) / len(e)),
    "n_unique": (bv.n_unique("word", window=_WINDOW), lambda e: len({one.word for one in e})),
    "quantile": (bv.quantile("number", q=0.5), lambda e: statistics.median(numbers(e))),
    "top_k": (
        bv.top_k("word", k=2),
        lambda e: [{"count": 3, "value": "red"}, {"count": 2, "value": "green"}],
    ),
    "bloom_member": (bv.bloom_member("word"), lambda e: e[-1].word in {x.word for x in e[:-1]}),
    "entropy": (bv.entropy("word", window=_WINDOW), entropy),
    "first": (bv.first("number"), lambda e: e[0].number),
    "last": (bv.last("word"), lambda e: e[-1].word),
    "first_n": (bv.first_n("number", n=2), lambda e: numbers(e)[:2]),
    "last_n": (bv.last_n("number", n=2), lambda e: numbers(e)[-2:]),
    "lag": (bv.lag("number", n=2), lambda e: e[-3].number),
    "first_seen": (bv.first_seen(), lambda e: e[0].ts),
    "last_seen": (bv.last_seen(), lambda e: e[-1].ts),
    "age": (bv.age(), lambda e: e[0].ts),
    "has_seen": (bv.has_seen(), lambda e: True),
    "time_since": (bv.time_since(), lambda e: e[-1].ts),
    "time_since_last_n": (bv.time_since_last_n(n=2), lambda e: e[-2].ts),
    "streak": (bv.streak(where=_FLAG), lambda e: 0),
    "max_streak": (bv.max_streak(where=_FLAG), lambda e: 2),
    "negative_streak": (bv.negative_streak(where=_FLAG), lambda e: 1),
    "first_seen_in_window": (bv.first_seen_in_window(window=_WINDOW), lambda e: True),
    "ewma": (bv.ewma("number", half_life=_HALF_LIFE), lambda e: weighted(e)[0]),
    "ewvar": (bv.ewvar("number", half_life=_HALF_LIFE), lambda e: weighted(e)[1]),
    "ew_zscore": (bv.ew_zscore("number", half_life=_HALF_LIFE), weighted_score),
    "decayed_sum": (bv.decayed_sum("number", half_life=_LONG_HALF_LIFE), lambda e: sum(numbers(e))),
    "decayed_count": (bv.decayed_count(half_life=_LONG_HALF_LIFE), lambda e: float(len(e))),
    "twa": (bv.twa("number", window=_WINDOW), twa),
    "rate_of_change": (bv.rate_of_change("number", window=_WINDOW), rate),
    "inter_arrival_stats": (
        bv.inter_arrival_stats(window=_WINDOW),
        lambda e: (e[-1].ts - e[0].ts) / (len(e) - 1),
    ),
    "burst_count": (bv.burst_count(window=_WINDOW, sub_window="1h"), burst),
    "delta_from_prev": (bv.delta_from_prev("number"), lambda e: e[-1].number - e[-2].number),
    "trend": (bv.trend("number", window=_WINDOW), lambda e: (line(e) or [None])[0]),
    "trend_residual": (
        bv.trend_residual("number", window=_WINDOW),
        lambda e: (line(e) or [None, None])[1],
    ),
    "outlier_count": (bv.outlier_count("number", window=_WINDOW), lambda e: 1),
    "value_change_count": (
        bv.value_change_count("number", window=_WINDOW),
        lambda e: sum(a.number != b.number for a, b in itertools.pairwise(e)),
    ),
    "z_score": (bv.z_score("number", baseline_window=_WINDOW), lambda e: z_score(numbers(e))),
    "histogram": (
        bv.histogram("number", buckets=[5, 10.5]),
        lambda e: {"<5": 2, "5-10.5": 3, ">=10.5": 1},
    ),
    "hour_of_day_histogram": (bv.hour_of_day_histogram(), hours),
    "dow_hour_histogram": (bv.dow_hour_histogram(), hours_of_week),
    "seasonal_deviation": (bv.seasonal_deviation("number"), in_season),
    "event_type_mix": (
        bv.event_type_mix("word", categories=["red", "green"]),
        lambda e: {"red": 3 / 6, "green": 2 / 6},
    ),
    "most_recent_n": (bv.most_recent_n("number", n=3), lambda e: numbers(e)[:-4:-1]),
    "reservoir_sample": (bv.reservoir_sample("number", samples=10), numbers),
    "geo_velocity": (bv.geo_velocity(lat="lat", lon="lon"), speed),
    "geo_distance": (
        bv.geo_distance(lat="lat", lon="lon"),
        lambda e: sum(haversine_km(a, b) for a, b in itertools.pairwise(e)),
    ),
    "geo_spread": (bv.geo_spread(lat="lat", lon="lon"), spread),
    "distance_from_home": (bv.distance_from_home(lat="lat", lon="lon", samples=10), from_home),
}
