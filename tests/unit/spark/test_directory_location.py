"""A data directory as a location to read from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock import SystemClock
from penstock.directory import directory_view
from penstock.directory.directory_view import DirectoryView
from penstock.engine.engine import Log
from penstock.errors import TopicNotFound
from penstock.spark import directory_location
from penstock.spark.bounds import Bounds
from penstock.spark.directory_location import DirectoryLocation
from penstock.spark.gaps import GapFound
from penstock.spark.offsets import StreamOffset
from penstock.spark.schema import RECORD
from penstock.spark.source import BatchReader
from tests.unit.spark.support import filled, gaps, opened, options_of, seqs


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path / "data") as found:
        yield found


def location(log: Log, **given: object) -> DirectoryLocation:
    return DirectoryLocation(options_of(log, **given))


def test_reading_begins_with_the_earliest_unless_told_otherwise(log: Log) -> None:
    log.create("t", cap_records=4)
    filled(log)
    epoch = log.topic("t").epoch

    assert location(log).beginning() == {"t": StreamOffset(epoch, 6)}
    assert location(log, startingSeq=3).beginning() == {"t": StreamOffset(epoch, 2)}
    assert location(log, startingSeq=99).beginning() == {"t": StreamOffset(epoch, 10)}
    assert location(log, startingTimestamp="2999-01-01").beginning() == {
        "t": StreamOffset(epoch, 10)
    }
    assert location(log, rows="gaps").beginning() == {"t": StreamOffset(epoch, 0)}
    given = '{"t": {"epoch": 99, "seq": 1}, "other": {"epoch": 1, "seq": 1}}'
    assert location(log, startingOffsets=given).beginning() == {"t": StreamOffset(99, 1)}


def test_a_named_topic_must_be_there_and_a_pattern_need_not(log: Log) -> None:
    with pytest.raises(TopicNotFound):
        location(log).beginning()
    assert location(log, topic="o*").beginning() == {}
    assert location(log, topic="o*").heads() == {}


def test_heads_follow_the_log(log: Log) -> None:
    here = location(log, topic="*")
    filled(log, 3)
    epoch = log.topic("t").epoch
    assert here.heads() == {"t": StreamOffset(epoch, 3)}

    filled(log, 2)
    filled(log, 1, "u")

    assert here.heads() == {"t": StreamOffset(epoch, 5), "u": StreamOffset(log.topic("u").epoch, 1)}


def test_an_unchanged_directory_is_looked_at_once(log: Log) -> None:
    here = location(log)
    filled(log)

    assert here.look() is here.look()


def test_a_step_is_bounded_by_records_and_bytes_over_all_topics(log: Log) -> None:
    filled(log, 30, "t")
    filled(log, 10, "u")
    log.delete("t", before_seq=11)
    log.sync()
    here = location(log, topic="*")
    begun, heads = here.beginning(), here.heads()

    def step(records: int, size: int) -> list[int]:
        return [offset.seq for offset in here.within(begun, heads, records, size).values()]

    assert step(0, 0) == [30, 10]
    assert step(8, 0) == [16, 2]
    assert step(1, 0) == [11, 1]
    assert step(1000, 1) == [10, 1]  # what is deleted is passed over


def test_a_topic_that_came_later_is_read_from_its_first_record(log: Log) -> None:
    log.create("u", cap_records=2)
    filled(log, 5, "u")
    here = location(log, topic="*")

    plan = here.between({}, here.heads(), Bounds())

    assert [(part.first, part.last) for part in plan.work] == [(4, 5)]
    assert [(gap.first, gap.last) for gap in plan.gaps] == [(1, 3)]


def test_bounds_leave_out_what_need_not_be_read(log: Log) -> None:
    filled(log)
    here = location(log)

    plan = here.between(here.beginning(), here.heads(), Bounds(seq_min=4, seq_max=6))

    assert [(part.first, part.last) for part in plan.work] == [(4, 6)]
    assert here.between(here.beginning(), here.heads(), Bounds(topics=frozenset())).work == []
    assert here.between(here.beginning(), here.heads(), Bounds(ts_max=5)).work == []
    future = Bounds(ts_min=1 << 60)
    assert here.between(here.beginning(), here.heads(), future).work == []


def test_an_end_that_the_log_has_not_reached_is_told(log: Log) -> None:
    filled(log)
    epoch = log.topic("t").epoch
    end = json.dumps({"t": {"epoch": epoch, "seq": 12}})

    assert gaps(options_of(log, endingOffsets=end)) == [("t", 11, 12, "not_written")]
    assert seqs(options_of(log, endingOffsets=end, onGap="ignore")) == list(range(1, 11))


def test_a_closed_directory_is_read_as_well(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as log:
        filled(log)
        options = options_of(log)

    assert seqs(options) == list(range(1, 11))


def test_a_batch_without_a_start_is_planned_by_one_look(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is evicted between two looks was never asked for."""
    log.create("t", cap_records=4)
    filled(log)
    looks = []

    def looking(root: str) -> DirectoryView:
        looks.append(directory_view.look(root))
        filled(log, 2)
        return looks[-1]

    monkeypatch.setattr(directory_location, "look", looking)

    plan = location(log).whole(Bounds())

    assert plan.gaps == []
    assert [(one.first, one.last) for one in plan.work] == [(7, 10)]
    assert len(looks) == 1


def test_what_is_evicted_between_plan_and_read_is_told_or_passed_over(log: Log) -> None:
    log.create("t", cap_records=4)
    filled(log)
    strict, easy = (BatchReader(options_of(log, onGap=what), RECORD) for what in ("fail", "ignore"))
    plans = [(reader, reader.partitions()) for reader in (strict, easy)]
    filled(log, 2)

    (_, parts), (_, others) = plans
    with pytest.raises(GapFound, match="records 7 to 8"):
        [list(strict.read(part)) for part in parts]
    found = [n for part in others for b in easy.read(part) for n in b["seq"].to_pylist()]
    assert found == [9, 10]


def test_times_are_found_between_spans_and_before_all_of_them(log: Log) -> None:
    log.create("t", cap_records=6)
    stamps = []
    for _ in range(4):
        filled(log, 2)
        stamps.append(log.read("t").records[-1].ts)
        log.checkpoint(everything=True)
        while SystemClock().now_ms() <= stamps[-1]:
            pass
    topic = directory_view.look(log.core.parts.layout.root).topic("t")
    assert topic is not None

    assert [
        directory_location.older(topic, stamp) for stamp in (1, stamps[1], stamps[2], stamps[3])
    ] == [
        0,
        0,
        4,
        6,
    ]
    assert directory_location.older(topic, stamps[3] + 1) == 8
