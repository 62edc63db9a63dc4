"""Silver: records with typed columns, each once, without records that were deleted in the log.
Records that do not fit go to quarantine with a reason. One commit has both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from penstock.clock import Clock
from penstock.lake import bronze as bronzes
from penstock.lake import dataframes, evolution
from penstock.lake.bronze import Bronze
from penstock.lake.decoding import decoded, seen
from penstock.lake.evolution import Column
from penstock.lake.manifest import ANCESTORS_MAX, DataFile, Manifest, following, id_of
from penstock.lake.project import LOG_COLUMNS, OWN_NAMES, Silver
from penstock.lake.stages import past
from penstock.lake.table_commits import Table, replaced

ROWS, QUARANTINE = "rows", "quarantine"
# Keys of `inputs`: the version of bronze whose deletes are applied, and the commit of bronze that
# was read last.
_APPLIED, _FOLLOWED = "deletes", "bronze"
_KEY = ["topic", "epoch", "seq"]


@dataclass(frozen=True, slots=True)
class Refined:
    """How many rows an update added and removed."""

    rows: int = 0
    quarantined: int = 0
    deleted: int = 0


class SilverTable:
    """One silver table, which is updated from bronze. Used under the lake's lock."""

    def __init__(self, spark: SparkSession, table: Table, rules: Silver, clock: Clock) -> None:
        self._spark = spark
        self.table = table
        self.rules = rules
        self._clock = clock

    def current(self) -> Manifest:
        found = self.table.current()
        if found is None:
            found = Manifest(table=self.rules.name, version=0, act="none", made_ms=0)
        return found

    def waiting(self, bronze: Bronze) -> int:
        """How many records of bronze the next update reads, counted by files."""
        held, source = self.current(), bronze.current()
        known = held if _comes_after(source, held) else _emptied(held)
        return sum(f.rows for f in source.of(bronzes.RECORDS) if self._is_new(f, known))

    def update(self, bronze: Bronze) -> Refined:
        """Add new records of bronze and remove deleted ones, in one commit or none."""
        held, source = self.current(), bronze.current()
        known = held if _comes_after(source, held) else _emptied(held)
        new = [f for f in source.of(bronzes.RECORDS) if self._is_new(f, known)]
        columns = evolution.declared(self.rules.name, held.columns, self.rules.columns)
        rows = self._rows(bronze, source, new, known)
        if new and self.rules.evolve:
            columns = evolution.grown(columns, seen(rows, columns), (*LOG_COLUMNS, *OWN_NAMES))
        target = self._shaped(held, known, columns)
        files = self._decode(rows, target) if new else []
        out, again, deleted = self._apply_deletes(bronze, source, target)
        offsets = {t: p for t, p in source.offsets.items() if self.rules.matches(t)}
        inputs = self._inputs(known, source)
        is_same = known is held and held.offsets | offsets == held.offsets
        is_same = is_same and held.columns == columns and not _has_news(held.inputs, inputs, source)
        if is_same and not files and held.version:
            return Refined()
        self.table.commit(
            msgspec.structs.replace(
                target,
                made_ms=self._clock.now_ms(),
                offsets=known.offsets | offsets,
                inputs=inputs,
                files=replaced(known.files, out, files + again),
            )
        )
        found = {part: sum(f.rows for f in files if f.part == part) for part in (ROWS, QUARANTINE)}
        return Refined(found[ROWS], found[QUARANTINE], deleted)

    def _is_new(self, file: DataFile, held: Manifest) -> bool:
        is_past = past(held.offsets, file.topic, file.epoch, file.last)
        return is_past and self.rules.matches(file.topic)

    def _rows(
        self, bronze: Bronze, source: Manifest, new: Sequence[DataFile], held: Manifest
    ) -> DataFrame:
        """Records of bronze that this table has not read yet, each once."""
        rows = dataframes.read(self._spark, bronze.table, new, dataframes.RECORDS)
        topics = sorted({file.topic for file in new})
        rows = rows.filter(dataframes.past(held.offsets, topics)).dropDuplicates(_KEY)
        known = [f for f in source.of(bronzes.DELETES) if f.topic in topics]
        if known and self.rules.applies_deletes:
            rows = dataframes.without(rows, bronze.deleted(source, known))
        return rows

    def _shaped(self, held: Manifest, known: Manifest, columns: list[Column]) -> Manifest:
        """The next version, with the columns and the shape of its new files."""
        shape = {column.name: column.kind for column in columns}
        shapes = held.shapes if shape in held.shapes else [*held.shapes, shape]
        return following(
            held,
            "refine",
            made_ms=self._clock.now_ms(),
            columns=columns,
            shapes=shapes,
            offsets=known.offsets,
            inputs=known.inputs,
            files=known.files,
        )

    def _inputs(self, known: Manifest, source: Manifest) -> dict[str, str]:
        deletes = max((file.since for file in source.of(bronzes.DELETES)), default=0)
        is_on = deletes and self.rules.applies_deletes
        applied = {_APPLIED: str(deletes)} if is_on else {}
        return known.inputs | applied | {_FOLLOWED: id_of(source)}

    def _decode(self, rows: DataFrame, target: Manifest) -> list[DataFile]:
        count = Observation()
        found = decoded(rows.observe(count, F.count(F.lit(1)).alias("rows")), target.columns)
        good = self.stage(found.good, ROWS, target)
        if count.get["rows"] == sum(file.rows for file in good):
            return good
        return good + self.stage(decoded(rows, target.columns).bad, QUARANTINE, target)

    def stage(self, rows: DataFrame, part: str, target: Manifest) -> list[DataFile]:
        """Write data files with the newest shape."""
        shape = target.shape if part == ROWS else 0
        return dataframes.stage(self.table, rows, part, shape=shape, since=target.version)

    def _apply_deletes(
        self, bronze: Bronze, source: Manifest, target: Manifest
    ) -> tuple[list[DataFile], list[DataFile], int]:
        """Files that have deleted records, their replacements without these, and the number of rows
        removed."""
        applied = int(target.inputs.get(_APPLIED, "0"))
        news = [f for f in source.of(bronzes.DELETES) if f.since > applied]
        if not news or not self.rules.applies_deletes:
            return [], [], 0
        gone = bronze.deleted(source, news)
        out: list[DataFile] = []
        again: list[DataFile] = []
        for part in (ROWS, QUARANTINE):
            near = [f for f in target.of(part) if any(_overlap(f, one) for one in news)]
            hit = dataframes.keys(self._spark, self.table, near).join(gone.select(*_KEY), _KEY)
            names = {row["file"] for row in hit.select("file").distinct().collect()}
            touched = [f for f in near if f.path.rpartition("/")[2] in names]
            if touched:
                left = dataframes.without(self.rows(target, touched, part), gone)
                out += touched
                again += self.stage(left, part, target)
        return out, again, sum(f.rows for f in out) - sum(f.rows for f in again)

    def rows(self, held: Manifest, files: Sequence[DataFile], part: str = ROWS) -> DataFrame:
        if part == QUARANTINE:
            return dataframes.read(self._spark, self.table, files, dataframes.QUARANTINE)
        return dataframes.read_silver(self._spark, self.table, held, files)


def _comes_after(source: Manifest, held: Manifest) -> bool:
    """Whether this commit of bronze is the one that the table read last, or a later one. It is not
    if manifests of bronze, or all of bronze, were removed."""
    followed = held.inputs.get(_FOLLOWED)
    return followed is None or followed == id_of(source) or followed in source.ancestors


def _emptied(held: Manifest) -> Manifest:
    """The table without rows and offsets, to be rebuilt from bronze."""
    return msgspec.structs.replace(held, offsets={}, inputs={}, files=[])


def _has_news(old: Mapping[str, str], new: Mapping[str, str], source: Manifest) -> bool:
    """Whether inputs have changed. A newer commit of bronze alone counts only if the commit that
    was read last is about to leave its list of ancestors."""
    if {**old, _FOLLOWED: ""} != {**new, _FOLLOWED: ""}:
        return True
    near = [*source.ancestors[-ANCESTORS_MAX // 2 :], new[_FOLLOWED]]
    return old.get(_FOLLOWED) not in near


def _overlap(one: DataFile, other: DataFile) -> bool:
    is_same = (one.topic, one.epoch) == (other.topic, other.epoch)
    return is_same and one.first <= other.last and one.last >= other.first
