"""A stream's offsets and plans, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

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


def test_a_directory_takes_no_positions(log: Log) -> None:
    filled(log)

    stream(log).commit(offset(log, 5))

    assert log.positions("t") == []


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"rows": "gaps"}, "rows=gaps is for spark.read"),
        ({"onGap": "report"}, "needs option gapLedger"),
        ({"endingSeq": 5}, "a stream has no end"),
        ({"startingSeq": 50}, "startingSeq 50 is past the head of topic t, which is 10"),
    ],
)
def test_what_is_wrong_is_said(log: Log, given: dict[str, object], complaint: str) -> None:
    filled(log)

    with pytest.raises(InvalidArgument, match=complaint):
        stream(log, **given).initialOffset()
