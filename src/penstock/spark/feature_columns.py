"""Records and rows of feature tables as Arrow batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.codec.columns import Columns
from penstock.features.event_column import ColumnType, EventColumn, column_of
from penstock.spark.feature_job import FeatureJob

SUMMARY: Final = 0  # kinds of the rows between the stages, in the order in which tasks read them
LABEL: Final = 1
EVENT: Final = 2
# What the second stage reads. A summary has a bucket, and itself as JSON in `data`. A label has its
# place in `seq` and the time of its read in `ts`.
KEYED: Final = StructType(
    [
        StructField("kind", IntegerType()),
        StructField("bucket", IntegerType()),
        StructField("key", BinaryType()),
        StructField("seq", LongType()),
        StructField("ts", LongType()),
        StructField("largest", LongType()),
        StructField("data", StringType()),
    ]
)
KEYED_ARROW: Final = pa.schema(
    [
        ("kind", pa.int32()),
        ("bucket", pa.int32()),
        ("key", pa.binary()),
        ("seq", pa.int64()),
        ("ts", pa.int64()),
        ("largest", pa.int64()),
        ("data", pa.string()),
    ]
)
_SPARK: Final[dict[ColumnType, DataType]] = {
    "i64": LongType(),
    "f64": DoubleType(),
    "bool": BooleanType(),
    "str": StringType(),
    "json": StringType(),
}
_ARROW: Final[dict[ColumnType, Any]] = {
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "json": pa.string(),
}


def records_of(batch: Any) -> Columns:
    """The records of a batch with the columns seq, ts and data."""
    return Columns(
        batch.num_rows,
        bytes_of(batch.column("seq")),
        bytes_of(batch.column("ts")),
        None,
        None,
        None,
        _texts_of(batch.column("data")),
    )


def bytes_of(column: Any) -> bytes:
    """The numbers of a column without nulls, 8 bytes each."""
    found: bytes = column.buffers()[1].to_pybytes() if len(column) else b""
    return found[8 * column.offset : 8 * (column.offset + len(column))]


def _texts_of(column: Any) -> tuple[bytes, bytes, bytes]:
    count = len(column)
    if column.type != pa.string():  # Spark may have longer offsets
        column = column.cast(pa.string())
    if column.offset or not count:
        column = pa.concat_arrays([pa.array([], pa.string()), column])
    bits, offsets, texts = column.buffers() if count else (None, None, None)
    return (
        bytes(4) if offsets is None else offsets.to_pybytes(),
        b"" if texts is None else texts.to_pybytes(),
        b"\xff" * ((count + 7) // 8) if bits is None else bits.to_pybytes(),
    )


def key_columns(batch: Any, types: Mapping[str, ColumnType]) -> list[EventColumn]:
    """The columns of a key, for the index of keys."""
    return [column_of(kind, batch.column(name).to_pylist()) for name, kind in types.items()]


def spark_schema(job: FeatureJob) -> StructType:
    """Of the rows of a table: its key, then the features."""
    return StructType(
        [StructField(name, _SPARK[kind]) for name, kind in types_of(job).items()],
    )


def types_of(job: FeatureJob) -> dict[str, ColumnType]:
    """The types of the columns of a row, in their order."""
    types = job.plan.output_schema
    return {name: types[name] for name in (*job.plan.key, *job.features)}


def arrow_schema(job: FeatureJob) -> Any:
    """The same for Arrow."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in types_of(job).items()])


def rows_batch(
    job: FeatureJob, keys: Sequence[Sequence[Any]], rows: Sequence[Mapping[str, Any]]
) -> Any:
    """Rows of the table as a batch; a row without a feature has null."""
    plan = job.plan
    columns = [
        pa.array([key[number] for key in keys], _ARROW[kind])
        for number, kind in enumerate(plan.key_types)
    ]
    columns += feature_columns(job, rows)
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(job))


def feature_columns(job: FeatureJob, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The features of rows as Arrow arrays."""
    types = types_of(job)
    return [_array(types[name], (row.get(name) for row in rows)) for name in job.features]


def _array(kind: ColumnType, values: Iterable[Any]) -> Any:
    if kind == "json":
        return pa.array([None if v is None else json_text(v) for v in values], pa.string())
    if kind == "f64":  # a sum of nothing may be the integer 0
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array(list(values), _ARROW[kind])


def json_text(value: Any) -> str:
    """A value of type json as Spark has it."""
    return msgspec.json.encode(value).decode()


def plain(kind: ColumnType, value: Any) -> Any:
    """A value of a row as Spark has it, to be compared: of NaN and infinities JSON has null."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if kind == "f64":
        return float(value)
    return value
