"""Reads the files that a manifest names as DataFrames, and stages new files for a commit."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from penstock.lake.decoding import spark_kind
from penstock.lake.manifest import DataFile, Manifest, digest_text
from penstock.lake.project import EPOCH_OF_FILE as _EPOCH
from penstock.lake.table_commits import STAGING, Table
from penstock.spark.gaps import GAPS
from penstock.spark.schema import RECORD
from penstock.types import Offset

_DAY = StructField("day", DateType(), False)
_KEY = ("topic", "epoch", "seq")
RECORDS = StructType([*RECORD.fields, _DAY])
GAP_LEDGER = StructType([*GAPS.fields, _DAY])
DELETES = StructType(
    [
        StructField("topic", StringType()),
        StructField("epoch", LongType()),
        StructField("seq", LongType()),
        _DAY,
    ]
)
QUARANTINE = StructType([*RECORD.fields, StructField("reason", StringType(), False), _DAY])
LOG_FIELDS = [field for field in RECORD.fields if field.name not in ("meta", "data")]
SEQ_MAX = (1 << 63) - 1
_US_OF_DAY = 86_400_000_000


def quoted(name: str) -> str:
    """A column name as an SQL identifier, with its backticks escaped."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def day_of(ts: str) -> Expression:
    """The day of a time in UTC, whatever the session's time zone."""
    return F.expr(f"date_from_unix_date(cast(unix_micros({ts}) div {_US_OF_DAY} as int))")


def read(
    spark: SparkSession, table: Table, files: Sequence[DataFile], schema: StructType
) -> DataFrame:
    """The rows of data files that all have this schema."""
    if not files:
        return spark.createDataFrame([], schema)
    part = files[0].part
    paths = [f"file://{table.path_of(file)}" for file in files]
    reader = spark.read.schema(schema).option("basePath", f"file://{table.root}/{part}")
    return reader.parquet(*paths)


def read_silver(
    spark: SparkSession, table: Table, manifest: Manifest, files: Sequence[DataFile]
) -> DataFrame:
    """Rows of a silver table with its present columns. Files with older columns are cast."""
    now = {column.name: column.kind for column in manifest.columns}
    frames = []
    for number, shape in enumerate(manifest.shapes):
        of_shape = [file for file in files if file.shape == number]
        if of_shape:
            frame = read(spark, table, of_shape, silver_schema(shape))
            frames.append(frame.select(*_cast(shape, now)))
    if not frames:
        return spark.createDataFrame([], silver_schema(now))
    return reduce(DataFrame.union, frames)


def silver_schema(shape: Mapping[str, str]) -> StructType:
    columns = [StructField(name, spark_kind(kind)) for name, kind in shape.items()]
    return StructType([*LOG_FIELDS, *columns, _DAY])


def _cast(shape: Mapping[str, str], now: Mapping[str, str]) -> list[Expression]:
    columns = [F.col(field.name) for field in LOG_FIELDS]
    for name, kind in now.items():
        value = F.col(quoted(name)) if name in shape else F.lit(None)
        columns.append(value.cast(spark_kind(kind)).alias(name))
    return [*columns, F.col("day")]


def past(positions: Mapping[str, Offset], topics: Iterable[str]) -> Expression:
    """Matches rows of these topics behind the positions that have been read."""
    found = F.lit(False)
    for topic in topics:
        here = F.col("topic") == topic
        position = positions.get(topic)
        if position is not None:
            later = (F.col("epoch") > position.epoch) | (
                (F.col("epoch") == position.epoch) & (F.col("seq") > position.seq)
            )
            here = here & later
        found = found | here
    return found


def without(rows: DataFrame, gone: DataFrame) -> DataFrame:
    """The rows whose (topic, epoch, seq) is not in `gone`."""
    return rows.join(gone.select(*_KEY), list(_KEY), "left_anti").select(*map(quoted, rows.columns))


def keys(spark: SparkSession, table: Table, files: Sequence[DataFile]) -> DataFrame:
    """Topic, epoch and seq of the rows of these files, with the day and the name of the file."""
    rows = read(spark, table, files, DELETES)
    if not files:
        return rows.withColumn("file", F.lit(""))
    return rows.withColumn("file", F.col("_metadata.file_name"))


def stage(
    table: Table, rows: DataFrame, part: str, *, by_topic: bool = True, **facts: Any
) -> list[DataFile]:
    """Write rows as data files of the table. The files are durable on return. No reader sees them
    until a commit names them. With `by_topic`, a file holds rows of one topic, epoch and day."""
    write = secrets.token_hex(8)
    staging = f"{table.root}/{STAGING}/{write}"
    table.fs.make_dirs(f"{table.root}/{STAGING}")
    if by_topic:
        order = "seq" if "seq" in rows.columns else "first"
        rows = rows.withColumn(_EPOCH, F.col("epoch"))
        rows = rows.sortWithinPartitions("topic", "day", _EPOCH, order)
        rows.write.mode("error").partitionBy("topic", "day", _EPOCH).parquet(f"file://{staging}")
    else:
        rows.write.mode("error").parquet(f"file://{staging}")
    found = []
    for number, path in enumerate(_parquet_files(staging)):
        inside = os.path.relpath(os.path.dirname(path), staging)
        values = dict(piece.split("=", 1) for piece in inside.split("/") if "=" in piece)
        directory = f"{part}/topic={values['topic']}/day={values['day']}" if by_topic else part
        target = f"{directory}/{write}-{number:05d}.parquet"
        file = _described(path, target, part, values, facts)
        if file.rows or not by_topic:
            found.append(file)
            _put(table, path, table.path_of(file))
    for directory in sorted({os.path.dirname(table.path_of(file)) for file in found}):
        table.fs.sync_dir(directory)
    discard(table)
    return found


def scratch(table: Table, rows: DataFrame) -> str:
    """Write rows to a temporary directory, which `discard` removes; its URL."""
    path = f"{table.root}/{STAGING}/{secrets.token_hex(8)}"
    table.fs.make_dirs(f"{table.root}/{STAGING}")
    rows.write.mode("error").parquet(f"file://{path}")
    return f"file://{path}"


def discard(table: Table) -> None:
    """Remove all temporary files of the table. May be repeated."""
    shutil.rmtree(f"{table.root}/{STAGING}", ignore_errors=True)


def digest(table: Table, path: str) -> str:
    return digest_text(table.fs.map(path))


def _parquet_files(root: str) -> list[str]:
    found = []
    for directory, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(("_", "."))]
        found += [f"{directory}/{name}" for name in names if name.endswith(".parquet")]
    return sorted(found)


def _put(table: Table, source: str, target: str) -> None:
    file = table.fs.open(source)
    try:
        file.sync()
    finally:
        file.close()
    table.fs.make_dirs(os.path.dirname(target))
    table.fs.rename(source, target)


def _described(
    path: str, target: str, part: str, values: Mapping[str, str], facts: Mapping[str, Any]
) -> DataFile:
    """The manifest entry of a file, from the footer of the file."""
    footer = pq.ParquetFile(path)
    try:
        meta = footer.metadata
        names = {meta.schema.column(at).path: at for at in range(meta.num_columns)}
        seqs = _bounds(meta, names.get("seq", names.get("first")))
        rows = meta.num_rows
    finally:
        footer.close()
    with open(path, "rb") as file:
        data = file.read()
    return DataFile(
        part,
        target,
        rows,
        len(data),
        digest_text(data),
        topic=unescaped(values.get("topic", "")),
        day=values.get("day", ""),
        epoch=int(values.get(_EPOCH, 0)),
        first=0 if seqs is None else seqs[0],
        last=0 if seqs is None else seqs[1],
        **facts,
    )


def unescaped(name: str) -> str:
    """The topic of a directory name, in which Spark writes `:` as `%3A`."""
    return name.replace("%3A", ":")


def _bounds(meta: Any, at: int | None) -> tuple[int, int] | None:
    if at is None or not meta.num_rows:
        return None
    found = [meta.row_group(group).column(at).statistics for group in range(meta.num_row_groups)]
    if any(one is None or not one.has_min_max for one in found):
        return None
    return min(one.min for one in found), max(one.max for one in found)
