"""Training sets: each label has the features that its key had at its time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidArgument
from penstock.spark import training_set
from penstock.spark.feature_job import job_of
from penstock.testing.clock import FakeClock
from tests.spark.lakes import interpreted
from tests.support import feature_history, seeds
from tests.unit.spark.feature_stages import expected_row

DOCUMENT = feature_history.document()
COUNT = 400
STEP_MS = 120
LABELS = StructType(
    [
        StructField("user", StringType()),
        StructField("band", IntegerType()),
        StructField("ts", LongType()),
        StructField("bought", DoubleType()),
    ]
)


@pytest.fixture(autouse=True)
def uncompiled(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """The clock of the log is at the times of the events, about."""
    clock = FakeClock(feature_history.START_MS)
    path = str(tmp_path / "data")
    with open_log(path, clock=clock, wal_shards=1, background=False) as found:
        store = found.core.features.store
        store.register(DOCUMENT)
        for text in feature_history.events(Random(seeds.new_seed()), COUNT):
            clock.advance(STEP_MS / 1000)
            store._log.append("events", [text], is_synced=False)
        found.sync()
        yield found


def labels(chance: Random, count: int = 40) -> list[tuple[Any, ...]]:
    last = feature_history.START_MS + (COUNT + 20) * STEP_MS
    return [
        (
            f"u{chance.randrange(13)}",
            chance.randrange(2),
            chance.randrange(feature_history.START_MS, last),
            chance.random(),
        )
        for _ in range(count)
    ]


def test_a_label_has_what_the_store_had_at_its_time(spark: SparkSession, log: Log) -> None:
    given = labels(Random(1))
    job = job_of(DOCUMENT, "T")

    frame = training_set(
        spark,
        DOCUMENT,
        "T",
        str(log.core.parts.layout.root),
        spark.createDataFrame(given, LABELS),
        clock="log",
    )

    assert frame.columns == ["user", "band", "ts", "bought", *job.features]
    rows = [row.asDict() for row in frame.collect()]
    assert sorted((r["user"], r["band"], r["ts"], r["bought"]) for r in rows) == sorted(given)
    store = log.core.features.store
    for row in rows:
        known = store.get("T", (row["user"], row["band"]), as_of_ts=row["ts"])
        features = {name: row[name] for name in job.features}
        assert features == (expected_row(job, known) if known else dict.fromkeys(job.features))
    assert sum(row["count"] is not None for row in rows) > 10


def test_by_the_events_clock_a_label_has_the_events_before_the_first_later_one(
    spark: SparkSession, log: Log
) -> None:
    chance = Random(2)
    times = StructType([*LABELS.fields[:2], StructField("at", TimestampType())])
    given = [
        (user, band, datetime.fromtimestamp(ts / 1000, UTC)) for user, band, ts, _ in labels(chance)
    ]
    names = ["count", "sum_w", "last_n"]

    frame = training_set(
        spark,
        DOCUMENT,
        "T",
        str(log.core.parts.layout.root),
        spark.createDataFrame(given, times),
        ts="at",
        features=names,
    )

    records = log.read("events", limit=COUNT).records
    texts = [json.dumps(record.data).encode() for record in records]
    assert len(texts) == COUNT
    store, job = log.core.features.store, job_of(DOCUMENT, "T", names)
    for row in frame.collect():
        ts = round(row["at"].timestamp() * 1000)
        seq = first_later(texts, ts) - 1
        known = known_at(store, (row["user"], row["band"]), seq, ts, names)
        assert {name: row[name] for name in names} == (
            expected_row(job, known) if known else dict.fromkeys(names)
        )


def first_later(texts: list[bytes], ts: int) -> int:
    """The seq of the first event whose time is later."""
    for seq, text in enumerate(texts, 1):
        if feature_history.is_good(text) and json.loads(text)["at"] > ts:
            return seq
    return len(texts) + 1


def known_at(store: Any, key: Any, seq: int, now_ms: int, names: list[str]) -> Any:
    """Folds the history again."""
    from penstock.features import as_of

    return as_of.row(store.view("T"), key, names, seq, now_ms)


def test_labels_that_do_not_fit_are_refused(spark: SparkSession, log: Log) -> None:
    path = str(log.core.parts.layout.root)
    frame = spark.createDataFrame(labels(Random(1), 1), LABELS)

    with pytest.raises(InvalidArgument, match="the labels have no column at with their times"):
        training_set(spark, DOCUMENT, "T", path, frame, ts="at")
    with pytest.raises(InvalidArgument, match="the labels have no column user"):
        training_set(spark, DOCUMENT, "T", path, frame.drop("user"))
    with pytest.raises(InvalidArgument, match="column bought of the labels is double: expected"):
        training_set(spark, DOCUMENT, "T", path, frame, ts="bought")
    renamed = frame.withColumnRenamed("bought", "count")
    with pytest.raises(InvalidArgument, match="the labels have a column count, and so has the"):
        training_set(spark, DOCUMENT, "T", path, renamed)
    with pytest.raises(InvalidArgument, match="invalid clock 'sun': expected log or event"):
        training_set(spark, DOCUMENT, "T", path, frame, clock="sun")  # type: ignore[arg-type]
