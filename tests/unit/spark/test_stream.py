"""A stream's offsets and plans, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from penstock.clock import SystemClock
from penstock.engine.engine import Log
from penstock.errors import InvalidArgument
from penstock.spark.gaps import GapFound
from penstock.spark.schema import RECORD
from penstock.spark.stream import StreamReader
from tests.unit.spark.support import filled, opened, options_of


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path / "data") as found:
        yield found


def stream(log: Log, **given: object) -> StreamReader:
    return StreamReader(options_of(log, **given), RECORD)


def offset(log: Log, seq: int, topic: str = "t") -> dict[str, Any]:
    return {topic: {"epoch": log.topic(topic).epoch, "seq": seq}}


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    parts = reader.partitions(start, end)
    return sorted(n for part in parts for b in reader.read(part) for n in b["seq"].to_pylist())


def test_a_limit_is_what_the_options_say(log: Log) -> None:
    assert stream(log).getDefaultReadLimit() == ReadAllAvailable()
    assert stream(log, maxRecordsPerTrigger=5).getDefaultReadLimit() == ReadMaxRows(5)
    assert stream(log, maxBytesPerTrigger=6).getDefaultReadLimit() == ReadMaxBytes(6)


def test_both_limits_hold_at_once(log: Log) -> None:
    filled(log)
    reader = stream(log, maxRecordsPerTrigger=5, maxBytesPerTrigger=20)

    end = reader.latestOffset(offset(log, 0), reader.getDefaultReadLimit())

    assert end == offset(log, 2)
    assert reader.latestOffset(offset(log, 0), ReadAllAvailable()) == offset(log, 10)
    assert reader.reportLatestOffset() == offset(log, 10)


def test_a_run_to_the_end_has_an_end(log: Log) -> None:
    filled(log)
    reader = stream(log, topic="*", maxRecordsPerTrigger=6)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    filled(log, 5)
    filled(log, 5, "later")

    first = reader.latestOffset(start, ReadMaxRows(6))
    second = reader.latestOffset(first, ReadMaxRows(6))

    assert first["t"].pop("begun") == 0
    assert (first, second) == (offset(log, 6), offset(log, 10))
    assert reader.latestOffset(second, ReadMaxRows(6)) == second
    assert read(reader, first, second) == [7, 8, 9, 10]


def test_a_run_to_the_end_ends_even_if_the_topic_is_recreated(log: Log) -> None:
    filled(log)
    reader = stream(log)
    reader.prepareForTriggerAvailableNow()
    start = offset(log, 5)
    log.drop("t")
    filled(log, 3)

    assert reader.latestOffset(start, ReadMaxRows(6)) == start


def test_a_topic_that_vanished_is_told_once(log: Log, tmp_path: Path) -> None:
    filled(log)
    start = offset(log, 5)
    log.drop("t")
    log.sync()
    reader = stream(log)

    end = reader.latestOffset(start, ReadAllAvailable())

    assert end == {}
    with pytest.raises(GapFound, match=r"from record 6 on are gone \(topic_deleted\)"):
        reader.partitions(start, end)
    going_on = stream(log, onGap="report", gapLedger=tmp_path / "gaps")
    assert going_on.partitions(start, end) == []
    assert going_on.partitions(start, end) == []
    assert len(list((tmp_path / "gaps").iterdir())) == 1
    filled(log, 2)
    again = going_on.latestOffset(end, ReadAllAvailable())
    assert read(going_on, end, again) == [1, 2]


def pieces(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[list[Any]]:
    """The rows of each task, in its order."""
    parts = reader.partitions(start, end)
    return [
        [
            row
            for b in reader.read(part)
            for row in zip(b["topic"].to_pylist(), b["seq"].to_pylist(), strict=True)
        ]
        for part in parts
    ]


def test_a_batch_is_cut_alike_wherever_its_records_are(log: Log) -> None:
    for number in range(3):
        filled(log, 20, "t")
        filled(log, 10, "u")
        if number == 0:
            log.checkpoint(everything=True)
    reader = stream(log, topic="*", partitionRecords=7)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    before = pieces(reader, start, end)

    log.checkpoint(everything=True)

    assert pieces(stream(log, topic="*", partitionRecords=7), start, end) == before
    assert [row for one in before for row in one] == [
        *(("t", n) for n in range(1, 61)),
        *(("u", n) for n in range(1, 31)),
    ]
    assert {len(one) for one in before} == {6, 7}


def test_a_first_batch_is_cut_alike_when_the_floor_has_risen(log: Log, tmp_path: Path) -> None:
    log.create("t", cap_records=40)
    filled(log, 50)
    told = {"partitionRecords": 10, "onGap": "report", "gapLedger": tmp_path / "gaps"}
    reader = stream(log, **told)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    before = pieces(reader, start, end)
    filled(log, 15)

    again = stream(log, **told)
    after = pieces(again, again.initialOffset(), end)

    assert [len(one) for one in before] == [10, 10, 10, 10]
    assert after == [[], before[1][5:], *before[2:]]
    (gap,) = (json.loads(path.read_text()) for path in (tmp_path / "gaps").iterdir())
    assert (gap["first"], gap["last"]) == (11, 25)


def test_a_run_to_the_end_tells_of_topics_that_had_gone_before_it(log: Log) -> None:
    filled(log, 10, "t")
    filled(log, 10, "u")
    filled(log, 10, "v")
    start = offset(log, 5, "t") | offset(log, 5, "u") | offset(log, 10, "v")
    log.drop("t")
    log.sync()
    reader = stream(log, topic="*")
    reader.prepareForTriggerAvailableNow()
    log.drop("u")
    log.sync()

    end = reader.latestOffset(start, ReadAllAvailable())

    assert end == {name: start[name] for name in "uv"}
    with pytest.raises(GapFound, match=r"topic t: .* from record 6 on are gone \(topic_deleted\)"):
        reader.partitions(start, end)


def test_a_future_time_keeps_older_records_out(log: Log) -> None:
    filled(log, 5)
    moment = SystemClock().now_ms() + 86_400_000
    reader = stream(log, topic="*", startingTimestamp=moment)
    start = reader.initialOffset()
    filled(log, 5)
    filled(log, 5, "later")

    end = reader.latestOffset(start, ReadAllAvailable())

    assert read(reader, start, end) == []


def test_a_time_between_two_records_begins_with_the_second(log: Log) -> None:
    filled(log, 5)
    moment = log.read("t").records[-1].ts + 1
    while SystemClock().now_ms() < moment:
        pass
    filled(log, 5)
    reader = stream(log, startingTimestamp=moment)
    start = reader.initialOffset()

    assert start["t"]["seq"] == 5
    assert read(reader, start, reader.latestOffset(start, ReadAllAvailable())) == [6, 7, 8, 9, 10]


def test_records_of_that_time_that_were_evicted_are_a_gap(log: Log) -> None:
    log.create("t", cap_records=4)
    filled(log, 10)
    reader = stream(log, startingTimestamp=1)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())

    with pytest.raises(GapFound, match="records 1 to 6"):
        reader.partitions(start, end)
    assert read(stream(log, startingTimestamp=1, onGap="ignore"), start, end) == [7, 8, 9, 10]


def test_large_records_within_the_bytes_of_a_trigger_are_one_batch(log: Log) -> None:
    filled(log, 200)
    for _ in range(4):
        log.append("t", [{"text": "x" * 100_000}])
    log.sync()
    reader = stream(log, maxBytesPerTrigger=1 << 30)

    end = reader.latestOffset(offset(log, 200), reader.getDefaultReadLimit())

    assert end == offset(log, 204)


def test_a_directory_takes_no_positions(log: Log) -> None:
    filled(log)

    stream(log).commit(offset(log, 5))

    assert log.positions("t") == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"rows": "gaps"}, "rows=gaps is only for spark.read"),
        ({"onGap": "report"}, "needs option gapLedger"),
        ({"endingSeq": 5}, "a stream has no end"),
        ({"startingSeq": 50}, "startingSeq 50 is above the head of topic t, which is 10"),
    ],
)
def test_what_is_wrong_is_said(log: Log, given: dict[str, object], complaint: str) -> None:
    filled(log)

    with pytest.raises(InvalidArgument, match=complaint):
        stream(log, **given).initialOffset()
