"""Online and Spark are compared value by value; snapshots go from Spark to the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidArgument
from penstock.feature_types import FeatureScan
from penstock.features.feature_view import part_of
from penstock.spark import backfill, verify_features
from penstock.spark.feature_verify import FeatureComparison
from penstock.testing.clock import FakeClock
from tests.spark.conftest import Start, url_of
from tests.spark.lakes import interpreted
from tests.support import feature_history, seeds

DOCUMENT = feature_history.document()
COUNT = 400
NOW_MS = feature_history.START_MS + 45_000


@pytest.fixture(autouse=True)
def uncompiled(spark: SparkSession) -> Iterator[None]:
    with interpreted(spark):
        yield


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    clock = FakeClock(feature_history.START_MS)
    path = str(tmp_path / "data")
    with open_log(path, clock=clock, wal_shards=1, background=False) as found:
        found.core.features.store.register(DOCUMENT)
        append(found, texts())
        yield found


def texts(count: int = COUNT) -> list[bytes]:
    return list(feature_history.events(Random(seeds.new_seed()), count))


def append(log: Log, events: list[bytes]) -> None:
    log.core.features.store._log.append("events", events, is_synced=False)
    log.sync()


def path_of(log: Log) -> str:
    return str(log.core.parts.layout.root)


class WrongScan:
    """A store in which the sums of one key are wrong, and another key was never seen."""

    def __init__(self, log: Log) -> None:
        self._store = log.core.features.store

    def scan(self, *args: Any, **more: Any) -> FeatureScan:
        page = self._store.scan(*args, **more)
        wrong = page.rows[0]
        wrong.row["sum"] = (wrong.row["sum"] or 0) + 1
        wrong.row["last_n"] = ["nobody"]
        return page


def test_a_store_is_equal_to_spark(spark: SparkSession, log: Log) -> None:
    found = verify_features(
        spark, log.core.features.store, DOCUMENT, "T", path_of(log), now_ms=NOW_MS
    )

    assert found.is_equal
    assert (found.last_seq, found.now_ms) == (COUNT, NOW_MS)
    assert found.keys > 10
    assert (found.is_whole, found.missing_online, found.only_online) == (True, 0, 0)
    assert {one.compared for one in found.features} == {found.keys}
    assert len(found.features) == len(feature_history.features())


def test_records_that_came_after_the_read_do_not_count(spark: SparkSession, log: Log) -> None:
    later = iter(texts(COUNT + 400)[COUNT:])

    class Growing:
        """Between two pages the log grows."""

        def scan(
            self,
            table: str,
            after: int = 0,
            limit: int = 1000,
            *,
            features: Sequence[str] | None = None,
            now_ms: int | None = None,
        ) -> FeatureScan:
            store = log.core.features.store
            page = store.scan(table, after, 5, features=features, now_ms=now_ms)
            append(log, [next(later) for _ in range(5)])
            return page

    names = ["count", "sum", "mean_w", "top_k"]
    found = verify_features(
        spark, Growing(), DOCUMENT, "T", path_of(log), now_ms=NOW_MS, features=names
    )

    assert found.is_equal
    assert found.first_seq == COUNT < found.last_seq


def test_differences_are_told_by_feature_with_examples(spark: SparkSession, log: Log) -> None:
    found = verify_features(
        spark,
        WrongScan(log),
        DOCUMENT,
        "T",
        path_of(log),
        now_ms=NOW_MS,
        features=["sum", "count", "last_n"],
        keys_max=1000,
    )

    assert not found.is_equal
    by_name = {one.feature: one for one in found.features}
    assert [by_name[name].different for name in ("sum", "count", "last_n")] == [1, 0, 1]
    (example,) = by_name["last_n"].examples
    assert example.online == ["nobody"]
    assert len(example.key) == 2
    assert msgspec.json.encode(example)


def test_keys_that_the_store_lost_are_told(spark: SparkSession, log: Log) -> None:
    part = part_of(log.core.features.store.view("T").parts[0][0])
    lost = sorted(all_rows(log))[2:4]
    part._remove(np.array([part._keys.find(key) for key in lost]))

    found = verify(spark, log)

    assert not found.is_equal
    assert (found.missing_online, found.missing_examples) == (2, [list(key) for key in lost])
    assert (found.is_whole, found.only_online) == (True, 0)
    assert not any(one.different for one in found.features)


@pytest.mark.parametrize("table", ["T", "All"])
def test_an_empty_table_is_not_equal_to_a_history(
    spark: SparkSession, log: Log, table: str
) -> None:
    keys = len(log.core.features.store.scan(table, limit=1000, now_ms=NOW_MS).rows)
    part = part_of(log.core.features.store.view(table).parts[0][0])
    part._remove(part._keys.slots())

    found = verify(spark, log, table)

    assert not found.is_equal
    assert (found.keys, found.missing_online) == (0, keys)
    assert len(found.missing_examples) == min(keys, 3)


def test_a_store_that_folded_nothing_is_not_equal_to_a_history(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    with open_log(str(tmp_path / "other"), wal_shards=1, background=False) as other:
        other.core.features.store.register(DOCUMENT)

        found = verify_features(
            spark, other.core.features.store, DOCUMENT, "T", path_of(log), now_ms=NOW_MS
        )

    assert not found.is_equal
    assert (found.keys, found.missing_online) == (0, len(all_rows(log)))


def test_a_loaded_snapshot_that_lacks_a_key_is_not_equal(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    records = spark.read.format("penstock").options(path=path_of(log), topic="events").load()
    some = records.where("data not like '%\"u3\"%'")
    keys = [key for key in all_rows(log) if key[0] == "u3"]
    upto = COUNT if some.where(f"seq = {COUNT}").count() else COUNT - 1
    folder, log_id = str(tmp_path / "snapshot"), log.core.features.store.table("T").log_id
    backfill(spark, DOCUMENT, "T", some, folder, log_id=log_id, upto_seq=upto)
    log.core.features.store.load("T", folder)

    found = verify(spark, log)

    assert not found.is_equal
    assert found.missing_online == len(keys) > 0
    assert {tuple(key) for key in found.missing_examples} <= set(keys)


def test_keys_that_spark_does_not_know_are_told(spark: SparkSession, log: Log) -> None:
    records = spark.read.format("penstock").options(path=path_of(log), topic="events").load()
    keys = sorted(key for key in all_rows(log) if key[0] == "u3")

    found = verify_features(
        spark,
        log.core.features.store,
        DOCUMENT,
        "T",
        records.where("data not like '%\"u3\"%'"),
        now_ms=NOW_MS,
        features=["count"],
    )

    assert not found.is_equal
    assert (found.only_online, found.missing_online) == (len(keys), 0)
    assert sorted(map(tuple, found.only_online_examples)) == keys[:3]


def test_a_scan_that_was_cut_says_so(spark: SparkSession, log: Log) -> None:
    found = verify(spark, log, keys_max=5)

    assert found.is_equal
    assert (found.keys, found.is_whole, found.missing_online) == (5, False, None)


def verify(spark: SparkSession, log: Log, table: str = "T", **options: Any) -> FeatureComparison:
    store = log.core.features.store
    names = ["count", "sum"] if table == "T" else None
    return verify_features(
        spark, store, DOCUMENT, table, path_of(log), now_ms=NOW_MS, features=names, **options
    )


def test_a_server_is_equal_to_spark(spark: SparkSession, start: Start) -> None:
    url = url_of(start())
    with penstock.connect(url) as client:
        client.features.register(DOCUMENT, wait_s=10)
        client.features.push("E", [one for one in texts(200) if feature_history.is_good(one)])

        found = verify_features(spark, client.features, DOCUMENT, "All", url)

        assert found.is_equal
        assert (found.keys, found.last_seq) == (1, found.first_seq)


def test_a_backfill_goes_into_a_running_table_whose_topic_forgot(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    store = log.core.features.store
    folder = str(tmp_path / "snapshot")
    wanted = all_rows(log)

    made = backfill(spark, DOCUMENT, "T", path_of(log), folder, buckets=3)
    log.create("events", cap_records=50)
    store._host.rebuild("features", "T.1")
    assert all_rows(log) != wanted
    loaded = store.load("T", folder)

    assert (made.offset.seq, made.first_seq, made.files) == (COUNT, 1, 3)
    assert loaded.keys == made.keys
    assert all_rows(log) == wanted
    assert store.table("T").parts[0].counters["events"] == made.events


def test_a_backfill_again_replaces_the_files(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    folder = tmp_path / "snapshot"
    names = ["count", "sum"]

    backfill(spark, DOCUMENT, "T", path_of(log), str(folder), features=names, buckets=2)
    before = {path.name for path in folder.iterdir()}
    made = backfill(
        spark, DOCUMENT, "T", path_of(log), str(folder), features=names, buckets=1, upto_seq=100
    )
    after = {path.name for path in folder.iterdir()}

    assert (len(before), len(after), made.offset.seq) == (3, 2, 100)
    assert before & after == {"state.json"}


def test_a_source_that_does_not_tell_its_log_needs_the_id(
    spark: SparkSession, tmp_path: Path
) -> None:
    for source in ({"url": "http://127.0.0.1:1"}, spark.range(1)):
        with pytest.raises(InvalidArgument, match="specify log_id"):
            backfill(spark, DOCUMENT, "T", source, str(tmp_path))
    with pytest.raises(InvalidArgument, match="invalid log id 'x': expected 32 hexadecimal"):
        backfill(spark, DOCUMENT, "T", spark.range(1), str(tmp_path), log_id="x")


def all_rows(log: Log) -> dict[Any, dict[str, Any]]:
    page = log.core.features.store.scan("T", limit=1000, now_ms=NOW_MS)
    return {tuple(one.key): one.row for one in page.rows}
