"""Writes definitions as JSON. What has its default is left out."""

from __future__ import annotations

from typing import Any

from penstock import limits
from penstock.features.definition_nodes import (
    AHEAD_MS,
    DefinitionNodes,
    EventType,
    Feature,
    FeatureTable,
)
from penstock.features.durations import duration_text
from penstock.features.sizes import size_text
from penstock.features.steps import (
    CastStep,
    DropStep,
    FillStep,
    FilterStep,
    RenameStep,
    SelectStep,
    Step,
    WithColumnsStep,
)
from penstock.features.windows import FOREVER


def to_json(nodes: DefinitionNodes) -> dict[str, list[dict[str, Any]]]:
    """The nodes, in the order of their declarations."""
    return {
        "events": [_event_json(event) for event in nodes.events.values()],
        "derived": [
            {"name": one.name, "from": one.upstream, "steps": [step_json(s) for s in one.steps]}
            for one in nodes.derived.values()
        ],
        "tables": [_table_json(table) for table in nodes.tables.values()],
    }


def _event_json(event: EventType) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": event.name,
        "topic": event.topic,
        "fields": {
            name: {"type": one.type, "optional": True} if one.is_optional else one.type
            for name, one in event.fields.items()
        },
    }
    if event.time:
        found["time"] = {"field": event.time.field}
        if event.time.lateness_ms:
            found["time"]["lateness"] = duration_text(event.time.lateness_ms)
        if event.time.ahead_ms != AHEAD_MS:
            found["time"]["ahead"] = duration_text(event.time.ahead_ms)
    if event.dedupe:
        window = duration_text(event.dedupe.window_ms)
        found["dedupe"] = {"field": event.dedupe.field, "window": window}
        if event.dedupe.memory_max != limits.PROJECTION_BYTES_MAX:
            found["dedupe"]["memory_max"] = size_text(event.dedupe.memory_max)
    if event.sync != "periodic":
        found["sync"] = event.sync
    if event.cold_after_ms:
        found["cold_after"] = duration_text(event.cold_after_ms)
    if event.on_gap != "accept":
        found["on_gap"] = event.on_gap
    return found


def _table_json(table: FeatureTable) -> dict[str, Any]:
    found: dict[str, Any] = {"name": table.name, "from": table.upstream}
    if table.steps:
        found["steps"] = [step_json(step) for step in table.steps]
    found["key"] = list(table.key)
    if table.cold_after_ms:
        found["cold_after"] = duration_text(table.cold_after_ms)
    if table.memory_max:
        found["memory_max"] = size_text(table.memory_max)
    if table.on_gap:
        found["on_gap"] = table.on_gap
    found["features"] = {name: feature_json(one) for name, one in table.features.items()}
    return found


def feature_json(feature: Feature) -> dict[str, Any]:
    """One feature as JSON."""
    found: dict[str, Any] = {"op": feature.op, **feature.fields, **feature.parameters}
    if feature.window != FOREVER:
        found["window"] = feature.window.to_json()
    if feature.where is not None:
        found["where"] = str(feature.where)
    return found


def step_json(step: Step) -> dict[str, Any]:
    """One step as JSON."""
    match step:
        case FilterStep():
            return {"op": "filter", "where": str(step.where)}
        case SelectStep():
            return {"op": "select", "fields": list(step.fields)}
        case DropStep():
            return {"op": "drop", "fields": list(step.fields)}
        case RenameStep():
            return {"op": "rename", "fields": dict(step.fields)}
        case WithColumnsStep():
            columns = {name: str(expression) for name, expression in step.columns.items()}
            return {"op": "with_columns", "columns": columns}
        case CastStep():
            return {"op": "cast", "fields": dict(step.fields)}
        case FillStep():
            return {"op": "fillna", "values": dict(step.values)}
