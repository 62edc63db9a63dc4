"""What is damaged or lost, here or in the cold tier."""

from __future__ import annotations

import errno

import pytest

from penstock.engine import fsck
from penstock.engine.engine import Log
from penstock.engine.repair import repair
from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.storage.tiers.folder import FolderTier
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine.colds import COLD, TIER, fill, filled
from tests.unit.engine.support import TOPICS, everything, paths


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def log(fs: MemoryFilesystem) -> Log:
    return filled(fs)


def test_a_note_of_the_tier_that_cannot_be_read_closes_nothing(
    fs: MemoryFilesystem, log: Log
) -> None:
    log.close()
    FolderTier(fs, ROOT).put("cold.json", [b"?"])

    found = fsck.check(fs, ROOT)
    assert [problem.kind for problem in found.problems] == ["cold"]
    with open_memory_log(fs) as again:
        assert again.append("t", ["new"]).last_seq == 51
        with pytest.raises(ColdUnavailable, match="cold_dir"):
            again.read("t", 0)
    with open_memory_log(fs, **TIER) as again:
        assert everything(again) == [*range(50), "new"]


def test_a_lost_stub_is_made_anew_by_repair(fs: MemoryFilesystem, log: Log) -> None:
    log.close()
    for path in paths(fs, TOPICS, "0011.cold"):
        fs.unlink(path)

    assert repair(fs, ROOT, FakeClock()).records_lost == 0

    assert everything(open_memory_log(fs)) == list(range(50))


def test_repair_keeps_what_it_takes_from_the_tier(fs: MemoryFilesystem, log: Log) -> None:
    path = paths(fs, COLD, "0011.data")[0]
    spoil(fs, path)
    spoilt = bytes(fs.map(path))
    log.close()

    (action,) = repair(fs, ROOT, FakeClock()).actions

    assert action.path == path
    assert bytes(fs.map(action.saved_as)) == spoilt


def test_a_copy_that_broke_off_leaves_nothing(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 50)
    log.checkpoint()
    fs.fail("rename", error=errno.EIO, path=f"{COLD}/topics/00000001/seg-0000000000000011.data")
    with pytest.raises(OSError, match="Input/output"):
        log.relocate()
    assert paths(fs, COLD, ".tmp")

    log.drop("t")
    log.relocate()

    assert paths(fs, f"{COLD}/topics") == paths(fs, TOPICS) == []


def test_a_damaged_segment_is_not_moved(fs: MemoryFilesystem) -> None:
    log = open_memory_log(fs, **TIER)
    fill(log, 30)
    path = paths(fs, TOPICS, "0001.data")[0]
    spoil(fs, path)

    assert log.relocate().segments_moved == 1

    assert fs.exists(path)
    assert [error.path for error in log.damage] == [path]


def test_damage_in_the_tier_is_named_by_its_file_there(fs: MemoryFilesystem, log: Log) -> None:
    path = paths(fs, COLD, "0011.data")[0]
    spoil(fs, path)
    log.core.parts.shelf.maps.forget("")

    with pytest.raises(CorruptFrame, match=path):
        everything(log)

    log.close()
    found = fsck.check(fs, ROOT)
    assert [(problem.path, problem.kind) for problem in found.problems] == [(path, "damage")]


def test_repair_reports_what_is_damaged_in_the_tier(fs: MemoryFilesystem, log: Log) -> None:
    spoil(fs, paths(fs, COLD, "0011.data")[0])
    log.close()

    found = repair(fs, ROOT, FakeClock())

    assert found.records_lost == 1
    with open_memory_log(fs) as again:
        assert len(everything(again)) == 50
        assert (15, 15, "damage") in everything(again)
    assert fsck.check(fs, ROOT).is_clean


def spoil(fs: MemoryFilesystem, path: str) -> None:
    """Flip a byte in the fifth record."""
    data = bytes(fs.map(path))
    at = data.index(b"14") if b"14" in data else len(data) // 2
    file = fs.open(path, writable=True)
    file.write_at(bytes([data[at] ^ 1]), at)
    file.sync()
    file.close()


def test_a_lost_index_is_rebuilt_and_brought_back_from_the_tier(
    fs: MemoryFilesystem, log: Log
) -> None:
    log.close()
    for path in (lost := [*paths(fs, TOPICS, "0001.idx"), *paths(fs, TOPICS, "0011.tags")]):
        fs.unlink(path)

    again = open_memory_log(fs)
    assert everything(again) == list(range(50))
    assert everything(again, tag="k1") == list(range(1, 50, 2))
    assert again.delete("t", tag="nix").deleted == 0  # looks at all tags
    again.relocate()

    assert all(fs.exists(path) for path in lost)
    again.close()
    assert fsck.check(fs, ROOT).is_clean


def test_topics_are_rebuilt_from_both_tiers_without_a_snapshot(
    fs: MemoryFilesystem, log: Log
) -> None:
    log.close()
    for path in paths(fs, f"{ROOT}/meta"):
        fs.unlink(path)

    assert everything(open_memory_log(fs)) == list(range(50))
