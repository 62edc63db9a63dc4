"""`format("penstock")`: Spark's data source API for readers and writers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from penstock.clock import SystemClock
from penstock.spark import gaps, locations, schema, spark_connect, tasks
from penstock.spark.bounds import Bounds, narrowed
from penstock.spark.gap_policy import GapPolicy
from penstock.spark.gaps import GAPS
from penstock.spark.locations import Plan
from penstock.spark.options import SourceOptions, read_options
from penstock.spark.server_location import location_of
from penstock.spark.shape import Shape, shape_of
from penstock.spark.sink_options import sink_options
from penstock.spark.stream import StreamReader

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class PenstockSource(DataSource):
    """Records of topics as rows, or with `rows=gaps` the gaps of topics."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType | str:
        options = read_options(self.options)
        if options.schema:
            return options.schema
        return schema.chosen(options.columns, GAPS if options.rows == "gaps" else schema.RECORD)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options)
        if options.rows == "gaps":
            return GapReader(options, schema)
        return (
            FilteredReader(options, schema)
            if options.push_filters
            else BatchReader(options, schema)
        )

    def streamReader(self, schema: StructType) -> StreamReader:
        return StreamReader(read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        # Imported here: Spark plans each read in a new process, which needs no writer.
        from penstock.spark.sink import BatchWriter

        return BatchWriter(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink import StreamWriter

        return StreamWriter(sink_options(self.options), schema, overwrite=overwrite)


class BatchReader(DataSourceReader):
    """One batch query."""

    def __init__(self, options: SourceOptions, asked: StructType) -> None:
        self._options = options
        self._shape = shape_of(options, asked)
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        plan = planned(options, self._bounds)
        policy = GapPolicy(options.on_gap, options.gap_ledger)
        policy.check(options.path or options.url, plan.gaps)
        parts = locations.parts(plan.work, options, self._bounds, self._shape)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark passes None if there is nothing to read.
        return iter(()) if partition.value is None else tasks.read(partition.value)


class FilteredReader(BatchReader):
    """A batch query with pushed-down filters. Spark keeps the plan with the DataFrame: if that is
    used again with another filter it gives the rows of the first. So this needs `pushFilters`."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._bounds, left = narrowed(self._bounds, filters)
        return left


class GapReader(DataSourceReader):
    """The gaps of topics. With `skipCorrupt`, or at a server, all records are read to find them."""

    def __init__(self, options: SourceOptions, asked: StructType) -> None:
        self._options = msgspec.structs.replace(options, on_gap="ignore", gap_ledger="")
        self._shape = Shape(schema.in_arrow(schema.asked_for(asked, GAPS)), pa.schema([]))

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        plan = planned(options, Bounds())
        found = [InputPartition(plan.gaps)]
        work = plan.work
        if not options.skip_corrupt:  # the plan has all gaps of files
            work = [one for one in work if isinstance(one, tasks.RemoteRange)]
        parts = locations.parts(work, options, Bounds(), self._shape)
        return found + [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition.value, tasks.TaskInput):
            yield from tasks.read_gaps(partition.value)
        elif partition.value:
            yield gaps.batch_of(self._shape.arrow, partition.value, SystemClock().now_ms())


def planned(options: SourceOptions, bounds: Bounds) -> Plan:
    """The plan of a batch query."""
    with contextlib.closing(location_of(options)) as location:
        return location.whole(bounds)


def register(spark: SparkSession) -> None:
    """Register `format("penstock")` with a session."""
    # Without this setting Spark refuses a source with filter pushdown. A declarative pipeline may
    # not set it here, and has it in its own configuration.
    if spark.conf.get(_PUSHDOWN, "false") != "true":
        spark.conf.set(_PUSHDOWN, "true")
    spark_connect.hide_profile_metric(spark)
    spark.dataSource.register(PenstockSource)
