"""A feature table that a streaming query keeps: each micro-batch is folded into the state of the
one before, and committed with it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.clock import SystemClock
from penstock.errors import InvalidArgument
from penstock.features.key_shuffle import check_epoch
from penstock.features.timed_events import NO_TIME
from penstock.projections import state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.projections.state_folder import StateList
from penstock.spark import feature_state
from penstock.spark.feature_job import DefinitionLike, FeatureJob, KeyShuffle, job_of
from penstock.spark.feature_sources import (
    FeatureSource,
    log_id_of,
    record_columns,
    records,
    source_options,
)
from penstock.spark.feature_state import snapshot_table
from penstock.spark.feature_tables import (
    buckets_of,
    by_bucket,
    keyed_events,
)
from penstock.storage.fs import OsFilesystem
from penstock.types import Offset

_QUERY: Final = "sql.streaming.queryId"  # a local property of the thread that runs a batch


@dataclass(frozen=True, slots=True)
class FeatureMicroBatch:
    """A micro-batch whose state was committed: the table has all records up to `offset`."""

    spark: SparkSession
    batch: int
    folder: str
    table: str
    offset: Offset
    keys: int
    definition: bytes

    def rows(
        self, *, now_ms: int | None = None, features: Collection[str] | None = None
    ) -> DataFrame:
        """The rows of the table as of `now_ms`, by default the present time."""
        return snapshot_table(
            self.spark, self.definition, self.table, self.folder, now_ms=now_ms, features=features
        )


def feature_stream(
    spark: SparkSession,
    definition: DefinitionLike,
    table: str,
    source: FeatureSource,
    folder: str,
    *,
    log_id: str = "",
    checkpoint: str = "",
    features: Collection[str] | None = None,
    buckets: int = 0,
    each: Callable[[FeatureMicroBatch], None] | None = None,
) -> DataStreamWriter:
    """A streaming query that folds the records of a source into a feature table. Start it with
    `.start()`, perhaps after `.trigger(…)`.

    The state of the table is in `folder`, which driver and executors see at the same path. Each
    micro-batch reads the state of the one before, and commits its own with one rename: a batch that
    Spark repeats after a crash adds nothing. A folder of `backfill` is continued. The source is a
    data directory, a server, options of `format("penstock")`, or a streaming DataFrame with the
    columns of a record, in the order of seq. `checkpoint` is the checkpoint of the query, by
    default within the folder.

    `each` is called after each batch, again if Spark repeats the batch.
    """
    job = job_of(definition, table, features)
    identity = feature_state.identity_of(job, log_id or log_id_of(source))
    folder = os.path.abspath(folder)
    OsFilesystem().make_dirs(folder)
    state = feature_state.state_of(folder, identity)
    if buckets and state is not None and state.files and buckets != len(state.files):
        raise InvalidArgument(
            f"{folder} has {len(state.files)} buckets, not {buckets}: the number cannot change"
        )
    fold = _Fold(spark, job, identity, folder, buckets_of(spark, buckets), each)
    if isinstance(source, DataFrame):
        rows = source
    else:
        rows = _read_stream(spark, job.plan.event.topic, source, state)
        fold.is_checked_by_source = True
    checkpoint = checkpoint or f"{folder}/checkpoint"
    return rows.writeStream.foreachBatch(fold.run).option("checkpointLocation", checkpoint)


def _read_stream(
    spark: SparkSession, topic: str, source: Any, state: StateList | None
) -> DataFrame:
    """The topic from its beginning, or from where the state ends."""
    options = dict(source_options(source)) | {"topic": topic, "columns": "epoch,seq,ts,data"}
    if state is not None and state.files:
        for name in options:
            if name.lower() in ("startingoffsets", "startingseq", "startingtimestamp"):
                raise InvalidArgument(f"the folder has a state, which is continued: omit {name}")
        options["startingOffsets"] = json.dumps({topic: {"epoch": state.epoch, "seq": state.seq}})
    return spark.readStream.format("penstock").options(**options).load()


class _Fold:
    """What a query does with its batches, one after the other."""

    def __init__(
        self,
        spark: SparkSession,
        job: FeatureJob,
        identity: CheckpointIdentity,
        folder: str,
        buckets: int,
        each: Callable[[FeatureMicroBatch], None] | None,
    ) -> None:
        self._spark = spark
        self._job = job
        self._identity = identity
        self._folder = folder
        self._buckets = buckets
        self._each = each
        self.is_checked_by_source = False  # reports missing records, and has partitions in order

    def run(self, rows: DataFrame, batch: int) -> None:
        """Fold a batch, unless it was committed before."""
        query = self._spark.sparkContext.getLocalProperty(_QUERY)
        if query is None:
            raise AssertionError("the batch is not one of a query")
        state = feature_state.state_of(self._folder, self._identity)
        is_same = state is not None and state.more.get("query") == query
        if batch > 0 and not is_same:
            found = "no state" if state is None else "the state of another query"
            raise InvalidArgument(
                f"{self._folder} has {found}, and this query is at batch {batch}: its batches "
                "before that are missing, so begin with a new checkpoint"
            )
        if state is None or not is_same or batch > state.more["batch"]:
            joined = state.more["joined"] if state is not None and is_same else None
            state = self._folded(rows, batch, query, state, joined)
        if self._each is not None and batch == state.more["batch"] and state.files:
            job = self._job
            done = FeatureMicroBatch(
                self._spark,
                batch,
                self._folder,
                job.table,
                state.offset,
                state.more["keys"],
                job.definition,
            )
            self._each(done)

    def _folded(
        self, rows: DataFrame, batch: int, query: str, before: StateList | None, joined: int | None
    ) -> StateList:
        """Commit the state with this batch. The query continues a state that was made by others,
        with records up to the seq `joined`; None: this is its first batch."""
        topic = self._job.plan.event.topic
        seq = 0 if before is None else before.seq
        if self.is_checked_by_source:
            rows = record_columns(rows, topic)
        else:
            rows = records(self._spark, topic, rows)
            if joined is None and seq:
                self._check_begin(rows, seq)
        joined = seq if joined is None else joined
        if joined:
            rows = rows.where(F.col("seq") > joined)
        buckets = len(before.files) if before is not None and before.files else self._buckets
        shuffle = KeyShuffle(buckets)
        folded = by_bucket(keyed_events(rows, self._job, shuffle), shuffle)
        written = feature_state.write(folded, self._job, self._identity, self._folder, before)
        if feature_state.state_of(self._folder, self._identity) != before:
            raise InvalidArgument(
                f"{self._folder} was changed while batch {batch} was folded: let one query write "
                "to a folder"
            )
        if written is None:
            return self._recommitted(before, query=query, batch=batch, joined=joined)
        if before is not None and before.files:
            check_epoch(before.epoch, written.epoch)
            if written.first <= seq:
                raise InvalidArgument(
                    f"batch {batch} has record {written.first} of topic {topic!r}, and batches "
                    f"before it had those up to {seq}: expected a stream in the order of seq"
                )
        first = written.first if before is None or not before.files else before.more["first_seq"]
        return written.commit(
            self._folder, self._identity, first, query=query, batch=batch, joined=joined
        )

    def _check_begin(self, rows: DataFrame, seq: int) -> None:
        """Refuse a stream that begins behind the state. A source that we made begins where the
        state ends, and reports what is missing there."""
        first = rows.agg(F.min("seq")).collect()[0][0]
        if first is not None and first > seq + 1:
            raise InvalidArgument(
                f"the stream begins with record {first}, and {self._folder} has those up to {seq}: "
                "begin the stream at or before the next one"
            )

    def _recommitted(self, before: StateList | None, **own: Any) -> StateList:
        """The state before with this batch, which had no records."""
        more: dict[str, Any] = {"first_seq": 0, "keys": 0, "largest": NO_TIME}
        more |= {} if before is None else before.more
        more |= own
        state = state_folder.list_of(
            self._identity,
            Offset(0, 0) if before is None else before.offset,
            SystemClock().now_ms(),
            [] if before is None else before.files,
            **more,
        )
        state_folder.commit(OsFilesystem(), self._folder, state)
        return state
