"""A log, a project over it and runs of the pipeline, for the tests of the lake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.lake import frames, layout
from penstock.lake.manifest import Manifest
from penstock.lake.project import FILE, Project, parsed
from penstock.lake.runner import Report, Runner
from penstock.storage.fs import Filesystem, OsFilesystem

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


class Bed:
    """A log and a lake beside each other."""

    def __init__(self, spark: SparkSession, root: Path, text: str = PROJECT) -> None:
        self.spark = spark
        self.root = root
        self.write(text)

    def write(self, text: str) -> None:
        (self.root / FILE).write_text(text, encoding="utf-8")

    @property
    def project(self) -> Project:
        return parsed((self.root / FILE).read_text(encoding="utf-8"), str(self.root))

    def log(self) -> penstock.Log:
        return penstock.open(self.root / "log")

    def append(self, topic: str, *values: Any, **more: Any) -> None:
        with self.log() as log:
            log.append(topic, list(values), **more)

    def run(self, fs: Filesystem | None = None, **more: Any) -> Report:
        fs = fs or OsFilesystem()
        with layout.locked(fs, self.project):
            return Runner(self.project, self.spark, fs=fs, **more).run()

    # What the lake holds.

    def manifest(self, name: str = "bronze") -> Manifest:
        found = self.table(name).current()
        assert found is not None
        return found

    def table(self, name: str) -> Any:
        return next(t for t in layout.tables(OsFilesystem(), self.project) if t.name == name)

    def frame(self, name: str) -> DataFrame:
        """A table by the name that gold knows it by."""
        return Runner(self.project, self.spark).tables()[0][name]

    def records(self) -> list[tuple[Any, ...]]:
        rows = self.frame("bronze").select(*RAW[:3], frames.F.unix_millis("ts"), *RAW[4:])
        return sorted(map(tuple, rows.collect()))

    def rows(self, name: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self.frame(name).select(*columns).collect()))

    def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of all tables, but for when something was noticed."""
        found = {}
        for name, frame in Runner(self.project, self.spark).tables()[0].items():
            columns = [one for one in frame.columns if one not in ("noticed", "day")]
            rows = [tuple(row) for row in frame.select(*columns).collect()]
            found[name] = sorted(rows, key=repr)
        return found


def of_log(log: penstock.Log) -> list[tuple[Any, ...]]:
    """All live records as bronze has them."""
    found = []
    for info in log.topics():
        after = 0
        while True:
            page = log.read(info.name, after)
            for one in page.records:
                meta = None if one.meta is None else _text(one.meta)
                data = _text(one.data)
                found.append(
                    (info.name, info.epoch, one.seq, one.ts, one.node, one.tag, meta, data)
                )
            if page.caught_up:
                break
            after = page.next_seq - 1
    return sorted(found)


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
