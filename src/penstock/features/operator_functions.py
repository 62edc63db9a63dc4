"""The operators as Python functions: `sum("fare", window="1h")`.

Each is made from the declaration of its kind, which also gives its signature and its help.
"""

from __future__ import annotations

from inspect import Parameter as Argument
from inspect import Signature
from typing import Any, Final, Protocol

from penstock.errors import InvalidArgument
from penstock.features.column_expression import ColumnExpression
from penstock.features.event_chain import Aggregation
from penstock.features.expression_parser import parse
from penstock.features.names import shown
from penstock.features.operator_arguments import NEEDS, parameter_value
from penstock.features.operators.operator_kind import OperatorKind, Parameter
from penstock.features.operators.operator_names import NAMES
from penstock.features.windows import window_of

ALIASES: Final = {"ema": "ewma"}
"""Further names of operators in Python."""


class OperatorFunction(Protocol):
    """A function that makes a feature."""

    def __call__(self, *fields: Any, **arguments: Any) -> Aggregation:
        """The fields by position or name, the rest by name."""


def operator_names() -> list[str]:
    """The names of all operators."""
    from penstock.features.operators.catalogue import KINDS

    return [*KINDS, *ALIASES]


def operator_named(name: str) -> OperatorFunction | None:
    """The function of the operator of this name, if there is one."""
    if ALIASES.get(name, name) not in NAMES:
        return None  # before the catalogue is loaded: Python asks for the names of modules too
    from penstock.features.operators.catalogue import KINDS

    kind = KINDS.get(ALIASES.get(name, name))
    return operator_function(kind) if kind else None


def operator_function(kind: OperatorKind) -> OperatorFunction:
    """The function of an operator."""
    signature = _signature(kind)
    parameters = {parameter.name: parameter for parameter in kind.parameters}
    fields = {_argument(name): name for name, _ in kind.fields}

    def make(*given_fields: Any, **given: Any) -> Aggregation:
        try:
            bound = signature.bind(*given_fields, **given)
        except TypeError as error:
            raise TypeError(f"{kind.name}(): {error}") from None
        members: dict[str, Any] = {"op": kind.name}
        for name, value in bound.arguments.items():
            if name in fields:
                members[fields[name]] = _field(kind, name, value)
            elif value is not None:
                members[name] = _member(parameters.get(name), name, value)
        return Aggregation(members)

    make.__name__ = make.__qualname__ = kind.name
    make.__module__ = "penstock.features"
    make.__doc__ = documentation(kind)
    make.__signature__ = signature  # type: ignore[attr-defined]
    return make


def _argument(field: str) -> str:
    """`lat_field` is `lat` in Python."""
    return field.removesuffix("_field")


def _signature(kind: OperatorKind) -> Signature:
    arguments = [
        Argument(_argument(name), Argument.POSITIONAL_OR_KEYWORD, annotation=str)
        for name, _ in kind.fields
    ]
    for one in kind.parameters:
        default = Argument.empty if one.is_required else one.default
        arguments.append(Argument(one.name, Argument.KEYWORD_ONLY, default=default))
    if kind.window != "none":
        default = Argument.empty if kind.window == "required" else None
        arguments.append(Argument("window", Argument.KEYWORD_ONLY, default=default))
    arguments.append(Argument("where", Argument.KEYWORD_ONLY, default=None))
    return Signature(arguments, return_annotation=Aggregation)


def documentation(kind: OperatorKind) -> str:
    """The help of an operator's function."""
    lines = [kind.summary, ""]
    lines += [
        f"{_argument(name)}: the name of a column, {NEEDS[need][1]}" for name, need in kind.fields
    ]
    lines += [f"{one.name}: {_described(one)}" for one in kind.parameters]
    if kind.window != "none":
        lines.append('window: "1h"')
        if not kind.is_self_windowed:
            lines[-1] += ', tumbling("1h") or hopping("1h", every="5m")'
        if kind.window == "optional":
            lines[-1] += "; without one, all events count"
    lines.append(
        "where: a condition; events that do not meet it are ignored, unless said otherwise"
    )
    output = "the type of the column" if callable(kind.output) else kind.output
    lines += ["", f"Result: {output}"]
    if kind.error:
        lines += ["", f"Accuracy: {kind.error}"]
    return "\n".join(lines)


def _described(parameter: Parameter) -> str:
    names = {
        "int": "an integer",
        "float": "a number",
        "duration": 'a duration such as "30m"',
        "numbers": "numbers",
        "texts": "texts",
    }
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("from", parameter.minimum), ("to", parameter.maximum))
        if limit is not None
    ]
    default = [] if parameter.is_required else [f"default {parameter.default!r}"]
    return ", ".join([" ".join([names[parameter.type], *limits]), *default])


def _field(kind: OperatorKind, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(
            f"{kind.name}: invalid {name} {shown(value)}: expected the name of a column; "
            "for an expression, make a column of it with with_columns"
        )
    return value


def _member(parameter: Parameter | None, name: str, value: Any) -> Any:
    if name == "window":
        return window_of(value).to_json()
    if name == "where":
        if isinstance(value, str):
            return str(parse(value))
        if not isinstance(value, ColumnExpression):
            raise InvalidArgument(f"invalid where {shown(value)}: expected an expression")
        return str(value)
    return value if parameter is None else parameter_value(parameter, value)
