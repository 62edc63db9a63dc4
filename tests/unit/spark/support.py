"""Logs and servers for the tests of places, and what is read of them without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.spark import source
from penstock.spark.bounds import Bounds
from penstock.spark.options import SourceOptions, read_options
from penstock.spark.schema import RECORD
from penstock.spark.source import BatchReader
from penstock.types import Record


def opened(path: Path, **settings: Any) -> Log:
    return open_log(str(path), settings=Settings(wal_shards=1, background=False, **settings))


def filled(log: Any, count: int = 10, topic: str = "t") -> None:
    log.append(topic, [Record({"n": n}, tag=f"k{n % 3}") for n in range(count)])
    if isinstance(log, Log):
        log.sync()


def options_of(log: Log, **given: Any) -> SourceOptions:
    texts = {name: str(value) for name, value in given.items()}
    return read_options({"path": log.core.parts.layout.root, "topic": "t", **texts})


def rows(options: SourceOptions) -> list[dict[str, Any]]:
    """What Spark would get, sorted."""
    reader = BatchReader(options, RECORD)
    found = [
        row for part in reader.partitions() for b in reader.read(part) for row in b.to_pylist()
    ]
    return sorted(found, key=lambda row: (row["topic"], row["seq"]))


def seqs(options: SourceOptions) -> list[int]:
    return [row["seq"] for row in rows(options)]


def gaps(options: SourceOptions) -> list[tuple[Any, ...]]:
    plan = source.planned(options, Bounds())
    return [(gap.topic, gap.first, gap.last, gap.reason) for gap in plan.gaps]
