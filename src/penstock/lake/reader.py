"""Reads exact ranges of offsets of the log through `format("penstock")`."""

from __future__ import annotations

import json
import os

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from penstock.lake.project import Source
from penstock.lake.stages import OffsetRange
from penstock.spark.source import register
from penstock.types import Offset


class LogReader:
    """Reads ranges of offsets. The token of a server is passed as a Spark option, which Spark
    redacts in its logs."""

    def __init__(self, spark: SparkSession, source: Source, *, skip_corrupt: bool = False) -> None:
        register(spark)
        self._spark = spark
        self._source = source
        self._skip_corrupt = skip_corrupt

    def records(self, step: OffsetRange) -> DataFrame:
        """The live records of a range with all columns."""
        return self._reader(step).option("onGap", "ignore").load()

    def keys(self, step: OffsetRange) -> DataFrame:
        """Topic, epoch and seq of the live records of a range."""
        reader = self._reader(step).option("onGap", "ignore")
        return reader.option("columns", "topic,epoch,seq").load()

    def gaps(self, step: OffsetRange) -> DataFrame:
        """The gaps of a range."""
        return self._reader(step).option("onGap", "report").option("rows", "gaps").load()

    def _reader(self, step: OffsetRange) -> DataFrameReader:
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


def _text(positions: dict[str, Offset]) -> str:
    return json.dumps(
        {topic: {"epoch": one.epoch, "seq": one.seq} for topic, one in sorted(positions.items())}
    )
