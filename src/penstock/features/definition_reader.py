"""Reads the JSON of definitions, strictly.

This checks the form: members, types of JSON, names, texts of expressions, windows and durations.
Whether the names exist and the types fit is checked by `definition_check`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast, get_args

from penstock import limits
from penstock.errors import InvalidDefinition
from penstock.features.definition_nodes import (
    AHEAD_MS,
    COLUMN_TYPES,
    Dedupe,
    DefinitionNodes,
    DerivedEvent,
    EventField,
    EventTime,
    EventType,
    Feature,
    FeatureTable,
    Sync,
)
from penstock.features.durations import duration_ms
from penstock.features.event_column import ColumnType
from penstock.features.expression import constant_node
from penstock.features.expression_parser import parse
from penstock.features.json_members import (
    FIELDS_MAX,
    at,
    duration_of,
    list_of,
    named,
    object_of,
    path_of,
    size_of,
    text_of,
    wrong,
)
from penstock.features.names import nearest, shown
from penstock.features.operator_arguments import feature_members, parameter_value
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
from penstock.features.table_plan import Kinds
from penstock.features.windows import window_of
from penstock.projection_types import GapPolicy

NODES_MAX: Final = 10_000
STEPS_MAX: Final = 256
KEY_COLUMNS_MAX: Final = 16
RECORD_TIME: Final = "$ts"  # the time of the record, as the field of the time

_CAST_TYPES: Final[dict[str, ColumnType]] = {
    **{"int": "i64", "float": "f64"},
    **{"i64": "i64", "f64": "f64", "str": "str", "bool": "bool"},
}


def read_nodes(document: object, kinds: Kinds) -> DefinitionNodes:
    """The nodes of a document."""
    members = object_of(document, "", {"events", "derived", "tables"})
    events = [
        _event(node, path_of("events", node, number))
        for number, node in enumerate(list_of(members.get("events", []), "events", NODES_MAX))
    ]
    derived = [
        _derived(node, path_of("derived", node, number))
        for number, node in enumerate(list_of(members.get("derived", []), "derived", NODES_MAX))
    ]
    tables = [
        _table(node, path_of("tables", node, number), kinds)
        for number, node in enumerate(list_of(members.get("tables", []), "tables", NODES_MAX))
    ]
    seen: dict[str, str] = {}
    for kind, nodes in (("events", events), ("derived", derived), ("tables", tables)):
        for node in cast(list[EventType], nodes):
            if node.name in seen:
                raise InvalidDefinition(
                    f"the name {node.name!r} is declared twice: events, derived events and tables "
                    "need names of their own",
                    path=f"{kind}.{node.name}",
                    reason="duplicate",
                )
            seen[node.name] = kind
    return DefinitionNodes(
        {node.name: node for node in events},
        {node.name: node for node in derived},
        {node.name: node for node in tables},
    )


def _event(node: object, path: str) -> EventType:
    options = {"topic", "time", "dedupe", "sync", "cold_after", "on_gap"}
    members = object_of(node, path, options, required=("name", "fields"))
    name = named(members["name"], f"{path}.name")
    declared = object_of(members["fields"], f"{path}.fields", None, most=FIELDS_MAX)
    fields = {
        named(field, f"{path}.fields"): _field(given, f"{path}.fields.{field}")
        for field, given in declared.items()
    }
    if not fields:
        raise wrong("expected at least one field", f"{path}.fields", "missing")
    topic = text_of(members.get("topic", name), f"{path}.topic")
    sync = members.get("sync", "periodic")
    if sync not in ("periodic", "per_event"):
        raise wrong(
            f"invalid sync {shown(sync)}: expected 'periodic' or 'per_event'",
            f"{path}.sync",
            "bad_value",
        )
    return EventType(
        name,
        topic,
        fields,
        _time(members.get("time"), f"{path}.time"),
        _dedupe(members.get("dedupe"), f"{path}.dedupe"),
        cast(Sync, sync),
        duration_of(members.get("cold_after"), f"{path}.cold_after"),
        _gap_policy(members.get("on_gap"), f"{path}.on_gap") or "accept",
    )


def _gap_policy(given: object, path: str) -> GapPolicy | None:
    if given is not None and given not in get_args(GapPolicy):
        expected = ", ".join(map(repr, get_args(GapPolicy)))
        raise wrong(f"invalid on_gap {shown(given)}: expected one of {expected}", path, "bad_value")
    return cast(GapPolicy | None, given)


def _field(given: object, path: str) -> EventField:
    is_optional = False
    if isinstance(given, Mapping):
        members = object_of(given, path, {"optional"}, required=("type",))
        given, is_optional = members["type"], members.get("optional", False)
        if not isinstance(is_optional, bool):
            raise wrong("expected true or false", f"{path}.optional", "bad_value")
    if given not in COLUMN_TYPES:
        raise wrong(
            f"unknown type {shown(given)}: expected {', '.join(COLUMN_TYPES)}", path, "bad_type"
        )
    return EventField(given, is_optional)


def _time(given: object, path: str) -> EventTime | None:
    if given is None:
        return None
    members = object_of(given, path, {"lateness", "ahead"}, required=("field",))
    if members["field"] == RECORD_TIME:
        for member in ("lateness", "ahead"):
            if members.get(member) is not None:
                raise wrong(
                    f"events whose time is {RECORD_TIME!r} are never late and never ahead: "
                    "leave it out",
                    f"{path}.{member}",
                    "bad_value",
                )
        return None
    late_ms = _span(members.get("lateness"), f"{path}.lateness")
    ahead_ms = _span(members.get("ahead"), f"{path}.ahead")
    return EventTime(
        named(members["field"], f"{path}.field"),
        late_ms or 0,
        AHEAD_MS if ahead_ms is None else ahead_ms,
    )


def _span(given: object, path: str) -> int | None:
    """A duration in ms, which may be nothing."""
    is_nothing = given in (0, "0ms", "0s") and not isinstance(given, bool)
    return 0 if is_nothing else duration_of(given, path)


def _dedupe(given: object, path: str) -> Dedupe | None:
    if given is None:
        return None
    members = object_of(given, path, {"memory_max"}, required=("field", "window"))
    with at(f"{path}.window", "bad_window"):
        window_ms = duration_ms(members["window"], "window")
    most = size_of(members.get("memory_max"), f"{path}.memory_max")
    return Dedupe(
        named(members["field"], f"{path}.field"),
        window_ms,
        limits.PROJECTION_BYTES_MAX if most is None else most,
    )


def _derived(node: object, path: str) -> DerivedEvent:
    members = object_of(node, path, {"steps"}, required=("name", "from"))
    return DerivedEvent(
        named(members["name"], f"{path}.name"),
        text_of(members["from"], f"{path}.from"),
        _steps(members.get("steps", []), f"{path}.steps"),
    )


def _table(node: object, path: str, kinds: Kinds) -> FeatureTable:
    required = ("name", "from", "features")
    options = {"steps", "key", "cold_after", "memory_max", "on_gap"}
    members = object_of(node, path, options, required=required)
    key = list_of(members.get("key", []), f"{path}.key", KEY_COLUMNS_MAX)
    features = object_of(members["features"], f"{path}.features", None, most=FIELDS_MAX)
    return FeatureTable(
        named(members["name"], f"{path}.name"),
        text_of(members["from"], f"{path}.from"),
        tuple(named(column, f"{path}.key") for column in key),
        {
            named(name, f"{path}.features"): _feature(name, given, f"{path}.features.{name}", kinds)
            for name, given in features.items()
        },
        _steps(members.get("steps", []), f"{path}.steps"),
        duration_of(members.get("cold_after"), f"{path}.cold_after"),
        size_of(members.get("memory_max"), f"{path}.memory_max"),
        _gap_policy(members.get("on_gap"), f"{path}.on_gap"),
    )


def _feature(name: str, given: object, path: str, kinds: Kinds) -> Feature:
    members = object_of(given, path, None)
    if "op" not in members:
        raise wrong("'op' is missing: the name of an operator", path, "missing")
    op = members["op"]
    if not isinstance(op, str) or op not in kinds:
        near = nearest(op, kinds)
        raise wrong(f"unknown operator {shown(op)}; {near}", f"{path}.op", "unknown_operator")
    kind = kinds[op]
    members = object_of(given, path, feature_members(kind))
    arguments = {field for field, _ in kind.fields}
    with at(f"{path}.window", "bad_window"):
        window = window_of(members.get("window"))
    where = members.get("where")
    with at(f"{path}.where", "bad_where"):
        condition = None if where is None else parse(where)
    parameters = {}
    for parameter in kind.parameters:
        if members.get(parameter.name) is not None:
            with at(f"{path}.{parameter.name}", "bad_parameter"):
                parameters[parameter.name] = parameter_value(parameter, members[parameter.name])
    return Feature(
        name,
        op,
        {
            field: text_of(members[field], f"{path}.{field}")
            for field in members
            if field in arguments
        },
        parameters,
        window,
        condition,
    )


def _steps(given: object, path: str) -> tuple[Step, ...]:
    return tuple(
        _step(one, f"{path}[{number}]")
        for number, one in enumerate(list_of(given, path, STEPS_MAX))
    )


def _step(given: object, path: str) -> Step:
    op = given.get("op") if isinstance(given, Mapping) else None
    if not isinstance(op, str) or op not in _STEPS:
        near = nearest(op, _STEPS)
        raise wrong(f"unknown step {shown(op)}; {near}", f"{path}.op", "unknown_step")
    member, read = _STEPS[op]
    members = object_of(given, path, set(), required=("op", member))
    return read(members[member], f"{path}.{member}")


def _filter(given: object, path: str) -> Step:
    with at(path, "bad_expression"):
        return FilterStep(parse(given))


def _names(given: object, path: str) -> tuple[str, ...]:
    listed = [named(name, path) for name in list_of(given, path, FIELDS_MAX)]
    return tuple(dict.fromkeys(listed))


def _rename(given: object, path: str) -> Step:
    pairs = object_of(given, path, None, most=FIELDS_MAX)
    return RenameStep({named(old, path): named(new, f"{path}.{old}") for old, new in pairs.items()})


def _with_columns(given: object, path: str) -> Step:
    columns = {}
    for name, text in object_of(given, path, None, most=FIELDS_MAX).items():
        named(name, path)
        with at(f"{path}.{name}", "bad_expression"):
            columns[name] = parse(text)
    return WithColumnsStep(columns)


def _cast(given: object, path: str) -> Step:
    types = {}
    for name, kind in object_of(given, path, None, most=FIELDS_MAX).items():
        if not isinstance(kind, str) or kind not in _CAST_TYPES:
            raise wrong(
                f"unknown type {shown(kind)}: expected i64, f64, str or bool",
                f"{path}.{name}",
                "bad_type",
            )
        types[named(name, path)] = _CAST_TYPES[kind]
    return CastStep(types)


def _fill(given: object, path: str) -> Step:
    values = {}
    for name, value in object_of(given, path, None, most=FIELDS_MAX).items():
        with at(f"{path}.{name}", "bad_value"):
            filling = constant_node(value).value
        if filling is None:
            raise wrong("null is what is replaced", f"{path}.{name}", "bad_value")
        values[named(name, path)] = filling
    return FillStep(values)


_STEPS: Final[dict[str, tuple[str, Callable[[object, str], Step]]]] = {
    "filter": ("where", _filter),
    "select": ("fields", lambda given, path: SelectStep(_names(given, path))),
    "drop": ("fields", lambda given, path: DropStep(_names(given, path))),
    "rename": ("fields", _rename),
    "with_columns": ("columns", _with_columns),
    "map": ("columns", _with_columns),
    "cast": ("fields", _cast),
    "fillna": ("values", _fill),
}
