"""What a registration changes, as beava's `diff`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_ABSENT = "<absent>"


def diff_of(
    changes: Iterable[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """`changes` are those of the definition; `nodes` what was sent."""
    sent = {node["name"]: node for node in nodes}
    found: dict[str, list[Any]] = {"additive": [], "destructive": []}
    touched: set[str] = set()
    for change in changes:
        touched.add(str(change["name"]).split(".")[0])
        found["destructive" if change["is_destructive"] else "additive"] += _entries(change, sent)
    return {**found, "already_present": sorted(sent.keys() - touched)}


def _entries(
    change: Mapping[str, Any], sent: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    name, node = str(change["name"]), change["node"]
    members = change.get("members", {})
    table, _, feature = name.partition(".")
    match change["change"], node:
        case "added", "feature":
            source = sent[table]["ops"][-1]["agg"][feature]["op"]
            return [{"kind": "new_agg", "table": table, "agg": feature, "source": source}]
        case "added", _:
            kind = "event" if node == "event" else "derivation"
            return [{"kind": "new_descriptor", "descriptor_kind": kind, "name": name}]
        case "removed", _:
            return [{"kind": "agg_removal", "table": table, "agg": feature}]
        case _, "event" if "fields" in members:
            return _field_entries(name, members["fields"]["from"], members["fields"]["to"])
        case _, "table" if "key" in members:
            return [{"kind": "key_cols_change", "table": name, **members["key"]}]
        case _, "feature" if "window" in members:
            window = {side: given or "" for side, given in members["window"].items()}
            return [{"kind": "window_change", "agg": name, **window}]
        case _:
            return [{"kind": "change", "name": name, "members": sorted(members)}]


def _field_entries(
    event: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for field in {**before, **after}:
        old, new = _type(before.get(field)), _type(after.get(field))
        if old == _ABSENT:
            found.append({"kind": "new_field", "event": event, "field": field, "type": new})
        elif old != new:
            name = f"{event}.{field}"
            found.append({"kind": "type_change", "field": name, "from": old, "to": new})
    return found


def _type(declared: Any) -> str:
    if declared is None:
        return _ABSENT
    return declared if isinstance(declared, str) else str(declared["type"])
