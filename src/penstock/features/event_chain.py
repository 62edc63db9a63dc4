"""Derived events and feature tables as Python code: chains of steps, grouped and aggregated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import InvalidArgument
from penstock.features.column_expression import ColumnExpression, Scalar, expression_of
from penstock.features.expression import ColumnName
from penstock.features.names import shown


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One feature without its name: an operator with its arguments, as JSON."""

    members: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class EventChain:
    """Steps over a declared event. Immutable: each method gives a new chain."""

    upstream: DeclaredEvent | None
    steps: tuple[Mapping[str, Any], ...] = ()

    def filter(self, where: ColumnExpression) -> EventChain:
        """Keep the events for which this is true."""
        return self._with({"op": "filter", "where": str(expression_of(where))})

    def select(self, *columns: str) -> EventChain:
        """Keep these columns."""
        return self._with({"op": "select", "fields": list(columns)})

    def drop(self, *columns: str) -> EventChain:
        """Remove these columns."""
        return self._with({"op": "drop", "fields": list(columns)})

    def rename(self, **names: str) -> EventChain:
        """Give columns other names: old="new"."""
        return self._with({"op": "rename", "fields": names})

    def with_columns(self, **columns: ColumnExpression | Scalar) -> EventChain:
        """Add columns, or replace those of the same name."""
        texts = {name: str(expression_of(value)) for name, value in columns.items()}
        return self._with({"op": "with_columns", "columns": texts})

    def map(self, **columns: ColumnExpression | Scalar) -> EventChain:
        """Another name for `with_columns`."""
        return self.with_columns(**columns)

    def cast(self, **types: str | type) -> EventChain:
        """Convert columns: fare="float"."""
        names = {
            name: kind.__name__ if isinstance(kind, type) else kind for name, kind in types.items()
        }
        return self._with({"op": "cast", "fields": names})

    def fillna(self, **values: int | float | bool | str) -> EventChain:
        """Replace null by these values."""
        return self._with({"op": "fillna", "values": values})

    def group_by(self, *keys: str | ColumnExpression, **computed: ColumnExpression) -> Grouping:
        """Group by columns, and by columns that are computed here."""
        chain = self.with_columns(**computed) if computed else self
        return Grouping(chain, (*(_column(key) for key in keys), *computed))

    def agg(self, **features: Aggregation) -> AggregatedChain:
        """Aggregate: one row, unless the table has a key."""
        return AggregatedChain(self, None, _aggregations(features))

    def named(self, name: str) -> DeclaredEvent:
        """Declare this chain as a derived event."""
        source = self.source
        node = {"name": name, "from": source.name, "steps": list(self.steps)}
        return DeclaredEvent(None, (), name, "derived", node, source)

    @property
    def source(self) -> DeclaredEvent:
        """The declared event that the steps begin with."""
        if self.upstream is None:
            raise AssertionError("a chain begins with an event")
        return self.upstream

    def _with(self, step: Mapping[str, Any]) -> EventChain:
        return EventChain(self.source, (*self.steps, step))


@dataclass(frozen=True, eq=False)
class DeclaredEvent(EventChain):
    """An event type or a derived event. Immutable. Its chains begin with itself."""

    name: str = ""
    section: str = "events"  # of the definition
    node: Mapping[str, Any] = field(default_factory=dict)
    built_on: DeclaredEvent | None = None

    @property
    def source(self) -> DeclaredEvent:
        """Itself."""
        return self

    def to_json(self) -> dict[str, list[Mapping[str, Any]]]:
        """A definition of this event and of those that it is built on. Not checked."""
        found: dict[str, list[Mapping[str, Any]]] = {"events": [], "derived": [], "tables": []}
        one: DeclaredEvent | None = self
        while one is not None:
            found[one.section].append(one.node)
            one = one.built_on
        return found


@dataclass(frozen=True, slots=True)
class Grouping:
    """A chain and the columns that it is grouped by."""

    chain: EventChain
    key: tuple[str, ...]

    def agg(self, **features: Aggregation) -> AggregatedChain:
        """Aggregate each group: name=operator."""
        return AggregatedChain(self.chain, self.key, _aggregations(features))


@dataclass(frozen=True, slots=True)
class AggregatedChain:
    """What a feature table is made of, without its name."""

    chain: EventChain
    key: tuple[str, ...] | None  # None: there was no `group_by`
    features: Mapping[str, Mapping[str, Any]]

    def named(self, name: str, options: Mapping[str, Any]) -> DeclaredTable:
        """Declare this as a feature table. Options that are None are left out."""
        source = self.chain.source
        node: dict[str, Any] = {"name": name, "from": source.name, "key": list(self.key or ())}
        if self.chain.steps:
            node["steps"] = list(self.chain.steps)
        node |= {option: value for option, value in options.items() if value is not None}
        return DeclaredTable(name, node | {"features": self.features}, source)


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A feature table. Immutable."""

    name: str
    node: Mapping[str, Any]
    built_on: DeclaredEvent

    def to_json(self) -> dict[str, list[Mapping[str, Any]]]:
        """A definition of this table and of the events that it is built on. Not checked."""
        return self.built_on.to_json() | {"tables": [self.node]}


def _column(key: object) -> str:
    if isinstance(key, ColumnExpression) and len(key.expression.nodes) == 1:
        (node,) = key.expression.nodes
        if isinstance(node, ColumnName):
            return node.name
    if not isinstance(key, str):
        raise InvalidArgument(
            f"invalid key {shown(key)}: expected the name of a column; "
            "name what is computed: group_by(day=col(…))"
        )
    return key


def _aggregations(features: Mapping[str, object]) -> dict[str, Mapping[str, Any]]:
    found = {}
    for name, value in features.items():
        if not isinstance(value, Aggregation):
            raise InvalidArgument(
                f"feature {name!r} is {shown(value)}: expected an operator, such as count()"
            )
        found[name] = value.members
    return found
