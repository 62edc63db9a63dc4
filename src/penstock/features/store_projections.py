"""The projections that a feature store runs: the parts of its tables, and indexes of known ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from penstock.features.dedupe_index import DedupeIndex
from penstock.features.definition import Definition
from penstock.features.definition_nodes import EventType
from penstock.features.event_decoder import FieldSchema
from penstock.features.memory_shares import MemoryShares
from penstock.features.part_memory import PartMemory
from penstock.features.part_plan import PartSpec
from penstock.features.table_part import TablePart
from penstock.features.table_plan import TablePlan
from penstock.projections.host import ProjectionDefinition, ProjectionHost

_SLACK: Final = 8  # one in so many


def plan_of(part: PartSpec | ProjectionDefinition) -> TablePlan:
    """How the features of one part are computed."""
    definition = Definition.parse(bytes(part.definition))
    (table,) = definition.tables
    return definition.plan(table)


def empty_part(
    host: ProjectionHost, shares: MemoryShares, definition: ProjectionDefinition
) -> TablePart:
    """A part that takes no more memory than its share."""
    plan, name = plan_of(definition), definition.name
    folder = host.spill_folder(definition)
    return TablePart(plan, PartMemory(plan, folder, lambda used: shares.bytes_max(name, used)))


def empty_index(definition: ProjectionDefinition) -> DedupeIndex:
    event, field, kind, window_ms = msgspec.json.decode(definition.definition)
    return DedupeIndex(event, field, FieldSchema(kind), window_ms)


def index_definition(event: EventType) -> bytes:
    """Of the index of an event type that has a dedupe window."""
    if event.dedupe is None:
        raise AssertionError("the event has no dedupe")
    field = event.dedupe.field
    kind = event.fields[field].type
    return DedupeIndex(event.name, field, FieldSchema(kind), event.dedupe.window_ms).definition


def reconcile_indexes(host: ProjectionHost, kind: str, events: Iterable[EventType]) -> None:
    """Run the indexes of these event types and no others."""
    wanted = {event.name: event for event in events if event.dedupe is not None}
    for held in host.all(kind):
        name, definition = held.definition.name, bytes(held.definition.definition)
        event = wanted.get(name)
        if event is None or (held.definition.topic, definition) != (
            event.topic,
            index_definition(event),
        ):
            host.drop(kind, name)
    for name, event in wanted.items():
        most = index_bytes_max(event)
        if host.find(kind, name) is None:
            host.create(kind, name, event.topic, index_definition(event), bytes_max=most)
        else:
            host.change(kind, name, bytes_max=most)


def index_bytes_max(event: EventType) -> int:
    """The memory that an index of ids needs to stop. Pushes are refused before: what is between are
    records that were appended to the topic without a push."""
    if event.dedupe is None:
        raise AssertionError("the event has no dedupe")
    return event.dedupe.memory_max + event.dedupe.memory_max // _SLACK
