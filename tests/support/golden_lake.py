"""A lake of an earlier commit beside its log: how they were filled, what they hold, and how they
go on. As `golden_directories`, for both versions. Tables are read as docs/lake.md says: the newest
manifest names the files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import penstock
from penstock.storage.fs import Filesystem
from penstock.testing import FakeClock

Json = Any
Run = Callable[[], object]
PROJECT = """\
[source]
path = "log"
topics = ["*"]

[compaction]
files_min = 4

[silver.orders]
topics = ["orders"]
[silver.orders.columns]
id = { type = "long", required = true }
total = "double"
name = "string"

[silver.clicks]
topics = ["clicks*"]
evolve = true
[silver.clicks.columns]
n = "int"

[gold.revenue]
sql = "revenue.sql"
"""
READ = ("orders", "orders.eu", "archive", "capped.records")
SQL = "SELECT name, count(*) AS orders, sum(total) AS total FROM orders GROUP BY name\n"


def open_log(home: Path, clock: FakeClock, fs: Filesystem | None = None) -> penstock.Log:
    settings = penstock.Settings(background=False, wal_shards=1, wal_file_bytes=16_384)
    random_bytes = random.Random(15).randbytes
    return penstock.open(
        home / "log", settings=settings, clock=clock, fs=fs, random_bytes=random_bytes
    )


def fill(log: penstock.Log, clock: FakeClock, run: Run) -> None:
    """Two runs, and records that no run has read yet."""
    log.create("clicks.capped", cap_records=4)
    log.append("orders", _orders(0, 8))
    log.append("orders", [{"id": "seven"}, [1, 2]], tag="bad")
    log.append("clicks.capped", [{"n": n} for n in range(7)])
    log.append("recreated", ["earlier"] * 3)
    log.checkpoint(everything=True)
    run()
    clock.advance(24 * 3_600_000)  # another day, and so other files
    log.append("orders", _orders(8, 5), node="till-2")
    log.delete("orders", tag="eu")
    log.append("clicks.capped", [{"n": 7, "by": "ann"}, {"n": 1 << 40}])
    log.drop("recreated")
    log.append("recreated", ["later"])
    log.sync()
    run()
    clock.advance(1000)
    log.append("orders", _orders(13, 3))
    log.delete("orders", seqs=[2, 14])
    log.sync()


def continue_lake(log: penstock.Log, run: Run, root: Path) -> Json:
    """The run that the earlier commit left to do, then one after further changes. Files of before
    that are still in use tell that a table was continued and not made anew."""
    before = files(root)
    run()
    first = {"rows": rows(root), "kept": _common(before, files(root))}
    log.append("orders", [*_orders(16, 2), {"total": 1}])
    log.append("clicks.capped", [{"n": 8, "by": "bob"}])
    log.delete("orders", before_seq=6)
    log.sync()
    run()
    second = {"rows": rows(root), "kept": _common(before, files(root))}
    return {"first": first, "second": second}


def rows(root: Path) -> Json:
    """All rows of all tables by table and part, but for when a gap was noticed."""
    found: dict[str, list[Json]] = {}
    for table, manifest in _tables(root):
        for file in manifest["files"]:
            held = pq.ParquetFile(table / file["path"]).read().to_pylist()
            more = {"topic": file["topic"]} if file.get("topic") else {}
            found.setdefault(f"{table.relative_to(root)}/{file['part']}", []).extend(
                {key: value for key, value in (row | more).items() if key != "noticed"}
                for row in held
            )
    texts = {name: sorted(map(_text, held)) for name, held in sorted(found.items())}
    return {name: [json.loads(text) for text in held] for name, held in texts.items()}


def files(root: Path) -> dict[str, list[str]]:
    """Paths of the data files of each table."""
    return {
        str(table.relative_to(root)): sorted(file["path"] for file in manifest["files"])
        for table, manifest in _tables(root)
    }


def _tables(root: Path) -> list[tuple[Path, Json]]:
    """The directory of each table and its newest manifest."""
    found = []
    for manifests in sorted(root.rglob("_manifests")):
        text = max(manifests.glob("*.json")).read_text(encoding="utf-8")
        found.append((manifests.parent, json.loads(text.splitlines()[0])))
    return found


def _common(one: dict[str, list[str]], other: dict[str, list[str]]) -> Json:
    return {table: sorted(set(one[table]) & set(other[table])) for table in sorted(one)}


def _text(row: Json) -> str:
    return json.dumps(row, default=str, sort_keys=True)


def _orders(start: int, count: int) -> list[penstock.Record]:
    return [
        penstock.Record(
            data={"id": n, "total": n / 4, "name": ("ann", "bob")[n % 2]},
            tag=("eu", None, "us")[n % 3],
            meta={"by": "ann"} if n % 5 == 0 else None,
        )
        for n in range(start, start + count)
    ]


def spark_seqs(spark: SparkSession, path: Path, topic: str) -> list[int]:
    """What Spark reads of a topic in a data directory or in a cold tier alone."""
    found = spark.read.format("penstock").options(path=str(path), topic=topic).load()
    return [row.seq for row in found.select("seq").orderBy("seq").collect()]
