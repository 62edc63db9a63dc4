"""A feature table computed by Spark, from the same definition and with the same folds as online."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.clock import SystemClock
from penstock.errors import InvalidArgument
from penstock.spark import feature_tasks
from penstock.spark.feature_columns import KEYED, SUMMARY, spark_schema
from penstock.spark.feature_job import DefinitionLike, FeatureJob, KeyShuffle, job_of
from penstock.spark.feature_sources import FeatureHistory, records


def feature_table(
    spark: SparkSession,
    definition: DefinitionLike,
    table: str,
    source: FeatureHistory,
    *,
    upto_seq: int | None = None,
    now_ms: int | None = None,
    features: Collection[str] | None = None,
    buckets: int = 0,
) -> DataFrame:
    """The rows of a table as of `now_ms`, by default the present time: key columns and features.

    It has every event up to `upto_seq`, by default all. Values are equal, bit for bit, to those of
    the feature store after the same records. Values of type json are JSON text. `buckets` is the
    number of tasks that fold, by default `spark.sql.shuffle.partitions`.
    """
    job = job_of(definition, table, features)
    now_ms = SystemClock().now_ms() if now_ms is None else now_ms
    shuffle = KeyShuffle(buckets_of(spark, buckets))
    rows = records(spark, job.plan.event.topic, source, upto_seq)
    folded = by_bucket(keyed_events(rows, job, shuffle), shuffle)
    return folded.mapInArrow(partial(feature_tasks.table_rows, job, now_ms), spark_schema(job))


def keyed_events(rows: DataFrame, job: FeatureJob, shuffle: KeyShuffle) -> DataFrame:
    """The events that a key gets, with their keys and the buckets of these; and the summaries."""
    keyed = rows.mapInArrow(partial(feature_tasks.keyed, job, shuffle), KEYED)
    return keyed.withColumn("bucket", bucket_of(shuffle))


def bucket_of(shuffle: KeyShuffle) -> Expression:
    """The bucket of a row between the stages. The hash of a key is the same in all versions of
    Spark: the state of a stream depends on it."""
    of_key = F.pmod(F.xxhash64("key"), F.lit(shuffle.buckets)).cast("int")
    return F.when(F.col("kind") == SUMMARY, F.col("bucket")).otherwise(of_key)


def by_bucket(keyed: DataFrame, shuffle: KeyShuffle) -> DataFrame:
    """One task for each bucket: the summaries, the labels in the order of their places, and the
    events in the order of the log."""
    divided = keyed.repartitionById(shuffle.buckets, F.col("bucket"))
    return divided.sortWithinPartitions("kind", "seq")


def buckets_of(spark: SparkSession, buckets: int) -> int:
    """The given number of buckets, or that of the session."""
    if buckets < 0:
        raise InvalidArgument(f"buckets must be at least 1, not {buckets}")
    return buckets or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
