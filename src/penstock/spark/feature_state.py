"""The state of a feature table as a folder with one file for each bucket of keys: tasks write the
files, the driver commits them as one. `docs/format/state-folder.md` has the format."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.clock import SystemClock
from penstock.errors import InvalidArgument
from penstock.features.table_part import TablePart
from penstock.features.timed_events import NO_TIME
from penstock.projections import state_folder
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.projections.state_folder import StateList
from penstock.spark import feature_tasks
from penstock.spark.feature_columns import spark_schema
from penstock.spark.feature_job import DefinitionLike, FeatureJob, job_of
from penstock.spark.feature_tasks import BucketRows
from penstock.storage.fs import OsFilesystem
from penstock.types import Offset

_NUMBERS: Final = ("epoch", "first", "last", "largest", "keys", "bytes", "events")
_WRITTEN: Final = StructType(
    [StructField("file", StringType()), *(StructField(name, LongType()) for name in _NUMBERS)]
)
_WRITTEN_ARROW: Final = pa.schema(
    [("file", pa.string()), *((name, pa.int64()) for name in _NUMBERS)]
)


@dataclass(frozen=True, slots=True)
class WrittenState:
    """The files that the tasks wrote; `first` and `last` are the seqs that they read."""

    files: list[str]
    epoch: int
    first: int
    last: int
    largest: int
    keys: int
    events: int
    bytes: int

    def commit(
        self, folder: str, identity: CheckpointIdentity, first_seq: int, **more: Any
    ) -> StateList:
        """Make these files the content of the folder."""
        state = state_folder.list_of(
            identity,
            Offset(self.epoch, self.last),
            SystemClock().now_ms(),
            self.files,
            first_seq=first_seq,
            keys=self.keys,
            largest=self.largest,
            **more,
        )
        state_folder.commit(OsFilesystem(), folder, state)
        return state


def write(
    folded: DataFrame,
    job: FeatureJob,
    identity: CheckpointIdentity,
    folder: str,
    before: StateList | None = None,
) -> WrittenState | None:
    """Fold the events of all buckets, into the state `before` if there is one; None: there are no
    records. Until the files are committed they are not in the folder's list."""
    state = b"" if before is None else msgspec.json.encode(before)
    run = partial(_write_bucket, job, identity, folder, secrets.token_hex(4), state)
    written = folded.mapInArrow(run, _WRITTEN).collect()
    if not written:
        return None
    return WrittenState(
        [one.file for one in written],
        written[0].epoch,
        written[0].first,
        written[0].last,
        written[0].largest,
        sum(one["keys"] for one in written),
        sum(one.events for one in written),
        sum(one.bytes for one in written),
    )


def identity_of(job: FeatureJob, log_id: str | None) -> CheckpointIdentity:
    """What the files of a state are of."""
    if log_id is None:
        raise InvalidArgument(
            "specify log_id: the status of a feature table has it (log_id), and a source that is "
            "not a data directory does not tell it"
        )
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


def state_of(folder: str, identity: CheckpointIdentity) -> StateList | None:
    """The list of a folder, to be continued; None when there is none. InvalidArgument: it is of
    another table, or was written by other means."""
    state = state_folder.load_list(OsFilesystem(), folder)
    if state is None:
        return None
    if state.identity != identity:
        raise InvalidArgument(
            f"{folder} has the state of another log, topic or definition: use another folder"
        )
    if "largest" not in state.more:
        raise InvalidArgument(
            f"{folder} was not written by this version of backfill or feature_stream: build it anew"
        )
    return state


def snapshot_table(
    spark: SparkSession,
    definition: DefinitionLike,
    table: str,
    folder: str,
    *,
    now_ms: int | None = None,
    features: Collection[str] | None = None,
) -> DataFrame:
    """The rows of a folder that `backfill` or `feature_stream` wrote, as of `now_ms`, by default
    the present time. The folder may have more features. Read the rows before the folder is written
    again: its files are replaced."""
    now_ms = SystemClock().now_ms() if now_ms is None else now_ms
    job = job_of(definition, table, features)
    state = state_folder.load_list(OsFilesystem(), folder)
    if state is None:
        raise InvalidArgument(f"{folder} has no {state_folder.LIST_NAME}: nothing was written yet")
    _check_has(state, job, folder)
    files = spark.createDataFrame([(name,) for name in state.files], "file string")
    read = partial(_snapshot_rows, job, folder, msgspec.json.encode(state), now_ms)
    return files.repartition(max(1, len(state.files))).mapInArrow(read, spark_schema(job))


def _check_has(state: StateList, job: FeatureJob, folder: str) -> None:
    """InvalidArgument unless the folder has the state of all features of the job."""
    name, base, features = msgspec.json.decode(
        state.definition, type=tuple[str, str, list[tuple[str, str]]]
    )
    wanted = {one.name: one.checksum for one in job.plan.features}
    lacking = sorted(set(wanted.items()) - set(features))
    if (name, base) != (job.table, job.plan.checksum) or lacking:
        what = ", ".join(one for one, _ in lacking) or f"table {job.table!r}"
        raise InvalidArgument(f"{folder} was built by a definition that has other {what}")


def _part_of(job: FeatureJob, folder: str, state: StateList, name: str) -> TablePart:
    """The state of a bucket."""
    part = TablePart(job.plan)
    part.restore(state_folder.load_file(OsFilesystem(), folder, name, state).parts)
    return part


def _snapshot_rows(
    job: FeatureJob, folder: str, state: bytes, now_ms: int, batches: Iterable[Any]
) -> Iterator[Any]:
    known = msgspec.json.decode(state, type=StateList)
    for batch in batches:
        for name in batch.column("file").to_pylist():
            part = _part_of(job, folder, known, name)
            yield from feature_tasks.part_rows(job, part, part.all_keys(), now_ms)


def _write_bucket(
    job: FeatureJob,
    identity: CheckpointIdentity,
    folder: str,
    run: str,
    before: bytes,
    batches: Iterable[Any],
) -> Iterator[Any]:
    """The second stage: the state of the keys of a bucket, as a file."""
    known = msgspec.json.decode(before, type=StateList) if before else None
    rows = BucketRows(batches, NO_TIME if known is None else known.more["largest"])
    if not rows.times.summaries or rows.bucket is None:
        return
    if known is None or not known.files:
        part = TablePart(job.plan)
    else:  # their names begin with the numbers of the buckets
        part = _part_of(job, folder, known, known.files[rows.bucket])
    events = part.counters["events"]
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
    found = {
        "file": name,
        "epoch": last.epoch,
        "first": rows.times.summaries[0].first,
        "last": last.last,
        "largest": rows.times.largest,
        "keys": part.keys,
        "bytes": size,
        "events": part.counters["events"] - events,
    }
    yield pa.RecordBatch.from_pylist([found], _WRITTEN_ARROW)
