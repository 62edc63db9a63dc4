"""Several sources are one history: old records are in one place, newer ones in another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidArgument
from penstock.spark import backfill, feature_table, training_set, verify_features
from penstock.testing.clock import FakeClock
from tests.spark.lakes import Bed, interpreted
from tests.spark.test_features import (
    DOCUMENT,
    NOW_MS,
    fill,
    online_rows,
    path_of,
    spark_rows,
    store_of,
)
from tests.support import feature_history, seeds

OLD = 300  # records that the log keeps no longer
NAMES = ["count", "sum", "mean_w"]


@pytest.fixture(autouse=True)
def uncompiled(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    clock = FakeClock(feature_history.START_MS)
    path = str(tmp_path / "data")
    with open_log(path, clock=clock, wal_shards=1, background=False) as found:
        fill(found, clock)
        assert store_of(found).wait(60)
        yield found


def copied(spark: SparkSession, log: Log, place: Path, upto: int) -> DataFrame:
    """A table with the records up to a seq, as the lake has them."""
    reader = spark.read.format("penstock").options(path=path_of(log), topic="events")
    reader.load().where(f"seq <= {upto}").write.parquet(f"{place}/copied-{upto}")
    return spark.read.parquet(f"{place}/copied-{upto}")


def forget(log: Log) -> None:
    """Old records leave the log."""
    log.create("events", cap_records=head_of(log) - OLD)
    log.compact()


def head_of(log: Log) -> int:
    applied = store_of(log).table("T").parts[0].applied
    assert applied is not None
    return applied.seq


def test_a_table_and_a_log_that_forgot_are_one_history(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    wanted = online_rows(log, "T", NOW_MS)
    history = [copied(spark, log, tmp_path, OLD + 50), path_of(log)]
    forget(log)

    frame = feature_table(spark, DOCUMENT, "T", history, now_ms=NOW_MS)
    alone = feature_table(spark, DOCUMENT, "T", path_of(log), now_ms=NOW_MS)

    assert spark_rows(frame, "T") == wanted
    assert spark_rows(alone, "T") != wanted
    found = verify_features(
        spark, store_of(log), DOCUMENT, "T", history, features=NAMES, now_ms=NOW_MS
    )
    assert found.is_equal
    assert found.keys == len(wanted)


def test_a_backfill_from_both_goes_into_a_log_that_forgot(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    wanted = online_rows(log, "T", NOW_MS)
    history = [copied(spark, log, tmp_path, OLD + 1), path_of(log)]
    forget(log)
    store_of(log)._host.rebuild("features", "T.1")
    assert online_rows(log, "T", NOW_MS) != wanted

    made = backfill(spark, DOCUMENT, "T", history, f"{tmp_path}/snapshot")
    store_of(log).load("T", made.folder)

    assert (made.first_seq, made.offset.seq) == (1, head_of(log))
    assert online_rows(log, "T", NOW_MS) == wanted


def test_a_training_set_reads_both(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    labels = spark.createDataFrame(
        [(f"u{n % 12}", n % 2, feature_history.START_MS + 2_000 * n) for n in range(40)],
        "user string, band int, ts long",
    )

    def rows(history: Any) -> list[Any]:
        frame = training_set(spark, DOCUMENT, "T", history, labels, features=NAMES)
        return sorted(frame.collect(), key=str)

    wanted = rows(path_of(log))
    history = [copied(spark, log, tmp_path, OLD + 50), path_of(log)]
    forget(log)

    assert rows(history) == wanted
    assert rows(path_of(log)) != wanted


def test_a_history_ends_where_it_is_told_to(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    history = [copied(spark, log, tmp_path, OLD), path_of(log)]
    for upto in (OLD - 50, OLD, OLD + 50):
        both, whole = (
            feature_table(spark, DOCUMENT, "T", one, upto_seq=upto, now_ms=NOW_MS, features=NAMES)
            for one in (history, path_of(log))
        )
        assert sorted(both.collect()) == sorted(whole.collect())


def test_records_that_are_missing_between_two_sources_are_noticed(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    early, late = copied(spark, log, tmp_path, OLD - 10), copied(spark, log, tmp_path, OLD + 50)
    forget(log)

    with pytest.raises(AnalysisException, match=f"records {OLD - 9} to {OLD} of epoch 1 are gone"):
        feature_table(spark, DOCUMENT, "T", [early, path_of(log)]).collect()
    later = late.where(f"seq >= {OLD - 7}")
    with pytest.raises(InvalidArgument, match=f"source 2 begins with record {OLD - 7} of topic"):
        feature_table(spark, DOCUMENT, "T", [early, later])
    with pytest.raises(InvalidArgument, match="the list of sources is empty"):
        feature_table(spark, DOCUMENT, "T", [])


def test_sources_of_different_logs_are_refused(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    old = copied(spark, log, tmp_path, OLD)
    with open_log(str(tmp_path / "other"), wal_shards=1, background=False) as other:
        store_of(other).register(DOCUMENT)
        texts = list(feature_history.events(Random(seeds.new_seed() + 1), 2 * OLD))
        store_of(other)._log.append("events", texts, is_synced=False)
        other.sync()

        with pytest.raises(InvalidArgument, match=f"record {OLD} of .* is not the same"):
            feature_table(spark, DOCUMENT, "T", [old, path_of(other)])
        with pytest.raises(InvalidArgument, match="are of different logs"):
            feature_table(spark, DOCUMENT, "T", [path_of(log), path_of(other)])


def test_a_backfill_reads_cold_segments(spark: SparkSession, tmp_path: Path) -> None:
    clock = FakeClock(feature_history.START_MS)
    settings: dict[str, Any] = {"segment_max_events": 50, "hot_retain_segments": 1}
    path, cold = str(tmp_path / "data"), str(tmp_path / "cold")
    with open_log(
        path, clock=clock, wal_shards=1, background=False, cold_dir=cold, **settings
    ) as log:
        fill(log, clock)
        log.relocate()
        assert list(Path(cold).rglob("*.data"))
        wanted = online_rows(log, "T", NOW_MS)

        made = backfill(spark, DOCUMENT, "T", path, f"{tmp_path}/snapshot")
        loaded = store_of(log).load("T", made.folder)

        assert (made.first_seq, loaded.snapshot.seq) == (1, head_of(log))
        assert online_rows(log, "T", NOW_MS) == wanted
        both = feature_table(spark, DOCUMENT, "T", [{"path": cold}, path], now_ms=NOW_MS)
        assert spark_rows(both, "T") == wanted


@pytest.mark.crash
def test_the_lake_and_a_log_that_forgot_are_one_history(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    bed = Bed(spark, tmp_path / "bed", f'[source]\npath = "{path_of(log)}"\ntopics = ["*"]\n')
    bed.run()
    bronze = spark.read.parquet(str(bed.root / "lake" / "bronze"))
    texts = list(feature_history.events(Random(3), 100))
    store_of(log)._log.append("events", texts, is_synced=False)
    log.sync()
    assert store_of(log).wait(60)
    wanted = online_rows(log, "T", NOW_MS)
    forget(log)

    frame = feature_table(spark, DOCUMENT, "T", [bronze, path_of(log)], now_ms=NOW_MS)

    assert spark_rows(frame, "T") == wanted
