"""The columns of rows: columns of records, typed columns from their JSON, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.codec.columns import DATA, Columns
from penstock.errors import InvalidArgument
from penstock.spark import schema
from penstock.spark.json_columns import JsonColumnDecoder
from penstock.spark.options import Mode, SourceOptions

CORRUPT = "_corrupt"  # the JSON of a record that does not fit the schema
_DECODED = (
    BooleanType,
    ByteType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Spark's schema as an Arrow schema. It is pickled to the tasks."""

    arrow: Any
    typed: Any  # the fields that are decoded from the JSON
    mode: Mode = "permissive"

    @property
    def wanted(self) -> int:
        """The text columns that it needs, as flags for the kernel."""
        needs_data = len(self.typed) or CORRUPT in self.arrow.names
        return schema.wanted(self.arrow.names) | (DATA if needs_data else 0)

    def batch_of(self, topic: str, epoch: int, found: Columns) -> Any:
        """Some records as an Arrow batch."""
        made = schema.columns_of(self.arrow.names, topic, epoch, found)
        if len(self.typed) or CORRUPT in self.arrow.names:
            made |= self._decoded(topic, found)
        return pa.RecordBatch.from_arrays(
            [made[name] for name in self.arrow.names], schema=self.arrow
        )

    def _decoded(self, topic: str, found: Columns) -> dict[str, Any]:
        if found.data is None:
            raise AssertionError("data was not requested")
        flawed: list[int] = []

        def failed(row: int, why: str) -> None:
            if self.mode == "failfast":
                seq = int.from_bytes(found.seqs[row * 8 : row * 8 + 8], "little")
                raise InvalidArgument(
                    f"record {seq} of topic {topic}: {why}; mode=permissive gives null for it"
                )
            flawed.append(row)

        columns = JsonColumnDecoder(self.typed).decode(found.count, found.data, failed)
        made = dict(zip(self.typed.names, columns, strict=True))
        if CORRUPT in self.arrow.names:
            rows: list[int | None] = [None] * found.count
            for row in flawed:
                rows[row] = row
            made[CORRUPT] = schema.texts(found.count, found.data).take(pa.array(rows, pa.int64()))
        return made


def shape_of(options: SourceOptions, asked: StructType) -> Shape:
    """The shape for a schema that Spark requests, or InvalidArgument. A name that is not a column
    of records is a field of their JSON."""
    raw = {field.name for field in schema.RECORD.fields}
    schema.asked_for(StructType([field for field in asked.fields if field.name in raw]))
    typed = [field for field in asked.fields if field.name not in raw and field.name != CORRUPT]
    for field in asked.fields:
        if field.name not in raw:
            _check(field)
    arrow = schema.in_arrow(asked)
    return Shape(arrow, pa.schema([arrow.field(field.name) for field in typed]), options.mode)


def _check(field: StructField) -> None:
    if not field.nullable:
        raise InvalidArgument(
            f"column {field.name} must be nullable: a record may not have that field"
        )
    if field.name == CORRUPT and not isinstance(field.dataType, StringType):
        raise InvalidArgument(
            f"column {CORRUPT} must be a string, not {field.dataType.simpleString()}"
        )
    if not _is_decoded(field.dataType):
        raise InvalidArgument(
            f"column {field.name}: {field.dataType.simpleString()} cannot be decoded; "
            "use the column data and Spark's from_json"
        )


def _is_decoded(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_decoded(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_decoded(field.dataType) for field in kind.fields)
    return isinstance(kind, _DECODED)
