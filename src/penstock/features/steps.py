"""Steps: what turns one event into a derived one, a column at a time.

All columns of one step are computed from what was there before the step, so that their order does
not matter. A filter leaves the columns as they are and says which events are left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from penstock.errors import InvalidArgument
from penstock.features.event_column import NUMPY_TYPES, Bools, ColumnType, EventColumn
from penstock.features.expression import Expression, applied, column
from penstock.features.expression_evaluation import Schema, checked, checked_predicate
from penstock.features.names import name_of, nearest, shown


class FilterStep(msgspec.Struct, frozen=True):
    """Keeps the events for which this is true."""

    where: Expression


class SelectStep(msgspec.Struct, frozen=True):
    """Keeps these columns."""

    fields: tuple[str, ...]


class DropStep(msgspec.Struct, frozen=True):
    """Removes these columns."""

    fields: tuple[str, ...]


class RenameStep(msgspec.Struct, frozen=True):
    """Gives columns other names, all at once: old name to new name."""

    fields: Mapping[str, str]


class WithColumnsStep(msgspec.Struct, frozen=True):
    """Adds columns, or replaces those of the same name."""

    columns: Mapping[str, Expression]


class CastStep(msgspec.Struct, frozen=True):
    """Converts columns."""

    fields: Mapping[str, ColumnType]


class FillStep(msgspec.Struct, frozen=True):
    """Replaces null by these values."""

    values: Mapping[str, int | float | bool | str]


Step = FilterStep | SelectStep | DropStep | RenameStep | WithColumnsStep | CastStep | FillStep

EventColumns = Mapping[str, EventColumn]
Run = Callable[[dict[str, EventColumn], int], dict[str, EventColumn] | Bools]

_FILLS: Final[dict[ColumnType, tuple[type, ...]]] = {
    "i64": (int,),
    "f64": (int, float),
    "bool": (bool,),
    "str": (str,),
}


@dataclass(frozen=True, slots=True)
class StepChain:
    """Checked steps. Immutable. `schema` has the columns that they leave."""

    schema: Schema
    runs: tuple[Run, ...] = ()

    def followed_by(self, step: Step) -> StepChain:
        """With one step more. Raises InvalidArgument if it does not fit the columns."""
        schema, run = _checked_step(step, self.schema)
        return StepChain(schema, (*self.runs, run))

    def run(self, columns: EventColumns, count: int) -> tuple[EventColumns, Bools]:
        """The columns after the steps, still of all `count` events, and which of those are left."""
        found = dict(columns)
        passes = np.ones(count, np.bool_)
        for run in self.runs:
            given = run(found, count)
            if isinstance(given, dict):
                found = given
            else:
                passes = passes & given
        return found, passes


def _checked_step(step: Step, schema: Schema) -> tuple[Schema, Run]:
    match step:
        case FilterStep():
            predicate = checked_predicate(step.where, schema)
            return schema, predicate.passes
        case SelectStep():
            for name in step.fields:
                type_of(name, schema)
            return _picked({name: name for name in step.fields}, schema)
        case DropStep():
            for name in step.fields:
                type_of(name, schema)
            return _picked({name: name for name in schema if name not in step.fields}, schema)
        case RenameStep():
            return _renamed(step, schema)
        case WithColumnsStep():
            return _with_columns(step.columns, schema)
        case CastStep():
            casts = {
                name: applied(f"cast {to}", [_known(name, schema)])
                for name, to in step.fields.items()
            }
            return _with_columns(casts, schema)
        case FillStep():
            return _filled(step, schema)


def _picked(sources: dict[str, str], schema: Schema) -> tuple[Schema, Run]:
    if not sources:
        raise InvalidArgument("no column is left: expected at least one")

    def run(columns: dict[str, EventColumn], count: int) -> dict[str, EventColumn]:
        return {name: columns[source] for name, source in sources.items()}

    return {name: schema[source] for name, source in sources.items()}, run


def _renamed(step: RenameStep, schema: Schema) -> tuple[Schema, Run]:
    for old, new in step.fields.items():
        type_of(old, schema)
        name_of(new, "column name")
    sources: dict[str, str] = {}
    for name in schema:
        new = step.fields.get(name, name)
        if new in sources:
            raise InvalidArgument(f"two columns would have the name {new!r}")
        sources[new] = name
    return _picked(sources, schema)


def _with_columns(made: Mapping[str, Expression], schema: Schema) -> tuple[Schema, Run]:
    computed = {name: checked(expression, schema) for name, expression in made.items()}
    types = {name: expression.type for name, expression in computed.items()}

    def run(columns: dict[str, EventColumn], count: int) -> dict[str, EventColumn]:
        return columns | {
            name: expression.evaluate(columns, count) for name, expression in computed.items()
        }

    return {**schema, **types}, run


def _filled(step: FillStep, schema: Schema) -> tuple[Schema, Run]:
    values: dict[str, Any] = {}
    for name, value in step.values.items():
        kind = type_of(name, schema)
        fits = isinstance(value, _FILLS.get(kind, ())) and isinstance(value, bool) == (
            kind == "bool"
        )
        if not fits or (kind == "i64" and not -(1 << 63) <= int(value) < 1 << 63):
            raise InvalidArgument(f"column {name!r} is of type {kind}: {shown(value)} is not")
        values[name] = value

    def run(columns: dict[str, EventColumn], count: int) -> dict[str, EventColumn]:
        return columns | {
            name: _without_null(columns[name], value) for name, value in values.items()
        }

    return schema, run


def _without_null(given: EventColumn, value: Any) -> EventColumn:
    if given.is_present.all():
        return given
    values = given.values.astype(NUMPY_TYPES[given.type], copy=True)
    values[~given.is_present] = value
    return EventColumn(given.type, values, np.ones(len(values), np.bool_))


def _known(name: str, schema: Schema) -> Expression:
    type_of(name, schema)
    return column(name)


def type_of(name: object, schema: Schema) -> ColumnType:
    """The type of a column. Raises InvalidArgument with the nearest name if there is none."""
    if not isinstance(name, str) or name not in schema:
        near = nearest(name, schema)
        raise InvalidArgument(f"unknown column {shown(name)}; {near}")
    return schema[name]


def columns_read(steps: Sequence[Step]) -> frozenset[str]:
    """The names that the steps mention as columns they read."""
    found: set[str] = set()
    for step in steps:
        match step:
            case FilterStep():
                found |= step.where.columns
            case WithColumnsStep():
                for expression in step.columns.values():
                    found |= expression.columns
            case SelectStep() | DropStep():
                found.update(step.fields)
            case RenameStep() | CastStep():
                found.update(step.fields)
            case FillStep():
                found.update(step.values)
    return frozenset(found)
