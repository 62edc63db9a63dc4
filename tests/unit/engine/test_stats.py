from __future__ import annotations

import msgspec
import pytest

from penstock.codec import kernel
from penstock.codec.entry import encode_entry
from penstock.engine.engine import Log
from penstock.entries import SeqsReserved
from penstock.errors import LogFailed
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log


def test_a_new_log_counts_nothing(memory_log: Log) -> None:
    stats = memory_log.stats()

    numbers = {k: v for k, v in msgspec.structs.asdict(stats).items() if k != "kernel"}
    tables = [numbers.pop("topics_by_class"), dict(numbers.pop("wal_sync_histogram"))]
    assert not any(numbers.values())
    assert not any(value for table in tables for value in table.values())
    assert stats.kernel in ("compiled", "interpreted")


def test_live_records_and_bytes_are_those_of_all_topics(memory_log: Log) -> None:
    memory_log.append("t", [b"1", b"22"])
    memory_log.append("u", [b"333"])
    memory_log.delete("t", before_seq=2)
    memory_log.checkpoint(everything=True)

    stats = memory_log.stats()

    assert (stats.topics, stats.records_live, stats.bytes_live, stats.segments) == (2, 2, 5, 2)


def test_the_wal_is_counted_and_a_checkpoint_absorbs_it(memory_log: Log) -> None:
    memory_log.create("t", durability="fsync")
    memory_log.append("t", [1])
    before = memory_log.stats()

    memory_log.checkpoint()
    after = memory_log.stats()

    assert before.wal_tickets_total >= before.wal_writes_total >= 2
    assert before.wal_syncs_total >= 2
    assert before.wal_unabsorbed_bytes == before.wal_frames_bytes_total > 0
    assert after.wal_unabsorbed_bytes == 0
    assert after.wal_frames_bytes_total == before.wal_frames_bytes_total


def test_every_frame_that_is_written_is_counted(
    memory_log: Log, penstock_fs: MemoryFilesystem
) -> None:
    memory_log.create("t", durability="disk")
    memory_log.append("t", [1])
    memory_log.append("t", [2, 3, 4])
    memory_log.append("t", [5], idempotency_key="k")
    memory_log.delete("t", before_seq=2)
    memory_log.move_position("t", "a", 1)
    memory_log.sync()
    memory_log.append("t", [6])

    (wal,) = (path for path in penstock_fs.paths() if path.endswith(".log"))
    items, _, _ = kernel.scan(data := penstock_fs.read(wal), 0, len(data))
    assert memory_log.stats().wal_frames_total == sum(item[6] for item in items)


def test_syncs_are_counted_by_what_they_took(memory_log: Log) -> None:
    memory_log.create("t", durability="fsync")
    memory_log.append("t", [1])

    stats = memory_log.stats()

    bounds, counts = zip(*stats.wal_sync_histogram, strict=True)
    assert bounds == (
        *("50", "100", "250", "500", "1000", "5000", "10000", "50000", "100000"),
        "+Inf",
    )
    assert sum(counts) == stats.wal_syncs_total > 0


def test_topics_are_counted_by_class(memory_log: Log) -> None:
    for name, durability in (("a", "fsync"), ("b", "fsync"), ("c", "ephemeral")):
        memory_log.create(name, durability=durability)

    assert memory_log.stats().topics_by_class == {
        "ephemeral": 1,
        "memory": 0,
        "disk": 0,
        "fsync": 2,
    }


def test_what_waits_in_the_queues_is_counted_and_the_most_is_kept(memory_log: Log) -> None:
    memory_log.create("t", durability="disk")
    handle = memory_log.core.parts.handles["t"]
    for _ in range(3):
        handle.shard.submit(PendingCommit(encode_entry(SeqsReserved(1, 9), 0), None, durable=False))
    waiting = memory_log.stats()
    memory_log.append("t", [1])
    after = memory_log.stats()

    assert waiting.wal_queue_depth == 3
    assert after.wal_queue_depth == 0
    assert after.wal_queue_depth_peak >= 4


def test_the_loss_window_is_the_age_of_what_no_sync_covers(
    penstock_clock: FakeClock, memory_log: Log
) -> None:
    penstock_clock.advance(1)
    memory_log.create("t")
    memory_log.append("t", [1])
    penstock_clock.advance(40)
    open_window = memory_log.stats().disk_loss_window_ms

    memory_log.sync()

    assert round(open_window) == 40
    assert memory_log.stats().disk_loss_window_ms == 0


def test_a_failed_log_shows_that_it_is_read_only() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability="fsync")
    fs.fail("sync")
    with pytest.raises(LogFailed):
        log.append("t", [1])

    assert log.stats().is_read_only


def test_a_torn_tail_that_was_cut_is_counted() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.append("t", [2])
    path = f"{log.core.parts.layout.wal}/wal-0000000000000001.log"
    fs.corrupt(path, len(fs.read(path).rstrip(b"\0")) - 3)

    again = open_memory_log(fs.kill())

    assert (again.stats().torn_tails_cut, again.stats().damaged) == (1, 0)
    assert again.topic("t").count == 1
