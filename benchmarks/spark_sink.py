"""Spark's sink: rows a second into a server of ours, acknowledged past its sync.

The rows come from Parquet files. For comparison Spark itself writes the same rows as JSON lines,
into files that are not synced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from benchmarks.server_own import create, own_server
from benchmarks.server_process import Running
from penstock.cli.figure import Figure, best, folder

_GOAL: Final = 500_000
_PARTITIONS: Final = 2
_ROW: Final = (  # about 100 bytes as JSON
    "id AS user",
    "'page_view' AS event",
    "concat('/products/', id % 10000) AS path",
    "id % 97 AS ms",
    "'https://shop.example/' AS ref",
)


def sink_figures(spark: Any, root: str, records: int, rounds: int = 3) -> Iterator[Figure]:
    """`spark` is a session that knows `format("penstock")`."""
    with folder(root) as path, own_server(path) as server:
        if not isinstance(server, Running):
            yield Figure("sink, rows as JSON", float("nan"), "records/s", server.reason)
            return
        place = os.path.join(path, "rows.parquet")
        texts = os.path.join(path, "texts.parquet")
        rows = spark.range(0, records, 1, _PARTITIONS).selectExpr(*_ROW)
        rows.write.parquet(place)
        rows.selectExpr("to_json(struct(*)) AS data").write.parquet(texts)
        url = f"http://127.0.0.1:{server.port}"
        for name, source, goal in (
            ("sink, rows as JSON", place, _GOAL),
            ("sink, a column data", texts, _GOAL),
        ):
            topic = name.replace(",", "").replace(" ", "-")
            create(server, topic, durability="fsync")
            frame = spark.read.parquet(source)
            noted = f"{records:,} rows, {_PARTITIONS} tasks, fsync topic"
            rate = best(rounds, _measure(frame, records, url, topic))
            yield Figure(name, rate, "records/s", noted, goal)
        lines = best(
            rounds, _lines(spark.read.parquet(place), records, os.path.join(path, "lines"))
        )
        yield Figure("  … Spark's own JSON lines, not synced", lines, "records/s")


def _measure(frame: Any, records: int, url: str, topic: str) -> Callable[[], float]:
    def once() -> float:
        write = frame.write.format("penstock").option("url", url).option("topic", topic)
        started = time.perf_counter()
        write.mode("append").save()
        return records / (time.perf_counter() - started)

    return once


def _lines(frame: Any, records: int, place: str) -> Callable[[], float]:
    def once() -> float:
        started = time.perf_counter()
        frame.write.mode("overwrite").json(place)
        return records / (time.perf_counter() - started)

    return once
