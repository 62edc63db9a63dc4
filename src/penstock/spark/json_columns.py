"""Decodes columns from the JSON of records, a batch at a time.

Arrow parses all records of a batch at once and keeps only the requested fields. If that fails, the
batch is divided; small parts that still fail are decoded record by record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import json as arrow_json

from penstock.codec.columns import Text

_ONE_BY_ONE_MAX = 512  # as few are looked at one by one
_PARTS = 8
_BITS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}  # without the sign

Failed = Callable[[int, str], None]
"""Called with the index of a record that does not fit, and the reason."""


class _Flaw(Exception):
    """A value does not have the requested type."""


@dataclass(frozen=True, slots=True)
class JsonColumnDecoder:
    """Decodes JSON objects into columns; `fields` is an Arrow schema."""

    fields: Any

    def decode(self, count: int, text: Text, failed: Failed) -> list[Any]:
        """One column for each field. A missing value, or a value of another type, is null. For the
        latter `failed` is called."""
        offsets = memoryview(text[0]).cast("I")
        return self._decoded(offsets, memoryview(text[1]), 0, count, failed)

    def _decoded(
        self, offsets: memoryview, data: memoryview, start: int, stop: int, failed: Failed
    ) -> list[Any]:
        found = self._at_once(data[offsets[start] : offsets[stop]], stop - start)
        if found is not None:
            return found
        if stop - start <= _ONE_BY_ONE_MAX:
            return self._one_by_one(offsets, data, start, stop, failed)
        step = -(-(stop - start) // _PARTS)
        parts = [
            self._decoded(offsets, data, at, min(stop, at + step), failed)
            for at in range(start, stop, step)
        ]
        return [pa.concat_arrays(column) for column in zip(*parts, strict=True)]

    def _at_once(self, data: memoryview, count: int) -> list[Any] | None:
        """The columns, or None if a record does not fit. Objects need no separator between them."""
        if not count:
            return [pa.array([], field.type) for field in self.fields]
        reading = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        parsing = arrow_json.ParseOptions(
            explicit_schema=pa.schema([(f.name, _parsed_as(f.type)) for f in self.fields]),
            unexpected_field_behavior="ignore",
        )
        try:
            table = arrow_json.read_json(pa.BufferReader(data), reading, parsing)
            if table.num_rows != count:
                return None
            columns = [table.column(field.name).combine_chunks() for field in self.fields]
            return [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(columns, self.fields, strict=True)
            ]
        except pa.ArrowInvalid:
            return None

    def _one_by_one(
        self, offsets: memoryview, data: memoryview, start: int, stop: int, failed: Failed
    ) -> list[Any]:
        columns: list[list[Any]] = [[] for _ in self.fields]
        for row in range(start, stop):
            values, flaw = self._values(data[offsets[row] : offsets[row + 1]])
            for column, value in zip(columns, values, strict=True):
                column.append(value)
            if flaw:
                failed(row, flaw)
        return [
            pa.array(column, field.type) for column, field in zip(columns, self.fields, strict=True)
        ]

    def _values(self, text: memoryview) -> tuple[list[Any], str]:
        """The values of one record, and the first reason why it does not fit."""
        try:
            found = msgspec.json.decode(text)
        except (msgspec.MsgspecError, ValueError) as error:
            return [None] * len(self.fields), f"not JSON: {error}"
        if found is None:
            return [None] * len(self.fields), ""
        if not isinstance(found, dict):
            return [None] * len(self.fields), f"not an object but {type(found).__name__}"
        values: list[Any] = []
        flaw = ""
        for field in self.fields:
            try:
                values.append(_checked(found.get(field.name), field.type))
            except _Flaw as error:
                values.append(None)
                flaw = flaw or f"field {field.name} is {error}"
        return values, flaw


def _parsed_as(kind: Any) -> Any:
    """The type for Arrow's parser, which knows timestamps but no dates."""
    if pa.types.is_date32(kind):
        return pa.timestamp("s")
    if pa.types.is_list(kind):
        return pa.list_(_parsed_as(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _parsed_as(field.type)) for field in kind])
    return kind


def _checked(value: Any, kind: Any) -> Any:
    """The value in a form that Arrow accepts for this type, or _Flaw."""
    if value is None:
        return None
    if kind in _BITS:
        good = type(value) is int and -1 << _BITS[kind] <= value < 1 << _BITS[kind]
    elif pa.types.is_boolean(kind):
        good = type(value) is bool
    elif pa.types.is_floating(kind):
        good = type(value) in (int, float)
        value = float(value) if good else value
    elif pa.types.is_string(kind):
        good = type(value) is str
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _moment(value, kind)
    elif pa.types.is_list(kind) and type(value) is list:
        return [_checked(one, kind.value_type) for one in value]
    elif pa.types.is_struct(kind) and type(value) is dict:
        return {field.name: _checked(value.get(field.name), field.type) for field in kind}
    else:
        good = False
    if not good:
        raise _Flaw(f"{type(value).__name__}, not {kind}")
    return value


def _moment(value: Any, kind: Any) -> Any:
    """A time, parsed as Arrow's JSON parser does."""
    if type(value) is not str:
        raise _Flaw(f"{type(value).__name__}, not {kind}")
    unit = _parsed_as(kind).unit
    for one in (pa.timestamp(unit, "UTC"), pa.timestamp(unit)):  # without a zone it is UTC
        try:
            return pa.array([value]).cast(one).cast(kind)[0].as_py()
        except pa.ArrowInvalid:
            continue
    raise _Flaw(f"{value[:40]!r}, not {kind}")
