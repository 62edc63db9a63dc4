"""Definitions for the rigs of features, events for them, and a bound that is soon reached."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final
from unittest import mock

from penstock.features import (
    evicted_keys,
    memory_shares,
    part_memory,
    sizes,
    store,
    store_projections,
    table_part,
)
from penstock.features.definition import Definition
from penstock.features.part_plan import PartSpec
from penstock.features.table_plan import TablePlan
from penstock.projections.host import ProjectionDefinition
from tests.support import feature_history

EVENTS: Final = {"E": "events", "P": "paid"}  # event type -> topic; P has sync per_event
USERS: Final = 24
MEMORY_MAX: Final = 120_000
_WINDOWS: Final = ("1h", "2h")
_SMALL: Final = (
    (part_memory, "CHECKED_USES", 1),
    (table_part, "CHECKED_USES", 1),
    (memory_shares, "TABLE_MEMORY_MIN", 1),
    (sizes, "TABLE_MEMORY_MIN", 1),
    (evicted_keys, "FILE_BYTES_MIN", 16 << 10),
    (evicted_keys, "PIECE_BYTES", 8 << 10),
    (table_part, "PIECE_BYTES", 8 << 10),
)


def plan_of(part: PartSpec | ProjectionDefinition) -> TablePlan:
    """As the one of the store, which makes the same plan each time."""
    return _plan_of(bytes(part.definition))


@functools.lru_cache(256)
def _plan_of(text: bytes) -> TablePlan:
    definition = Definition.parse(text)
    (table,) = definition.tables
    return definition.plan(table)


@contextlib.contextmanager
def known_plans() -> Iterator[None]:
    """Logs that are opened by the hundred make each plan once."""
    with (
        mock.patch.object(store, "plan_of", plan_of),
        mock.patch.object(store_projections, "plan_of", plan_of),
    ):
        yield


@contextlib.contextmanager
def small_memory() -> Iterator[None]:
    """Tables may have a little memory, and hold their bound exactly."""
    with contextlib.ExitStack() as stack:
        for where, name, value in _SMALL:
            stack.enter_context(mock.patch.object(where, name, value))
        yield


def shrink_memory() -> None:
    """The same for the rest of this process."""
    for where, name, value in _SMALL:
        setattr(where, name, value)


def document(choice: int = 0) -> dict[str, Any]:
    """A definition with every operator in table T. The choices 1 to 3 differ from it: features and
    a table are removed; one is changed, and the ids are kept longer; a table is added."""
    found = feature_history.document()
    (event,), (table, whole) = found["events"], found["tables"]
    event["fields"] = {**event["fields"], "id": {"type": "str", "optional": True}}
    event["dedupe"] = {"field": "id", "window": _WINDOWS[choice == 2]}
    table["memory_max"] = MEMORY_MAX
    if choice == 1:
        names = list(table["features"])
        table["features"] = {name: table["features"][name] for name in names[::2]}
        found["tables"] = [table]
    elif choice == 2:
        table["features"]["count"] = {"op": "count", "where": "(n > 7)"}
    elif choice == 3:
        count = {"op": "count", "window": {"tumbling": "10s"}}
        users = {"name": "U", "from": "E", "key": ["user"], "features": {"n": count}}
        found["tables"] = [table, whole, users]
    paid = {
        "name": "P",
        "topic": "paid",
        "fields": {"id": "str", "user": "str", "x": "f64"},
        "dedupe": {"field": "id", "window": "1h"},
        "sync": "per_event",
    }
    total = {"n": {"op": "count"}, "sum": {"op": "sum", "field": "x", "window": "1h"}}
    payers = {"name": "Paid", "from": "P", "key": ["user"], "features": total}
    return {"events": [event, paid], "tables": [*found["tables"], payers]}


def keys_of(table: str) -> list[Any]:
    """All keys that a table can have."""
    users = [f"u{user}" for user in range(USERS)]
    if table == "All":
        return [()]
    return [(user, band) for user in users for band in (0, 1)] if table == "T" else list(users)


def event_of(event: str, number: int) -> dict[str, Any]:
    """The event with this number. Its id and its content follow from it."""
    chance = Random(f"{event} {number}")
    one = {"id": f"{event}{number}"}
    if event == "P":
        return {**one, "user": f"u{chance.randrange(USERS)}", "x": chance.uniform(-9.0, 9.0)}
    while True:  # those that do not fit are refused: they never reach the log
        (text,) = feature_history.events(chance, 1, keys=USERS)
        found: dict[str, Any] = {**json.loads(text), **one}
        if feature_history.is_good(text):
            return {**found, "at": found["at"] + 300 * number, "band": number % 2}
