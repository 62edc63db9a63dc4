"""Old segments go to the cold tier and are read from there. Crashes in between are in
tests/crash/test_cold.py."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from penstock.directory.directory_view import look
from penstock.directory.slice_reader import SliceOptions, SliceReader
from penstock.directory.slices import cut
from penstock.engine.cold_mover import ColdReport
from penstock.engine.engine import Log
from penstock.engine.open_log import open_log
from penstock.errors import ColdUnavailable, CorruptFrame, InvalidArgument
from penstock.storage.tiers.folder import FolderTier
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.support.s3 import serving
from tests.unit.engine.colds import COLD, TIER, fill, filled, in_tier, mount
from tests.unit.engine.support import TOPICS, everything, killed, paths, restarted


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    return filled(fs)


def test_all_but_the_newest_segments_go(fs: MemoryFilesystem, log: Log) -> None:
    hot = [path.rpartition("/")[2] for path in paths(fs, TOPICS, ".data")]

    assert hot == ["seg-0000000000000041.data"]
    assert len(in_tier(fs)) == len(in_tier(fs, ".idx")) == len(in_tier(fs, ".tags")) == 4
    stats = log.stats()
    assert (stats.segments, stats.cold_segments, stats.cold_moved_total) == (5, 4, 4)
    assert stats.cold_bytes > 0


def test_nothing_changes_for_readers(log: Log) -> None:
    assert everything(log) == list(range(50))
    assert everything(log, tag="k1") == list(range(1, 50, 2))
    assert log.seek("t", log.read("t", 20, 1).records[0].ts or 0) <= 20


@pytest.mark.parametrize("again", [restarted, killed])
def test_nothing_changes_over_a_restart(log: Log, again: Any) -> None:
    reopened = again(log, **TIER)

    assert everything(reopened) == list(range(50))
    assert reopened.stats().cold_segments == 4
    assert reopened.relocate() == ColdReport()


def test_the_directory_remembers_its_tier(log: Log) -> None:
    assert everything(restarted(log)) == list(range(50))


def test_a_second_pass_finds_nothing_to_do(fs: MemoryFilesystem, log: Log) -> None:
    meta = paths(fs, f"{COLD}/meta")

    assert log.relocate() == ColdReport()
    assert paths(fs, f"{COLD}/meta") == meta


def test_deletes_read_no_cold_data(fs: MemoryFilesystem, log: Log) -> None:
    log.core.parts.shelf.maps.forget("")
    fs.fail("any", error=errno.EIO, persistent=True, path=f"{COLD}/")

    assert log.delete("t", tag="k0").deleted == 25
    assert log.delete("t", before_seq=11).deleted == 5


def test_what_is_wholly_dead_goes_from_the_tier(fs: MemoryFilesystem, log: Log) -> None:
    log.delete("t", before_seq=26)

    assert log.relocate().segments_removed == 2
    assert in_tier(fs) == ["seg-0000000000000021.data", "seg-0000000000000031.data"]
    assert paths(fs, TOPICS, "0001.cold") == []
    assert everything(log) == list(range(25, 50))


def test_what_a_cap_evicts_goes_from_the_tier(fs: MemoryFilesystem, log: Log) -> None:
    log.create("t", cap_records=15)
    log.relocate()

    assert in_tier(fs) == ["seg-0000000000000031.data"]
    assert everything(log)[0] == (1, 35, "cap")


def test_a_dropped_topic_leaves_nothing_behind(fs: MemoryFilesystem, log: Log) -> None:
    log.drop("t")
    log.relocate()

    assert in_tier(fs) == in_tier(fs, ".idx") == in_tier(fs, ".tags") == []
    assert paths(fs, TOPICS) == []


def test_a_partly_dead_cold_segment_stays_as_it_is(fs: MemoryFilesystem, log: Log) -> None:
    log.delete("t", seqs=list(range(1, 9)))

    log.relocate()

    assert "seg-0000000000000001.data" in in_tier(fs)
    assert everything(log) == list(range(8, 50))


def test_a_log_without_a_tier_says_so() -> None:
    with pytest.raises(InvalidArgument, match="cold_dir"):
        open_memory_log().relocate()


def test_a_tier_inside_the_data_directory_is_refused(fs: MemoryFilesystem) -> None:
    with pytest.raises(InvalidArgument, match="inside the data directory"):
        open_memory_log(fs, cold_dir=f"{ROOT}/cold")


def test_a_tier_is_not_opened_as_a_log(fs: MemoryFilesystem, log: Log) -> None:
    with pytest.raises(InvalidArgument, match="cold tier of a log"):
        open_log(COLD, fs=fs)


def test_the_tier_of_another_log_is_left_alone(fs: MemoryFilesystem, log: Log) -> None:
    other = open_log("/other", fs=fs, clock=FakeClock(), background=False, **TIER)
    fill(other, 30)
    before = in_tier(fs)

    with pytest.raises(ColdUnavailable, match="another log"):
        other.relocate()

    assert in_tier(fs) == before
    assert everything(other) == list(range(30))


def test_a_tier_that_moved_is_found_by_its_new_name(fs: MemoryFilesystem, log: Log) -> None:
    for path in paths(fs, f"{COLD}/"):
        FolderTier(fs, "/moved").put(path.removeprefix(f"{COLD}/"), [bytes(fs.map(path))])
        fs.unlink(path)

    assert everything(restarted(log, **{**TIER, "cold_dir": "/moved"})) == list(range(50))


# The tier alone.


def test_a_tier_can_be_read_where_nothing_else_is_left(fs: MemoryFilesystem, log: Log) -> None:
    log.append("t", ["not cold"])
    log.delete("t", seqs=[2])
    log.relocate()

    topic = look(COLD, fs=fs).topic("t")

    assert topic is not None
    assert (topic.head, topic.live, topic.earliest) == (40, 39, 1)


def test_a_tier_that_went_back_is_told_to_who_reads_it_alone(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 20)
    log.relocate()
    early = {path: bytes(fs.map(path)) for path in paths(fs, f"{COLD}/meta")}
    fill(log, 30)
    log.relocate()
    view = look(COLD, fs=fs)
    topic = view.topic("t")
    assert topic is not None
    (part,) = cut(view, topic, after=20, last=30, records_max=100).slices
    for path in [*paths(fs, f"{COLD}/meta"), *paths(fs, COLD, "0021.data")]:
        fs.unlink(path)
    mount(fs, early)

    with pytest.raises(CorruptFrame, match="topic t ends at seq 10, before seq 21"):
        list(SliceReader(fs).read(part, SliceOptions(0)))


def test_an_object_store_is_a_tier_too(fs: MemoryFilesystem) -> None:
    with serving() as store:
        url = store.url("engine")
        log = open_memory_log(fs, **{**TIER, "cold_dir": url})
        fill(log, 50)

        assert log.relocate().segments_moved == 4

        again = restarted(log)
        assert everything(again) == list(range(50))
        assert len(paths(fs, f"{ROOT}/cache")) == 4
        again.drop("t")
        assert again.relocate().segments_removed == 4
        topic = look(url).topic("t")
        assert topic is None
        assert paths(fs, f"{ROOT}/cache") == []
