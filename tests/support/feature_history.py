"""A definition with every operator, and a history for it.

A value of a float feature depends on the order of the additions: histories have fractions of all
sizes, so that another order shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from penstock.features.operators.catalogue import KINDS
from penstock.features.operators.operator_kind import OperatorKind

START_MS: Final = 1_700_000_000_000
LATENESS_MS: Final = 5_000
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "burst_count": {"sub_window": "2s"},
    "decayed_count": {"half_life": "20s"},
    "decayed_sum": {"half_life": "20s"},
    "event_type_mix": {"categories": ["a", "b"]},
    "ew_zscore": {"half_life": "20s"},
    "ewma": {"half_life": "20s"},
    "ewvar": {"half_life": "20s"},
    "first_n": {"n": 3},
    "histogram": {"buckets": [-10.0, 0.0, 0.5, 100.0]},
    "last_n": {"n": 3},
    "most_recent_n": {"n": 3},
    "quantile": {"q": 0.9},
    "reservoir_sample": {"samples": 4},
    "time_since_last_n": {"n": 2},
}
_WINDOWS: Final[tuple[Any, ...]] = (
    "40s",
    {"tumbling": "30s"},
    {"hopping": "30s", "every": "5s"},
)
_COLUMNS: Final = {
    "number": ("x", "n"),
    "scalar": ("s", "n", "x", "b"),
    "any": ("s", "x", "j", "n"),
}
_FIELDS: Final[dict[str, Any]] = {
    "user": {"type": "str", "optional": True},
    "band": "i64",
    "at": "i64",
    "lat": "f64",
    "lon": "f64",
    **{
        name: {"type": kind, "optional": True}
        for name, kind in (("x", "f64"), ("n", "i64"), ("s", "str"), ("b", "bool"), ("j", "json"))
    },
}


def document(*, cold_after: str | None = "60s", has_event_time: bool = True) -> dict[str, Any]:
    """Table `T` by (user, band) has each operator with and without a window, some with a
    condition. Table `All` has no key."""
    event: dict[str, Any] = {"name": "E", "topic": "events", "fields": _FIELDS}
    if has_event_time:
        event["time"] = {"field": "at", "lateness": f"{LATENESS_MS}ms"}
    table: dict[str, Any] = {"name": "T", "from": "E", "key": ["user", "band"]}
    table["steps"] = [{"op": "filter", "where": "(n != 13)"}]
    table["features"] = features()
    if cold_after is not None:
        table["cold_after"] = cold_after
    total = {"op": "sum", "field": "x"}
    whole = {"name": "All", "from": "E", "features": {"events": {"op": "count"}, "total": total}}
    return {"events": [event], "tables": [table, whole]}


def features() -> dict[str, dict[str, Any]]:
    """One feature for each operator and use of a window."""
    found: dict[str, dict[str, Any]] = {}
    for number, kind in enumerate(KINDS.values()):
        uses = {"none": (False,), "optional": (False, True), "required": (True,)}[kind.window]
        for is_windowed in uses:
            one = _feature(kind, number + is_windowed)
            if is_windowed:
                of_kind = 0 if kind.is_self_windowed else number % len(_WINDOWS)
                one["window"] = _WINDOWS[of_kind]
            found[f"{kind.name}_w" if is_windowed else kind.name] = one
    return found


def _feature(kind: OperatorKind, number: int) -> dict[str, Any]:
    one: dict[str, Any] = {"op": kind.name, **PARAMETERS.get(kind.name, {})}
    for name, need in kind.fields:
        places = {"lat_field": "lat", "lon_field": "lon"}
        choice = _COLUMNS[need]
        one[name] = places.get(name, choice[number % len(choice)])
    if number % 3 == 0 or kind.name in ("ratio", "streak", "max_streak", "negative_streak"):
        one["where"] = "(b or n > 2)"
    return one


def events(chance: Random, count: int, *, keys: int = 12, step_ms: int = 120) -> Iterator[bytes]:
    """Events as JSON, about in the order of their times. Some are late, bad or have no key."""
    clock = START_MS
    for number in range(count):
        clock += chance.randrange(2 * step_ms)
        late = chance.choice((0, 0, 0, 0, 300, 4_000, 5_100))
        event: dict[str, Any] = {
            "user": f"u{chance.randrange(keys)}",
            "band": number % 2,
            "at": clock - late,
            "lat": chance.uniform(59.0, 60.0),
            "lon": chance.uniform(10.0, 11.0),
        }
        draw = chance.random()
        if draw < 0.9:
            event["x"] = chance.uniform(-1.0, 1.0) * 10.0 ** chance.randrange(-8, 9)
            event["n"] = chance.randrange(16)
        if draw > 0.05:
            event["s"] = chance.choice(("a", "b", "ä", "", f"{chance.randrange(50)}"))
            event["b"] = draw > 0.4
            event["j"] = chance.choice((1, "1", [1, None], {"a": 0.1}))
        if draw < 0.004:
            event["band"] = "first"
        elif draw < 0.012:
            event["at"] *= 1000  # microseconds: too far ahead
        elif draw < 0.018:
            del event["user"]
        yield json.dumps(event).encode()


def is_good(text: bytes) -> bool:
    """Can this event be pushed?"""
    event = json.loads(text)
    return isinstance(event["band"], int) and event["at"] < 2 * START_MS
