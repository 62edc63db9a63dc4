"""Expressions checked against a schema, and computed over a batch of events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import InvalidArgument
from penstock.features.event_column import NUMPY_TYPES, Bools, ColumnType, EventColumn
from penstock.features.expression import Apply, ColumnName, Constant, Expression, ValueType
from penstock.features.expression_functions import FUNCTIONS
from penstock.features.expression_lexer import InvalidExpression
from penstock.features.expression_parser import parse
from penstock.features.expression_rules import OperandMismatch, Signature
from penstock.features.names import nearest

Schema = Mapping[str, ColumnType]


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """An expression whose types are known. Immutable."""

    expression: Expression
    type: ColumnType
    _signatures: tuple[Signature | None, ...]  # of each function among the nodes

    def evaluate(self, columns: Mapping[str, EventColumn], count: int) -> EventColumn:
        """Its value for each of `count` events."""
        if not count:
            none = np.zeros(0, np.bool_)
            return EventColumn(self.type, np.zeros(0, NUMPY_TYPES[self.type]), none)
        stack: list[EventColumn | Constant] = []
        for node, signature in zip(self.expression.nodes, self._signatures, strict=True):
            if isinstance(node, Constant):
                stack.append(node)
            elif isinstance(node, ColumnName):
                stack.append(columns[node.name])
            elif signature is not None:
                taken = stack[-node.count :]
                del stack[-node.count :]
                operands = [
                    _as(kind, one, count) for kind, one in zip(signature.takes, taken, strict=True)
                ]
                stack.append(FUNCTIONS[node.function].run(operands))
        return _as(self.type, stack[0], count)

    def passes(self, columns: Mapping[str, EventColumn], count: int) -> Bools:
        """Where it is true: not where it is false or null."""
        found = self.evaluate(columns, count)
        passing: Bools = found.values & found.is_present
        return passing


def checked(expression: Expression, schema: Schema) -> CheckedExpression:
    """Infer the types. Raises InvalidArgument with the place in the text."""
    if not expression.source:  # built in Python: so that an error has a text to point into
        expression = parse(str(expression))
    stack: list[tuple[ValueType, int]] = []
    signatures: list[Signature | None] = []
    for node, place in zip(expression.nodes, expression.places, strict=True):
        signature: Signature | None = None
        if isinstance(node, Constant):
            stack.append((node.type, place))
        elif isinstance(node, ColumnName):
            if node.name not in schema:
                near = nearest(node.name, schema)
                raise InvalidExpression(
                    f"unknown column {node.name!r}; {near}", expression.source, place
                )
            stack.append((schema[node.name], place))
        else:
            taken = stack[-node.count :]
            del stack[-node.count :]
            signature = _signature(node, taken, expression.source)
            stack.append((signature.gives, place))
        signatures.append(signature)
    ((kind, place),) = stack
    if kind == "null":
        raise InvalidExpression(
            "the type of null is unknown here: write cast(null, i64), for example",
            expression.source,
            place,
        )
    return CheckedExpression(expression, kind, tuple(signatures))


def checked_predicate(expression: Expression, schema: Schema) -> CheckedExpression:
    """As `checked`, of an expression that must be true or false."""
    found = checked(expression, schema)
    if found.type != "bool":
        raise InvalidArgument(
            f"the condition {str(expression)[:80]!r} is of type {found.type}: expected a bool, "
            "such as a comparison"
        )
    return found


def _signature(node: Apply, taken: list[tuple[ValueType, int]], source: str) -> Signature:
    try:
        return FUNCTIONS[node.function].rule([kind for kind, _ in taken])
    except OperandMismatch as error:
        kind, place = taken[error.index]
        raise InvalidExpression(
            f"`{FUNCTIONS[node.function].syntax}` expects {error.expected}, and got {kind}",
            source,
            place,
        ) from None


def _as(kind: ColumnType, value: EventColumn | Constant, count: int) -> EventColumn:
    """A value as a column of the type that is needed: itself, an i64 as f64, or null as any."""
    if isinstance(value, Constant):
        single: Any = np.empty((), NUMPY_TYPES[kind])
        is_object = NUMPY_TYPES[kind] is np.object_
        single[()] = value.value if value.value is not None or is_object else 0
        has_value = np.broadcast_to(np.bool_(value.value is not None), count)
        return EventColumn(kind, np.broadcast_to(single, count), has_value)
    if value.type == kind:
        return value
    return EventColumn(kind, value.values.astype(NUMPY_TYPES[kind]), value.is_present)
