"""Finds the keys that a feature table has on Spark and not online."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.spark import feature_tasks
from penstock.spark.feature_columns import spark_schema
from penstock.spark.feature_job import FeatureJob, KeyShuffle
from penstock.spark.feature_sources import FeatureHistory, records
from penstock.spark.feature_tables import (
    buckets_of,
    by_bucket,
    keyed_events,
)

_SCANS_MAX: Final = 8
Keys = set[tuple[Any, ...]]


def missing_keys(
    spark: SparkSession,
    job: FeatureJob,
    source: FeatureHistory,
    online: Keys,
    scan: Callable[[], Keys],
    *,
    first_seq: int,
    last_seq: int,
    now_ms: int,
    buckets: int,
    examples_max: int,
) -> tuple[int, list[list[Any]]]:
    """How many keys have a row on Spark as of the first and the last seq at which rows were read,
    and none online; and the first of them. An online table that has folded nothing is compared
    with the whole history. A scan may pass over a key that moves meanwhile: before a key is
    missing, `scan` reads the keys again."""
    shuffle = KeyShuffle(buckets_of(spark, buckets))
    topic, names = job.plan.event.topic, list(job.plan.key)

    def rows_at(seq: int) -> DataFrame:
        rows = records(spark, topic, source)
        if seq:  # a filter: with endingSeq, a record that is not synced yet would be a gap
            rows = rows.where(F.col("seq") <= seq)
        folded = by_bucket(keyed_events(rows, job, shuffle), shuffle)
        found = folded.mapInArrow(partial(feature_tasks.table_rows, job, now_ms), spark_schema(job))
        return found.select(*names, F.lit(True).alias("penstock_row"))

    rows = rows_at(first_seq)
    if last_seq != first_seq and names and job.plan.cold_after_ms is not None:
        rows = rows.join(rows_at(last_seq).select(*names), names, "left_semi")
    if not names:  # one row
        return (0, []) if online else (rows.count(), [[] for _ in rows.take(1)])
    rows = rows.select(*names).cache()
    try:
        schema = StructType(spark_schema(job).fields[: len(names)])
        for _ in range(_SCANS_MAX):
            missing = rows.join(spark.createDataFrame(list(online), schema), names, "left_anti")
            count = missing.count()
            before = len(online)
            if not count or len(online := online | scan()) == before:
                break
        return count, [list(row) for row in missing.orderBy(*names).take(examples_max)]
    finally:
        rows.unpersist()
