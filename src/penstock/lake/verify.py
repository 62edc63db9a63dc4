"""Verifies a lake against its log and its manifests, file by file and record by record.

Files are compared with the digests in the manifest. The log is compared with bronze, and bronze
with silver, by counts and checksums of ranges of seqs. Only ranges that differ are compared record
by record.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.clock import SystemClock
from penstock.lake import bronze as bronzes
from penstock.lake import counts as log_counts
from penstock.lake import dataframes, layout
from penstock.lake import silver as silvers
from penstock.lake.decoding import decoded
from penstock.lake.manifest import DataFile, Manifest
from penstock.lake.project import Project
from penstock.lake.reader import LogReader
from penstock.lake.silver import SilverTable
from penstock.lake.stages import OffsetRange
from penstock.lake.table_commits import Table
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.types import Offset

_KEY = ["topic", "epoch", "seq"]
_RANGE_SEQS = 65_536
_RAW = ["node", "tag", "meta", "data"]


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference between a table and its input, or its manifest."""

    table: str
    what: str  # missing, altered, twice, extra; of a file: removed, changed
    path: str = ""
    topic: str = ""
    epoch: int = 0
    first: int = 0
    last: int = 0
    count: int = 0

    def __str__(self) -> str:
        if self.path:
            return f"{self.table}: file {self.path} was {self.what}"
        where = f"topic {self.topic}, epoch {self.epoch}, seqs {self.first} to {self.last}"
        return f"{self.table}: {where}: {self.count} {self.what}"


class VerifyReport(msgspec.Struct, frozen=True):
    """What was compared, and the differences."""

    files: int
    records: int  # of the log, all read again
    gone: int  # records of bronze that the log no longer has: deleted, evicted or expired
    differences: list[Difference]


class Verifier:
    """Compares a lake with its log. Changes nothing. The caller holds the lake's lock."""

    def __init__(
        self,
        project: Project,
        spark: SparkSession,
        *,
        fs: Filesystem | None = None,
        skip_corrupt: bool = False,
    ) -> None:
        self._project = project
        self._spark = spark
        self._fs = fs or OsFilesystem()
        self._log = LogReader(spark, project.source, skip_corrupt=skip_corrupt)
        self._intact: dict[str, set[str]] = {}  # table -> paths of files with the right digest

    def verify(self) -> VerifyReport:
        differences: list[Difference] = []
        files = 0
        for table in layout.tables(self._fs, self._project):
            held = table.current()
            if held is not None:
                files += len(held.files)
                differences += self._files(table, held)
        bronze = layout.bronze(self._fs, self._project)
        held = bronze.current()
        if held is None:
            return VerifyReport(files, 0, 0, differences)
        records, gone, found = self._bronze(bronze, held)
        differences += found
        for rules in self._project.silver:
            table = layout.silver(self._fs, self._project, rules.name)
            now = table.current()
            if now is not None:
                silver = SilverTable(self._spark, table, rules, SystemClock())
                differences += self._silver(silver, now, bronze, held)
        return VerifyReport(files, records, gone, differences)

    def _files(self, table: Table, held: Manifest) -> list[Difference]:
        """Compare all files of a table with their digests."""
        found = []
        intact = self._intact.setdefault(table.root, set())
        for file in held.files:
            try:
                is_same = dataframes.digest(table, table.path_of(file)) == file.digest
            except FileNotFoundError:
                found.append(Difference(table.name, "removed", file.path))
            else:
                if is_same:
                    intact.add(file.path)
                else:
                    found.append(Difference(table.name, "changed", file.path))
        return found

    def _readable(self, table: Table, files: Sequence[DataFile]) -> list[DataFile]:
        return [file for file in files if file.path in self._intact[table.root]]

    def _bronze(self, table: Table, held: Manifest) -> tuple[int, int, list[Difference]]:
        counts = log_counts.of_source(self._project.source)
        ends = {
            topic: Offset(position.epoch, position.seq)
            for topic, position in held.offsets.items()
            if topic in counts.topics and counts.topics[topic].epoch == position.epoch
        }
        files = self._readable(table, held.of(bronzes.RECORDS))
        rows = dataframes.read(self._spark, table, files, dataframes.RECORDS).filter(
            _of_epochs(ends)
        )
        if not ends:
            return 0, 0, []
        starts = {topic: Offset(position.epoch, 0) for topic, position in ends.items()}
        log = self._log.records(OffsetRange(starts, ends, True))
        columns = [*_KEY, "unix_micros(ts)", *_RAW]
        expected, actual = (_hashed(one, columns) for one in (log, rows))
        count, found = _compared(expected, actual, table.name)
        gone = sum(one.count for one in found if one.what == "extra")
        return count, gone, [one for one in found if one.what != "extra"]

    def _silver(
        self, silver: SilverTable, now: Manifest, bronze: Table, held: Manifest
    ) -> list[Difference]:
        """Each record of bronze is once in silver or in quarantine, unless it was deleted. Rows of
        silver with the present columns have the values that bronze gives now."""
        topics = [topic for topic in now.offsets if silver.rules.matches(topic)]
        files = self._readable(bronze, [f for f in held.of(bronzes.RECORDS) if f.topic in topics])
        rows = dataframes.read(self._spark, bronze, files, dataframes.RECORDS)
        rows = rows.filter(~dataframes.past(now.offsets, topics))
        if silver.rules.applies_deletes:
            known = self._readable(bronze, held.of(bronzes.DELETES))
            deletes = dataframes.read(self._spark, bronze, known, dataframes.DELETES)
            rows = dataframes.without(rows, deletes)
        typed = self._readable(silver.table, now.of(silvers.ROWS))
        bad = self._readable(silver.table, now.of(silvers.QUARANTINE))
        keys = dataframes.keys(self._spark, silver.table, typed).select(*_KEY)
        if bad:
            keys = keys.union(dataframes.keys(self._spark, silver.table, bad).select(*_KEY))
        name = silver.rules.name
        _, found = _compared(_hashed(rows, _KEY), _hashed(keys, _KEY), name)
        same = [file for file in typed if file.shape == now.shape]
        if not same:
            return found
        actual = silver.rows(now, same)
        expected = decoded(rows, now.columns).good.join(actual.select(*_KEY), _KEY, "left_semi")
        columns = [*_KEY, *(dataframes.quoted(column.name) for column in now.columns)]
        _, values = _compared(_hashed(expected, columns), _hashed(actual, columns), name)
        return found + [one for one in values if one.what == "altered"]


def _hashed(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    # Spark's hash ignores nulls, so the hash includes for each column whether it is null.
    values = [F.expr(one) for one in columns]
    marks = [value.isNull() for value in values]
    return rows.select(*_KEY, F.xxhash64(*values, *marks).alias("hash"))


def _of_epochs(ends: dict[str, Offset]) -> Expression:
    found = F.lit(False)
    for topic, position in ends.items():
        found = found | ((F.col("topic") == topic) & (F.col("epoch") == position.epoch))
    return found


def _compared(expected: DataFrame, actual: DataFrame, table: str) -> tuple[int, list[Difference]]:
    """The number of expected records, and the differences by topic, epoch and kind."""
    one, other = _sums(expected), _sums(actual)
    count = sum(held[0] for held in one.values())
    ranges = sorted(at for at in one.keys() | other.keys() if one.get(at) != other.get(at))
    if not ranges:
        return count, []
    at = ["topic", "epoch", "range"]
    schema = "topic string, epoch long, range long"
    wanted = F.broadcast(expected.sparkSession.createDataFrame(ranges, schema))
    left = _once(_ranged(expected).join(wanted, at, "left_semi"), "e")
    right = _once(_ranged(actual).join(wanted, at, "left_semi"), "a")
    what = (
        F.when(F.col("a_times").isNull(), "missing")
        .when(F.col("e_times").isNull(), "extra")
        .when(F.col("a_times") > F.col("e_times"), "twice")
        .when(F.col("a_hash") != F.col("e_hash"), "altered")
    )
    found = left.join(right, _KEY, "full").withColumn("what", what).filter("what is not null")
    rows = found.groupBy("topic", "epoch", "what").agg(
        F.min("seq").alias("first"), F.max("seq").alias("last"), F.count("*").alias("count")
    )
    held = [Difference(table, **row.asDict()) for row in rows.collect()]
    return count, sorted(held, key=lambda row: (row.topic, row.epoch, row.what))


def _ranged(rows: DataFrame) -> DataFrame:
    return rows.withColumn("range", F.expr(f"seq div {_RANGE_SEQS}"))


def _sums(rows: DataFrame) -> dict[tuple[str, int, int], tuple[int, int, int]]:
    """Count, sum and XOR of the hashes of each range."""
    summed = _ranged(rows).groupBy("topic", "epoch", "range")
    found = summed.agg(F.count("*"), F.sum(F.col("hash").cast("decimal(20,0)")), F.bit_xor("hash"))
    return {tuple(row)[:3]: (row[3], int(row[4]), row[5]) for row in found.collect()}


def _once(rows: DataFrame, name: str) -> DataFrame:
    return rows.groupBy(*_KEY).agg(
        F.count("*").alias(f"{name}_times"), F.bit_xor("hash").alias(f"{name}_hash")
    )
