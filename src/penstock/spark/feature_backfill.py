"""Builds the state of a feature table from a whole history, as a folder that a log can load."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import SparkSession

from penstock.errors import InvalidArgument
from penstock.spark import feature_sources, feature_state
from penstock.spark.feature_job import DefinitionLike, KeyShuffle, job_of
from penstock.spark.feature_sources import FeatureHistory, records
from penstock.spark.feature_tables import (
    buckets_of,
    by_bucket,
    keyed_events,
)
from penstock.storage.fs import OsFilesystem
from penstock.types import Offset


@dataclass(frozen=True, slots=True)
class FeatureSnapshot:
    """What was built. `first_seq` is the oldest record that was read: above 1, older ones were
    gone or deleted."""

    folder: str
    table: str
    features: tuple[str, ...]
    offset: Offset
    first_seq: int
    keys: int
    events: int
    files: int
    bytes: int


def backfill(
    spark: SparkSession,
    definition: DefinitionLike,
    table: str,
    source: FeatureHistory,
    folder: str,
    *,
    log_id: str = "",
    upto_seq: int | None = None,
    features: Collection[str] | None = None,
    buckets: int = 0,
) -> FeatureSnapshot:
    """Fold a history, and write the state of the table to a folder that driver, executors and the
    log see at the same path. `FeatureStore.load` loads it.

    `log_id` is that of the log which is to load it; a data directory tells its own. A crash leaves
    the content of the folder before or the new one.
    """
    job = job_of(definition, table, features)
    identity = feature_state.identity_of(job, log_id or feature_sources.log_id_of(source))
    fs, folder = OsFilesystem(), os.path.abspath(folder)
    fs.make_dirs(folder)
    shuffle = KeyShuffle(buckets_of(spark, buckets))
    rows = records(spark, job.plan.event.topic, source, upto_seq)
    folded = by_bucket(keyed_events(rows, job, shuffle), shuffle)
    written = feature_state.write(folded, job, identity, folder)
    if written is None:
        raise InvalidArgument(f"there are no records of topic {job.plan.event.topic!r} to read")
    state = written.commit(folder, identity, written.first)
    return FeatureSnapshot(
        folder,
        table,
        job.features,
        state.offset,
        written.first,
        written.keys,
        written.events,
        len(written.files),
        written.bytes,
    )
