"""The first and the last few values, and the value or the time of some events ago."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.features.event_column import ColumnType
from penstock.features.operators.operator import Fold, Operator
from penstock.features.operators.operator_kind import (
    Arguments,
    FieldNeed,
    OperatorKind,
    Parameter,
)
from penstock.features.operators.row_lists import RowLists
from penstock.features.operators.value_arrays import is_object

N_MAX = 1024
ANY: tuple[tuple[str, FieldNeed], ...] = (("field", "any"),)


class FirstN(RowLists):
    """The first values of a row, and then no more."""

    def __init__(self, type_: ColumnType, n: int) -> None:
        super().__init__(type_, n, is_ring=False)

    def fold(self, fold: Fold) -> None:
        self.append(fold.rows, fold.passes, fold.fields[0])

    def value(self, rows: Sequence[int], now_ms: int) -> list[Any]:
        found: list[Any] = []
        for row in rows:
            found += self.values(row)
            if len(found) >= self.limit:
                break
        return found[: self.limit]


class LastN(RowLists):
    """The last values of a row."""

    def __init__(self, type_: ColumnType, n: int) -> None:
        super().__init__(type_, n, is_ring=True)

    def fold(self, fold: Fold) -> None:
        self.append(fold.rows, fold.passes, fold.fields[0])

    def latest(self, rows: Sequence[int]) -> list[Any]:
        """Of all rows, oldest first."""
        found: list[Any] = []
        for row in reversed(rows):
            found = self.values(row) + found
            if len(found) >= self.limit:
                break
        return found[-self.limit :]

    def value(self, rows: Sequence[int], now_ms: int) -> Any:
        return self.latest(rows)


class Lag(LastN):
    """The oldest of the last n + 1 values."""

    def __init__(self, type_: ColumnType, n: int) -> None:
        super().__init__(type_, n + 1)

    def value(self, rows: Sequence[int], now_ms: int) -> Any:
        found = self.latest(rows)
        return found[0] if len(found) == self.limit else None


class TimeSinceLastN(RowLists):
    """The latest n times of events that pass: by time, not by place in the log."""

    def __init__(self, n: int) -> None:
        super().__init__("i64", n, is_ring=True)

    def fold(self, fold: Fold) -> None:
        self.append_times(fold.rows, fold.passes, fold.ts)

    def value(self, rows: Sequence[int], now_ms: int) -> int | None:
        times = sorted(time for row in rows for time in self.values(row))
        return now_ms - times[-self.limit] if len(times) >= self.limit else None


def row_bytes(arguments: Arguments, more: int = 0) -> int:
    """Of a row with n values, and so many more."""
    n: int = arguments.parameters["n"]
    is_text = bool(arguments.field_types) and is_object(arguments.field_types[0])
    return 12 + (n + more) * (8 + 60 if is_text else 8)


def of_field(
    name: str,
    summary: str,
    make: Callable[[ColumnType, int], Operator],
    output: ColumnType | Callable[[tuple[ColumnType, ...]], ColumnType],
    n: Parameter,
    more: int = 0,
) -> OperatorKind:
    return OperatorKind(
        name=name,
        summary=summary,
        fields=ANY,
        parameters=(n,),
        window="optional",
        output=output,
        make=lambda arguments: make(arguments.field_types[0], arguments.parameters["n"]),
        row_bytes=lambda arguments: row_bytes(arguments, more),
    )


N = Parameter("n", "int", minimum=1, maximum=N_MAX, is_required=True)

KINDS = (
    of_field(
        "first_n",
        "The first `n` values that are not null, in the order of the log.",
        FirstN,
        "json",
        N,
    ),
    of_field("last_n", "The last `n` values that are not null, oldest first.", LastN, "json", N),
    of_field(
        "lag",
        "The value `n` values before the last one; null with fewer than `n` + 1 values.",
        Lag,
        lambda types: types[0],
        Parameter("n", "int", default=1, minimum=1, maximum=N_MAX),
        more=1,
    ),
    OperatorKind(
        name="time_since_last_n",
        summary="The time of the read minus the `n`-th latest time of an event, in ms; null with "
        "fewer than `n` events.",
        fields=(),
        parameters=(N,),
        window="none",
        output="i64",
        make=lambda arguments: TimeSinceLastN(arguments.parameters["n"]),
        row_bytes=row_bytes,
    ),
)
