"""What it takes to compute a feature table: its event, steps, key and features, with all types."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.features.definition_nodes import EventType
from penstock.features.event_column import ColumnType
from penstock.features.expression_evaluation import CheckedExpression
from penstock.features.operators.operator_kind import Arguments, OperatorKind
from penstock.features.steps import StepChain
from penstock.features.windows import Window
from penstock.projection_types import GapPolicy

Kinds = Mapping[str, OperatorKind]


@dataclass(frozen=True, slots=True)
class FeaturePlan:
    """One feature of a table. Immutable."""

    name: str
    kind: OperatorKind
    fields: tuple[str, ...]  # columns after the steps, in the order of the kind's fields
    arguments: Arguments
    window: Window
    where: CheckedExpression | None
    output: ColumnType
    checksum: str  # changes when its values do


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table with everything that it is built on. Immutable."""

    name: str
    event: EventType
    chain: StepChain  # of the derived events and of the table: from the event's columns
    key: tuple[str, ...]
    features: tuple[FeaturePlan, ...]
    cold_after_ms: int | None
    checksum: str  # changes when the events are grouped in another way
    on_gap: GapPolicy = "accept"

    @property
    def key_types(self) -> tuple[ColumnType, ...]:
        """The types of the key's columns."""
        return tuple(self.chain.schema[name] for name in self.key)

    @property
    def output_schema(self) -> dict[str, ColumnType]:
        """The types of a row: of the key, then of the features."""
        key = dict(zip(self.key, self.key_types, strict=True))
        return key | {feature.name: feature.output for feature in self.features}


def checksum_of(value: Any) -> str:
    """Of a JSON-able value, whatever the order of its objects."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:32]
