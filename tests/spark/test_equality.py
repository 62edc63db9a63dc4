"""What Spark reads is what the log reads: after random histories, beside a server that writes, and
after it was killed."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from pyspark.sql import DataFrame, SparkSession

from penstock.client.client import Client
from penstock.client.connect import connect
from penstock.directory.directory_view import look
from penstock.engine.engine import Log
from tests.spark.conftest import Start, url_of
from tests.spark.support import gap_rows, load, opened
from tests.support import serving, workload
from tests.support.rig import IS_FULL, new_seed, on_disk

Row = tuple[Any, ...]
ONLY_GENERATE = (Phase.explicit, Phase.generate)  # a run costs seconds: no shrinking


def rows(frame: DataFrame) -> list[Row]:
    return [
        (r.topic, r.epoch, r.seq, round(r.ts.timestamp() * 1000), r.node, r.tag, r.meta, r.data)
        for r in frame.orderBy("topic", "seq").collect()
    ]


def plain(row: Row) -> Row:
    """With JSON as values: spaces are nobody's business."""
    *others, meta, data = row
    return (*others, None if meta is None else json.loads(meta), json.loads(data))


def read(log: Any, topic: str) -> tuple[list[Row], list[Row]]:
    """Records and gaps as the log itself tells them."""
    records: list[Row] = []
    gaps: list[Row] = []
    after = 0
    while True:
        page = log.read(topic, after)
        if page.gap is not None:
            gaps.append((topic, page.epoch, page.gap.first, page.gap.last, page.gap.reason))
        records += [
            (topic, page.epoch, r.seq, r.ts, r.node, r.tag, r.meta, r.data) for r in page.records
        ]
        if page.caught_up:
            return records, gaps
        after = page.next_seq


def everything(log: Any) -> tuple[list[Row], list[Row]]:
    found = [read(log, info.name) for info in sorted(log.topics(), key=lambda one: one.name)]
    return [row for one in found for row in one[0]], [row for one in found for row in one[1]]


class Home:
    """A directory a history."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = 0

    def log(self) -> Log:
        """With a cold tier, to which its old segments go."""
        self._count += 1
        tier = {**workload.TIERED, "cold_dir": str(self._path / f"{self._count}-cold")}
        return opened(self._path / f"{self._count}", **tier)


def test_random_histories_are_read_alike(spark: SparkSession, tmp_path: Path) -> None:
    home = Home(on_disk(tmp_path, "histories"))
    pause = threading.Event()

    @hypothesis_settings(
        max_examples=40 if IS_FULL else 4,
        deadline=None,
        database=None,
        phases=ONLY_GENERATE,
        suppress_health_check=list(HealthCheck),
    )
    @given(steps=workload.long_steps)
    def alike(steps: list[workload.Step]) -> None:
        with home.log() as log:
            for step in steps:
                workload.apply(log, step, lambda ms: pause.wait(ms / 1000))
            log.sync()
            records, gaps = everything(log)

            assert [plain(row) for row in rows(load(spark, log, "*"))] == records
            assert gap_rows(load(spark, log, "*", rows="gaps")) == gaps
            check_cold(spark, log, records, gaps)

    alike()


def check_cold(spark: SparkSession, log: Log, records: list[Row], gaps: list[Row]) -> None:
    """The tier alone: everything up to the last cold record of each topic."""
    log.relocate()
    cold = log.core.parts.shelf.cold
    if cold is None or not log.stats().cold_segments:
        return
    where = cold.tier.where
    heads = {topic.name: topic.head for topic in look(where).topics()}
    frame = spark.read.format("penstock").options(path=where, topic="*")

    assert [plain(row) for row in rows(frame.load())] == [
        row for row in records if row[2] <= heads.get(row[0], 0)
    ]
    assert gap_rows(frame.option("rows", "gaps").load()) == [
        (topic, epoch, first, min(last, heads[topic]), reason)
        for topic, epoch, first, last, reason in gaps
        if first <= heads.get(topic, 0)
    ]


def change(client: Client, choose: random.Random) -> None:
    """Something happens to one of a few synced topics: with and without a cap."""
    topic = choose.choice(["t", "u", "v"])
    if topic not in {info.name for info in client.topics()}:
        client.create(topic, durability="fsync", cap_records=choose.choice([0, 0, 60]))
    act = choose.choice(["append"] * 6 + ["tag", "before", "drop"])
    if act == "append":
        batch = [{"n": choose.randrange(1000)} for _ in range(choose.randint(1, 40))]
        client.append(topic, batch, tag=choose.choice([None, "x", "y"]))
    elif act == "tag":
        client.delete(topic, tag="x")
    elif act == "before":
        head = client.topic(topic).head_seq
        client.delete(topic, before_seq=choose.randint(0, head) + 1)
    else:
        client.drop(topic)


def test_what_a_server_is_writing_is_a_whole_beginning(spark: SparkSession, start: Start) -> None:
    """Every record that was acknowledged past a sync before the read began, none twice, none
    that the server does not have, while other topics change in every way."""
    server = start()
    stop = threading.Event()
    acked = [0]
    seed = new_seed()

    def write() -> None:
        choose = random.Random(seed)
        with connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
            while not stop.is_set():
                batch = [{"n": acked[0] + n} for n in range(200)]
                acked[0] = client.append("whole", batch).last_seq
                change(client, choose)

    with connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
        client.create("whole", durability="fsync")
        client.append("whole", [{"n": 0}])
        writer = threading.Thread(target=write)
        writer.start()
        try:
            reader = spark.read.format("penstock").option("topic", "whole")
            for options in (
                {"path": str(server.data_dir)},
                {"url": url_of(server)},
                {"path": str(server.data_dir), "url": url_of(server)},
            ):
                least = acked[0]
                found = [
                    row.seq for row in reader.options(**options).load().select("seq").collect()
                ]
                assert sorted(found) == list(range(1, len(found) + 1)), seed
                assert least <= len(found) <= client.topic("whole").head_seq, seed
        finally:
            stop.set()
            writer.join()


def test_a_killed_server_leaves_what_it_acknowledged(spark: SparkSession, start: Start) -> None:
    server = start()
    seed = new_seed()
    choose = random.Random(seed)
    with connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
        for _ in range(200 if IS_FULL else 60):
            change(client, choose)
        client.create("t", durability="fsync")
        client.append("t", [{"seed": seed}])
        records, gaps = everything(client)
    server.kill()

    frame = spark.read.format("penstock").options(path=str(server.data_dir), topic="*")
    found = rows(frame.load())
    told = gap_rows(frame.option("rows", "gaps").load())

    assert [plain(row) for row in found] == records, seed
    assert told == gaps, seed
    server.start()
    with connect(url_of(server), timeout_s=serving.DEADLINE_S) as client:
        assert everything(client) == (records, gaps), seed
