"""Spark over a log, beside the same rows as Parquet and as JSON lines.

All three are written once and read once before the first measurement. Measurements write to Spark's
`noop` sink, which discards every row, unless a figure says otherwise.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.spark_java import ended, writes_below
from benchmarks.spark_sink import sink_figures
from penstock.cli.figure import Figure, best, seconds
from penstock.config import Settings
from penstock.engine.open_log import open_log
from penstock.types import Record

_BATCH: Final = 10_000
_TYPED: Final = "user bigint, ms bigint, path string"
_SUMS: Final = "count(path) AS paths, sum(ms) AS ms, max(user) AS users"
_IDLE_TRIGGERS: Final = 20
_IDLE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Stand:
    """The same records in three forms."""

    spark: Any
    root: str
    records: int
    rounds: int

    @property
    def log(self) -> str:
        return os.path.join(self.root, "log")

    @property
    def parquet(self) -> str:
        return os.path.join(self.root, "rows.parquet")

    @property
    def lines(self) -> str:
        return os.path.join(self.root, "rows.json")

    def rows(self, **options: object) -> Any:
        reader = self.spark.read.format("penstock").option("path", self.log)
        return reader.options(topic="events", **options).load()

    def rate(self, work: Callable[[], object]) -> float:
        """Records a second at best."""
        return best(self.rounds, lambda: self.records / seconds(work))

    def least_s(self, work: Callable[[], object]) -> float:
        return 1 / best(self.rounds, lambda: 1 / seconds(work))


def spark_figures(root: str, records: int, rounds: int) -> Generator[Figure]:
    # Here, because it starts a Java machine.
    from penstock.spark import session

    conf = writes_below(root)
    with ended():
        spark = session("penstock-bench", master="local[2]", shuffle_partitions=2, conf=conf)
        try:
            yield from source_figures(Stand(spark, root, records, rounds))
            yield from sink_figures(spark, root, records)
        finally:
            spark.stop()


def source_figures(stand: Stand) -> Iterator[Figure]:
    _write_records(stand)
    yield from _scans(stand)
    yield from _typed(stand)
    yield from _range(stand)
    yield from _stream(stand)
    yield from _idle(stand)


def _write_records(stand: Stand) -> None:
    with open_log(stand.log, settings=Settings(default_durability="disk")) as log:
        for start in range(0, stand.records, _BATCH):
            stop = min(stand.records, start + _BATCH)
            log.append("events", [_record(number) for number in range(start, stop)])
        log.compact()
    rows = stand.rows()
    rows.write.parquet(stand.parquet)
    rows.write.json(stand.lines)


def _record(number: int) -> Record:
    """About 100 bytes of data, and a tag."""
    return Record(
        {
            "user": number % 100_003,
            "event": "page_view",
            "path": f"/products/{number % 10_007}",
            "ms": number % 97,
            "ref": "https://shop.example/home",
        },
        tag=f"shop-{number % 16}",
    )


def _drop(frame: Any) -> Callable[[], object]:
    """Write every row to the `noop` sink."""
    return lambda: frame.write.format("noop").mode("overwrite").save()


def _scans(stand: Stand) -> Iterator[Figure]:
    noted = f"{stand.records:,} records, all columns"
    rows = stand.rows()
    ours = stand.rate(_drop(rows))
    parquet = stand.rate(_drop(stand.spark.read.parquet(stand.parquet)))
    lines = stand.rate(_drop(stand.spark.read.schema(rows.schema).json(stand.lines)))
    yield Figure("scan, Penstock, checksums verified", ours, "records/s", noted)
    yield Figure("  … Parquet", parquet, "records/s")
    yield Figure("  … JSON lines", lines, "records/s")
    yield Figure("  … of Parquet's rate", ours / parquet, "times", "", 0.8)
    yield Figure("  … of the rate of JSON lines", ours / lines, "times", "", 2.5)


def _typed(stand: Stand) -> Iterator[Figure]:
    # Created anew each time: Spark keeps the shuffled data of a frame.
    def typed() -> Any:
        return stand.rows(schema=_TYPED).selectExpr(*_SUMS.split(", ")).collect()

    def parsed() -> Any:
        raw = stand.rows(columns="data").selectExpr(f"from_json(data, '{_TYPED}') AS it")
        return raw.selectExpr("it.*").selectExpr(*_SUMS.split(", ")).collect()

    if typed() != parsed():
        raise AssertionError("typed columns and from_json disagree")
    ours, theirs = stand.rate(typed), stand.rate(parsed)
    yield Figure("aggregate of three typed columns", ours, "records/s", "decoded in the source")
    yield Figure("  … from_json over the raw column", theirs, "records/s")
    yield Figure("  … times from_json", ours / theirs, "times", "", 1.5)


def _range(stand: Stand) -> Iterator[Figure]:
    first = stand.records // 2
    last = first + max(1, stand.records // 100) - 1
    condition = f"seq BETWEEN {first} AND {last}"
    bounded = stand.least_s(lambda: _drop(stand.rows(startingSeq=first, endingSeq=last))())
    pushed = stand.least_s(lambda: _drop(stand.rows(pushFilters="true").where(condition))())
    read = stand.spark.read
    theirs = stand.least_s(lambda: _drop(read.parquet(stand.parquet).where(condition))())
    yield Figure("1 % of the seqs, by options", bounded * 1000, "ms", "planning included")
    yield Figure("  … by a filter that is pushed down", pushed * 1000, "ms")
    yield Figure("  … Parquet", theirs * 1000, "ms")
    yield Figure("  … pushed down, of Parquet's time", pushed / theirs, "times", "", 1.5, True)


def _stream(stand: Stand) -> Iterator[Figure]:
    rounds = iter(range(1 << 30))

    def batch() -> None:
        stand.rows().write.parquet(os.path.join(stand.root, f"batch-{next(rounds)}"))

    def stream() -> None:
        place = os.path.join(stand.root, f"stream-{next(rounds)}")
        write = _following(stand).writeStream.format("parquet").option("path", place)
        write = write.option("checkpointLocation", place + "-checkpoint")
        write.trigger(availableNow=True).start().awaitTermination()

    once, followed = stand.rate(batch), stand.rate(stream)
    yield Figure("batch into Parquet", once, "records/s")
    yield Figure("AvailableNow stream into Parquet", followed, "records/s", "with its checkpoint")
    yield Figure("  … of the batch's rate", followed / once, "times", "", 0.6)


def _following(stand: Stand) -> Any:
    reader = stand.spark.readStream.format("penstock").option("path", stand.log)
    return reader.option("topic", "events").load()


def _idle(stand: Stand) -> Iterator[Figure]:
    """Duration of a trigger without new records, as Spark's progress reports it."""
    conf = stand.spark.conf
    conf.set("spark.sql.streaming.noDataProgressEventInterval", "0")
    reader = stand.spark.readStream.format("penstock").option("path", stand.log)
    rows = reader.options(topic="events", startingSeq=stand.records).load()
    write = rows.writeStream.format("noop")
    place = os.path.join(stand.root, "idle-checkpoint")
    query = write.option("checkpointLocation", place).trigger(processingTime="0 seconds").start()
    try:
        until = time.monotonic() + _IDLE_S
        taken: list[float] = []
        while len(taken) < _IDLE_TRIGGERS and time.monotonic() < until:
            query.awaitTermination(1)
            taken = [
                float(one.durationMs["triggerExecution"])
                for one in query.recentProgress
                if "addBatch" not in one.durationMs
            ]
    finally:
        query.stop()
        conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    found = statistics.median(taken) if taken else float("nan")
    noted = f"median of {len(taken)} triggers"
    yield Figure("idle trigger", found, "ms", noted, 150, True)
