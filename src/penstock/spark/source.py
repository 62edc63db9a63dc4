"""`format("penstock")`: what Spark asks of a data source, in terms of ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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

from penstock.errors import StorageError
from penstock.spark import local, schema
from penstock.spark.bounds import Bounds, narrowed
from penstock.spark.options import ReadOptions, read_options
from penstock.spark.sink import BatchWriter, StreamWriter
from penstock.spark.sink_options import sink_options


class GapFound(StorageError):
    """Records that a query asked for are gone, and `onGap` is `fail`."""


class PenstockSource(DataSource):
    """Records of topics as rows."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return schema.RECORD

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(sink_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(sink_options(self.options), schema, overwrite=overwrite)


class BatchReader(DataSourceReader):
    """One batch query."""

    def __init__(self, options: ReadOptions, asked: StructType) -> None:
        self._options = options
        self._asked = schema.asked_for(asked)
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._bounds, left = narrowed(self._bounds, filters)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        plan = local.plan(self._options, self._bounds, self._asked)
        if plan.gaps and self._options.on_gap == "fail":
            topic, _, gap = plan.gaps[0]
            raise GapFound(
                self._options.path,
                reason=f"topic {topic}: records {gap.first} to {gap.last} are gone ({gap.reason})",
                hint="onGap=report or ignore goes on without them",
            )
        return [InputPartition(part) for part in plan.parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return local.read(partition.value)


def register(spark: SparkSession) -> None:
    """Make `format("penstock")` known to a session."""
    # Without it Spark refuses a source that could be told which records are wanted.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(PenstockSource)
