"""The log as the lake reads it: exact ranges of offsets through `format("penstock")`."""

from __future__ import annotations

import json
import os

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from penstock.lake.manifest import Place
from penstock.lake.project import Source
from penstock.lake.steps import Step
from penstock.spark.source import register


class LogReader:
    """Reads steps. The token of a server goes no further than Spark's options, which hide it."""

    def __init__(self, spark: SparkSession, source: Source, *, skip_corrupt: bool = False) -> None:
        register(spark)
        self._spark = spark
        self._source = source
        self._skip_corrupt = skip_corrupt

    def records(self, step: Step) -> DataFrame:
        """Those that live, with all their columns."""
        return self._reader(step).option("onGap", "ignore").load()

    def keys(self, step: Step) -> DataFrame:
        """Topic, epoch and seq of the same."""
        reader = self._reader(step).option("onGap", "ignore")
        return reader.option("columns", "topic,epoch,seq").load()

    def gaps(self, step: Step) -> DataFrame:
        """What is missing of the same."""
        return self._reader(step).option("onGap", "report").option("rows", "gaps").load()

    def _reader(self, step: Step) -> DataFrameReader:
        reader = self._spark.read.format("penstock").option("topic", ",".join(step.topics))
        if self._source.url:
            reader = reader.option("url", self._source.url)
            token = os.environ.get(self._source.token_env)
            if token:
                reader = reader.option("token", token)
        if self._source.path:
            reader = reader.option("path", self._source.path)
        return (
            reader.option("startingOffsets", _text(step.starts))
            .option("endingOffsets", _text(step.ends))
            .option("skipCorrupt", str(self._skip_corrupt).lower())
        )


def _text(places: dict[str, Place]) -> str:
    return json.dumps(
        {topic: {"epoch": one.epoch, "seq": one.seq} for topic, one in sorted(places.items())}
    )
