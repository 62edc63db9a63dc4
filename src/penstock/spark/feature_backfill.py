"""Builds the state of a feature table from a whole history, as a folder that a log can load."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.clock import SystemClock
from penstock.directory import log_identity
from penstock.errors import InvalidArgument
from penstock.features.table_part import TablePart
from penstock.projections import state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.spark.feature_job import DefinitionLike, FeatureJob, KeyShuffle, job_of
from penstock.spark.feature_tables import (
    FeatureSource,
    buckets_of,
    by_bucket,
    keyed_events,
    records,
    source_options,
)
from penstock.spark.feature_tasks import BucketRows
from penstock.storage.fs import OsFilesystem
from penstock.types import Offset

_NUMBERS: Final = ("epoch", "first", "last", "keys", "bytes", "events")
_WRITTEN: Final = StructType(
    [StructField("file", StringType()), *(StructField(name, LongType()) for name in _NUMBERS)]
)


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
    source: FeatureSource,
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
    identity = identity_of(job, log_id or log_id_of(source))
    fs, folder = OsFilesystem(), os.path.abspath(folder)
    fs.make_dirs(folder)
    shuffle = KeyShuffle(buckets_of(spark, buckets))
    rows = records(spark, job.plan.event.topic, source, upto_seq)
    folded = by_bucket(keyed_events(rows, job, shuffle), shuffle)
    write = partial(_write_bucket, job, identity, folder, secrets.token_hex(4))
    written = folded.mapInArrow(write, _WRITTEN).collect()
    if not written:
        raise InvalidArgument(f"there are no records of topic {job.plan.event.topic!r} to read")
    offset = Offset(written[0].epoch, written[0].last)
    snapshot = FeatureSnapshot(
        folder,
        table,
        job.features,
        offset,
        written[0].first,
        sum(one["keys"] for one in written),
        sum(one.events for one in written),
        len(written),
        sum(one.bytes for one in written),
    )
    state_folder.commit(
        fs,
        folder,
        state_folder.list_of(
            identity,
            offset,
            SystemClock().now_ms(),
            [one.file for one in written],
            first_seq=snapshot.first_seq,
            keys=snapshot.keys,
        ),
    )
    return snapshot


def identity_of(job: FeatureJob, log_id: str) -> CheckpointIdentity:
    """What the files of a snapshot are of."""
    try:
        id_bytes = bytes.fromhex(log_id)
    except ValueError:
        id_bytes = b""
    if len(id_bytes) != 16:
        raise InvalidArgument(f"invalid log id {log_id!r}: expected 32 hexadecimal digits")
    part = TablePart(job.plan)
    return CheckpointIdentity(
        id_bytes, job.plan.event.topic, part.kind, part.version, part.definition
    )


def log_id_of(source: FeatureSource) -> str:
    """The id of the log in a data directory."""
    path = "" if isinstance(source, DataFrame) else source_options(source).get("path", "")
    layout = log_identity.read(OsFilesystem(), path) if path else None
    if layout is None:
        raise InvalidArgument(
            "specify log_id: the status of a feature table has it (log_id), and a source that is "
            "not a data directory does not tell it"
        )
    return layout.log_id.hex()


def _write_bucket(
    job: FeatureJob, identity: CheckpointIdentity, folder: str, run: str, batches: Iterable[Any]
) -> Iterator[Any]:
    """The second stage: the state of the keys of a bucket, as a file."""
    rows = BucketRows(batches)
    if not rows.times.summaries:
        return
    part = TablePart(job.plan)
    rows.fold_into(part)
    last = rows.times.summaries[-1]
    # A task that runs twice writes two files, and reports one of them.
    name = f"part-{rows.bucket:05d}-{run}-{secrets.token_hex(4)}.bin"
    size = state_folder.write_file(
        OsFilesystem(),
        folder,
        name,
        identity,
        Offset(last.epoch, last.last),
        SystemClock().now_ms(),
        part.snapshot(),
    )
    numbers = {
        "epoch": last.epoch,
        "first": rows.times.summaries[0].first,
        "last": last.last,
        "keys": part.keys,
        "bytes": size,
        "events": part.counters["events"],
    }
    yield pa.RecordBatch.from_pylist(
        [{"file": name, **numbers}],
        pa.schema([("file", pa.string()), *((one, pa.int64()) for one in _NUMBERS)]),
    )
