"""The rules by which the columns of a silver table change. Pure.

A column may be added, and its type may widen. A project that asks for another change is refused. A
record that would need one goes to quarantine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from penstock.errors import InvalidArgument
from penstock.lake.column_types import DIGITS_MAX, digits_of, widens

COLUMNS_MAX = 1000
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_QUOTED = re.compile(r"`((?:[^`]|``)*)`: (.*)", re.DOTALL)
_SEEN_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


class Column(msgspec.Struct, frozen=True):
    """A column of a silver table and the field of the JSON object that it comes from."""

    name: str
    kind: str
    field: str
    required: bool = False


def declared(table: str, stored: Sequence[Column], wanted: Sequence[Column]) -> list[Column]:
    """The columns of a table after its project declares these, or InvalidArgument. Columns that
    were added by evolution stay."""
    asked = {column.name: column for column in wanted}
    merged: list[Column] = []
    for old in stored:
        new = asked.pop(old.name, None)
        if new is None:
            merged.append(msgspec.structs.replace(old, required=False))
        elif widens(old.kind, new.kind):
            merged.append(new)
        elif widens(new.kind, old.kind):  # the column was widened by evolution
            merged.append(msgspec.structs.replace(new, kind=old.kind))
        else:
            raise InvalidArgument(
                f"silver.{table}.columns.{old.name} is {old.kind} in the table and cannot become "
                f"{new.kind}: give the column or the table another name"
            )
    return merged + list(asked.values())


@dataclass(frozen=True, slots=True)
class Seen:
    """The fields of a batch of records, with Spark's names of their types."""

    fields: Mapping[str, str]  # each field with one type for all its values
    words: Mapping[str, Collection[str]]  # of each numeric column: all types that occur
    ranges: Mapping[str, tuple[int, int]]  # of each numeric column: least and greatest integer


def grown(columns: Sequence[Column], seen: Seen, taken: Sequence[str] = ()) -> list[Column]:
    """The columns widened and extended for these records, as far as the rules allow."""
    found = [_widened(column, seen) for column in columns]
    names = {name.lower() for column in columns for name in (column.name, column.field)}
    names |= {name.lower() for name in taken}
    for field, word in sorted(seen.fields.items()):
        kind = _kind_of_new(word)
        if kind is None or not field or field.lower() in names or len(found) >= COLUMNS_MAX:
            continue
        found.append(Column(field, kind, field))
        names.add(field.lower())
    return found


def fields_of(word: str) -> dict[str, str]:
    """The fields of Spark's type of an object, `OBJECT<id: BIGINT, name: STRING>`."""
    if not word.startswith("OBJECT<") or not word.endswith(">"):
        return {}
    found = {}
    for part in _split(word[len("OBJECT<") : -1]):
        name, sep, kind = _named(part)
        if sep:
            found[name] = kind
    return found


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quoted names."""
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
    found = _QUOTED.fullmatch(part)
    if found is not None:
        return found[1].replace("``", "`"), ":", found[2]
    name, sep, kind = part.partition(": ")
    return name, sep, kind


def _kind_of_new(word: str) -> str | None:
    """The type for a new column of this field; None if all values are null."""
    if word in ("", "VOID"):
        return None
    if word.startswith("DECIMAL"):
        return "double"
    simple = {"BIGINT": "long", "DOUBLE": "double", "STRING": "string", "BOOLEAN": "boolean"}
    return simple.get(word, "json")


def _widened(column: Column, seen: Seen) -> Column:
    kind = column.kind
    words = seen.words.get(column.name, ())
    decimals = [found for word in words if (found := _SEEN_DECIMAL.fullmatch(word))]
    digits = digits_of(kind)
    if kind in ("int", "long") and (decimals or "DOUBLE" in words):
        kind = "double"
    elif kind == "int":
        low, high = seen.ranges.get(column.name, (0, 0))
        kind = "long" if low < _INT_MIN or high > _INT_MAX else kind
    elif digits is not None and decimals:
        scale = max(digits[1], *(int(one[2]) for one in decimals))
        whole = max(digits[0] - digits[1], *(int(one[1]) - int(one[2]) for one in decimals))
        kind = f"decimal({whole + scale},{scale})" if whole + scale <= DIGITS_MAX else kind
    return column if kind == column.kind else msgspec.structs.replace(column, kind=kind)
