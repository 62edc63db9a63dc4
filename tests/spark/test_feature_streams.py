"""A streaming query that keeps a feature table has the rows that a batch over the history has."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import InvalidArgument
from penstock.projections import state_folder
from penstock.spark import backfill, feature_stream, feature_table, snapshot_table
from penstock.spark.feature_streams import FeatureMicroBatch
from penstock.storage.fs import OsFilesystem
from penstock.testing.clock import FakeClock
from tests.spark.lakes import interpreted
from tests.spark.support import STARTS_MAX, complete
from tests.spark.test_features import online_rows, path_of, spark_rows, store_of
from tests.spark.test_replays import PATHS
from tests.support import feature_history, seeds
from tests.support import feature_stream_driver as driver

DOCUMENT = feature_history.document()
DEADLINE_S = 600.0
STEP = 150  # records that are appended between two runs
NOW_MS = feature_history.START_MS + 75_000
HOPPING = {"hopping": "20s", "every": "5s"}
UNIQUE: dict[str, Any] = {
    "events": [
        {
            "name": "Ride",
            "topic": "rides",
            "fields": {"id": "str", "rider": "str", "fare": "f64", "at": "i64"},
            "time": {"field": "at", "lateness": "2s"},
            "dedupe": {"field": "id", "window": "1h"},
        }
    ],
    "tables": [
        {
            "name": "Riders",
            "from": "Ride",
            "key": ["rider"],
            "features": {
                "rides": {"op": "count", "window": {"tumbling": "10s"}},
                "spend": {
                    "op": "sum",
                    "field": "fare",
                    "window": {"hopping": "20s", "every": "5s"},
                },
                "all": {"op": "sum", "field": "fare"},
            },
        }
    ],
}


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
        yield found


class Streamed:
    """A log to which events are appended, and a query over it that is started again and again."""

    def __init__(self, spark: SparkSession, log: Log, place: Path, **options: Any) -> None:
        self.spark = spark
        self.log = log
        self.folder = str(place / "state")
        self.options = {"maxRecordsPerTrigger": "100", **options}
        self.batches: list[tuple[int, int]] = []
        self._events = feature_history.events(Random(seeds.new_seed()), 100 * STEP)

    def append(self, count: int = STEP) -> None:
        texts = list(islice(self._events, count))
        store_of(self.log)._log.append("events", texts, is_synced=False)
        self.log.append("events", [None, 7])  # no events
        self.log.sync()

    def run(self, **options: Any) -> None:
        """As far as there are records."""
        source = {"path": path_of(self.log), **self.options}
        stream = feature_stream(
            self.spark, DOCUMENT, "T", source, self.folder, each=self._each, **options
        )
        complete(stream.trigger(availableNow=True).start)

    def _each(self, batch: FeatureMicroBatch) -> None:
        self.batches.append((batch.batch, batch.offset.seq))

    def rows(self) -> dict[Any, dict[str, Any]]:
        return spark_rows(
            snapshot_table(self.spark, DOCUMENT, "T", self.folder, now_ms=NOW_MS), "T"
        )

    def expected(self) -> dict[Any, dict[str, Any]]:
        path = path_of(self.log)
        return spark_rows(feature_table(self.spark, DOCUMENT, "T", path, now_ms=NOW_MS), "T")


def test_micro_batches_give_the_rows_of_the_whole_history(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    """Every operator, with and without windows; events are late, and keys get cold."""
    streamed = Streamed(spark, log, tmp_path)
    for _ in range(3):
        streamed.append()
        streamed.run(buckets=0)

    assert streamed.batches == [(0, 100), (1, 152), (2, 252), (3, 304), (4, 404), (5, 456)]
    assert streamed.rows() == streamed.expected()
    assert len(streamed.expected()) > 10


def test_the_state_of_a_stream_goes_into_a_log(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    streamed = Streamed(spark, log, tmp_path)
    streamed.append()
    streamed.append()
    streamed.run(buckets=3)
    wanted = online_rows(log, "T", NOW_MS)
    log.create("events", cap_records=10)
    store_of(log)._host.rebuild("features", "T.1")
    assert online_rows(log, "T", NOW_MS) != wanted

    loaded = store_of(log).load("T", streamed.folder)

    assert loaded.snapshot.seq == 2 * (STEP + 2)
    assert online_rows(log, "T", NOW_MS) == wanted


class Killed(Exception):
    """In the place of a kill."""


def before_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(*_: Any) -> None:
        raise Killed

    monkeypatch.setattr(state_folder, "commit", commit)


def before_cleaning(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(self: OsFilesystem, path: str) -> None:
        if path.endswith(".bin"):
            raise Killed
        true_unlink(self, path)

    true_unlink = OsFilesystem.unlink
    monkeypatch.setattr(OsFilesystem, "unlink", unlink)


def after_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def each(self: Streamed, batch: FeatureMicroBatch) -> None:
        raise Killed

    monkeypatch.setattr(Streamed, "_each", each)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("point", [before_commit, before_cleaning, after_commit])
def test_a_batch_that_is_repeated_after_a_kill_adds_nothing(
    spark: SparkSession,
    log: Log,
    tmp_path: Path,
    point: Callable[[pytest.MonkeyPatch], None],
    is_first: bool,
) -> None:
    streamed = Streamed(spark, log, tmp_path)
    if not is_first:
        streamed.append()
        streamed.run()
    streamed.append()
    with pytest.MonkeyPatch.context() as patched:
        point(patched)
        with pytest.raises(StreamingQueryException, match="Killed"):
            streamed.run()
    streamed.append(10)

    streamed.run()

    assert streamed.rows() == streamed.expected()
    state = state_folder.load(OsFilesystem(), streamed.folder)
    assert {name for name in OsFilesystem().list(streamed.folder) if name.endswith(".bin")} == set(
        state.state.files
    )


def killed(log: Log, folder: str, place: str, batch: int) -> int:
    """Run a driver of its own until it kills itself; its exit code. A busy machine may start its
    Python processes too late for Spark."""
    told = {"log": path_of(log), "folder": folder, "place": place, "batch": batch}
    command = [sys.executable, "-m", "tests.support.feature_stream_driver", json.dumps(told)]
    for _ in range(STARTS_MAX):
        done = subprocess.run(
            command,
            env=os.environ | {"PYTHONPATH": PATHS},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if "Python worker failed to connect back" not in done.stderr:
            break
    return done.returncode


@pytest.mark.crash
def test_a_driver_that_is_killed_beside_a_commit_costs_nothing(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    streamed = Streamed(spark, log, tmp_path)
    for _ in range(3):
        streamed.append()
    for place, batch in ((driver.BEFORE, 1), (driver.AFTER, 1), (driver.AFTER, 3)):
        assert killed(log, streamed.folder, place, batch) == -signal.SIGKILL

    streamed.run()

    assert streamed.batches == [(3, 400), (4, 456)]
    assert streamed.rows() == streamed.expected()


def test_a_batch_is_not_folded_again_even_if_the_state_does_not_know_it(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    streamed = Streamed(spark, log, tmp_path)
    streamed.append()
    streamed.run()
    streamed.append(20)
    with pytest.MonkeyPatch.context() as patched:
        after_commit(patched)
        with pytest.raises(StreamingQueryException, match="Killed"):
            streamed.run()
    state = state_folder.load_list(OsFilesystem(), streamed.folder)
    assert state is not None
    state.more["batch"] -= 1
    state_folder.commit(OsFilesystem(), streamed.folder, state)

    with pytest.raises(StreamingQueryException, match="batch 2 has record 153 of topic 'events'"):
        streamed.run()


def test_a_stream_continues_a_backfill(spark: SparkSession, log: Log, tmp_path: Path) -> None:
    streamed = Streamed(spark, log, tmp_path)
    streamed.append()
    made = backfill(spark, DOCUMENT, "T", path_of(log), streamed.folder, buckets=3)
    assert store_of(log).wait(60)
    log.create("events", cap_records=STEP + 10)
    streamed.append()
    wanted = made.offset.seq + STEP + 2
    streamed.run()

    assert streamed.batches == [(0, made.offset.seq + 100), (1, wanted)]
    assert streamed.rows() == online_rows(log, "T", NOW_MS)


def test_any_stream_of_records_is_folded_and_what_is_known_is_passed_over(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    streamed = Streamed(spark, log, tmp_path)
    streamed.append()
    backfill(spark, DOCUMENT, "T", path_of(log), streamed.folder)
    streamed.append()
    folder, log_id = streamed.folder, store_of(log).table("T").log_id
    reader = spark.readStream.format("penstock")
    options = {"path": path_of(log), "topic": "*", "maxRecordsPerTrigger": "60"}
    late = reader.options(**options, startingSeq="154").load()
    whole = spark.readStream.format("penstock").options(**options).load()

    with pytest.raises(StreamingQueryException, match="the stream begins with record 154, and"):
        complete(
            feature_stream(
                spark, DOCUMENT, "T", late, folder, log_id=log_id, checkpoint=f"{tmp_path}/late"
            )
            .trigger(availableNow=True)
            .start
        )
    stream = feature_stream(spark, DOCUMENT, "T", whole, folder, log_id=log_id)
    complete(stream.trigger(availableNow=True).start)

    assert streamed.rows() == streamed.expected()


def test_a_batch_without_records_of_the_topic_is_a_batch(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    streamed = Streamed(spark, log, tmp_path)
    log_id = store_of(log).table("T").log_id

    def run() -> None:
        reader = spark.readStream.format("penstock").options(path=path_of(log), topic="*")
        stream = feature_stream(spark, DOCUMENT, "T", reader.load(), streamed.folder, log_id=log_id)
        complete(stream.trigger(availableNow=True).start)

    log.append("noise", [1, 2, 3])
    log.sync()
    run()
    assert streamed.rows() == {}
    with pytest.raises(InvalidArgument, match="has no state yet: no records were folded"):
        store_of(log).load("T", streamed.folder)
    streamed.append()
    run()

    assert streamed.rows() == streamed.expected()


def test_a_folder_and_a_checkpoint_that_do_not_belong_together_are_refused(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    streamed = Streamed(spark, log, tmp_path)
    streamed.append()
    streamed.run(checkpoint=f"{tmp_path}/checkpoint")
    first, streamed.folder = streamed.folder, str(tmp_path / "other")
    streamed.append()

    with pytest.raises(StreamingQueryException, match="has no state, and this query is at batch 2"):
        streamed.run(checkpoint=f"{tmp_path}/checkpoint")
    with pytest.raises(InvalidArgument, match="has the state of another log, topic or definition"):
        feature_stream(spark, DOCUMENT, "All", path_of(log), first)
    with pytest.raises(InvalidArgument, match="has 2 buckets, not 5: the number cannot change"):
        feature_stream(spark, DOCUMENT, "T", path_of(log), first, buckets=5)
    source = {"path": path_of(log), "startingSeq": "7"}
    with pytest.raises(InvalidArgument, match="which is continued: omit startingSeq"):
        feature_stream(spark, DOCUMENT, "T", source, first)


def test_events_that_are_pushed_twice_count_once(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    store, folder = store_of(log), str(tmp_path / "state")
    store.register(UNIQUE)
    start = feature_history.START_MS
    chance = Random(5)
    for run in range(3):
        rides = [
            {
                "id": f"r{chance.randrange(60)}",
                "rider": f"u{chance.randrange(4)}",
                "fare": chance.random(),
                "at": start + run * 9_000 + n * 200 - chance.choice((0, 0, 500, 3_000)),
            }
            for n in range(40)
        ]
        pushed = store.push("Ride", rides)
        assert pushed.deduped > 0
        log.sync()
        source = {"path": path_of(log), "maxRecordsPerTrigger": "15"}
        stream = feature_stream(spark, UNIQUE, "Riders", source, folder)
        complete(stream.trigger(availableNow=True).start)
    now_ms = start + 3 * 9_000

    frame = snapshot_table(spark, UNIQUE, "Riders", folder, now_ms=now_ms)

    found = {row["rider"]: row.asDict() for row in frame.collect()}
    page = store.scan("Riders", now_ms=now_ms)
    assert found == {one.key[0]: {"rider": one.key[0], **one.row} for one in page.rows}
    whole = feature_table(spark, UNIQUE, "Riders", path_of(log), now_ms=now_ms)
    assert found == {row["rider"]: row.asDict() for row in whole.collect()}


def test_rows_of_a_folder_without_a_state_are_refused(
    spark: SparkSession, log: Log, tmp_path: Path
) -> None:
    with pytest.raises(InvalidArgument, match=r"has no state\.json: nothing was written yet"):
        snapshot_table(spark, DOCUMENT, "T", str(tmp_path))

    streamed = Streamed(spark, log, tmp_path)
    streamed.append(20)
    streamed.run(features=["count"])
    with pytest.raises(InvalidArgument, match="built by a definition that has other sum"):
        snapshot_table(spark, DOCUMENT, "T", streamed.folder, features=["count", "sum"])
