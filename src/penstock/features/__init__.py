"""Features: aggregates per key, computed on the log as it grows.

    from penstock import features

    @features.event
    class Ride:
        rider: str
        fare: float

    @features.table(key="rider")
    def RiderFeatures(rides: Ride):
        return rides.agg(
            rides_1h=features.count(window="1h"),
            spend_1d=features.sum("fare", window="1d"),
        )

    definition = features.definition(RiderFeatures)

Besides the names below, each operator is a function of this module: `help(features.count)`.
"""

from importlib.util import find_spec

from penstock.features.column_expression import (
    ColumnExpression,
    coalesce,
    col,
    greatest,
    if_else,
    least,
    lit,
    quadkey,
)
from penstock.features.decorators import definition, document, event, table
from penstock.features.definition import Definition
from penstock.features.definition_diff import differences
from penstock.features.event_chain import (
    AggregatedChain,
    Aggregation,
    DeclaredEvent,
    DeclaredTable,
    EventChain,
    Grouping,
)
from penstock.features.operator_functions import OperatorFunction, operator_named, operator_names
from penstock.features.windows import Window, hopping, sliding, tumbling

__all__ = [
    "AggregatedChain",
    "Aggregation",
    "ColumnExpression",
    "DeclaredEvent",
    "DeclaredTable",
    "Definition",
    "EventChain",
    "Grouping",
    "Window",
    "coalesce",
    "col",
    "definition",
    "differences",
    "document",
    "event",
    "greatest",
    "hopping",
    "if_else",
    "least",
    "lit",
    "quadkey",
    "sliding",
    "table",
    "tumbling",
]


def __getattr__(name: str) -> OperatorFunction:
    """An operator. They are made when they are first used, from the declarations of all kinds."""
    # `from penstock.features import windows` asks here first.
    is_module = find_spec(f"{__name__}.{name}") is not None
    function = None if is_module or name.startswith("__") else operator_named(name)
    if function is None:
        raise AttributeError(f"module {__name__!r} has no attribute or operator {name!r}")
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *operator_names()})
