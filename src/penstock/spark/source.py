"""`format("penstock")`: what Spark asks of a data source, in terms of ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.clock import SystemClock
from penstock.spark import gaps, local, schema
from penstock.spark.bounds import Bounds, narrowed
from penstock.spark.gaps import GAPS, GapFound
from penstock.spark.options import ReadOptions, read_options


class PenstockSource(DataSource):
    """Records of topics as rows, or with `rows` = `gaps` what is missing of them."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        options = read_options(self.options)
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


class BatchReader(DataSourceReader):
    """One batch query."""

    def __init__(self, options: ReadOptions, asked: StructType) -> None:
        self._options = options
        self._asked = schema.arrow_of(schema.asked_for(asked), schema.ARROW)
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        plan = local.plan(options, self._bounds)
        if plan.gaps and options.on_gap == "fail":
            raise GapFound(options.path, plan.gaps)
        parts = local.parts(plan.slices, options, self._bounds, self._asked)
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark hands over None when there is nothing to read.
        return iter(()) if partition.value is None else local.read(partition.value)


class FilteredReader(BatchReader):
    """One whose filters are looked at here. Spark keeps the plan with a DataFrame: one that is
    used again with another filter gives the rows of the first. So this is only for those who ask
    for it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._bounds, left = narrowed(self._bounds, filters)
        return left


class GapReader(DataSourceReader):
    """What is missing of the same records. With `skipCorrupt` they are all read to find out."""

    def __init__(self, options: ReadOptions, asked: StructType) -> None:
        self._options = options
        self._asked = schema.arrow_of(schema.asked_for(asked, GAPS), gaps.ARROW)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        plan = local.plan(options, Bounds())
        found = [InputPartition(plan.gaps)]
        if options.skip_corrupt:
            parts = local.parts(plan.slices, options, Bounds(), self._asked)
            found += [InputPartition(part) for part in parts]
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        now_ms = SystemClock().now_ms()
        if isinstance(partition.value, local.Part):
            yield from local.missed(partition.value, now_ms)
        elif partition.value:
            yield gaps.batch_of(self._asked, partition.value, now_ms)


def register(spark: SparkSession) -> None:
    """Make `format("penstock")` known to a session."""
    # Spark refuses a source that could look at filters, unless this is set.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PenstockSource)
