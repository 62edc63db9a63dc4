"""`format("penstock")`: what Spark asks of a data source, in terms of ours."""

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
from penstock.spark import connected, gaps, places, schema, tasks
from penstock.spark.bounds import Bounds, narrowed
from penstock.spark.gaps import GAPS, GapFound
from penstock.spark.options import ReadOptions, read_options
from penstock.spark.places import Plan
from penstock.spark.remote import place_of
from penstock.spark.shape import Shape, shape_of
from penstock.spark.sink import BatchWriter, StreamWriter
from penstock.spark.sink_options import sink_options
from penstock.spark.stream import StreamReader

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


class PenstockSource(DataSource):
    """Records of topics as rows, or with `rows` = `gaps` what is missing of them."""

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
        return BatchWriter(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(sink_options(self.options), schema, overwrite=overwrite)


class BatchReader(DataSourceReader):
    """One batch query."""

    def __init__(self, options: ReadOptions, asked: StructType) -> None:
        self._options = options
        self._shape = shape_of(options, asked)
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        plan = planned(options, self._bounds)
        if plan.gaps and options.on_gap == "fail":
            raise GapFound(options.path or options.url, plan.gaps)
        parts = places.parts(plan.work, options, self._bounds, self._shape)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark hands over None when there is nothing to read.
        return iter(()) if partition.value is None else tasks.read(partition.value)


class FilteredReader(BatchReader):
    """One whose filters are looked at here. Spark keeps the plan with a DataFrame: one that is
    used again with another filter gives the rows of the first. So this is only for those who ask
    for it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._bounds, left = narrowed(self._bounds, filters)
        return left


class GapReader(DataSourceReader):
    """What is missing of the same records. With `skipCorrupt`, or from a server, they are all
    read to find out."""

    def __init__(self, options: ReadOptions, asked: StructType) -> None:
        self._options = msgspec.structs.replace(options, on_gap="ignore", gap_ledger="")
        self._shape = Shape(schema.in_arrow(schema.asked_for(asked, GAPS)), pa.schema([]))

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        plan = planned(options, Bounds())
        found = [InputPartition(plan.gaps)]
        work = plan.work
        if not options.skip_corrupt:  # files have told everything
            work = [one for one in work if isinstance(one, tasks.Stretch)]
        parts = places.parts(work, options, Bounds(), self._shape)
        return found + [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition.value, tasks.Part):
            yield from tasks.missed(partition.value)
        elif partition.value:
            yield gaps.batch_of(self._shape.arrow, partition.value, SystemClock().now_ms())


def planned(options: ReadOptions, bounds: Bounds) -> Plan:
    """The whole of what a batch query reads."""
    with contextlib.closing(place_of(options)) as place:
        return place.whole(bounds)


def register(spark: SparkSession) -> None:
    """Make `format("penstock")` known to a session."""
    # Spark refuses a source that could look at filters, unless this is set. Where nothing may be
    # set, as in a declarative pipeline, it is a matter of the pipeline's own configuration.
    if spark.conf.get(_PUSHDOWN, "false") != "true":
        spark.conf.set(_PUSHDOWN, "true")
    connected.quieten(spark)
    spark.dataSource.register(PenstockSource)
