"""The nodes of a definition: event types, derived events, feature tables. Frozen values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal

import msgspec

from penstock import limits
from penstock.features.event_column import ColumnType
from penstock.features.expression import Expression
from penstock.features.steps import Step
from penstock.features.windows import FOREVER, Window
from penstock.projection_types import GapPolicy

COLUMN_TYPES: Final[tuple[ColumnType, ...]] = ("i64", "f64", "bool", "str", "json")
KEY_TYPES: Final[tuple[ColumnType, ...]] = ("i64", "str", "bool")

AHEAD_MS: Final = 3_600_000  # of an event time that does not say it

Sync = Literal["periodic", "per_event"]


class EventField(msgspec.Struct, frozen=True):
    """The type of one field. A field that is not optional is in every event, and is not null."""

    type: ColumnType
    is_optional: bool = False


class EventTime(msgspec.Struct, frozen=True):
    """The time of an event is a field of it, in ms since 1970."""

    field: str
    lateness_ms: int = 0  # an event that is older than the newest by more than this is dropped
    ahead_ms: int = AHEAD_MS  # an event that is later than its record by more than this is bad


class Dedupe(msgspec.Struct, frozen=True):
    """An event with the same value of the field as one within the window is counted once."""

    field: str
    window_ms: int
    memory_max: int = limits.PROJECTION_BYTES_MAX  # bytes of the ids of the window


class EventType(msgspec.Struct, frozen=True):
    """Events of one flat schema, the records of one topic."""

    name: str
    topic: str
    fields: Mapping[str, EventField]
    time: EventTime | None = None  # None: the time at which the log took the record
    dedupe: Dedupe | None = None
    sync: Sync = "periodic"
    cold_after_ms: int | None = None  # of the tables that do not say it themselves
    on_gap: GapPolicy = "accept"  # the same

    @property
    def schema(self) -> dict[str, ColumnType]:
        """The types of the columns."""
        return {name: declared.type for name, declared in self.fields.items()}


class DerivedEvent(msgspec.Struct, frozen=True):
    """Steps over an event type or another derived event."""

    name: str
    upstream: str
    steps: tuple[Step, ...] = ()


class Feature(msgspec.Struct, frozen=True):
    """One operator with its arguments."""

    name: str
    op: str
    fields: Mapping[str, str]  # argument of the operator -> column
    parameters: Mapping[str, Any]  # as in JSON: durations are texts
    window: Window = FOREVER
    where: Expression | None = None


class FeatureTable(msgspec.Struct, frozen=True):
    """Features of each key of an event type or derived event. Without a key there is one row."""

    name: str
    upstream: str
    key: tuple[str, ...]
    features: Mapping[str, Feature]
    steps: tuple[Step, ...] = ()
    cold_after_ms: int | None = None  # a row without events for this long is removed
    memory_max: int | None = None  # bytes; keys beyond it are on disk
    on_gap: GapPolicy | None = None


class DefinitionNodes(msgspec.Struct, frozen=True):
    """The nodes of one document, by name. Not checked."""

    events: Mapping[str, EventType] = {}
    derived: Mapping[str, DerivedEvent] = {}
    tables: Mapping[str, FeatureTable] = {}

    def upstreams(self, name: str) -> list[DerivedEvent]:
        """The derived events from a table's or event's upstream to its event type, nearest last.
        Ends at a name that is no derived event, or at one that was there already."""
        found: list[DerivedEvent] = []
        while name in self.derived and self.derived[name] not in found:
            found.append(self.derived[name])
            name = found[-1].upstream
        return found[::-1]

    def with_nodes(self, others: DefinitionNodes) -> DefinitionNodes:
        """These, replaced and followed by the others."""
        return DefinitionNodes(
            {**self.events, **others.events},
            {**self.derived, **others.derived},
            {**self.tables, **others.tables},
        )

    def part(self, table: str, features: Collection[str]) -> DefinitionNodes:
        """One table with some of its features, and what it is built on."""
        found = self.tables[table]
        kept = {name: one for name, one in found.features.items() if name in features}
        derived = {one.name: one for one in self.upstreams(found.upstream)}
        root = self.root(found.upstream)
        return DefinitionNodes(
            {root: self.events[root]},
            derived,
            {table: msgspec.structs.replace(found, features=kept)},
        )

    def root(self, upstream: str) -> str:
        """The name of the event type that an upstream is built on."""
        derived = self.upstreams(upstream)
        return derived[0].upstream if derived else upstream
