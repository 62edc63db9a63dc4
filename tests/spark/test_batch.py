"""What a batch query gives, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.engine.engine import Log
from tests.spark.support import filled, gap_rows, load, opened, seqs


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path / "data") as found:
        yield found


def offsets(log: Log, seq: int, topic: str = "t", epoch: int | None = None) -> str:
    return json.dumps({topic: {"epoch": epoch or log.topic(topic).epoch, "seq": seq}})


def damaged(log: Log, seq: int) -> Path:
    """Flip a byte in the data of a sealed record."""
    log.compact()
    (path,) = Path(log.core.parts.layout.root).glob("topics/*/*.data")
    content = bytearray(path.read_bytes())
    content[content.index(b'{"n":%d,' % (seq - 1)) + 3] ^= 1
    path.write_bytes(content)
    return path


def test_rows_are_the_records_sealed_or_not(spark: SparkSession, log: Log) -> None:
    filled(log)
    log.compact()
    filled(log, start=10)
    log.delete("t", tag="k1")
    log.sync()

    rows = load(spark, log).orderBy("seq").collect()

    expected = log.read("t", 0, 100).records
    assert [(r.topic, r.epoch, r.seq, r.tag, json.loads(r.data)) for r in rows] == [
        ("t", log.topic("t").epoch, r.seq, r.tag, r.data) for r in expected
    ]
    assert [round(r.ts.timestamp() * 1000) for r in rows] == [r.ts for r in expected]


def test_what_is_not_synced_is_not_there_yet(spark: SparkSession, log: Log) -> None:
    filled(log, 3)
    log.append("t", ["written, and no more than that"])

    assert seqs(load(spark, log)) == [1, 2, 3]
    log.sync()
    assert seqs(load(spark, log)) == [1, 2, 3, 4]


def test_offsets_bound_a_query(spark: SparkSession, log: Log) -> None:
    filled(log)

    frame = load(spark, log, startingOffsets=offsets(log, 3), endingOffsets=offsets(log, 7))

    assert seqs(frame) == [4, 5, 6, 7]


def test_seqs_and_times_bound_a_query(spark: SparkSession, log: Log) -> None:
    filled(log)

    assert seqs(load(spark, log, startingSeq=9)) == [9, 10]
    assert seqs(load(spark, log, endingSeq=2)) == [1, 2]
    assert seqs(load(spark, log, startingTimestamp="2020-01-01T00:00:00Z"))[0] == 1
    assert seqs(load(spark, log, startingTimestamp="2999-01-01T00:00:00Z")) == []


def test_columns_are_pruned(spark: SparkSession, log: Log) -> None:
    filled(log, 2)

    frame = load(spark, log, columns="seq,tag")

    assert frame.columns == ["seq", "tag"]
    assert [tuple(row) for row in frame.collect()] == [(1, "k0"), (2, "k1")]


def test_evicted_records_fail_a_query_that_asks_for_them(spark: SparkSession, log: Log) -> None:
    log.create("t", cap_records=4)
    filled(log)

    assert seqs(load(spark, log)) == [7, 8, 9, 10]
    with pytest.raises(Exception, match=r"topic t: records 3 to 6 of epoch \d+ are gone \(cap\)"):
        load(spark, log, startingOffsets=offsets(log, 2)).collect()
    assert seqs(load(spark, log, startingSeq=3, onGap="report")) == [7, 8, 9, 10]


def test_gaps_are_rows_of_the_same_source(spark: SparkSession, log: Log) -> None:
    log.create("t", cap_records=4)
    filled(log)
    epoch = log.topic("t").epoch

    told = load(spark, log, rows="gaps", startingOffsets=offsets(log, 2))

    assert gap_rows(told) == [("t", epoch, 3, 6, "cap")]
    assert gap_rows(load(spark, log, rows="gaps")) == [("t", epoch, 1, 6, "cap")]
    assert gap_rows(load(spark, log, rows="gaps", startingSeq=7)) == []


def test_a_recreated_topic_is_told(spark: SparkSession, log: Log) -> None:
    filled(log)
    old = log.topic("t").epoch
    log.drop("t")
    filled(log, 3)

    options = {"startingOffsets": offsets(log, 6, epoch=old)}
    with pytest.raises(Exception, match=f"the rest of epoch {old} from record 7 on are gone"):
        load(spark, log, **options).collect()
    assert seqs(load(spark, log, onGap="ignore", **options)) == [1, 2, 3]
    assert gap_rows(load(spark, log, rows="gaps", **options)) == [("t", old, 7, None, "recreated")]


def test_a_topic_that_a_pattern_no_longer_finds_is_told(spark: SparkSession, log: Log) -> None:
    filled(log, topic="orders")
    start = offsets(log, 4, topic="orders")
    epoch = log.topic("orders").epoch
    log.drop("orders")
    filled(log, 1, topic="others")

    told = load(spark, log, "o*", rows="gaps", startingOffsets=start)

    assert gap_rows(told) == [("orders", epoch, 5, None, "topic_deleted")]


def test_a_damaged_record_fails_with_file_and_offset(spark: SparkSession, log: Log) -> None:
    filled(log)
    path = damaged(log, seq=5)

    with pytest.raises(Exception, match=rf"{path} at byte \d+: checksum differs \(seq 5\)"):
        load(spark, log).collect()


def test_damaged_records_can_be_skipped_and_are_told(spark: SparkSession, log: Log) -> None:
    filled(log)
    damaged(log, seq=5)

    assert seqs(load(spark, log, skipCorrupt="true")) == [1, 2, 3, 4, 6, 7, 8, 9, 10]
    told = load(spark, log, skipCorrupt="true", rows="gaps")
    assert gap_rows(told) == [("t", log.topic("t").epoch, 5, 5, "corrupt")]


def test_filters_are_pushed_down_when_asked(spark: SparkSession, log: Log) -> None:
    filled(log)

    def wanted(condition: str) -> list[int]:
        return seqs(load(spark, log, pushFilters="true").where(condition))

    assert wanted("seq > 2 AND seq <= 4") == [3, 4]
    assert wanted("tag = 'k0'") == [1, 4, 7, 10]
    assert wanted("tag LIKE 'k%' AND seq IN (1, 5, 99)") == [1, 5]
    assert wanted("topic = 'other'") == []
    assert wanted("ts >= TIMESTAMP '2020-01-01 00:00:00' AND seq = 3") == [3]


def test_a_frame_may_be_filtered_twice_unless_filters_are_pushed(
    spark: SparkSession, log: Log
) -> None:
    filled(log)
    frame = load(spark, log)

    assert seqs(frame.where("seq > 8")) == [9, 10]
    assert seqs(frame.where("seq < 3")) == [1, 2]
    assert frame.count() == 10


def test_an_empty_topic_has_no_rows(spark: SparkSession, log: Log) -> None:
    log.create("t")
    log.sync()

    assert load(spark, log).collect() == []
    assert load(spark, log, rows="gaps").collect() == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"topic": "nobody"}, "no topic named 'nobody'"),
        ({"includeDeleted": "true"}, "a delete is permanent"),
        ({"startingOffset": "1"}, "did you mean startingOffsets"),
        ({"startingOffsets": "[1]"}, "option startingOffsets must have the form"),
        ({"columns": "seq,sequence"}, "unknown column 'sequence'"),
        ({"rows": "lines"}, "option rows must be records or gaps"),
    ],
)
def test_what_is_wrong_is_said(
    spark: SparkSession, log: Log, options: dict[str, Any], complaint: str
) -> None:
    filled(log, 1)

    with pytest.raises(Exception, match=complaint):
        load(spark, log, **{"includeDeleted": "false", **options}).collect()
