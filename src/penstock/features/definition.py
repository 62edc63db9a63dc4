"""Definitions of features: event types, derived events and feature tables.

`Definition.parse` reads and checks one. What does not fit raises `InvalidDefinition`, which has the
path of the place, such as `tables.RiderFeatures.features.rides_1h.window`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from penstock.errors import InvalidArgument
from penstock.features.definition_check import checked_plans
from penstock.features.definition_nodes import (
    Dedupe,
    DefinitionNodes,
    DerivedEvent,
    EventField,
    EventTime,
    EventType,
    Feature,
    FeatureTable,
)
from penstock.features.definition_reader import read_nodes
from penstock.features.definition_writer import to_json
from penstock.features.names import nearest, shown
from penstock.features.part_plan import TableShape
from penstock.features.table_plan import FeaturePlan, Kinds, TablePlan

__all__ = [
    "Dedupe",
    "Definition",
    "DerivedEvent",
    "EventField",
    "EventTime",
    "EventType",
    "Feature",
    "FeaturePlan",
    "FeatureTable",
    "TablePlan",
    "operator_kinds",
]


@dataclass(frozen=True)
class Definition:
    """Checked: every name and type in it fits. Immutable. Names are unique over all nodes.

    Made by `parse`; an empty one by `Definition()`.
    """

    nodes: DefinitionNodes = field(default_factory=DefinitionNodes)
    _plans: Mapping[str, TablePlan] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def parse(
        cls,
        document: bytes | str | Mapping[str, Any],
        *,
        known: Definition | None = None,
        kinds: Kinds | None = None,
    ) -> Definition:
        """Read and check a definition. Nodes of `known` that the document does not name are kept;
        those that it names are replaced. `kinds` are the operators, by default all there are."""
        kinds = operator_kinds() if kinds is None else kinds
        if isinstance(document, (bytes, str)):
            try:
                document = cast(Mapping[str, Any], msgspec.json.decode(document))
            except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
                raise InvalidArgument(f"the definition is no JSON: {error}") from None
        nodes = read_nodes(document, kinds)
        if known is not None:
            nodes = known.nodes.with_nodes(nodes)
        return cls(nodes, checked_plans(nodes, kinds))

    @property
    def events(self) -> Mapping[str, EventType]:
        """The event types by name."""
        return self.nodes.events

    @property
    def topics(self) -> dict[str, bool]:
        """The topics of the event types: is a push to it acknowledged after its sync?"""
        return {event.topic: event.sync == "per_event" for event in self.events.values()}

    @property
    def derived(self) -> Mapping[str, DerivedEvent]:
        """The derived events by name."""
        return self.nodes.derived

    @property
    def tables(self) -> Mapping[str, FeatureTable]:
        """The feature tables by name."""
        return self.nodes.tables

    def to_json(self) -> dict[str, Any]:
        """As JSON, in the order of the declarations. `parse` reads it again."""
        return to_json(self.nodes)

    def canonical(self) -> bytes:
        """JSON that is the same for equal definitions, whatever their order."""
        document = {
            kind: sorted(nodes, key=lambda node: str(node["name"]))
            for kind, nodes in self.to_json().items()
        }
        return msgspec.json.encode(document, order="sorted")

    def plan(self, table: str) -> TablePlan:
        """How to compute a table: its event, all steps, key and features, with their types."""
        if table not in self._plans:
            raise InvalidArgument(f"unknown table {shown(table)}; {nearest(table, self.tables)}")
        return self._plans[table]

    def shape(self, table: str) -> TableShape:
        """Checksums of a table: of what groups its events, and of each feature."""
        plan = self.plan(table)
        return TableShape(plan.checksum, {one.name: one.checksum for one in plan.features})

    def part(self, table: str, features: Collection[str]) -> Definition:
        """A definition with this table and these of its features alone, and what it is built on."""
        plan = self.plan(table)
        nodes = self.nodes.part(table, features)
        kinds = {feature.kind.name: feature.kind for feature in plan.features}
        return Definition(nodes, checked_plans(nodes, kinds))


def operator_kinds() -> Kinds:
    """All operators."""
    from penstock.features.operators.catalogue import KINDS

    return KINDS
