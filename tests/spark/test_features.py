"""Feature tables computed by Spark have the values that the feature store has, bit for bit."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.client.client import Client
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidArgument
from penstock.features.definition import Definition
from penstock.features.store import FeatureStore
from penstock.spark import feature_table
from penstock.spark.feature_job import job_of
from penstock.testing.clock import FakeClock
from tests.spark.conftest import Start, url_of
from tests.spark.lakes import Bed, interpreted
from tests.support import feature_history, rig, seeds
from tests.unit.spark.feature_stages import expected_row

DOCUMENT = feature_history.document()
COUNT = 600
NOW_MS = feature_history.START_MS + 75_000


@dataclass(frozen=True)
class Size:
    """Of a history. `step_ms`: between two events, about."""

    events: int
    users: int  # each has two keys of table T
    step_ms: int

    @property
    def now_ms(self) -> int:
        """A little after the last event."""
        return feature_history.START_MS + self.events * (2 * self.step_ms - 1) // 2 + 3_300


SMALL = Size(COUNT, users=12, step_ms=120)
SIZE = Size(1_000_000, users=5_000, step_ms=1) if rig.IS_FULL else SMALL
PAGE = 1_000  # events that are appended at once
FOLD_S = 3_600.0


@pytest.fixture(autouse=True)
def uncompiled(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Four in five of the records are sealed, the others are in the WAL."""
    clock = FakeClock(feature_history.START_MS)
    path = str(tmp_path / "data")
    with open_log(path, clock=clock, wal_shards=1, background=False) as found:
        fill(found, clock)
        yield found


def fill(log: Log, clock: FakeClock, size: Size = SMALL) -> None:
    store = log.core.features.store
    store.register(DOCUMENT)
    texts = feature_history.events(
        Random(seeds.new_seed()), size.events, keys=size.users, step_ms=size.step_ms
    )
    for tenth in range(10):
        clock.advance(6)
        log.append("events", [None, 7])  # no events
        left = size.events // 10
        while left:
            page = list(islice(texts, min(left, PAGE)))
            store._log.append("events", page, is_synced=False)
            left -= len(page)
        if tenth == 7:
            log.compact()
    log.sync()


def store_of(log: Log) -> FeatureStore:
    return log.core.features.store


def path_of(log: Log) -> str:
    return str(log.core.parts.layout.root)


def online_rows(log: Log, table: str, now_ms: int) -> dict[Any, dict[str, Any]]:
    """Every key that has a row: its key, and its features as Spark has them."""
    store = store_of(log)
    job = job_of(store.definition, table)
    view = store.view(table)
    view.refresh(None, eventual=False)
    keys = list(view.parts[0][0].runner.projection.all_keys())  # type: ignore[attr-defined]
    rows = {key: view.row(key, None, now_ms) for key in keys}
    return {key: bits(expected_row(job, row)) for key, row in rows.items() if row}


def spark_rows(frame: DataFrame, table: str) -> dict[Any, dict[str, Any]]:
    key = Definition.parse(DOCUMENT).plan(table).key
    found = {}
    for row in frame.collect():
        values = row.asDict()
        names = tuple(values.pop(name) for name in key)
        found[names] = bits(values)
    return found


def bits(row: dict[str, Any]) -> dict[str, Any]:
    """With floats by their bits, so that -0.0 is not 0.0."""
    return {
        name: struct.pack("d", value).hex() if isinstance(value, float) else value
        for name, value in row.items()
    }


def test_every_operator_has_the_value_of_the_store(spark: SparkSession, tmp_path: Path) -> None:
    """At full size: a million events of ten thousand keys."""
    clock = FakeClock(feature_history.START_MS)
    path, now_ms = str(tmp_path / "data"), SIZE.now_ms
    with open_log(path, clock=clock, wal_shards=1, background=False) as log:
        fill(log, clock, SIZE)
        assert store_of(log).wait(FOLD_S)
        assert store_of(log).get("All")["events"] > SIZE.events * 8 // 10
        for table, least in (("T", 2 * SIZE.users * 9 // 10), ("All", 1)):
            frame = feature_table(spark, DOCUMENT, table, path, now_ms=now_ms)
            found, online = spark_rows(frame, table), online_rows(log, table, now_ms)

            assert len(found) >= least
            assert found.keys() == online.keys()
            different = [key for key, row in found.items() if row != online[key]]
            assert {key: found[key] for key in different[:1]} == {
                key: online[key] for key in different[:1]
            }


def test_a_table_is_read_as_of_a_seq_with_some_features(spark: SparkSession, log: Log) -> None:
    names = ["sum", "mean_w"]
    frame = feature_table(
        spark, DOCUMENT, "T", path_of(log), upto_seq=200, now_ms=0, features=names, buckets=3
    )
    rows = frame.collect()

    assert frame.columns == ["user", "band", *names]
    assert len(rows) > 5
    for row in rows:
        found = store_of(log).get("T", (row.user, row.band), names, as_of_seq=200)
        assert found["sum"] == row["sum"]


def test_a_server_gives_the_same(spark: SparkSession, start: Start) -> None:
    import penstock

    url = url_of(start())
    with penstock.connect(url) as client:
        assert isinstance(client, Client)
        client.features.register(DOCUMENT, wait_s=10)
        texts = list(feature_history.events(Random(seeds.new_seed()), 200))
        good = [text for text in texts if feature_history.is_good(text)]
        pushed = client.features.push("E", good)
        assert pushed.count == len(good)

        rows = spark_rows(feature_table(spark, DOCUMENT, "All", {"url": url}), "All")

        assert rows[()] == bits(client.features.get("All"))


def test_cold_segments_are_read_too(spark: SparkSession, tmp_path: Path) -> None:
    clock = FakeClock(feature_history.START_MS)
    cold = str(tmp_path / "cold")
    settings: dict[str, Any] = {"segment_max_events": 50, "hot_retain_segments": 1}
    path = str(tmp_path / "data")
    with open_log(
        path, clock=clock, wal_shards=1, background=False, cold_dir=cold, **settings
    ) as log:
        fill(log, clock)
        log.relocate()

        found = spark_rows(feature_table(spark, DOCUMENT, "T", path, now_ms=NOW_MS), "T")

        assert list(Path(cold).rglob("*.data"))
        assert found == online_rows(log, "T", NOW_MS)


@pytest.mark.crash
def test_a_bronze_table_gives_the_same(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    bed = Bed(spark, tmp_path / "bed", f'[source]\npath = "{path_of(log)}"\ntopics = ["*"]\n')
    bed.run()
    bronze = spark.read.parquet(str(bed.root / "lake" / "bronze"))

    found = spark_rows(feature_table(spark, DOCUMENT, "T", bronze, now_ms=NOW_MS), "T")

    assert found == online_rows(log, "T", NOW_MS)


def test_wrong_arguments_are_refused(spark: SparkSession, log: Log) -> None:
    with pytest.raises(InvalidArgument, match="unknown table 'U'"):
        feature_table(spark, DOCUMENT, "U", path_of(log))
    with pytest.raises(InvalidArgument, match="buckets must be at least 1, not -1"):
        feature_table(spark, DOCUMENT, "T", path_of(log), buckets=-1)
    with pytest.raises(InvalidArgument, match="the records have no column data: there are id"):
        feature_table(spark, DOCUMENT, "T", spark.range(3).selectExpr("id", "id seq", "id ts"))
