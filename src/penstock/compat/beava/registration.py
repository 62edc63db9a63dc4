"""Translates a registration of beava into a definition of Penstock. Pure.

It checks the form of the nodes. What they mean (types, operators, expressions) is checked by the
definition itself.
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
_TIME_MEMBERS: Final = ("event_time_field", "event_time", "watermark", "tolerate_delay")
_REMOVED: Final = {"join": "feature_removed_no_joins_v0", "union": "feature_removed_no_unions_v0"}
_OPERATORS: Final = {"ema": "ewma"}
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


def definition_of(nodes: Any) -> dict[str, Any]:
    """The definition, in the JSON form of `penstock.features`."""
    if not isinstance(nodes, list):
        raise BadRegistration("invalid_registration", "nodes", "nodes: expected an array")
    found: dict[str, Any] = {"events": [], "derived": [], "tables": []}
    cold_after: dict[str, int] = {}
    roots: dict[str, str] = {}
    for number, node in enumerate(nodes):
        path = f"nodes[{number}]"
        name = _named(node, path)
        if name in roots or any(table["name"] == name for table in found["tables"]):
            raise _invalid(path, f"the name {name!r} is declared twice")
        if node.get("kind") == "event":
            found["events"].append(_event(node, path))
            roots[name] = name
            if node.get("cold_after_ms") is not None:
                cold_after[name] = node["cold_after_ms"]
        elif node.get("kind") == "derivation" and node.get("output_kind") == "event":
            upstream = _upstream(node, path, roots)
            found["derived"].append(
                {"name": name, "from": upstream, "steps": _steps(node, path, ends_in_group=False)}
            )
            roots[name] = roots[upstream]
        elif node.get("kind") == "derivation" and node.get("output_kind") == "table":
            upstream = _upstream(node, path, roots)
            table = {"name": name, "from": upstream, **_grouped(node, path)}
            if roots[upstream] in cold_after:
                table["cold_after"] = f"{cold_after[roots[upstream]]}ms"
            found["tables"].append(table)
        else:
            raise BadRegistration(
                "unsupported_node_kind",
                f"{path}.kind",
                f"unknown kind {node.get('kind')!r}: expected event or derivation",
            )
    return found


def _event(node: Mapping[str, Any], path: str) -> dict[str, Any]:
    schema = node.get("schema") or {}
    fields, optional = schema.get("fields"), schema.get("optional_fields") or []
    if not isinstance(fields, dict) or not isinstance(optional, list):
        raise _invalid(f"{path}.schema", "schema.fields: expected an object of names and types")
    declared: dict[str, Any] = {}
    for field, kind in fields.items():
        if kind not in _FIELD_TYPES:
            raise _invalid(
                f"{path}.schema.fields.{field}",
                f"unknown type {kind!r}: expected {', '.join(_FIELD_TYPES)}",
            )
        mine = _FIELD_TYPES[kind]
        declared[field] = {"type": mine, "optional": True} if field in optional else mine
    event: dict[str, Any] = {"name": node["name"], "topic": node["name"], "fields": declared}
    if node.get("dedupe_key") is not None:
        window_ms = node.get("dedupe_window_ms")
        if not isinstance(window_ms, int) or window_ms <= 0:
            raise _invalid(f"{path}.dedupe_window_ms", "dedupe_key needs dedupe_window_ms above 0")
        event["dedupe"] = {"field": node["dedupe_key"], "window": f"{window_ms}ms"}
    return event


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
    feature = {"op": _OPERATORS.get(given["op"], given["op"])}
    for name, value in params.items():
        if name == "window" and feature["op"] == "z_score":
            name = "baseline_window"  # as its documents have it; the SDK sends our name
        if value is None or (name in ("window", "baseline_window") and value == "forever"):
            continue
        feature[_PARAMETERS.get(name, name)] = value
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
        raise _invalid(path, f"unknown op {name!r}: expected {', '.join(_STEPS)} or group_by")
    member, ours, op, convert = _STEPS[name]
    if member not in given:
        raise _invalid(path, f"{name} needs {member}")
    return {"op": op, ours: convert(given[member], f"{path}.{member}")}


def _cast_types(given: Any, path: str) -> dict[str, str]:
    if not isinstance(given, dict):
        raise _invalid(path, "expected an object of names and types")
    for field, kind in given.items():
        if kind not in _CAST_TYPES:
            expected = ", ".join(_CAST_TYPES)
            raise _invalid(f"{path}.{field}", f"unknown type {kind!r}: expected {expected}")
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
        raise _invalid(path, "expected an object")
    for member in _TIME_MEMBERS:
        if member in node:
            code = "tolerate_delay" if member == "tolerate_delay" else "event_time"
            raise BadRegistration(
                f"unknown_field_{code}_v0", f"{path}.{member}", f"unknown member {member!r}"
            )
    name = node.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith(_RESERVED):
        raise _invalid(f"{path}.name", f"invalid name {name!r}: expected [A-Za-z_][A-Za-z0-9_]*")
    return name


def _upstream(node: Mapping[str, Any], path: str, roots: Mapping[str, str]) -> str:
    upstreams = node.get("upstreams")
    if not isinstance(upstreams, list) or len(upstreams) != 1:
        raise _invalid(f"{path}.upstreams", "expected an array with one name")
    if upstreams[0] not in roots:
        raise _invalid(
            f"{path}.upstreams",
            f"unknown upstream {upstreams[0]!r}: an event must stand before what is derived of it",
        )
    return str(upstreams[0])


def _invalid(path: str, reason: str) -> BadRegistration:
    return BadRegistration("invalid_registration", path, reason)
