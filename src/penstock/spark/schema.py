"""The columns of records in Spark and in Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.codec.columns import DATA, META, NODE, TAG, Columns, Text
from penstock.errors import InvalidArgument

_MS = pa.timestamp("ms", tz="UTC")
_US = pa.timestamp("us", tz="UTC")  # as Spark has it
_TEXTS = {"node": NODE, "tag": TAG, "meta": META, "data": DATA}

RECORD = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("epoch", LongType(), False),
        StructField("seq", LongType(), False),
        StructField("ts", TimestampType(), False),
        StructField("node", StringType()),
        StructField("tag", StringType()),
        StructField("meta", StringType()),
        StructField("data", StringType(), False),
    ]
)


def chosen(columns: Iterable[str], among: StructType) -> StructType:
    """These columns in this order, or all if none are given; InvalidArgument for unknown ones."""
    known = {field.name: field for field in among.fields}
    for name in columns:
        if name not in known:
            raise InvalidArgument(f"unknown column {name!r}: expected {', '.join(known)}")
    return StructType([known[name] for name in columns]) if columns else among


def in_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of batches."""
    return to_arrow_schema(schema, timezone="UTC")


def asked_for(schema: StructType, among: StructType = RECORD) -> StructType:
    """The same schema, or InvalidArgument for an unknown column or another type."""
    known = {field.name: field.dataType for field in among.fields}
    for field in schema.fields:
        if field.name not in known:
            raise InvalidArgument(
                f"records have no column {field.name!r}: there are {', '.join(known)}"
            )
        if field.dataType != known[field.name]:
            raise InvalidArgument(
                f"column {field.name} is {known[field.name].simpleString()}, not "
                f"{field.dataType.simpleString()}"
            )
    return schema


def wanted(names: Iterable[str]) -> int:
    """The text columns among these names, as flags for the kernel."""
    return sum(_TEXTS[name] for name in names if name in _TEXTS)


def columns_of(names: Iterable[str], topic: str, epoch: int, found: Columns) -> dict[str, Any]:
    """The Arrow arrays of the record columns among these names. Only times are copied."""
    makers: dict[str, Callable[[], Any]] = {
        "topic": lambda: _same(pa.scalar(topic), found.count),
        "epoch": lambda: _same(pa.scalar(epoch, pa.int64()), found.count),
        "seq": lambda: _numbers(pa.int64(), found.count, found.seqs),
        "ts": lambda: _numbers(_MS, found.count, found.tss).cast(_US),
        "node": lambda: texts(found.count, found.node),
        "tag": lambda: texts(found.count, found.tag),
        "meta": lambda: texts(found.count, found.meta),
        "data": lambda: texts(found.count, found.data),
    }
    return {name: makers[name]() for name in names if name in makers}


def _same(value: Any, count: int) -> Any:
    return pa.repeat(value, count)


def _numbers(kind: pa.DataType, count: int, data: bytes) -> Any:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data)])


def texts(count: int, text: Text | None) -> Any:
    """A column of strings over the kernel's buffers, without a copy."""
    if text is None:
        raise AssertionError("a column was not requested")
    offsets, data, bits = (pa.py_buffer(part) for part in text)
    return pa.Array.from_buffers(pa.string(), count, [bits, offsets, data])
