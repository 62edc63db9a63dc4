"""Bronze is the log, the ledger has what is missing, and nothing is there twice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.engine.engine import Log
from penstock.errors import PenstockError, StorageError, TopicNotFound
from penstock.lake import spark_errors
from tests.spark.lakes import ORDERS, PROJECT, Bed, of_log
from tests.support.rig import IS_FULL, new_seed

CLICKS = '[silver.clicks]\ntopics = ["clicks*"]\n[silver.clicks.columns]\nn = "int"\n'


class Workload:
    """Random changes of a log, and what a lake over it has to hold."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.read: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # (topic, epoch, seq) -> record
        self.deleted: set[tuple[Any, ...]] = set()
        self.heads: dict[tuple[str, int], int] = {}
        self.lives: dict[str, int] = {}  # epochs of the topics that there are

    def change(self, log: Log) -> None:
        for _ in range(6):
            self._one(log)

    def _one(self, log: Log) -> None:
        topic = self._chance.choice(["orders", "clicks:web", "clicks.capped", "007"])
        known = {info.name for info in log.topics()}
        if topic not in known:
            log.create(topic, cap_records=12 if "capped" in topic else 0)
        act = self._chance.choice(["append"] * 5 + ["tag", "before", "recreate"])
        if act == "append":
            count = self._chance.randint(1, 9)
            values = [{"id": n, "n": n, "total": n / 4, "name": f"ä{n}"} for n in range(count)]
            tag = self._chance.choice([None, "x", "y"])
            log.append(topic, values, tag=tag, node=self._chance.choice([None, "web-1"]))
        elif act == "tag":
            self._delete(log, topic, tag="x")
        elif act == "before":
            head = next(info.head_seq for info in log.topics() if info.name == topic)
            self._delete(log, topic, before_seq=self._chance.randint(0, head) + 1)
        elif "capped" not in topic:  # whose floors would tell a drop from an eviction no more
            log.drop(topic)

    def _delete(self, log: Log, topic: str, **what: Any) -> None:
        before = {one[:3] for one in of_log(log)}
        log.delete(topic, **what)
        self.deleted |= before - {one[:3] for one in of_log(log)}

    def was_read(self, log: Log) -> None:
        """A run has seen the log as it is."""
        self.read |= {one[:3]: one for one in of_log(log)}
        self.heads |= {(info.name, info.epoch): info.head_seq for info in log.topics()}
        self.lives = {info.name: info.epoch for info in log.topics()}


def test_bronze_is_what_the_log_was_whenever_it_was_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every record that lived at some run is there once, as it was. Of the rest each seq is in the
    ledger or was deleted, and silver has no record that was deleted."""
    for trial in range(8 if IS_FULL else 1):
        seed = new_seed() + trial
        bed = Bed(spark, tmp_path / f"{trial}", PROJECT + ORDERS + CLICKS)
        work = Workload(seed)
        for round_ in range(6 if IS_FULL else 2):
            with bed.log() as log:
                work.change(log)
                if round_ == 1:
                    log.checkpoint(everything=True)
                work.was_read(log)

            report = bed.run()

            assert report.lag == 0, seed
            assert bed.records() == sorted(work.read.values()), seed
            _check_ledger(bed, work, seed)
            _check_silver(bed, work, seed)
        before, versions = bed.everything(), bed.versions()
        again = bed.run()
        assert (again.records, again.commits) == (0, 0), seed
        assert (bed.everything(), bed.versions()) == (before, versions), seed
        verdict = bed.verify()
        assert verdict.differences == [], seed


def _check_ledger(bed: Bed, work: Workload, seed: int) -> None:
    missing: set[tuple[str, int, int]] = set()
    for topic, epoch, first, last, reason in bed.gaps():
        if reason in ("recreated", "topic_deleted"):
            assert last is None
            continue
        seqs = {(topic, epoch, seq) for seq in range(first, last + 1)}
        assert not seqs & missing, (seed, "a gap is told twice")
        missing |= seqs
    assert not missing & set(work.read), (seed, "a gap that was read")
    for (topic, epoch), head in work.heads.items():
        for seq in range(1, head + 1):
            key = (topic, epoch, seq)
            assert key in work.read or key in missing or key in work.deleted, (seed, key)


def _check_silver(bed: Bed, work: Workload, seed: int) -> None:
    """Deletes are applied in the life that a topic has now: of one that was dropped before the
    next run nobody can tell any more what was deleted in it first."""
    for name in ("orders", "clicks"):
        held = bed.silver("topic", "epoch", "seq", name=name)
        assert len(held) == len(set(held)), seed
        gone = {key for key in work.deleted if work.lives.get(key[0]) == key[1]}
        assert not gone & set(held) or _were_evicted(bed, gone & set(held)), (seed, name)
        wanted = {key for key in work.read if key[0].startswith(name) and key not in work.deleted}
        assert wanted <= set(held), (seed, name)


def _were_evicted(bed: Bed, keys: set[tuple[Any, ...]]) -> bool:
    """Deleted and then below the floor between two runs: nobody can tell any more."""
    return all(topic == "clicks.capped" for topic, _, _ in keys)


def test_a_gap_is_told_once_and_a_recreated_topic_begins_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    bed = Bed(spark, tmp_path)
    with bed.log() as log:
        log.create("a", cap_records=2)
        log.append("a", [1, 2, 3])
        first = log.topics()[0].epoch
    bed.run()
    with bed.log() as log:
        log.append("a", [4, 5, 6, 7])
    assert bed.gaps() == [("a", first, 1, 1, "cap")]

    report = bed.run()

    assert [(row.first, row.last) for row in report.gaps] == [(4, 5)]
    assert bed.gaps() == [("a", first, 1, 1, "cap"), ("a", first, 4, 5, "cap")]
    with bed.log() as log:
        log.append("a", [8])
        log.drop("a")
        log.append("a", ["new"])
        second = log.topics()[0].epoch
    bed.run()
    assert bed.gaps()[2] == ("a", first, 8, None, "recreated")
    assert [(row[1], row[2]) for row in bed.records()] == [
        *((first, seq) for seq in (2, 3, 6, 7)),
        (second, 1),
    ]


def test_damage_stops_a_run_unless_it_may_be_skipped(spark: SparkSession, tmp_path: Path) -> None:
    bed = Bed(spark, tmp_path)
    with bed.log() as log:
        log.append("a", [{"n": n, "pad": "x" * 50} for n in range(20)])
        log.checkpoint(everything=True)
        epoch = log.topics()[0].epoch
    (path,) = (tmp_path / "log" / "topics").rglob("seg-*.data")
    data = bytearray(path.read_bytes())
    data[data.index(b'"n":7')] ^= 1
    path.write_bytes(data)

    with pytest.raises(Exception, match="Corrupt") as caught:
        bed.run()
    fault = spark_errors.parsed(str(caught.value), "lake")
    report = bed.run(skip_corrupt=True)

    assert isinstance(fault, StorageError)
    assert fault.path == str(path)
    assert fault.offset
    assert report.records == 19
    assert [str(row) for row in report.skipped] == [f"topic a, epoch {epoch}: 8 to 8 (corrupt)"]
    assert bed.gaps() == [("a", epoch, 8, 8, "corrupt")]


def test_a_topic_that_is_named_must_be_there(spark: SparkSession, tmp_path: Path) -> None:
    bed = Bed(spark, tmp_path, PROJECT.replace('"*"', '"orders"'))
    bed.append("other", 1)

    with pytest.raises(TopicNotFound):
        bed.run()
    bed.append("orders", 1)
    bed.run()
    with bed.log() as log:
        log.append("orders", [2])
        epoch = log.topics()[0].epoch
        log.drop("orders")

    report = bed.run()

    assert report.records == 0
    assert [str(row) for row in report.gaps] == [
        f"topic orders, epoch {epoch}: 2 to the end (topic_deleted)"
    ]
    assert bed.run().commits == 0
    bed.append("orders", 3)
    assert bed.run().records == 1
    assert bed.gaps() == [("orders", epoch, 2, None, "topic_deleted")]


def test_a_lake_belongs_to_one_log(spark: SparkSession, tmp_path: Path) -> None:
    bed = Bed(spark, tmp_path)
    bed.append("a", 1, 2)
    bed.run()
    (tmp_path / "log").rename(tmp_path / "old")
    bed.append("a", 1, 2, 3)

    with pytest.raises(PenstockError, match="made from another log"):
        bed.run()
