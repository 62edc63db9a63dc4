"""Bronze: the records of the log exactly as they are, the gaps that were met, and which records
were deleted since. One commit names the records, the gaps and the offsets that go with them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import msgspec
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from penstock.clock import Clock
from penstock.errors import StorageError
from penstock.lake import frames
from penstock.lake.census import Census
from penstock.lake.deletes import suspects
from penstock.lake.ledger import CORRUPT, DROPPED, LedgerRow, minus
from penstock.lake.manifest import DataFile, Manifest, Place, following
from penstock.lake.reader import LogReader
from penstock.lake.steps import Step
from penstock.lake.table import Table, replaced
from penstock.spark.gaps import GAPS as GAP_ROWS

NAME = "bronze"
RECORDS, GAPS, DELETES = "records", "gaps", "deletes"


@dataclass(frozen=True, slots=True)
class Taken:
    """What one step brought."""

    records: int
    bytes: int
    gaps: list[LedgerRow]
    skipped: list[LedgerRow]  # those of them that are there and could not be read


class Bronze:
    """The table and how it grows. Used under the lake's lock."""

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

    def check(self, census: Census) -> None:
        """StorageError when this is not the log that the table was made of."""
        held = self.current()
        known = held.inputs.get("log", "")
        why = ""
        if known and census.log_id and known != census.log_id:
            why = "it was made of another log"
        for topic, place in held.offsets.items():
            facts = census.topics.get(topic)
            if facts is not None and (facts.epoch, facts.head) < (place.epoch, place.seq):
                why = f"it has read topic {topic} further than the log goes"
        if why:
            raise StorageError(
                self.table.root, reason=why, hint="give lake.path another directory for this log"
            )

    def ingest(self, step: Step, log_id: str) -> Taken:
        """Read a step and commit it."""
        held = self.current()
        version = held.version + 1
        rows = self._log.records(step).withColumn("day", frames.day_of("ts"))
        files = frames.stage(self.table, rows, RECORDS, since=version)
        gaps = self._gaps(step, files)
        skipped = [row for row in gaps if row.reason == CORRUPT]
        new = files + self._stage_gaps(gaps, version)
        self.table.commit(
            following(
                held,
                "ingest",
                made_ms=self._clock.now_ms(),
                offsets=held.offsets | step.ends,
                inputs=held.inputs | ({"log": log_id} if log_id else {}),
                skipped=sorted(set(held.skipped) | {row.topic for row in skipped}),
                files=replaced(held.files, [], new),
            )
        )
        size = sum(file.bytes for file in files)
        return Taken(sum(file.rows for file in files), size, gaps, skipped)

    def _gaps(self, step: Step, files: Sequence[DataFile]) -> list[LedgerRow]:
        """The gaps of a step, without what was read before it was lost."""
        return [
            one for row in self._told(step) for one in minus(row, self._held_within(row, files))
        ]

    def _told(self, step: Step) -> list[LedgerRow]:
        """What is missing of a step. Ask after its records were read: whatever was missing then
        is told now."""
        return [LedgerRow(**row.asDict()) for row in self._log.gaps(step).collect()]

    def note_ended(self, topics: dict[str, Place]) -> list[LedgerRow]:
        """Commit that these topics are no more: what came past these places was never seen."""
        if not topics:
            return []
        held = self.current()
        now_ms = self._clock.now_ms()
        noticed = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
        gaps = [
            LedgerRow(topic, place.epoch, place.seq + 1, None, DROPPED, noticed)
            for topic, place in sorted(topics.items())
        ]
        files = replaced(held.files, [], self._stage_gaps(gaps, held.version + 1))
        offsets = held.offsets | topics
        self.table.commit(following(held, "ended", made_ms=now_ms, offsets=offsets, files=files))
        return gaps

    def _held_within(self, row: LedgerRow, files: Sequence[DataFile]) -> list[tuple[int, int]]:
        """Seqs that were read although they are told as lost."""
        near = [f for f in files if row.overlaps(f.topic, f.epoch, f.first, f.last)]
        if not near:
            return []
        last = frames.SEQ_MAX if row.last is None else row.last
        held = frames.read(self._spark, self.table, near, frames.RECORDS)
        number = F.row_number().over(Window.partitionBy("epoch").orderBy("seq"))
        seqs = held.filter(F.col("seq").between(row.first, last))
        runs = seqs.select("seq", (F.col("seq") - number).alias("run")).groupBy("run")
        found = runs.agg(F.min("seq").alias("low"), F.max("seq").alias("high")).collect()
        return sorted((one["low"], one["high"]) for one in found)

    def _stage_gaps(self, rows: Sequence[LedgerRow], version: int) -> list[DataFile]:
        if not rows:
            return []
        ledger = self._spark.createDataFrame([astuple(row) for row in rows], GAP_ROWS).coalesce(1)
        ledger = ledger.withColumn("day", frames.day_of("noticed"))
        return frames.stage(self.table, ledger, GAPS, since=version)

    def note_deletes(self, census: Census) -> int:
        """Find records that were deleted in the log since they were read, and commit which."""
        held = self.current()
        files = suspects(held.of(RECORDS), census, held.skipped)
        if not files:
            return 0
        starts, ends = _around(files)
        step = Step(starts, ends, False)
        place = frames.scratch(self.table, self._gone(held, files, step))
        found = self._spark.read.schema("topic string, epoch long, seq long, day date, file string")
        rows = self._not_within(found.parquet(place), self._told(step))
        counts = {row["file"]: row["count"] for row in rows.groupBy("file").count().collect()}
        if not counts:
            frames.discard(self.table)
            return 0
        version = held.version + 1
        ledger = rows.select("topic", "epoch", "seq", "day").coalesce(1)
        new = frames.stage(self.table, ledger, DELETES, since=version)
        touched = [
            msgspec.structs.replace(file, dead=file.dead + counts[_name(file)])
            for file in files
            if _name(file) in counts
        ]
        self.table.commit(
            following(
                held,
                "deletes",
                made_ms=self._clock.now_ms(),
                files=replaced(held.files, touched, touched + new),
            )
        )
        return sum(counts.values())

    def _gone(self, held: Manifest, files: Sequence[DataFile], step: Step) -> DataFrame:
        """Records of these files that are not to be read, and not known to be deleted."""
        live = self._log.keys(step)
        keys = frames.keys(self._spark, self.table, files)
        return frames.without(frames.without(keys, live), self.deleted(held))

    def _not_within(self, rows: DataFrame, gaps: Sequence[LedgerRow]) -> DataFrame:
        """Rows of records that were not lost, nor damaged: somebody has deleted them."""
        if not gaps:
            return rows
        values = [
            (row.topic, row.epoch, row.first, frames.SEQ_MAX if row.last is None else row.last)
            for row in gaps
        ]
        schema = "gap_topic string, gap_epoch long, low long, high long"
        lost = F.broadcast(self._spark.createDataFrame(values, schema))
        is_same = (F.col("topic") == F.col("gap_topic")) & (F.col("epoch") == F.col("gap_epoch"))
        is_lost = is_same & F.col("seq").between(F.col("low"), F.col("high"))
        return rows.join(lost, is_lost, "left_anti")

    def deleted(self, held: Manifest, files: Sequence[DataFile] | None = None) -> DataFrame:
        """Records that are known to be deleted, all of them or those of some files."""
        chosen = held.of(DELETES) if files is None else files
        return frames.read(self._spark, self.table, chosen, frames.DELETES)


def _name(file: DataFile) -> str:
    return file.path.rpartition("/")[2]


def _around(files: Sequence[DataFile]) -> tuple[dict[str, Place], dict[str, Place]]:
    starts: dict[str, Place] = {}
    ends: dict[str, Place] = {}
    for file in files:
        low = min(file.first - 1, starts[file.topic].seq if file.topic in starts else file.first)
        high = max(file.last, ends[file.topic].seq if file.topic in ends else 0)
        starts[file.topic] = Place(file.epoch, low)
        ends[file.topic] = Place(file.epoch, high)
    return starts, ends
