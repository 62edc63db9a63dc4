"""The arguments of operators, checked against what their kind declares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.errors import InvalidArgument
from penstock.features.durations import duration_ms, duration_text
from penstock.features.event_column import ColumnType
from penstock.features.names import shown
from penstock.features.operators.operator_kind import (
    Arguments,
    FieldNeed,
    OperatorKind,
    Parameter,
    ParameterType,
)
from penstock.features.windows import Window

ITEMS_MAX: Final = 1024  # of a list that is a parameter

NEEDS: Final[dict[FieldNeed, tuple[tuple[ColumnType, ...], str]]] = {
    "number": (("i64", "f64"), "a number (i64 or f64)"),
    "scalar": (("i64", "f64", "bool", "str"), "anything but json"),
    "any": (("i64", "f64", "bool", "str", "json"), "any type"),
}


def feature_members(kind: OperatorKind) -> list[str]:
    """The members that a feature of this kind may have in JSON."""
    fields = [name for name, _ in kind.fields]
    return ["op", *fields, *(one.name for one in kind.parameters), "window", "where"]


def parameter_value(parameter: Parameter, value: object) -> Any:
    """A parameter as JSON spells it: numbers of the declared type, a duration as a text."""
    return _READ[parameter.type](parameter, value)


def arguments_of(
    kind: OperatorKind,
    field_types: tuple[ColumnType, ...],
    given: Mapping[str, Any],
    window: Window,
) -> Arguments:
    """Checked arguments, with the defaults of what was not given."""
    parameters: dict[str, Any] = {}
    for parameter in kind.parameters:
        value = given.get(parameter.name)
        if value is None and parameter.is_required:
            raise InvalidArgument(f"{kind.name} needs {parameter.name!r}")
        if value is None:
            value = parameter.default
        elif parameter.type == "duration":
            value = duration_ms(value)
        parameters[parameter.name] = value
    return Arguments(field_types, parameters, None if window.is_forever else window.length_ms)


def window_complaint(kind: OperatorKind, window: Window) -> str | None:
    """What is wrong with the window of a feature, if something is."""
    if kind.window == "none" and not window.is_forever:
        return f"{kind.name} takes no window: it counts since the first event"
    if kind.window == "required" and window.is_forever:
        return f'{kind.name} needs a window, such as "1h"'
    if kind.is_self_windowed and window.kind in ("tumbling", "hopping"):
        return f'{kind.name} takes a sliding window, such as "1h", not one that is {window.kind}'
    return None


def field_complaint(need: FieldNeed, kind: ColumnType) -> str | None:
    """What is wrong with the type of a column that an operator is given, if something is."""
    types, expected = NEEDS[need]
    return None if kind in types else f"of type {kind}: expected {expected}"


def _within(parameter: Parameter, value: Any) -> Any:
    low, high = parameter.minimum, parameter.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        least = "" if low is None else f"at least {low:g}"
        most = "" if high is None else f"at most {high:g}"
        raise InvalidArgument(
            f"invalid {parameter.name} {shown(value)}: expected "
            + " and ".join(limit for limit in (least, most) if limit)
        )
    return value


def _int(parameter: Parameter, value: object) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_type(parameter, value, "an integer")
    return int(_within(parameter, value))


def _float(parameter: Parameter, value: object) -> float:
    if not _is_number(value):
        raise _wrong_type(parameter, value, "a number")
    return float(_within(parameter, value))


def _duration(parameter: Parameter, value: object) -> str:
    return duration_text(int(_within(parameter, duration_ms(value, parameter.name))))


def _numbers(parameter: Parameter, value: object) -> list[float]:
    items = _items(parameter, value, "an array of numbers")
    if not all(_is_number(item) for item in items):
        raise _wrong_type(parameter, value, "an array of numbers")
    return [float(item) for item in items]


def _texts(parameter: Parameter, value: object) -> list[str]:
    items = _items(parameter, value, "an array of texts")
    if not all(isinstance(item, str) for item in items):
        raise _wrong_type(parameter, value, "an array of texts")
    return items


def _items(parameter: Parameter, value: object, expected: str) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not value:
        raise _wrong_type(parameter, value, expected)
    if len(value) > ITEMS_MAX:
        raise InvalidArgument(
            f"{parameter.name} has {len(value)} items: expected at most {ITEMS_MAX}"
        )
    return list(value)


def _is_number(value: object) -> bool:
    try:
        is_finite = math.isfinite(value)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return False
    return is_finite and not isinstance(value, bool)


def _wrong_type(parameter: Parameter, value: object, expected: str) -> InvalidArgument:
    return InvalidArgument(f"invalid {parameter.name} {shown(value)}: expected {expected}")


_READ: Final[dict[ParameterType, Callable[[Parameter, object], Any]]] = {
    "int": _int,
    "float": _float,
    "duration": _duration,
    "numbers": _numbers,
    "texts": _texts,
}


def missing_field(kind: OperatorKind, given: Mapping[str, str]) -> str | None:
    """The first field argument that was not given, as a complaint."""
    for name, need in kind.fields:
        if name not in given:
            return f"{kind.name} needs {name!r}: the name of a column, {NEEDS[need][1]}"
    return None
