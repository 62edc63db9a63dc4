"""How the columns of a table may change: by rules, never by surprise. Pure.

A column may be added and may widen. Nothing else happens to a table: a project that asks for more is
refused, and a record that does not fit goes to quarantine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from penstock.errors import InvalidArgument
from penstock.lake.kinds import digits_of, widens

COLUMNS_MAX = 1000
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_SEEN_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


class Column(msgspec.Struct, frozen=True):
    """A column of a silver table: the field of the record's JSON object that it is taken from."""

    name: str
    kind: str
    field: str
    required: bool = False


def declared(table: str, stored: Sequence[Column], wanted: Sequence[Column]) -> list[Column]:
    """The table's columns when its project now asks for these, or InvalidArgument. Columns that
    the table found by itself stay."""
    asked = {column.name: column for column in wanted}
    merged: list[Column] = []
    for old in stored:
        new = asked.pop(old.name, None)
        if new is None:
            merged.append(msgspec.structs.replace(old, required=False))
        elif widens(old.kind, new.kind):
            merged.append(new)
        elif widens(new.kind, old.kind):  # it has widened since the project was written
            merged.append(msgspec.structs.replace(new, kind=old.kind))
        else:
            raise InvalidArgument(
                f"silver.{table}.columns.{old.name} is {old.kind} in the table and cannot become "
                f"{new.kind}: give the column or the table another name"
            )
    return merged + list(asked.values())


def grown(
    columns: Sequence[Column],
    seen: Mapping[str, str],
    ranges: Mapping[str, tuple[int, int]],
    taken: Sequence[str] = (),
) -> list[Column]:
    """The columns that records of these types fit in, as far as the rules allow. `seen` has
    Spark's word for each field, `ranges` the least and the greatest whole number of a column."""
    found = [_widened(column, seen.get(column.field, ""), ranges) for column in columns]
    fields = {column.field for column in columns}
    names = {column.name.lower() for column in columns} | {name.lower() for name in taken}
    for field, word in sorted(seen.items()):
        kind = _kind_of_new(word)
        if field in fields or kind is None or not field or field.lower() in names:
            continue
        if len(found) < COLUMNS_MAX:
            found.append(Column(field, kind, field))
            names.add(field.lower())
    return found


def fields_of(word: str) -> dict[str, str]:
    """The fields in Spark's word for an object, `OBJECT<id: BIGINT, name: STRING>`."""
    if not word.startswith("OBJECT<") or not word.endswith(">"):
        return {}
    found = {}
    for part in _split(word[len("OBJECT<") : -1]):
        name, sep, kind = _named(part)
        if sep:
            found[name] = kind
    return found


def _split(text: str) -> list[str]:
    """At the commas that are inside no bracket and no name."""
    parts, depth, quoted, start = [], 0, False, 0
    for at, char in enumerate(text):
        if char == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif char in "<(":
            depth += 1
        elif char in ">)":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _named(part: str) -> tuple[str, str, str]:
    if part.startswith("`"):
        end = part.index("`: ", 1)
        return part[1:end].replace("``", "`"), ":", part[end + 3 :]
    name, sep, kind = part.partition(": ")
    return name, sep, kind


def _kind_of_new(word: str) -> str | None:
    """The type of a field that no column has yet; None while only null was seen."""
    if word in ("", "VOID"):
        return None
    if word.startswith("DECIMAL"):
        return "double"
    simple = {"BIGINT": "long", "DOUBLE": "double", "STRING": "string", "BOOLEAN": "boolean"}
    return simple.get(word, "json")


def _widened(column: Column, word: str, ranges: Mapping[str, tuple[int, int]]) -> Column:
    kind = column.kind
    decimal = _SEEN_DECIMAL.fullmatch(word)
    if kind == "int" and word == "BIGINT":
        low, high = ranges.get(column.name, (0, 0))
        if low < _INT_MIN or high > _INT_MAX:
            kind = "long"
    elif kind in ("int", "long") and (word == "DOUBLE" or decimal is not None):
        kind = "double"
    elif decimal is not None and (digits := digits_of(kind)) is not None:
        scale = max(digits[1], int(decimal[2]))
        whole = max(digits[0] - digits[1], int(decimal[1]) - int(decimal[2]))
        if whole + scale <= 38:
            kind = f"decimal({whole + scale},{scale})"
    return column if kind == column.kind else msgspec.structs.replace(column, kind=kind)
