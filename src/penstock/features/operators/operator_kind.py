"""What an operator is called, what it takes and what it gives: one value for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from penstock.features.event_column import ColumnType
from penstock.features.operators.operator import Operator

FieldNeed = Literal["number", "scalar", "any"]
"""Which columns a field argument may name: i64 or f64; anything but json; anything."""

ParameterType = Literal["int", "float", "duration", "numbers", "texts"]
"""A duration is given as text ("30m") or ms, and passed on in ms."""

WindowUse = Literal["optional", "required", "none"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument that is not a field. Without a default it is required."""

    name: str
    type: ParameterType
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Arguments:
    """Checked arguments of one feature. A table passes the types of the named columns too."""

    field_types: tuple[ColumnType, ...]  # in the order of the kind's fields
    parameters: Mapping[str, Any]  # every parameter of the kind; durations in ms
    window_ms: int | None  # None: since the first event


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """Immutable. `output` is the type of the value, or a function of the fields' types."""

    name: str
    summary: str  # one sentence for the table in the docs
    fields: tuple[tuple[str, FieldNeed], ...]
    parameters: tuple[Parameter, ...]
    window: WindowUse
    output: ColumnType | Callable[[tuple[ColumnType, ...]], ColumnType]
    make: Callable[[Arguments], Operator]
    row_bytes: Callable[[Arguments], int]  # of a key (or cell) with a full state, about
    error: str = ""  # of a sketch: what its value may be off by, and above which size
    # Rows are slots of keys although the feature has a window: the operator honours it by itself.
    is_self_windowed: bool = False
