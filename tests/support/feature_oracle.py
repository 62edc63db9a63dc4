"""Every operator as a naive function over the events of a key, after docs/features/operators.md.

A function gets the events that count, one list for each bucket of the window (without a window one
list), oldest bucket first and in the order of the log within it, and the time of the read.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tests.support.operators import algorithm_r

INT64_END = 1 << 63
HALF_LIFE_MS = 1_000
SUB_WINDOW_MS = 70
SIGMA = 1.5
BOUNDS = [-1.0, 0.5, 100.0]
WINDOW_MS = 640  # of operators that honour a window by themselves

PARAMETERS: dict[str, Any] = {
    "q": 0.3,
    "k": 3,
    "n": 2,
    "half_life": f"{HALF_LIFE_MS}ms",
    "sub_window": f"{SUB_WINDOW_MS}ms",
    "sigma": SIGMA,
    "buckets": BOUNDS,
    "samples": 3,
    "baseline_window": f"{WINDOW_MS}ms",
    "max_categories": 1_000,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """An event of the key. `values` has one for each field."""

    ts: int
    passes: bool
    values: tuple[Any, ...]

    @property
    def value(self) -> Any:
        return self.values[0]


Buckets = Sequence[Sequence[Seen]]


def passing(buckets: Buckets) -> list[Seen]:
    return [event for bucket in buckets for event in bucket if event.passes]


def valued(buckets: Buckets) -> list[Seen]:
    return [event for event in passing(buckets) if None not in event.values]


def values(buckets: Buckets) -> list[Any]:
    return [event.value for event in valued(buckets)]


def by_time(events: Iterable[Seen]) -> list[Seen]:
    return sorted(events, key=lambda event: event.ts)


def newest(events: Sequence[Seen]) -> Seen:
    return by_time(events)[-1]


def fitting(value: Any) -> Any:
    """None for an integer beyond 64 bits."""
    return value if isinstance(value, float) or -INT64_END <= value < INT64_END else None


def total(found: Sequence[Any]) -> Any:
    if not found:
        return None
    return math.fsum(found) if isinstance(found[0], float) else fitting(sum(found))


def sample_variance(found: Sequence[Any]) -> float | None:
    return float(statistics.variance(map(Fraction, found))) if len(found) > 1 else None


def deviations(value: Any, found: Sequence[Any]) -> float | None:
    variance = sample_variance(found)
    if not variance:
        return None
    return float(Fraction(value) - statistics.mean(map(Fraction, found))) / math.sqrt(variance)


def interpolated(found: Sequence[float], share: float) -> float:
    place = share * (len(found) - 1)
    low, high = found[math.floor(place)], found[math.ceil(place)]
    return float(low + (high - low) * (place - math.floor(place)))


def comparable(value: Any) -> Any:
    """Equal for equal JSON values: 1 is 1.0, and neither is true."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return type(value).__name__, value
    if isinstance(value, dict):
        return "object", frozenset((name, comparable(item)) for name, item in value.items())
    return ("array", *map(comparable, value)) if isinstance(value, list) else value


def entropy(buckets: Buckets) -> float:
    counts = Counter(map(comparable, values(buckets))).values()
    count = sum(counts)
    return math.fsum(n / count * math.log2(count / n) for n in counts)


def top(buckets: Buckets) -> list[dict[str, Any]]:
    counts = Counter(values(buckets))
    ranked = sorted((-count, value) for value, count in counts.items())
    return [{"count": -count, "value": value} for count, value in ranked[: PARAMETERS["k"]]]


def mix(buckets: Buckets) -> dict[str, float]:
    found = [v if isinstance(v, str) else json.dumps(v) for v in values(buckets)]
    found = ["0.0" if text == "-0.0" else text for text in found]
    return {text: count / len(found) for text, count in Counter(found).items()}


def runs(buckets: Buckets, wanted: bool) -> list[int]:
    """The run of events that pass, or do not, after each event."""
    found, run = [0], 0
    for event in buckets[0]:
        run = run + 1 if event.passes == wanted else 0
        found.append(run)
    return found


def weights(events: Sequence[Seen]) -> list[tuple[float, float]]:
    """The exponential weight that each value has in the end, and the value."""
    found: list[tuple[float, float]] = []
    latest = -INT64_END
    for event in events:
        gap = event.ts - latest
        alpha = 1 - half(gap) if gap > 0 else 0.5 * half(-gap)
        found = [(weight * (1 - alpha), value) for weight, value in found]
        found.append((alpha if found else 1.0, float(event.value)))
        latest = max(latest, event.ts)
    return found


def half(ms: float) -> float:
    return float(0.5 ** (ms / HALF_LIFE_MS))


def ew_mean(events: Sequence[Seen]) -> float:
    return math.fsum(weight * value for weight, value in weights(events))


def ew_variance(events: Sequence[Seen]) -> float:
    mean = ew_mean(events)
    return math.fsum(weight * (value - mean) ** 2 for weight, value in weights(events))


def ew_deviations(events: Sequence[Seen]) -> float | None:
    variance = ew_variance(events) if len(events) > 1 else 0
    return (newest(events).value - ew_mean(events)) / math.sqrt(variance) if variance else None


def decayed(events: Sequence[Seen], now_ms: int, numbers: Sequence[float]) -> float | None:
    """As of the read, or of the newest event if that is later."""
    if not events:
        return None
    at = max(now_ms, newest(events).ts)
    return math.fsum(x * half(at - e.ts) for x, e in zip(numbers, events, strict=True))


def ends_known(buckets: Buckets) -> list[Seen]:
    """Without values that came between the first and the last of their bucket; in time order."""
    kept = []
    for bucket in buckets:
        own: list[Seen] = []
        for event in valued([bucket]):
            if own and min(e.ts for e in own) <= event.ts < max(e.ts for e in own):
                continue
            own.append(event)
        kept += by_time(own)
    return kept


def held_mean(events: Sequence[Seen]) -> float | None:
    if not events:
        return None
    span = events[-1].ts - events[0].ts
    area = math.fsum(one.value * (two.ts - one.ts) for one, two in pairwise(events))
    return area / span if span else float(events[-1].value)


def rate(events: Sequence[Seen]) -> float | None:
    events = by_time(events)
    span = events[-1].ts - events[0].ts if events else 0
    return float((events[-1].value - events[0].value) / (span / 1_000)) if span else None


def mean_gap(events: Sequence[Seen]) -> float | None:
    times = sorted(event.ts for event in events)
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None


def largest_burst(buckets: Buckets) -> int:
    """Without events of sub-windows between the first and the last of their bucket."""
    counts: Counter[int] = Counter()
    for bucket in buckets:
        own: Counter[int] = Counter()
        for event in passing([bucket]):
            number = event.ts // SUB_WINDOW_MS
            if not own or number in (min(own), max(own)) or not min(own) < number < max(own):
                own[number] += 1
        counts += own
    return max(counts.values(), default=0)


def difference(found: Sequence[Any]) -> Any:
    return fitting(found[-1] - found[-2]) if len(found) > 1 else None


def line(events: Sequence[Seen]) -> tuple[Fraction, Fraction] | None:
    """The slope per second, and the mean of the squared distances."""
    if len({event.ts for event in events}) < 2:
        return None
    times = [Fraction(event.ts, 1_000) for event in events]
    found = [Fraction(event.value) for event in events]
    time, value = statistics.mean(times), statistics.mean(found)
    pairs = list(zip(times, found, strict=True))
    slope = sum((t - time) * (v - value) for t, v in pairs) / sum((t - time) ** 2 for t in times)
    squares = sum((v - value - slope * (t - time)) ** 2 for t, v in pairs)
    return Fraction(slope), Fraction(squares) / len(events)


def judged(events: Sequence[Seen], window_ms: int) -> list[tuple[int, Any, bool]]:
    """The bucket of each value, the value, and whether it was an outlier when it came."""
    width = -(-window_ms // 64)
    latest = -INT64_END
    found: list[tuple[int, Any, bool]] = []
    for event in events:
        start = event.ts // width * width if window_ms else 0
        latest = max(latest, event.ts)
        if window_ms and start <= latest - window_ms:
            continue
        before = [x for at, x, _ in found if not window_ms or at > latest - window_ms]
        z = deviations(event.value, before) if len(before) >= 5 else None
        found.append((start, event.value, z is not None and abs(z) > SIGMA))
    return found


def live(events: Sequence[Seen], now_ms: int, window_ms: int) -> list[tuple[int, Any, bool]]:
    """Those of `judged` that count at a time. A read before the newest value does not bring back
    what is too old for that."""
    found = judged(events, window_ms)
    if not window_ms or not events:
        return found
    oldest = max(now_ms, newest(events).ts) - window_ms
    return [one for one in found if oldest < one[0] <= now_ms]


def outliers(events: Sequence[Seen], now_ms: int, window_ms: int) -> int:
    return sum(is_outlier for _, _, is_outlier in live(events, now_ms, window_ms))


def z_score(events: Sequence[Seen], now_ms: int) -> float | None:
    found = [value for _, value, _ in live(events, now_ms, WINDOW_MS)]
    return deviations(newest(events).value, found) if found else None


def seasonal(events: Sequence[Seen]) -> float | None:
    hours = [event.ts // 3_600_000 % 24 for event in events]
    hour = newest(events).ts // 3_600_000 % 24 if events else 0
    same = [event.value for event, own in zip(events, hours, strict=True) if own == hour]
    return deviations(newest(events).value, same) if same else None


def bins(found: Sequence[float]) -> dict[str, int]:
    low, middle, high = BOUNDS
    return {
        "<-1": sum(x < low for x in found),
        "-1-0.5": sum(low <= x < middle for x in found),
        "0.5-100": sum(middle <= x < high for x in found),
        ">=100": sum(x >= high for x in found),
    }


def hours_of_week(events: Sequence[Seen]) -> dict[str, int]:
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    counts = Counter((e.ts // 3_600_000 + 3 * 24) % 168 for e in events)  # 1970 began on a Thursday
    return {f"{days[n // 24]}-{n % 24:02}": counts[n] for n in range(168)}


def km(one: Sequence[float], two: Sequence[float]) -> float:
    ends = [
        (
            math.cos(math.radians(lat)) * math.cos(math.radians(lon)),
            math.cos(math.radians(lat)) * math.sin(math.radians(lon)),
            math.sin(math.radians(lat)),
        )
        for lat, lon in (one, two)
    ]
    return 6371 * 2 * math.asin(math.dist(*ends) / 2)


def path(events: Sequence[Seen]) -> list[Seen]:
    """Without points older than the last."""
    found: list[Seen] = []
    for event in events:
        if not found or event.ts >= found[-1].ts:
            found.append(event)
    return found


def top_speed(events: Sequence[Seen]) -> float | None:
    steps = [(one, two) for one, two in pairwise(path(events)) if two.ts > one.ts]
    speeds = [km(one.values, two.values) / (two.ts - one.ts) * 3_600_000 for one, two in steps]
    return max(speeds, default=None)


def spread(events: Sequence[Seen]) -> float | None:
    if len(events) < 2:
        return None
    lats, lons = zip(*(event.values for event in events), strict=True)
    shrink = math.cos(math.radians(statistics.fmean(lats)))
    north, east = statistics.pvariance(lats), statistics.pvariance(lons)
    return 111.32 * math.sqrt(north + east * shrink**2)


def from_home(points: Sequence[Sequence[float]]) -> float | None:
    if not points:
        return None
    last = points[-PARAMETERS["samples"] :]
    home = [statistics.fmean(axis) for axis in zip(*last, strict=True)]
    return km(points[-1], home)


def times(buckets: Buckets) -> list[int]:
    return sorted(event.ts for event in passing(buckets))


def of_line(buckets: Buckets, pick: Callable[[Fraction, Fraction], float]) -> float | None:
    found = line(valued(buckets))
    return None if found is None else pick(*found)


def root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


N = PARAMETERS["n"]

ORACLE: dict[str, Callable[[Buckets, int], Any]] = {
    "count": lambda b, now: len(passing(b)),
    "sum": lambda b, now: total(values(b)),
    "mean": lambda b, now: float(statistics.mean(map(Fraction, values(b)))) if values(b) else None,
    "min": lambda b, now: min(values(b), default=None),
    "max": lambda b, now: max(values(b), default=None),
    "var": lambda b, now: sample_variance(values(b)),
    "std": lambda b, now: root(sample_variance(values(b))),
    "ratio": lambda b, now: len(passing(b)) / sum(map(len, b)) if sum(map(len, b)) else None,
    "n_unique": lambda b, now: len(set(map(comparable, values(b)))),
    "quantile": lambda b, now: (
        interpolated(sorted(values(b)), PARAMETERS["q"]) if values(b) else None
    ),
    "top_k": lambda b, now: top(b),
    "bloom_member": lambda b, now: (
        comparable(values(b)[-1]) in set(map(comparable, values(b)[:-1])) if values(b) else None
    ),
    "entropy": lambda b, now: entropy(b),
    "first": lambda b, now: next(iter(values(b)), None),
    "last": lambda b, now: next(iter(values(b)[::-1]), None),
    "first_n": lambda b, now: values(b)[:N],
    "last_n": lambda b, now: values(b)[-N:],
    "lag": lambda b, now: values(b)[-N - 1] if len(values(b)) > N else None,
    "first_seen": lambda b, now: min(times(b), default=None),
    "last_seen": lambda b, now: max(times(b), default=None),
    "age": lambda b, now: now - min(times(b)) if times(b) else None,
    "has_seen": lambda b, now: bool(times(b)),
    "time_since": lambda b, now: now - max(times(b)) if times(b) else None,
    "time_since_last_n": lambda b, now: now - times(b)[-N] if len(times(b)) >= N else None,
    "streak": lambda b, now: runs(b, True)[-1],
    "max_streak": lambda b, now: max(runs(b, True)),
    "negative_streak": lambda b, now: runs(b, False)[-1],
    "first_seen_in_window": lambda b, now: bool(times(b)) and now - max(times(b)) < WINDOW_MS,
    "ewma": lambda b, now: ew_mean(valued(b)) if valued(b) else None,
    "ewvar": lambda b, now: ew_variance(valued(b)) if len(valued(b)) > 1 else None,
    "ew_zscore": lambda b, now: ew_deviations(valued(b)),
    "decayed_sum": lambda b, now: decayed(valued(b), now, values(b)),
    "decayed_count": lambda b, now: decayed(passing(b), now, [1.0] * len(passing(b))),
    "twa": lambda b, now: held_mean(ends_known(b)),
    "rate_of_change": lambda b, now: rate(valued(b)),
    "inter_arrival_stats": lambda b, now: mean_gap(passing(b)),
    "burst_count": lambda b, now: largest_burst(b),
    "delta_from_prev": lambda b, now: difference(values(b)),
    "trend": lambda b, now: of_line(b, lambda slope, _: float(slope)),
    "trend_residual": lambda b, now: of_line(b, lambda _, squares: math.sqrt(squares)),
    "outlier_count": lambda b, now: outliers(valued(b), now, 0),
    "value_change_count": lambda b, now: sum(
        one.value != two.value for one, two in pairwise(ends_known(b))
    ),
    "z_score": lambda b, now: z_score(valued(b), now),
    "histogram": lambda b, now: bins(values(b)),
    "hour_of_day_histogram": lambda b, now: [
        sum(event.ts // 3_600_000 % 24 == hour for event in passing(b)) for hour in range(24)
    ],
    "dow_hour_histogram": lambda b, now: hours_of_week(passing(b)),
    "seasonal_deviation": lambda b, now: seasonal(valued(b)),
    "event_type_mix": lambda b, now: mix(b),
    "most_recent_n": lambda b, now: values(b)[::-1][:N],
    "reservoir_sample": lambda b, now: algorithm_r(values(b), PARAMETERS["samples"]),
    "geo_velocity": lambda b, now: top_speed(valued(b)),
    "geo_distance": lambda b, now: math.fsum(
        km(one.values, two.values) for one, two in pairwise(path(valued(b)))
    ),
    "geo_spread": lambda b, now: spread(valued(b)),
    "distance_from_home": lambda b, now: from_home([event.values for event in valued(b)]),
}
