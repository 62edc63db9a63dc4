"""What tests of the Spark source do again and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.types import Record

STARTS_MAX = 10


def opened(path: Path, **settings: Any) -> Log:
    return open_log(str(path), settings=Settings(wal_shards=1, background=False, **settings))


def filled(log: Log, count: int = 10, topic: str = "t", start: int = 0) -> None:
    """Records whose tags are k0, k1 and k2 in turn. They are past a sync: others are not read."""
    records = [
        Record(data={"n": n, "s": f"x{n}"}, tag=f"k{n % 3}") for n in range(start, start + count)
    ]
    log.append(topic, records)
    log.sync()


def load(spark: SparkSession, log: Log, topic: str = "t", **options: Any) -> DataFrame:
    reader = spark.read.format("penstock").option("path", log.core.parts.layout.root)
    return reader.options(topic=topic, **options).load()


def complete(start: Callable[[], StreamingQuery]) -> None:
    """Run a query to its end. Spark gives a Python process ten seconds to start, and no setting
    changes that: where a busy machine takes longer, the query is started again."""
    for _ in range(STARTS_MAX - 1):
        try:
            start().awaitTermination()
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
        else:
            return
    start().awaitTermination()


def seqs(frame: DataFrame) -> list[int]:
    return [row.seq for row in frame.select("seq").orderBy("seq").collect()]


def gap_rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [
        (row.topic, row.epoch, row.first, row.last, row.reason)
        for row in frame.orderBy("topic", "epoch", "first").collect()
    ]
