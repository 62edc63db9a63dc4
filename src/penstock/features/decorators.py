"""Declares events and feature tables in Python, and makes a definition of them."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar, overload

from penstock.errors import InvalidArgument
from penstock.features.definition import Definition
from penstock.features.event_chain import (
    AggregatedChain,
    DeclaredEvent,
    DeclaredTable,
    EventChain,
)
from penstock.features.names import shown
from penstock.projection_types import GapPolicy

_TYPES: Final[dict[object, str]] = {
    str: "str",
    int: "i64",
    float: "f64",
    bool: "bool",
    dict: "json",
    list: "json",
    Any: "json",
}


T = TypeVar("T")
ChainFunction = Callable[[Any], EventChain]
TableFunction = Callable[[Any], AggregatedChain]
Node = DeclaredEvent | DeclaredTable | type[Any]
"""What `event` and `table` make. A type checker takes the event of a class for the class itself."""


class EventDecorator(Protocol):
    """What `event(…)` with options gives."""

    @overload  # a class could be called, too, and is not meant by the second
    def __call__(  # type: ignore[overload-overlap]
        self, declared: type[T], /
    ) -> type[T]: ...
    @overload
    def __call__(self, declared: ChainFunction, /) -> DeclaredEvent: ...


@overload
def event(  # type: ignore[overload-overlap]
    declared: type[T], /
) -> type[T]: ...
@overload
def event(declared: ChainFunction, /) -> DeclaredEvent: ...
@overload
def event(
    declared: None = None,
    /,
    *,
    name: str | None = None,
    topic: str | None = None,
    time: str | None = None,
    lateness: str | int | None = None,
    ahead: str | int | None = None,
    dedupe: str | None = None,
    dedupe_window: str | int | None = None,
    dedupe_memory_max: str | int | None = None,
    sync: str | None = None,
    cold_after: str | int | None = None,
    on_gap: GapPolicy | None = None,
    upstream: Node | None = None,
) -> EventDecorator: ...
def event(
    declared: Any = None,
    /,
    *,
    name: str | None = None,
    topic: str | None = None,
    time: str | None = None,
    lateness: str | int | None = None,
    ahead: str | int | None = None,
    dedupe: str | None = None,
    dedupe_window: str | int | None = None,
    dedupe_memory_max: str | int | None = None,
    sync: str | None = None,
    cold_after: str | int | None = None,
    on_gap: GapPolicy | None = None,
    upstream: Node | None = None,
) -> Any:
    """Declare an event type (a class) or a derived event (a function). A decorator.

    The annotations of a class are the fields: str, int, float, bool, Optional of them, and dict,
    list or Any for JSON. A function gets its upstream, which the annotation of its parameter names,
    and returns the chain of steps.

    topic: where the events are, by default the topic of the event's name
    time: the i64 field with the time of the event in ms; by default, and with "$ts", the time at
        which its record was committed
    lateness: how much older than the newest an event may be
    ahead: how much later than the commit of its record an event may be, by default 1h
    dedupe, dedupe_window: events with the same value of this field within the window count once
    dedupe_memory_max: of the values of one window, such as "256MiB", by default 1GiB; pushes are
        refused while they need more
    sync: "periodic" or "per_event"
    cold_after: remove the rows of a key after this long without events
    on_gap: what its tables do when records were lost before they read them: "accept" (the default)
        counts them, "rebuild" begins again, "fail" stops the table
    upstream: of a function, in place of the annotation
    """
    options = {"topic": topic, "sync": sync, "cold_after": cold_after, "on_gap": on_gap}
    timing = {"field": time, "lateness": lateness, "ahead": ahead}
    uniqueness = {"field": dedupe, "window": dedupe_window, "memory_max": dedupe_memory_max}
    names = _callers_names()

    def declare(given: Any) -> DeclaredEvent:
        if isinstance(given, type):
            node: dict[str, Any] = {"name": name or given.__name__, "fields": _fields(given, names)}
            node |= {member: value for member, value in options.items() if value is not None}
            for member, parts in (("time", timing), ("dedupe", uniqueness)):
                found = {key: value for key, value in parts.items() if value is not None}
                if found:
                    node[member] = found
            return DeclaredEvent(None, (), node["name"], "events", node, None)
        if any(
            value is not None for one in (options, timing, uniqueness) for value in one.values()
        ):
            raise InvalidArgument("a derived event has the options of the event it is derived from")
        chain = _called(given, upstream, names)
        if not isinstance(chain, EventChain):
            raise InvalidArgument(
                f"the function {given.__name__} returned {shown(chain)}: expected a chain of steps"
            )
        return chain.named(name or given.__name__)

    return declare if declared is None else declare(declared)


@overload
def table(declared: TableFunction, /) -> DeclaredTable: ...
@overload
def table(
    declared: None = None,
    /,
    *,
    key: str | tuple[str, ...] | list[str] | None = None,
    name: str | None = None,
    cold_after: str | int | None = None,
    memory_max: str | int | None = None,
    on_gap: GapPolicy | None = None,
    upstream: Node | None = None,
) -> Callable[[TableFunction], DeclaredTable]: ...
def table(
    declared: Any = None,
    /,
    *,
    key: str | tuple[str, ...] | list[str] | None = None,
    name: str | None = None,
    cold_after: str | int | None = None,
    memory_max: str | int | None = None,
    on_gap: GapPolicy | None = None,
    upstream: Node | None = None,
) -> Any:
    """Declare a feature table: a function from an event to `group_by(…).agg(…)`. A decorator.

    key: the columns to group by, unless the function says it with `group_by`; none: one row
    cold_after: remove the rows of a key after this long without events
    memory_max: of the whole table, such as "256MiB"; keys beyond it are kept on disk
    on_gap: when records were lost before it read them: "accept", "rebuild" or "fail"; by default
        what the event says
    upstream: the event, in place of the annotation of the function's parameter
    """
    keys = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    names = _callers_names()

    def declare(given: Any) -> DeclaredTable:
        found = _called(given, upstream, names)
        if not isinstance(found, AggregatedChain):
            raise InvalidArgument(
                f"the function {given.__name__} returned {shown(found)}: "
                "expected group_by(…).agg(…)"
            )
        if found.key is not None and keys is not None and found.key != keys:
            raise InvalidArgument(
                f"table {given.__name__!r} has the key {list(keys)} and is grouped by "
                f"{list(found.key)}: say it once"
            )
        grouped = AggregatedChain(found.chain, found.key or keys, found.features)
        options = {"cold_after": cold_after, "memory_max": memory_max, "on_gap": on_gap}
        return grouped.named(name or given.__name__, options)

    return declare if declared is None else declare(declared)


def definition(*nodes: Node) -> Definition:
    """The checked definition of these events and tables, and of the events they are built on."""
    return Definition.parse(document(*nodes))


def document(*nodes: Node) -> dict[str, list[Mapping[str, Any]]]:
    """The JSON of these events and tables, and of the events they are built on. Not checked."""
    sections: dict[str, list[Mapping[str, Any]]] = {"events": [], "derived": [], "tables": []}
    for node in nodes:
        if not isinstance(node, (DeclaredEvent, DeclaredTable)):
            raise InvalidArgument(
                f"{shown(node)} is no declaration: expected what `event` or `table` made"
            )
        for section, declared in node.to_json().items():
            for one in declared:
                _add(sections[section], one)
    return sections


def _add(section: list[Mapping[str, Any]], node: Mapping[str, Any]) -> None:
    if not any(one is node for one in section):
        section.append(node)


def _fields(declared: type, names: Mapping[str, Any]) -> dict[str, Any]:
    hints = _hints(declared, names)
    if not hints:
        raise InvalidArgument(f"event {declared.__name__!r} has no fields: annotate some")
    return {field: _field_type(declared, field, hint) for field, hint in hints.items()}


def _field_type(declared: type, field: str, hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(hint) if one is not type(None)]
        if len(inner) == 1 and len(typing.get_args(hint)) == 2:
            return {"type": _field_type(declared, field, inner[0]), "optional": True}
    base = typing.get_origin(hint) or hint
    if base not in _TYPES:
        raise InvalidArgument(
            f"event {declared.__name__!r}, field {field!r}: {shown(hint)} is no type of a field: "
            "expected str, int, float, bool, Optional of one of them, or dict, list or Any for JSON"
        )
    return _TYPES[base]


def _called(function: Callable[[Any], Any], upstream: Node | None, names: Mapping[str, Any]) -> Any:
    if not inspect.isfunction(function):
        raise InvalidArgument(f"{shown(function)} cannot be declared: expected a class or function")
    if upstream is None:
        (parameter, *others) = inspect.signature(function).parameters or ("",)
        upstream = _hints(function, names).get(parameter)
        if others or not isinstance(upstream, DeclaredEvent):
            raise InvalidArgument(
                f"the function {function.__name__} needs one parameter, annotated with its event: "
                f"def {function.__name__}(events: Ride)"
            )
    if not isinstance(upstream, DeclaredEvent):
        raise InvalidArgument(f"invalid upstream {shown(upstream)}: expected a declared event")
    return function(upstream)


def _hints(declared: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of a class and its bases, or of a function."""
    bases = reversed(declared.__mro__) if isinstance(declared, type) else [declared]
    found: dict[str, Any] = {}
    for one in bases:
        try:
            found |= inspect.get_annotations(one, locals=names, eval_str=True)
        except NameError as error:
            raise InvalidArgument(
                f"an annotation of {declared.__name__!r} has an unknown name: {error}"
            ) from None
    return found


def _callers_names() -> Mapping[str, Any]:
    """What is known where the decorator is used: an event may be declared inside of a function."""
    return sys._getframe(2).f_locals
