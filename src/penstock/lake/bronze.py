"""Bronze: exact copies of the records, a ledger of gaps, and a list of records that were deleted
later. One commit adds records, gaps and the offsets up to which they were read."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import msgspec
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from penstock.clock import Clock
from penstock.errors import StorageError
from penstock.lake import dataframes
from penstock.lake.counts import LogCounts
from penstock.lake.deletes import suspects
from penstock.lake.gap_ledger import CORRUPT, DROPPED, LedgerRow, minus
from penstock.lake.manifest import DataFile, Manifest, ReadPosition, following
from penstock.lake.reader import LogReader
from penstock.lake.stages import OffsetRange
from penstock.lake.table_commits import Table, replaced
from penstock.spark.gaps import GAPS as GAP_ROWS
from penstock.types import Offset

NAME = "bronze"
RECORDS, GAPS, DELETES = "records", "gaps", "deletes"


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What one ingested range of offsets added."""

    records: int
    bytes: int
    gaps: list[LedgerRow]
    skipped: list[LedgerRow]  # those of the gaps that are damaged records


class Bronze:
    """The bronze table. Used under the lake's lock."""

    def __init__(self, spark: SparkSession, table: Table, log: LogReader, clock: Clock) -> None:
        self._spark = spark
        self.table = table
        self._log = log
        self._clock = clock

    def current(self) -> Manifest:
        found = self.table.current()
        if found is None:
            found = Manifest(table=NAME, version=0, act="none", made_ms=0)
        return found

    def check(self, counts: LogCounts) -> None:
        """StorageError if the table was read from another log."""
        held = self.current()
        known = held.inputs.get("log", "")
        why = ""
        if known and counts.log_id and known != counts.log_id:
            why = "the lake was made from another log"
        for topic, position in held.offsets.items():
            facts = counts.topics.get(topic)
            if facts is not None and (facts.epoch, facts.head) < (position.epoch, position.seq):
                why = f"the lake has read topic {topic} past the head of the log"
        if why:
            raise StorageError(
                self.table.root, reason=why, hint="give lake.path another directory for this log"
            )

    def ingest(self, step: OffsetRange, log_id: str) -> IngestResult:
        """Read a range of offsets and commit its records and gaps."""
        held = self.current()
        version = held.version + 1
        rows = self._log.records(step).withColumn("day", dataframes.day_of("ts"))
        files = dataframes.stage(self.table, rows, RECORDS, since=version)
        gaps = self._gaps(step, files)
        skipped = [row for row in gaps if row.reason == CORRUPT]
        new = files + self._stage_gaps(gaps, version)
        self.table.commit(
            following(
                held,
                "ingest",
                made_ms=self._clock.now_ms(),
                offsets=held.offsets | step.read,
                inputs=held.inputs | ({"log": log_id} if log_id else {}),
                skipped=sorted(set(held.skipped) | {row.topic for row in skipped}),
                files=replaced(held.files, [], new),
            )
        )
        size = sum(file.bytes for file in files)
        return IngestResult(sum(file.rows for file in files), size, gaps, skipped)

    def _gaps(self, step: OffsetRange, files: Sequence[DataFile]) -> list[LedgerRow]:
        """The gaps of a range, without records that were read before they were lost."""
        return [
            one for row in self._missing(step) for one in minus(row, self._held_within(row, files))
        ]

    def _missing(self, step: OffsetRange) -> list[LedgerRow]:
        """The gaps that the log reports for a range. Call it after the records of the range were
        read: records that were lost during the read are then among the gaps."""
        return [LedgerRow(**row.asDict()) for row in self._log.gaps(step).collect()]

    def record_ended(self, topics: dict[str, ReadPosition]) -> list[LedgerRow]:
        """Commit that these topics were dropped. Records behind these positions were not read."""
        if not topics:
            return []
        held = self.current()
        now_ms = self._clock.now_ms()
        noticed = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
        gaps = [
            LedgerRow(topic, position.epoch, position.seq + 1, None, DROPPED, noticed)
            for topic, position in sorted(topics.items())
        ]
        files = replaced(held.files, [], self._stage_gaps(gaps, held.version + 1))
        offsets = held.offsets | topics
        self.table.commit(following(held, "ended", made_ms=now_ms, offsets=offsets, files=files))
        return gaps

    def _held_within(self, row: LedgerRow, files: Sequence[DataFile]) -> list[tuple[int, int]]:
        """Ranges of seqs that were read although the log now reports them as lost."""
        near = [f for f in files if row.overlaps(f.topic, f.epoch, f.first, f.last)]
        if not near:
            return []
        last = dataframes.SEQ_MAX if row.last is None else row.last
        held = dataframes.read(self._spark, self.table, near, dataframes.RECORDS)
        number = F.row_number().over(Window.partitionBy("epoch").orderBy("seq"))
        seqs = held.filter(F.col("seq").between(row.first, last))
        runs = seqs.select("seq", (F.col("seq") - number).alias("run")).groupBy("run")
        found = runs.agg(F.min("seq").alias("low"), F.max("seq").alias("high")).collect()
        return sorted((one["low"], one["high"]) for one in found)

    def _stage_gaps(self, rows: Sequence[LedgerRow], version: int) -> list[DataFile]:
        if not rows:
            return []
        ledger = self._spark.createDataFrame([astuple(row) for row in rows], GAP_ROWS).coalesce(1)
        ledger = ledger.withColumn("day", dataframes.day_of("noticed"))
        return dataframes.stage(self.table, ledger, GAPS, since=version)

    def record_deletes(self, counts: LogCounts) -> int:
        """Find records that were deleted in the log after they were read, and commit the list."""
        held = self.current()
        files = suspects(held.of(RECORDS), counts, held.skipped)
        if not files:
            return 0
        starts, ends = _range_of(files)
        step = OffsetRange(starts, ends, False)
        path = dataframes.scratch(self.table, self._gone(held, files, step))
        found = self._spark.read.schema("topic string, epoch long, seq long, day date, file string")
        rows = self._not_within(found.parquet(path), self._missing(step))
        deleted = {row["file"]: row["count"] for row in rows.groupBy("file").count().collect()}
        if not deleted:
            dataframes.discard(self.table)
            return 0
        version = held.version + 1
        ledger = rows.select("topic", "epoch", "seq", "day").coalesce(1)
        new = dataframes.stage(self.table, ledger, DELETES, since=version)
        touched = [
            msgspec.structs.replace(file, dead=file.dead + deleted[_name(file)])
            for file in files
            if _name(file) in deleted
        ]
        self.table.commit(
            following(
                held,
                "deletes",
                made_ms=self._clock.now_ms(),
                files=replaced(held.files, touched, touched + new),
            )
        )
        return sum(deleted.values())

    def _gone(self, held: Manifest, files: Sequence[DataFile], step: OffsetRange) -> DataFrame:
        """Records of these files that the log no longer has and that are not listed as deleted."""
        live = self._log.keys(step)
        keys = dataframes.keys(self._spark, self.table, files)
        return dataframes.without(dataframes.without(keys, live), self.deleted(held))

    def _not_within(self, rows: DataFrame, gaps: Sequence[LedgerRow]) -> DataFrame:
        """The rows outside all gaps: their records were deleted, not lost or damaged."""
        if not gaps:
            return rows
        values = [
            (row.topic, row.epoch, row.first, dataframes.SEQ_MAX if row.last is None else row.last)
            for row in gaps
        ]
        schema = "gap_topic string, gap_epoch long, low long, high long"
        lost = F.broadcast(self._spark.createDataFrame(values, schema))
        is_same = (F.col("topic") == F.col("gap_topic")) & (F.col("epoch") == F.col("gap_epoch"))
        is_lost = is_same & F.col("seq").between(F.col("low"), F.col("high"))
        return rows.join(lost, is_lost, "left_anti")

    def deleted(self, held: Manifest, files: Sequence[DataFile] | None = None) -> DataFrame:
        """The list of deleted records, or the part of it in some files."""
        chosen = held.of(DELETES) if files is None else files
        return dataframes.read(self._spark, self.table, chosen, dataframes.DELETES)


def _name(file: DataFile) -> str:
    return file.path.rpartition("/")[2]


def _range_of(files: Sequence[DataFile]) -> tuple[dict[str, Offset], dict[str, Offset]]:
    starts: dict[str, Offset] = {}
    ends: dict[str, Offset] = {}
    for file in files:
        low = min(file.first - 1, starts[file.topic].seq if file.topic in starts else file.first)
        high = max(file.last, ends[file.topic].seq if file.topic in ends else 0)
        starts[file.topic] = Offset(file.epoch, low)
        ends[file.topic] = Offset(file.epoch, high)
    return starts, ends
