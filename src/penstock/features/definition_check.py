"""Do the nodes of a definition fit together? Names, upstreams, types; the plans of the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from penstock.errors import InvalidDefinition
from penstock.features.definition_nodes import (
    AHEAD_MS,
    KEY_TYPES,
    DefinitionNodes,
    EventTime,
    EventType,
    Feature,
    FeatureTable,
)
from penstock.features.definition_reader import STEPS_MAX
from penstock.features.definition_writer import step_json
from penstock.features.event_column import ColumnType
from penstock.features.expression_evaluation import Schema, checked_predicate
from penstock.features.json_members import at
from penstock.features.names import nearest, shown
from penstock.features.operator_arguments import (
    arguments_of,
    field_complaint,
    missing_field,
    window_complaint,
)
from penstock.features.operators.operator_kind import OperatorKind
from penstock.features.steps import Step, StepChain, columns_read, type_of
from penstock.features.table_plan import FeaturePlan, Kinds, TablePlan, checksum_of

_TOPIC: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}", re.ASCII)


def checked_plans(nodes: DefinitionNodes, kinds: Kinds) -> dict[str, TablePlan]:
    """Check all nodes; the plan of each table."""
    _check_names(nodes)
    topics: dict[str, str] = {}
    for event in nodes.events.values():
        _check_event(event, topics)
    for name in nodes.derived:
        _chain(nodes, name, f"derived.{name}")
    return {name: _plan(nodes, table, kinds) for name, table in nodes.tables.items()}


def _check_names(nodes: DefinitionNodes) -> None:
    homes: dict[str, str] = {}
    for kind, names in (
        ("events", nodes.events),
        ("derived", nodes.derived),
        ("tables", nodes.tables),
    ):
        for name in names:
            if name in homes:
                raise InvalidDefinition(
                    f"the name {name!r} is also one of {homes[name]}",
                    path=f"{kind}.{name}",
                    reason="duplicate",
                )
            homes[name] = kind


def _check_event(event: EventType, topics: dict[str, str]) -> None:
    path = f"events.{event.name}"
    if not _TOPIC.fullmatch(event.topic):
        raise InvalidDefinition(
            f"invalid topic name {shown(event.topic)}: expected letters, digits and . _ : -, "
            "beginning with a letter or digit",
            path=f"{path}.topic",
            reason="bad_name",
        )
    other = topics.setdefault(event.topic, event.name)
    if other != event.name:
        raise InvalidDefinition(
            f"the topic {event.topic!r} has the events {other!r} already: a topic has one type",
            path=f"{path}.topic",
            reason="duplicate",
        )
    if event.time:
        _check_field(event, event.time.field, ("i64",), f"{path}.time.field")
    if event.dedupe:
        _check_field(event, event.dedupe.field, KEY_TYPES, f"{path}.dedupe.field")


def _check_field(event: EventType, name: str, types: Sequence[ColumnType], path: str) -> None:
    with at(path, "unknown_column"):
        kind = type_of(name, event.schema)
    if kind not in types:
        raise InvalidDefinition(
            f"field {name!r} is of type {kind}: expected {' or '.join(types)}",
            path=path,
            reason="bad_column_type",
        )


def _chain(nodes: DefinitionNodes, upstream: str, path: str) -> tuple[EventType, StepChain]:
    """The event type that an upstream is built on, and the steps from there."""
    derived = nodes.upstreams(upstream)
    root = nodes.root(upstream)
    if root in nodes.derived:
        raise InvalidDefinition(
            f"the derived event {root!r} is built on itself", path=path, reason="cycle"
        )
    if root not in nodes.events:
        if root in nodes.tables:
            why = f"{root!r} is a table: features are computed from events, not from tables"
        else:
            why = f"unknown event {shown(root)}; {nearest(root, [*nodes.events, *nodes.derived])}"
        where = f"derived.{derived[0].name}" if derived else path
        raise InvalidDefinition(why, path=f"{where}.from", reason="unknown_upstream")
    event = nodes.events[root]
    chain = StepChain(event.schema)
    for one in derived:
        chain = _extended(chain, one.steps, f"derived.{one.name}.steps")
    return event, chain


def _extended(chain: StepChain, steps: Sequence[Step], path: str) -> StepChain:
    for number, step in enumerate(steps):
        with at(f"{path}[{number}]", "bad_step"):
            chain = chain.followed_by(step)
    if len(chain.runs) > STEPS_MAX:
        raise InvalidDefinition(
            f"{len(chain.runs)} steps in a row: expected at most {STEPS_MAX}",
            path=path,
            reason="too_many",
        )
    return chain


def _plan(nodes: DefinitionNodes, table: FeatureTable, kinds: Kinds) -> TablePlan:
    path = f"tables.{table.name}"
    event, chain = _chain(nodes, table.upstream, path)
    chain = _extended(chain, table.steps, f"{path}.steps")
    _check_key(table, chain.schema, f"{path}.key")
    if not table.features:
        raise InvalidDefinition(
            "expected at least one feature", path=f"{path}.features", reason="missing"
        )
    derived_steps = [step for one in nodes.upstreams(table.upstream) for step in one.steps]
    steps = (*derived_steps, *table.steps)
    cold_after_ms = table.cold_after_ms or event.cold_after_ms
    grouped = {
        **_event_facts(event, columns_read(steps) | set(table.key)),
        "steps": [step_json(step) for step in steps],
        "key": list(table.key),
        "cold_after_ms": cold_after_ms,
    }
    return TablePlan(
        table.name,
        event,
        chain,
        table.key,
        tuple(
            _feature_plan(feature, chain.schema, table, kinds[feature.op])
            for feature in table.features.values()
        ),
        cold_after_ms,
        checksum_of(grouped),
        table.on_gap or event.on_gap,
    )


def _event_facts(event: EventType, used: set[str] | frozenset[str]) -> dict[str, Any]:
    """What of an event decides which events there are, and when. An optional field that nobody
    reads does not, so that it can be added at no cost."""
    if event.time:
        used = used | {event.time.field}
    if event.dedupe:
        used = used | {event.dedupe.field}
    return {
        "topic": event.topic,
        "fields": {
            name: [one.type, one.is_optional]
            for name, one in event.fields.items()
            if name in used or not one.is_optional
        },
        "time": _time_facts(event.time) if event.time else None,
        "dedupe": [event.dedupe.field, event.dedupe.window_ms] if event.dedupe else None,
    }


def _time_facts(time: EventTime) -> list[Any]:
    """The default bound is left out: tables that were built before there was one stay."""
    ahead = [] if time.ahead_ms == AHEAD_MS else [time.ahead_ms]
    return [time.field, time.lateness_ms, *ahead]


def _check_key(table: FeatureTable, schema: Schema, path: str) -> None:
    for name in table.key:
        with at(path, "unknown_column"):
            kind = type_of(name, schema)
        if kind not in KEY_TYPES:
            raise InvalidDefinition(
                f"column {name!r} is of type {kind}: a key is of i64, str or bool",
                path=path,
                reason="bad_key",
            )
        if name in table.features:
            raise InvalidDefinition(
                f"the feature {name!r} has the name of a column of the key",
                path=f"tables.{table.name}.features.{name}",
                reason="duplicate",
            )
    if len(set(table.key)) != len(table.key):
        raise InvalidDefinition("a column is in the key twice", path=path, reason="bad_key")


def _feature_plan(
    feature: Feature, schema: Schema, table: FeatureTable, kind: OperatorKind
) -> FeaturePlan:
    path = f"tables.{table.name}.features.{feature.name}"
    complaint = missing_field(kind, feature.fields)
    if complaint:
        raise InvalidDefinition(complaint, path=path, reason="missing")
    complaint = window_complaint(kind, feature.window)
    if complaint:
        raise InvalidDefinition(complaint, path=f"{path}.window", reason="bad_window")
    types = tuple(_fields(feature, kind, schema, path))
    where = None
    if feature.where is not None:
        with at(f"{path}.where", "bad_where"):
            where = checked_predicate(feature.where, schema)
    with at(path, "bad_parameter"):
        arguments = arguments_of(kind, types, feature.parameters, feature.window)
        kind.make(arguments)  # it may refuse what its declaration cannot say
    output = kind.output(types) if callable(kind.output) else kind.output
    columns = where.expression.columns if where else frozenset()
    facts = {
        "op": kind.name,
        "fields": [[feature.fields[name] for name, _ in kind.fields], types],
        "parameters": dict(arguments.parameters),
        "window": feature.window.to_json(),
        "where": str(feature.where) if where else None,
        "where_types": {name: schema[name] for name in columns},
    }
    return FeaturePlan(
        feature.name,
        kind,
        tuple(feature.fields[name] for name, _ in kind.fields),
        arguments,
        feature.window,
        where,
        output,
        checksum_of(facts),
    )


def _fields(
    feature: Feature, kind: OperatorKind, schema: Schema, path: str
) -> Iterator[ColumnType]:
    for argument, need in kind.fields:
        with at(f"{path}.{argument}", "unknown_column"):
            found = type_of(feature.fields[argument], schema)
        complaint = field_complaint(need, found)
        if complaint:
            raise InvalidDefinition(
                f"column {feature.fields[argument]!r} is {complaint}",
                path=f"{path}.{argument}",
                reason="bad_column_type",
            )
        yield found
