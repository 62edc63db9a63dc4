"""Every snapshot is unreadable: topics come back from their segments and the WAL."""

from __future__ import annotations

from penstock.directory.snapshot_rebuild import from_segments
from penstock.engine.engine import Log
from penstock.storage import snapshots
from penstock.testing import MemoryFilesystem
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import META, TOPICS, everything, paths


def without_snapshots(log: Log) -> MemoryFilesystem:
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    log.close()
    for number in snapshots.numbers(fs, META):
        fs.corrupt(snapshots.path_of(META, number), 20)
    return fs


def test_records_names_configuration_and_floors_come_back() -> None:
    log = open_memory_log()
    log.create("t", cap_records=5, priority=7)
    log.append("t", list(range(1, 9)), tag="x")
    log.delete("t", before_seq=6)
    log.compact()
    before = log.topic("t")

    log = open_memory_log(without_snapshots(log))

    assert log.recovery.rebuilt
    assert everything(log) == [(1, 3, "cap"), 6, 7, 8]
    found = log.topic("t")
    assert (found.id, found.config) == (before.id, before.config)
    assert (found.count, found.bytes, found.head_seq) == (3, 3, 8)
    assert log.delete("t", tag="x").deleted == 3


def test_what_was_dead_when_it_was_sealed_stays_dead() -> None:
    log = open_memory_log()
    log.append("t", [1, 2, 3, 4])
    log.delete("t", seqs=[2])
    log.compact()

    log = open_memory_log(without_snapshots(log))

    assert everything(log) == [1, 3, 4]
    assert log.topic("t").count == 3


def test_the_wal_goes_on_where_the_segments_end() -> None:
    log = open_memory_log()
    log.append("t", [1, 2])
    log.checkpoint(everything=True)
    log.append("t", [3])
    log.append("u", [4])

    log = open_memory_log(without_snapshots(log))

    assert (everything(log), everything(log, "u")) == ([1, 2, 3], [4])
    assert log.append("t", [5]).first_seq == 4


def test_when_absorbed_files_are_gone_too_what_is_left_is_still_read() -> None:
    log = open_memory_log()
    log.append("t", [1, 2])
    log.compact()
    log.append("t", [3])
    log.append("u", [4])
    fs = without_snapshots(log)

    log = open_memory_log(fs)

    assert (everything(log), everything(log, "u")) == ([1, 2, 3], [4])
    assert log.append("t", [5]).first_seq == 4
    assert any("no snapshot" in str(error) for error in log.damage)


def test_a_rewritten_segment_wins_over_the_one_it_replaced() -> None:
    log = open_memory_log()
    log.append("t", [1, 2, 3, 4])
    log.checkpoint(everything=True)
    log.delete("t", seqs=[1, 2, 3])
    log.checkpoint(everything=True)
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    assert len(paths(fs, TOPICS, ".data")) == 2

    log = open_memory_log(without_snapshots(log))

    assert everything(log) == [4]


def test_segments_of_another_log_and_damaged_ones_are_left_out() -> None:
    log = open_memory_log()
    for name in ("t", "u", "v"):
        log.append(name, [name])
    log.checkpoint(everything=True)
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    fs.corrupt(paths(fs, f"{TOPICS}/00000001", ".idx")[0], 30)
    shelf, layout = log.core.parts.shelf, log.core.parts.layout

    mine = [topic.name for topic in from_segments(fs, layout, shelf)]
    stranger = type(layout)(layout.root, bytes(16), True)

    assert mine == ["u", "v"]
    assert from_segments(fs, stranger, shelf) == []


def test_nothing_is_deleted_because_a_snapshot_is_lost() -> None:
    log = open_memory_log()
    log.append("t", [1])
    log.compact()
    fs = without_snapshots(log)
    before = {path: fs.read(path) for path in paths(fs, TOPICS)}

    log = open_memory_log(fs)
    log.checkpoint()
    log.checkpoint()

    assert {path: fs.read(path) for path in before} == before
    assert everything(log) == [1]
