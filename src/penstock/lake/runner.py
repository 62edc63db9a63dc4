"""One run of a pipeline, from the log to gold.

Manifests are the only state. Each stage compares its table with its input, adds what is missing and
commits it. So the next run continues a run that was interrupted anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from penstock.clock import Clock, SystemClock
from penstock.errors import TopicNotFound
from penstock.lake import bronze as bronzes
from penstock.lake import compaction, dataframes, gold, layout
from penstock.lake import counts as log_counts
from penstock.lake import silver as silvers
from penstock.lake.bronze import Bronze
from penstock.lake.counts import LogCounts
from penstock.lake.gap_ledger import LedgerRow
from penstock.lake.manifest import DataFile, Manifest, following, id_of
from penstock.lake.project import Project
from penstock.lake.reader import LogReader
from penstock.lake.silver import SilverTable
from penstock.lake.stages import ended, next_step
from penstock.lake.table_commits import Table, replaced
from penstock.storage.fs import Filesystem, OsFilesystem

Progress = Callable[[str, int, int], None]
"""Called with the stage, and with how much of its work is done and how much there is."""


@dataclass(slots=True)
class RunReport:
    """Counts of one run."""

    records: int = 0
    bytes: int = 0
    gaps: list[LedgerRow] = field(default_factory=list)
    skipped: list[LedgerRow] = field(default_factory=list)
    rows: int = 0  # of silver
    quarantined: int = 0
    deleted: int = 0
    compacted: int = 0  # by how many files compaction reduced the lake
    commits: int = 0
    files: int = 0
    lag: int = 0  # live records of the log that are not in bronze, at the end


class Runner:
    """Runs a project on a Spark session. The caller holds the lake's lock (`layout.locked`)."""

    def __init__(
        self,
        project: Project,
        spark: SparkSession,
        *,
        fs: Filesystem | None = None,
        clock: Clock | None = None,
        skip_corrupt: bool = False,
    ) -> None:
        self._project = project
        self._spark = spark
        self._fs = fs or OsFilesystem()
        self._clock = clock or SystemClock()
        # Other readers of Parquet know this type, and files have statistics of it.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        log = LogReader(spark, project.source, skip_corrupt=skip_corrupt)
        table = layout.bronze(self._fs, project)
        self._bronze = Bronze(spark, table, log, self._clock)
        self._silver = [
            SilverTable(spark, layout.silver(self._fs, project, one.name), one, self._clock)
            for one in project.silver
        ]

    def run(self, progress: Progress = lambda stage, done, total: None) -> RunReport:
        """Bring all tables up to date with the log as it is now."""
        report = RunReport()
        tables = layout.tables(self._fs, self._project)
        for table in tables:
            dataframes.discard(table)
            table.tidy()
        before = self._versions(tables)
        counts = log_counts.of_source(self._project.source)
        self._require_topics(counts)
        self._bronze.check(counts)
        self._ingest(counts, report, progress)
        if any(one.applies_deletes for one in self._project.silver):
            progress("deletes", 0, 0)
            self._bronze.record_deletes(counts)
        for silver in self._silver:
            self._refine(silver, report, progress)
        self._compact(report, progress)
        self._build_gold(progress)
        for table in tables:
            table.sweep(self._project.lake.keep_versions)
        report.commits = sum(self._versions(tables)) - sum(before)
        held = [table.current() for table in tables]
        report.files = sum(len(one.files) for one in held if one is not None)
        report.lag = self._lag()
        return report

    def _versions(self, tables: Iterable[Table]) -> list[int]:
        return [max(table.versions(), default=0) for table in tables]

    def _require_topics(self, counts: LogCounts) -> None:
        """A topic that the project names in full must exist, or must have been read before."""
        read = self._bronze.current().offsets
        for name in self._project.source.topics:
            if "*" not in name and name not in counts.topics and name not in read:
                raise TopicNotFound(name)

    def _ingest(self, counts: LogCounts, report: RunReport, progress: Progress) -> None:
        heads = log_counts.heads_of(counts)
        gone = ended(self._bronze.current().offsets, heads, self._project.source.matches)
        report.gaps += self._bronze.record_ended(gone)
        read = self._bronze.current().offsets
        total = sum(log_counts.lag_of(counts, topic, read.get(topic)) for topic in counts.topics)
        while True:
            offsets = self._bronze.current().offsets
            step = next_step(offsets, heads, self._project.lake.batch_records)
            if step is None:
                return
            progress("bronze", report.records, total)
            result = self._bronze.ingest(step, counts.log_id)
            report.records += result.records
            report.bytes += result.bytes
            report.gaps += result.gaps
            report.skipped += result.skipped
            progress("bronze", report.records, total)

    def _refine(self, silver: SilverTable, report: RunReport, progress: Progress) -> None:
        stage, waiting = f"silver {silver.rules.name}", silver.waiting(self._bronze)
        progress(stage, 0, waiting)
        found = silver.update(self._bronze)
        progress(stage, waiting, waiting)
        report.rows += found.rows
        report.quarantined += found.quarantined
        report.deleted += found.deleted

    # Small files.

    def _compact(self, report: RunReport, progress: Progress) -> None:
        bronze = self._bronze
        schemas = {
            bronzes.RECORDS: dataframes.RECORDS,
            bronzes.GAPS: dataframes.GAP_LEDGER,
            bronzes.DELETES: dataframes.DELETES,
        }

        def raw(held: Manifest, files: list[DataFile]) -> DataFrame:
            return dataframes.read(self._spark, bronze.table, files, schemas[files[0].part])

        report.compacted += self._compact_table(bronze.table, raw, progress)
        for silver in self._silver:

            def typed(
                held: Manifest, files: list[DataFile], silver: SilverTable = silver
            ) -> DataFrame:
                return silver.rows(held, files, files[0].part)

            report.compacted += self._compact_table(silver.table, typed, progress)

    def _compact_table(
        self,
        table: Table,
        rows: Callable[[Manifest, list[DataFile]], DataFrame],
        progress: Progress,
    ) -> int:
        """Merge small files, with one commit for each layer; by how many files the table shrank."""
        held = table.current()
        if held is None:
            return 0
        saved = done = 0
        groups = compaction.chosen(held.files, self._project.compaction)
        total = sum(len(group) for group in groups)
        for layer in compaction.layers(groups):
            progress(f"compaction {table.name}", done, total)
            version = held.version + 1
            out: list[DataFile] = []
            new: list[DataFile] = []
            for part in sorted({group[0].part for group in layer}):
                here = [group for group in layer if group[0].part == part]
                files = [file for group in here for file in group]
                frame = rows(held, files).repartition(len(here), "topic", "day", "epoch")
                shape = held.shape if part == silvers.ROWS else 0
                made = dataframes.stage(table, frame, part, shape=shape)
                new += compaction.inherited(here, made)
                out += files
            table.commit(
                following(
                    held,
                    "compact",
                    made_ms=self._clock.now_ms(),
                    files=replaced(held.files, out, new),
                )
            )
            held = table.read(version)
            saved += len(out) - len(new)
            done += len(out)
            progress(f"compaction {table.name}", done, total)
        return saved

    # Gold.

    def _build_gold(self, progress: Progress) -> None:
        if not self._project.gold:
            return
        tables, commits = self.tables()
        for number, rules in enumerate(self._project.gold):
            progress(f"gold {rules.name}", number, len(self._project.gold))
            table = layout.gold(self._fs, self._project, rules.name)
            made = gold.build(self._spark, table, rules, tables, commits, self._clock)
            schema = self._spark.read.parquet(
                *(f"file://{table.path_of(file)}" for file in made.files)
            )
            tables[rules.name] = schema
            commits[rules.name] = id_of(made)
            progress(f"gold {rules.name}", number + 1, len(self._project.gold))

    def tables(self) -> tuple[dict[str, DataFrame], dict[str, str]]:
        """Bronze and silver as committed now, by the names that gold uses, and their commit ids."""
        held = self._bronze.current()
        tables = {
            "bronze": dataframes.read(
                self._spark, self._bronze.table, held.of(bronzes.RECORDS), dataframes.RECORDS
            ),
            "gaps": dataframes.read(
                self._spark, self._bronze.table, held.of(bronzes.GAPS), dataframes.GAP_LEDGER
            ),
        }
        commits = {"bronze": id_of(held)}
        for silver in self._silver:
            name, now = silver.rules.name, silver.current()
            tables[name] = silver.rows(now, now.of(silvers.ROWS))
            bad = now.of(silvers.QUARANTINE)
            tables[f"{name}_quarantine"] = silver.rows(now, bad, silvers.QUARANTINE)
            commits[name] = id_of(now)
        return tables, commits

    def _lag(self) -> int:
        counts = log_counts.of_source(self._project.source)
        read = self._bronze.current().offsets
        return sum(log_counts.lag_of(counts, topic, read.get(topic)) for topic in counts.topics)
