"""A log that failed once, or whose WAL is damaged, and what may still be written to it."""

from __future__ import annotations

import pytest

from penstock.engine.log_failure import LogFailure
from penstock.errors import CorruptFrame, LogFailed
from penstock.storage.wal.files import shard_number
from penstock.testing import MemoryFilesystem
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import damaged_shards, everything

# Failing.


def test_one_failed_shard_closes_them_all() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, wal_shards=2)
    for topic_id in range(1, 9):
        log.create(f"t{topic_id}", durability="fsync")
    names = {shard_number(topic_id, 2): f"t{topic_id}" for topic_id in range(1, 9)}
    fs.fail("sync", path="shard-00")

    with pytest.raises(LogFailed):
        log.append(names[0], [1])
    with pytest.raises(LogFailed):
        log.append(names[1], [1])

    log.close()
    assert fs.synced_after_failure == 0


def test_the_first_failure_counts_and_is_told_once() -> None:
    failure = LogFailure("/log")
    told: list[str] = []
    failure.on_failure = lambda: told.append("failed")
    first, second = LogFailed("/log/wal", reason="EIO"), LogFailed("/log/wal", reason="ENOSPC")

    failure.fail(first)
    failure.fail(second)
    failure.fail_interrupted(KeyboardInterrupt())

    assert (failure.error, failure.is_troubled, told) == (first, True, ["failed"])
    assert not failure.is_damaged


# Damage.


def test_damage_makes_its_shard_read_only_and_leaves_the_others_alone() -> None:
    fs, harmed, healthy = damaged_shards()

    log = open_memory_log(fs, wal_shards=2)

    assert log.append(healthy, [3]).first_seq == 3
    with pytest.raises(CorruptFrame, match="repair"):
        log.append(harmed, [3])
    with pytest.raises(CorruptFrame):
        log.delete(harmed, before_seq=1)
    assert everything(log, harmed)[0] == 1
    assert [type(error) for error in log.damage] == [CorruptFrame]
    assert log.stats().is_read_only
    assert not log.recovery.is_healthy


def test_with_another_shard_count_damage_makes_everything_read_only() -> None:
    fs, _, healthy = damaged_shards()

    log = open_memory_log(fs, wal_shards=1)

    with pytest.raises(CorruptFrame):
        log.append(healthy, [3])


def test_damage_is_reported_once_and_stops_no_write() -> None:
    failure = LogFailure("/log")

    for _ in range(2):
        failure.note_damage(CorruptFrame("/log/topics/1", reason="checksum differs"))

    assert len(failure.damage) == 1
    assert not failure.is_troubled
    failure.check_undamaged()
