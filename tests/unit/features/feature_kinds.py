"""A few operators that compute nothing, so that definitions are tested apart from the real ones."""

from __future__ import annotations

import copy
from typing import Any

from penstock.errors import InvalidArgument
from penstock.features.event_column import ColumnType
from penstock.features.operators.operator_kind import (
    Arguments,
    FieldNeed,
    OperatorKind,
    Parameter,
    WindowUse,
)


def _kind(
    name: str,
    fields: tuple[tuple[str, FieldNeed], ...] = (),
    parameters: tuple[Parameter, ...] = (),
    window: WindowUse = "optional",
    output: Any = "i64",
    error: str = "",
) -> OperatorKind:
    return OperatorKind(
        name, f"About {name}.", fields, parameters, window, output, _made, lambda _: 8, error
    )


def _made(arguments: Arguments) -> Any:
    if arguments.parameters.get("buckets") == [2.0, 1.0]:
        raise InvalidArgument("buckets must rise")
    return None


def _same(types: tuple[ColumnType, ...]) -> ColumnType:
    return types[0]


KINDS = {
    kind.name: kind
    for kind in (
        _kind("count"),
        _kind("sum", (("field", "number"),), output=_same),
        _kind("last", (("field", "any"),), window="none", output=_same),
        _kind("n_unique", (("field", "scalar"),), error="about 1 %"),
        _kind(
            "quantile",
            (("field", "number"),),
            (Parameter("q", "float", 0.5, 0, 1),),
            output="f64",
        ),
        _kind(
            "first_n",
            (("field", "any"),),
            (Parameter("n", "int", None, 1, 1024, is_required=True),),
            window="none",
            output="json",
        ),
        _kind(
            "ewma",
            (("field", "number"),),
            (Parameter("half_life", "duration", is_required=True),),
            window="none",
            output="f64",
        ),
        _kind(
            "histogram",
            (("field", "number"),),
            (Parameter("buckets", "numbers", is_required=True),),
            window="none",
            output="json",
        ),
        _kind(
            "mix",
            (("field", "scalar"),),
            (Parameter("categories", "texts"),),
            window="none",
            output="json",
        ),
        _kind("twa", (("field", "number"),), window="required", output="f64"),
        _kind("geo_spread", (("lat_field", "number"), ("lon_field", "number")), output="f64"),
    )
}

RIDE: dict[str, Any] = {
    "name": "Ride",
    "topic": "rides",
    "fields": {
        "rider": "str",
        "fare": "f64",
        "at": "i64",
        "cancelled": "bool",
        "seats": {"type": "i64", "optional": True},
        "extra": {"type": "json", "optional": True},
    },
    "time": {"field": "at", "lateness": "5m"},
    "dedupe": {"field": "rider", "window": "1m"},
    "sync": "per_event",
    "cold_after": "90d",
}
PAID: dict[str, Any] = {
    "name": "PaidRide",
    "from": "Ride",
    "steps": [
        {"op": "filter", "where": "not cancelled"},
        {"op": "with_columns", "columns": {"per_seat": "fare / seats"}},
        {"op": "rename", "fields": {"rider": "who"}},
        {"op": "cast", "fields": {"fare": "int"}},
        {"op": "fillna", "values": {"seats": 1}},
        {"op": "drop", "fields": ["extra"]},
    ],
}
TABLE: dict[str, Any] = {
    "name": "RiderFeatures",
    "from": "PaidRide",
    "steps": [{"op": "filter", "where": "fare > 0"}],
    "key": ["who"],
    "cold_after": "30d",
    "features": {
        "rides": {"op": "count"},
        "rides_1h": {"op": "count", "window": "1h", "where": "fare > 5"},
        "spend": {"op": "sum", "field": "fare", "window": {"tumbling": "1d"}},
        "p90": {"op": "quantile", "field": "per_seat", "q": 0.9},
        "slow": {"op": "ewma", "field": "per_seat", "half_life": "90s"},
    },
}
FLEET: dict[str, Any] = {"name": "Fleet", "from": "Ride", "features": {"n": {"op": "count"}}}

DOCUMENT: dict[str, Any] = {"events": [RIDE], "derived": [PAID], "tables": [TABLE, FLEET]}


def changed(document: dict[str, Any], *path: str | int, to: Any) -> dict[str, Any]:
    """A copy with another value at one place; None removes it."""
    found = copy.deepcopy(document)
    place: Any = found
    for member in path[:-1]:
        place = place[member]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return found
