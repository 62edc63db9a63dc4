"""A log, a project over it and runs of the pipeline, for the tests of the lake.

What a lake holds is read here without Spark, file by file, as its manifests say.
"""

from __future__ import annotations

import contextlib
import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import penstock
from penstock.engine.engine import Log
from penstock.lake import layout
from penstock.lake.manifest import Manifest
from penstock.lake.project import FILE, Project, parsed
from penstock.lake.runner import Runner, RunReport
from penstock.lake.table_commits import Table
from penstock.lake.verify import Verifier, VerifyReport
from penstock.storage.fs import Filesystem, OsFilesystem
from tests.support.rig import IS_FULL

Row = dict[str, Any]
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
RAW = ("topic", "epoch", "seq", "ts", "node", "tag", "meta", "data")
PROJECT = """
[source]
path = "log"
topics = ["*"]
"""
ORDERS = """
[silver.orders]
topics = ["orders"]
[silver.orders.columns]
id = { type = "long", required = true }
total = "double"
name = "string"
"""


@contextlib.contextmanager
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Spark without compiling each query first: for a handful of rows that takes longer than the
    query. The full variant compiles."""
    changed = {} if IS_FULL else _INTERPRETED
    before = {key: spark.conf.get(key) for key in changed}
    for key, value in changed.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value or "")


class Bed:
    """A log and a lake beside each other."""

    def __init__(self, spark: SparkSession, root: Path, text: str = PROJECT) -> None:
        self.spark = spark
        self.root = root
        root.mkdir(exist_ok=True)
        if text:
            self.write(text)

    def write(self, text: str) -> None:
        (self.root / FILE).write_text(text, encoding="utf-8")

    @property
    def project(self) -> Project:
        return parsed((self.root / FILE).read_text(encoding="utf-8"), str(self.root))

    def log(self) -> Log:
        return penstock.open(self.root / "log")

    def append(self, topic: str, *values: Any, **more: Any) -> None:
        with self.log() as log:
            log.append(topic, list(values), **more)

    def run(self, fs: Filesystem | None = None, **more: Any) -> RunReport:
        fs = fs or OsFilesystem()
        with layout.locked(fs, self.project), interpreted(self.spark):
            return Runner(self.project, self.spark, fs=fs, **more).run()

    def verify(self) -> VerifyReport:
        with interpreted(self.spark):
            return Verifier(self.project, self.spark).verify()

    # What the lake holds.

    def table(self, name: str = "bronze") -> Table:
        return next(t for t in layout.tables(OsFilesystem(), self.project) if t.name == name)

    def manifest(self, name: str = "bronze") -> Manifest:
        found = self.table(name).current()
        assert found is not None
        return found

    def versions(self) -> list[int]:
        return [max(t.versions(), default=0) for t in layout.tables(OsFilesystem(), self.project)]

    def part(self, name: str, part: str) -> list[Row]:
        """All rows of one kind, with the topic that their directory names. A table that never had
        anything to hold is not there."""
        table, found = self.table(name), []
        manifest = table.current()
        for file in [] if manifest is None else manifest.of(part):
            more = {"topic": file.topic} if file.topic else {}
            held = pq.ParquetFile(table.path_of(file)).read().to_pylist()
            found += [row | more for row in held]
        return sorted(found, key=lambda row: json.dumps(row, default=str, sort_keys=True))

    def records(self) -> list[tuple[Any, ...]]:
        return sorted(_raw(row) for row in self.part("bronze", "records"))

    def gaps(self) -> list[tuple[Any, ...]]:
        columns = ("topic", "epoch", "first", "last", "reason")
        return sorted(tuple(row[c] for c in columns) for row in self.part("bronze", "gaps"))

    def silver(self, *columns: str, name: str = "orders") -> list[tuple[Any, ...]]:
        rows = self.part(name, "rows")
        return sorted((tuple(row[c] for c in columns) for row in rows), key=repr)

    def everything(self) -> dict[str, Any]:
        """All rows of all tables, but for when a gap was noticed."""
        found: dict[str, Any] = {}
        for table in layout.tables(OsFilesystem(), self.project):
            held = table.current()
            for part in sorted({file.part for file in held.files} if held else ()):
                rows = self.part(table.name, part)
                found[f"{table.name}.{part}"] = [
                    {key: value for key, value in row.items() if key != "noticed"} for row in rows
                ]
        return found


def _raw(row: Row) -> tuple[Any, ...]:
    ts: datetime.datetime = row["ts"]
    ms = round(ts.timestamp() * 1000)
    return tuple(ms if name == "ts" else row[name] or "" for name in RAW)


def of_log(log: Log) -> list[tuple[Any, ...]]:
    """All live records as bronze has them."""
    found = []
    for info in log.topics():
        after = 0
        while True:
            page = log.read(info.name, after)
            for one in page.records:
                texts = ["" if v is None else _text(v) for v in (one.meta, one.data)]
                found.append(
                    (info.name, info.epoch, one.seq, one.ts, one.node or "", one.tag or "", *texts)
                )
            if page.caught_up:
                break
            after = page.next_seq
    return sorted(found)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
