"""Translates a registration of beava into a definition of Penstock. Pure.

It checks the form of the nodes. What they mean (types, operators, expressions) is checked by the
definition itself; `registration_places` has the nodes that its complaints are about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED: Final = "_beava_"
_FIELD_TYPES: Final = {
    "str": "str",
    "i64": "i64",
    "f64": "f64",
    "bool": "bool",
    "bytes": "str",
    "datetime": "i64",
    "json": "json",
}
_CAST_TYPES: Final = {"str": "str", "int": "i64", "float": "f64", "bool": "bool"}
_TIME_MEMBERS: Final = (
    "event_time_field",
    "event_time",
    "watermark",
    "tolerate_delay",
    "tolerate_delay_ms",
)
_REMOVED: Final = {"join": "feature_removed_no_joins_v0", "union": "feature_removed_no_unions_v0"}
_OPERATORS: Final = {"ema": "ewma"}
_WINDOWS: Final = ("window", "baseline_window")
NOTHING: Final[Mapping[str, Any]] = {"events": (), "derived": (), "tables": ()}
_PARAMETERS: Final = {  # names that the wire has besides ours
    "lat": "lat_field",
    "lon": "lon_field",
    "capacity": "expected_n",
    "fpr": "target_fpr",
}


class BadRegistration(Exception):
    """A node that has not the form of a registration."""

    def __init__(self, code: str, path: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.path = path
        self.reason = reason


def definition_of(nodes: Any, known: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """The definition, in the JSON form of `penstock.features`; `known` is what is registered, in
    the same form. A field that is added to a known event is optional from then on, as the events
    before have none. What the nodes of the SDK cannot say (its topic, dedupe, how long rows are
    kept) stays as it is known."""
    if not isinstance(nodes, list):
        raise BadRegistration("invalid_registration", "<body>", "nodes: expected an array")
    found: dict[str, Any] = {"events": [], "derived": [], "tables": []}
    registered = {one["name"]: one for one in known["events"]}
    events = {*registered, *(one["name"] for one in known["derived"])}
    tables = {one["name"] for one in known["tables"]}
    first: dict[str, int] = {}
    for number, node in enumerate(nodes):
        path = f"nodes[{number}]"
        name = _named(node, path)
        if name in first:
            why = f"duplicate descriptor name {name!r}; first seen at nodes[{first[name]}]"
            raise _invalid(f"{path}.name", why)
        first[name] = number
        kind = node.get("kind")
        output = node.get("output_kind") if kind == "derivation" else kind
        if kind == "event":
            found["events"].append(_event(node, path, registered.get(name, {})))
            events.add(name)
        elif kind == "derivation" and output == "event":
            upstream = _upstream(node, path, events, tables)
            found["derived"].append(
                {"name": name, "from": upstream, "steps": _steps(node, path, ends_in_group=False)}
            )
            events.add(name)
        elif kind == "derivation" and output == "table":
            upstream = _upstream(node, path, events, tables)
            found["tables"].append({"name": name, "from": upstream, **_grouped(node, path)})
            tables.add(name)
        else:
            raise BadRegistration(
                "unsupported_node_kind",
                f"{path}.{name}.kind",
                f"unknown kind {shown(output)}: expected event or derivation",
            )
    return found


def _event(node: Mapping[str, Any], path: str, known: Mapping[str, Any]) -> dict[str, Any]:
    schema = node.get("schema") or {}
    fields, optional = schema.get("fields"), schema.get("optional_fields") or []
    if not isinstance(fields, dict) or not isinstance(optional, list):
        raise _invalid(f"{path}.schema", "schema.fields: expected an object of names and types")
    declared: dict[str, Any] = {}
    for field, kind in fields.items():
        if not isinstance(kind, str) or kind not in _FIELD_TYPES:
            raise _invalid(
                f"{path}.schema.fields.{field}",
                f"unknown type {shown(kind)}: expected {', '.join(_FIELD_TYPES)}",
            )
        mine = _FIELD_TYPES[kind]
        is_optional = field in optional or _is_added(field, known)
        declared[field] = {"type": mine, "optional": True} if is_optional else mine
    name = node["name"]
    topic = f"beava:{name}" if name.startswith("_") else name  # which no topic begins with
    event = {"topic": topic, **known, "name": name, "fields": declared}
    if node.get("dedupe_key") is not None:
        window_ms = node.get("dedupe_window_ms")
        if not isinstance(window_ms, int) or window_ms <= 0:
            raise _invalid(f"{path}.dedupe_window_ms", "dedupe_key needs dedupe_window_ms above 0")
        event["dedupe"] = {"field": node["dedupe_key"], "window": f"{window_ms}ms"}
    if node.get("cold_after_ms") is not None:
        event["cold_after"] = f"{node['cold_after_ms']}ms"
    return event


def _is_added(field: str, known: Mapping[str, Any]) -> bool:
    """True if events without this field are in the log."""
    if not known:
        return False
    declared = known["fields"].get(field)
    return declared is None or (isinstance(declared, Mapping) and bool(declared.get("optional")))


def _grouped(node: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Steps, key and features of a table."""
    operations = node.get("ops")
    if not isinstance(operations, list) or not operations:
        raise _invalid(f"{path}.ops", "a table needs group_by as its last op")
    last = operations[-1]
    where = f"{path}.ops[{len(operations) - 1}]"
    if not isinstance(last, dict) or last.get("op") != "group_by":
        raise _invalid(where, "the last op of a table must be group_by")
    keys, aggregations = last.get("keys", []), last.get("agg")
    if not isinstance(keys, list) or not isinstance(aggregations, dict) or not aggregations:
        raise _invalid(where, "group_by: expected an array of keys and an object agg")
    return {
        "steps": _steps(node, path, ends_in_group=True),
        "key": keys,
        "features": {
            name: _feature(one, f"{where}.agg.{name}") for name, one in aggregations.items()
        },
    }


def _feature(given: Any, path: str) -> dict[str, Any]:
    if not isinstance(given, dict) or not isinstance(given.get("op"), str):
        raise _invalid(path, "expected an object with op and params")
    params = given.get("params") or {}
    if not isinstance(params, dict):
        raise _invalid(f"{path}.params", "expected an object")
    op = str(given["op"])
    feature: dict[str, Any] = {"op": _OPERATORS.get(op, op)}
    for name, value in params.items():
        ours = _PARAMETERS.get(str(name), str(name))
        if ours == "window" and op == "z_score":
            ours = "baseline_window"
        if value is not None and not (ours in _WINDOWS and value == "forever"):
            feature[ours] = value
    return feature


def _steps(node: Mapping[str, Any], path: str, *, ends_in_group: bool) -> list[dict[str, Any]]:
    operations = node.get("ops") or []
    if not isinstance(operations, list):
        raise _invalid(f"{path}.ops", "expected an array")
    chain = operations[:-1] if ends_in_group else operations
    return [_step(one, f"{path}.ops[{number}]") for number, one in enumerate(chain)]


def _step(given: Any, path: str) -> dict[str, Any]:
    name = given.get("op") if isinstance(given, dict) else None
    if isinstance(name, str) and name in _REMOVED:
        raise BadRegistration(_REMOVED[name], path, f"{name} is not supported")
    if not isinstance(name, str) or name not in _STEPS:
        raise _invalid(path, f"unknown op {shown(name)}: expected {', '.join(_STEPS)} or group_by")
    member, ours, op, convert = _STEPS[name]
    if member not in given:
        raise _invalid(path, f"{name} needs {member}")
    return {"op": op, ours: convert(given[member], f"{path}.{member}")}


def _cast_types(given: Any, path: str) -> dict[str, str]:
    if not isinstance(given, dict):
        raise _invalid(path, "expected an object of names and types")
    for kind in given.values():
        if not isinstance(kind, str) or kind not in _CAST_TYPES:
            raise BadRegistration(
                "invalid_expression",
                path.rpartition(".")[0],
                f"unknown type {shown(kind)}: expected {', '.join(_CAST_TYPES)}",
            )
    return {field: _CAST_TYPES[kind] for field, kind in given.items()}


def _same(given: Any, path: str) -> Any:
    return given


_STEPS: Final[dict[str, tuple[str, str, str, Callable[[Any, str], Any]]]] = {
    "filter": ("expr", "where", "filter", _same),
    "select": ("fields", "fields", "select", _same),
    "drop": ("fields", "fields", "drop", _same),
    "rename": ("mapping", "fields", "rename", _same),
    "with_columns": ("exprs", "columns", "with_columns", _same),
    "map": ("exprs", "columns", "with_columns", _same),
    "cast": ("type_map", "fields", "cast", _cast_types),
    "fillna": ("defaults", "values", "fillna", _same),
}


def _named(node: Any, path: str) -> str:
    if not isinstance(node, dict):
        raise _invalid("<body>", f"{path}: expected an object")
    name = node.get("name")
    for member in _TIME_MEMBERS:
        if member in node:
            code = "tolerate_delay" if member.startswith("tolerate") else "event_time"
            raise BadRegistration(
                f"unknown_field_{code}_v0",
                f"{path}.{shown(name).strip(chr(39))}.{member}",
                f"{member!r} is not supported: an event's time is its arrival",
            )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _invalid(
            f"{path}.name", f"invalid name {shown(name)}: expected [A-Za-z_][A-Za-z0-9_]*"
        )
    if name.startswith(_RESERVED):
        raise _invalid(f"{path}.name", f"invalid name {name!r}: {_RESERVED} is reserved")
    return name


def _upstream(node: Mapping[str, Any], path: str, events: set[str], tables: set[str]) -> str:
    upstreams = node.get("upstreams")
    if not isinstance(upstreams, list) or len(upstreams) != 1:
        raise _invalid(f"{path}.upstreams", "expected an array with one name")
    (upstream,) = upstreams
    if not isinstance(upstream, str) or upstream not in events | tables:
        raise _invalid(
            f"{path}.upstreams[0]",
            f"unknown upstream {shown(upstream)}: an event must stand before what is derived of it",
        )
    if upstream not in events:
        raise BadRegistration(
            "aggregation_on_table_not_supported",
            f"{path}.upstreams[0]",
            f"{upstream!r} is a table: features are computed from events, not from tables",
        )
    return upstream


def shown(value: object) -> str:
    """A value of a caller in a reason, not too long."""
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= 80 else text[:80] + "…"


def _invalid(path: str, reason: str) -> BadRegistration:
    return BadRegistration("invalid_registration", path, reason)
