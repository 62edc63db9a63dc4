"""Whether a lake is what its log and its manifests say: file by file, and record by record.

Files are held against the digests in their manifest. Records of the log are held against bronze,
and bronze against silver, by counts and checksums of ranges of seqs; only ranges that differ are
looked into.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.clock import SystemClock
from penstock.lake import bronze as bronzes
from penstock.lake import census as censuses
from penstock.lake import frames, layout
from penstock.lake import silver as silvers
from penstock.lake.decoding import decoded
from penstock.lake.manifest import DataFile, Manifest, Place
from penstock.lake.project import Project
from penstock.lake.reader import LogReader
from penstock.lake.silver import SilverTable
from penstock.lake.steps import Step
from penstock.lake.table import Table
from penstock.storage.fs import Filesystem, OsFilesystem

_KEY = ["topic", "epoch", "seq"]
_RANGE_SEQS = 65_536
_RAW = ["node", "tag", "meta", "data"]


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is not as it should be."""

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


class Verdict(msgspec.Struct, frozen=True):
    """What was looked at and found."""

    files: int
    records: int  # of the log, all of which were read again
    gone: int  # records of bronze that the log has no more: deleted, evicted or expired
    differences: list[Difference]


class Verifier:
    """Compares a lake with its log. Changes nothing; run it while no run is going on."""

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
        self._whole: dict[str, set[str]] = {}  # table -> paths of files that are as they were

    def verify(self) -> Verdict:
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
            return Verdict(files, 0, 0, differences)
        records, gone, found = self._bronze(bronze, held)
        differences += found
        for rules in self._project.silver:
            table = layout.silver(self._fs, self._project, rules.name)
            now = table.current()
            if now is not None:
                silver = SilverTable(self._spark, table, rules, SystemClock())
                differences += self._silver(silver, now, bronze, held)
        return Verdict(files, records, gone, differences)

    def _files(self, table: Table, held: Manifest) -> list[Difference]:
        """Every byte of every file, by its digest."""
        found = []
        whole = self._whole.setdefault(table.root, set())
        for file in held.files:
            try:
                is_same = frames.digest(table, table.path_of(file)) == file.digest
            except FileNotFoundError:
                found.append(Difference(table.name, "removed", file.path))
            else:
                if is_same:
                    whole.add(file.path)
                else:
                    found.append(Difference(table.name, "changed", file.path))
        return found

    def _readable(self, table: Table, files: Sequence[DataFile]) -> list[DataFile]:
        return [file for file in files if file.path in self._whole[table.root]]

    def _bronze(self, table: Table, held: Manifest) -> tuple[int, int, list[Difference]]:
        census = censuses.take(self._project.source)
        ends = {
            topic: place
            for topic, place in held.offsets.items()
            if topic in census.topics and census.topics[topic].epoch == place.epoch
        }
        files = self._readable(table, held.of(bronzes.RECORDS))
        rows = frames.read(self._spark, table, files, frames.RECORDS).filter(_of_epochs(ends))
        if not ends:
            return 0, 0, []
        starts = {topic: Place(place.epoch, 0) for topic, place in ends.items()}
        log = self._log.records(Step(starts, ends, True))
        columns = [*_KEY, "unix_micros(ts)", *_RAW]
        expected, actual = (_hashed(one, columns) for one in (log, rows))
        count, found = _compared(expected, actual, table.name)
        gone = sum(one.count for one in found if one.what == "extra")
        return count, gone, [one for one in found if one.what != "extra"]

    def _silver(
        self, silver: SilverTable, now: Manifest, bronze: Table, held: Manifest
    ) -> list[Difference]:
        """Each record of bronze is in silver or in quarantine, once, unless it was deleted; and
        silver has the values that bronze gives now, where its columns are as they were."""
        topics = [topic for topic in now.offsets if silver.rules.matches(topic)]
        files = self._readable(bronze, [f for f in held.of(bronzes.RECORDS) if f.topic in topics])
        rows = frames.read(self._spark, bronze, files, frames.RECORDS)
        rows = rows.filter(~frames.past(now.offsets, topics))
        if silver.rules.applies_deletes:
            known = self._readable(bronze, held.of(bronzes.DELETES))
            deletes = frames.read(self._spark, bronze, known, frames.DELETES)
            rows = frames.without(rows, deletes)
        typed = self._readable(silver.table, now.of(silvers.ROWS))
        bad = self._readable(silver.table, now.of(silvers.QUARANTINE))
        keys = frames.keys(self._spark, silver.table, typed).select(*_KEY)
        if bad:
            keys = keys.union(frames.keys(self._spark, silver.table, bad).select(*_KEY))
        name = silver.rules.name
        _, found = _compared(_hashed(rows, _KEY), _hashed(keys, _KEY), name)
        same = [file for file in typed if file.shape == now.shape]
        if not same:
            return found
        actual = silver.rows(now, same)
        expected = decoded(rows, now.columns).good.join(actual.select(*_KEY), _KEY, "left_semi")
        columns = [*_KEY, *(frames.quoted(column.name) for column in now.columns)]
        _, values = _compared(_hashed(expected, columns), _hashed(actual, columns), name)
        return found + [one for one in values if one.what == "altered"]


def _hashed(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    # Spark's hash passes over a null: a mark for each says where they are.
    values = [F.expr(one) for one in columns]
    marks = [value.isNull() for value in values]
    return rows.select(*_KEY, F.xxhash64(*values, *marks).alias("hash"))


def _of_epochs(ends: dict[str, Place]) -> Expression:
    found = F.lit(False)
    for topic, place in ends.items():
        found = found | ((F.col("topic") == topic) & (F.col("epoch") == place.epoch))
    return found


def _compared(expected: DataFrame, actual: DataFrame, table: str) -> tuple[int, list[Difference]]:
    """How many records there should be, and where the others differ from them, by topic, epoch and
    kind of difference."""
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
    """Count, sum and parity of the hashes of each range."""
    summed = _ranged(rows).groupBy("topic", "epoch", "range")
    found = summed.agg(F.count("*"), F.sum(F.col("hash").cast("decimal(20,0)")), F.bit_xor("hash"))
    return {tuple(row)[:3]: (row[3], int(row[4]), row[5]) for row in found.collect()}


def _once(rows: DataFrame, name: str) -> DataFrame:
    return rows.groupBy(*_KEY).agg(
        F.count("*").alias(f"{name}_times"), F.bit_xor("hash").alias(f"{name}_hash")
    )
