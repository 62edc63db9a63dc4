"""How far a topic is written and synced: the synced seq never passes what a power cut leaves."""

from __future__ import annotations

import random

import pytest

from penstock.engine.engine import Log
from penstock.errors import LogFailed
from penstock.testing import MemoryFilesystem
from penstock.testing.crash import VANISH
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import restarted


def synced(log: Log, topic: str = "t") -> int:
    return log.core.synced_seq(log.core.catalogue.get(topic))


def written(log: Log, topic: str = "t") -> int:
    return log.core.watermarks.written_seq(log.core.catalogue.get(topic))


@pytest.mark.parametrize("durability", ["memory", "disk"])
def test_a_weaker_class_is_synced_by_a_sync(memory_log: Log, durability: str) -> None:
    memory_log.create("t", durability=durability)
    memory_log.append("t", [1, 2])

    assert (synced(memory_log), written(memory_log)) == (0, 2)
    memory_log.sync()
    memory_log.append("t", [3])
    assert (synced(memory_log), written(memory_log)) == (2, 3)


def test_what_is_visible_in_a_topic_of_class_fsync_is_synced(memory_log: Log) -> None:
    memory_log.create("t", durability="fsync")
    memory_log.append("t", [1, 2])

    assert (synced(memory_log), written(memory_log)) == (2, 2)


def test_records_in_memory_only_are_neither_written_nor_synced(memory_log: Log) -> None:
    memory_log.create("t", durability="ephemeral")
    memory_log.append("t", [1, 2])
    memory_log.sync()

    assert (synced(memory_log), written(memory_log)) == (0, 0)
    memory_log.create("t", durability="disk")
    assert (synced(memory_log), written(memory_log)) == (2, 2)


def test_what_a_restart_finds_is_synced(memory_log: Log) -> None:
    memory_log.append("t", [1, 2])

    with restarted(memory_log) as log:
        assert (synced(log), written(log)) == (2, 2)
        log.append("t", [3])
        assert (synced(log), written(log)) == (2, 3)


def test_a_sync_that_began_before_an_append_does_not_count_for_it(
    penstock_fs: MemoryFilesystem, memory_log: Log
) -> None:
    memory_log.append("t", [1])
    todo = [1]

    def meanwhile(index: int, kind: str, path: str) -> None:
        if kind == "sync" and todo and "/wal/" in path:
            todo.pop()
            memory_log.append("t", [2])

    shard = memory_log.core.parts.shards[0]
    assert synced(memory_log) == 0
    penstock_fs.on_operation = meanwhile
    memory_log.sync()
    penstock_fs.on_operation = None

    assert not todo
    assert synced(memory_log) == 1
    assert not shard.has_synced(shard.syncs_begun)
    memory_log.sync()
    assert synced(memory_log) == 2


def test_a_failed_sync_syncs_nothing(penstock_fs: MemoryFilesystem, memory_log: Log) -> None:
    memory_log.append("t", [1])
    handle = memory_log.core.catalogue.get("t")
    assert memory_log.core.synced_seq(handle) == 0

    penstock_fs.fail("sync", path="/wal/")
    with pytest.raises(LogFailed):
        memory_log.sync()

    assert memory_log.core.synced_seq(handle) == 0


def test_copies_are_synced_with_the_bytes_of_their_records() -> None:
    log = open_memory_log(MemoryFilesystem(), wal_shards=4)
    log.create_router("r", "s", "t")
    apart = log.core.catalogue.get("s").shard is not log.core.catalogue.get("t").shard
    log.append("s", [1])
    assert log.read("t").next_seq == 1

    log.core.catalogue.get("t").shard.sync_all()
    assert synced(log) == (0 if apart else 1)
    log.drop_router("r")
    assert synced(log) == (0 if apart else 1)
    log.sync()
    assert synced(log) == 1
    log.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_power_cut_leaves_all_that_was_said_to_be_synced(seed: int) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, wal_shards=2)
    roll = random.Random(seed)
    log.create_router("r", "a", "b")
    log.create("c", durability="fsync")
    claimed: dict[str, int] = {}
    for step in range(30):
        match roll.randrange(6):
            case 0:
                log.sync()
            case 1:
                roll.choice(log.core.parts.shards).sync_all()
            case 2:
                log.create("a", durability=roll.choice(["disk", "memory", "fsync"]))
            case _:
                log.append(roll.choice("aacd"), [step])
        for topic in ("a", "b", "c", "d"):
            if log.core.catalogue.find(topic) is not None:
                log.core.catalogue.refresh(log.core.catalogue.get(topic))
                found = synced(log, topic)
                assert found >= claimed.get(topic, 0)
                claimed[topic] = found

    with open_memory_log(fs.power_cut(lambda _: VANISH), wal_shards=2) as after:
        for topic, seq in claimed.items():
            page = after.read(topic, 0, 1000)
            found_seqs = [record.seq for record in page.records if record.seq <= seq]
            assert found_seqs == list(range(1, seq + 1)), topic
