"""Point-in-time correct training sets: the features that a key had when its label was known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.errors import InvalidArgument
from penstock.features.names import nearest, shown
from penstock.spark import feature_labels
from penstock.spark.feature_columns import spark_schema
from penstock.spark.feature_job import DefinitionLike, FeatureJob, KeyShuffle, job_of
from penstock.spark.feature_labels import CARRIED, NOW, PLACE, FeatureClock, LabelledFold
from penstock.spark.feature_sources import FeatureHistory, records
from penstock.spark.feature_tables import (
    bucket_of,
    buckets_of,
    by_bucket,
    keyed_events,
)


def training_set(
    spark: SparkSession,
    definition: DefinitionLike,
    table: str,
    source: FeatureHistory,
    labels: DataFrame,
    *,
    ts: str = "ts",
    clock: FeatureClock | None = None,
    features: Collection[str] | None = None,
    buckets: int = 0,
) -> DataFrame:
    """Each row of `labels` with the features that its key had at its time.

    The column `ts` is a timestamp, or ms since 1970. By the clock `event`, the default for events
    with a time of their own, a row has the events before the first one that is later than its time;
    by the clock `log` those that the log had at that time. Features that a key did not have are
    null.
    """
    job = job_of(definition, table, features)
    clock = clock or ("log" if job.plan.event.time is None else "event")
    if clock not in ("log", "event"):
        raise InvalidArgument(f"invalid clock {shown(clock)}: expected log or event")
    place = _time_of(labels, ts)
    shuffle = KeyShuffle(buckets_of(spark, buckets), keeps_ahead=clock == "log")
    rows = records(spark, job.plan.event.topic, source)
    return labelled(
        job, clock, keyed_events(rows, job, shuffle), labels, place, place, shuffle=shuffle
    )


def labelled(
    job: FeatureJob,
    clock: FeatureClock,
    events: DataFrame,
    labels: DataFrame,
    place: Expression,
    now_ms: Expression,
    *,
    shuffle: KeyShuffle,
) -> DataFrame:
    """Labels with the features that their keys had at their places."""
    carried = labels.schema
    features = spark_schema(job).fields[len(job.plan.key) :]
    taken = {name.lower() for name in carried.names}
    for field in features:
        if field.name.lower() in taken:
            raise InvalidArgument(
                f"the labels have a column {field.name}, and so has the table: rename one of them"
            )
    both = shuffled(job, events, labels, place, now_ms, shuffle)
    schema = StructType([*carried.fields, *features])
    return both.mapInArrow(partial(_labelled_rows, job, clock, schema.names), schema)


def shuffled(
    job: FeatureJob,
    events: DataFrame,
    labels: DataFrame,
    place: Expression,
    now_ms: Expression,
    shuffle: KeyShuffle,
) -> DataFrame:
    """Labels and events, one task for each bucket of keys."""
    types = spark_schema(job)
    for name in job.plan.key:
        if name not in labels.columns:
            raise InvalidArgument(
                f"the labels have no column {name}, which is in the key of table "
                f"{job.table!r}; {nearest(name, labels.columns)}"
            )
    columns = [F.col(name).cast(types[name].dataType).alias(name) for name in job.plan.key]
    whole = F.struct(*(F.col(f"`{name}`") for name in labels.columns)).alias(CARRIED)
    wanted = labels.select(
        *columns,
        place.cast("bigint").alias(PLACE),
        now_ms.cast("bigint").alias(NOW),
        whole,
    )
    schema = feature_labels.labelled_schema(labels.schema)
    keyed = wanted.mapInArrow(partial(feature_labels.keyed_labels, job), schema)
    keyed = keyed.withColumn("bucket", bucket_of(shuffle))
    return by_bucket(events.unionByName(keyed, allowMissingColumns=True), shuffle)


def _time_of(labels: DataFrame, ts: str) -> Expression:
    """The time of a label, in ms. A label without one fails the query."""
    if ts not in labels.columns:
        raise InvalidArgument(
            f"the labels have no column {ts} with their times; {nearest(ts, labels.columns)}"
        )
    kind = labels.schema[ts].dataType.typeName()
    if kind in ("long", "integer"):
        ms = F.col(ts).cast("bigint")
    elif kind in ("timestamp", "timestamp_ntz", "date"):
        ms = F.unix_millis(F.col(ts).cast("timestamp"))
    else:
        raise InvalidArgument(
            f"column {ts} of the labels is {kind}: expected a timestamp, or ms since 1970"
        )
    missing = F.raise_error(F.lit(f"a label has no time: column {ts} is null"))
    return F.coalesce(ms, missing.cast("bigint"))


def _labelled_rows(
    job: FeatureJob, clock: FeatureClock, names: list[str], batches: Iterable[Any]
) -> Iterator[Any]:
    return feature_labels.label_batches(LabelledFold(job, clock, batches), job, names)
