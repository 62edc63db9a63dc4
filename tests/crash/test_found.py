"""What the rigs have found, each as the shortest story that shows it."""

from __future__ import annotations

import pytest

import penstock
from penstock import Log, LogFailed, Settings
from penstock.testing import MemoryFilesystem, PowerLost
from penstock.testing.crash import LAND, VANISH

PATH = "/data"


def reopened(fs: MemoryFilesystem, *, shards: int = 1) -> Log:
    return penstock.open(PATH, settings=Settings(background=False, wal_shards=shards), fs=fs)


def payloads(log: Log, topic: str) -> list[object]:
    return [record.data for record in log.read(topic).records]


def stop_before_creating(fs: MemoryFilesystem, ending: str) -> None:
    def stop(index: int, kind: str, path: str) -> None:
        if kind == "create" and path.endswith(ending):
            raise PowerLost(path)

    fs.on_operation = stop


def test_new_wal_files_are_numbered_past_all_that_a_snapshot_absorbed() -> None:
    fs = MemoryFilesystem()
    with reopened(fs) as log:
        log.create("a", durability="fsync")
        log.append("a", ["one"])
    with reopened(fs) as log:
        log.compact()  # nothing was written since the opening: every WAL file goes
    log = reopened(fs)
    log.append("a", ["two"])

    log = reopened(fs.kill())

    assert payloads(log, "a") == ["one", "two"]


def test_a_cap_that_was_raised_again_takes_nothing_on_replay() -> None:
    fs = MemoryFilesystem()
    log = reopened(fs)
    log.create("a", durability="fsync", cap_records=100)
    log.append("a", [0])
    is_done = False

    def meanwhile(index: int, kind: str, path: str) -> None:
        nonlocal is_done
        if kind == "create" and path.endswith(".data.tmp") and not is_done:
            is_done = True
            log.create("a", durability="fsync", cap_records=2)
            log.create("a", durability="fsync", cap_records=100)
            log.append("a", list(range(1, 50)))

    fs.on_operation = meanwhile
    log.checkpoint(everything=True)
    fs.on_operation = None

    log = reopened(fs.kill())

    assert payloads(log, "a") == list(range(50))


def test_segments_that_no_snapshot_names_yet_do_not_replace_the_wal() -> None:
    fs = MemoryFilesystem()
    log = reopened(fs)
    log.create("a", durability="fsync")
    log.append("a", ["x", "y"], tag="t", idempotency_key="k")
    stop_before_creating(fs, ".tags.tmp")
    with pytest.raises(PowerLost):
        log.checkpoint(everything=True)
    fs.on_operation = None

    log = reopened(fs.copy())

    assert log.append("a", ["x", "y"], tag="t", idempotency_key="k").deduped
    assert log.delete("a", tag="t").deleted == 2


def test_seqs_lost_to_a_power_cut_stay_lost_after_the_next_kill() -> None:
    fs = MemoryFilesystem()
    log = reopened(fs)
    log.create("a", durability="disk")
    log.create("b", durability="fsync")
    acked = log.append("a", ["not synced"]).last_seq
    fs = fs.power_cut(lambda change: VANISH)
    log = reopened(fs)
    gap = log.read("a").gap
    log.append("b", ["x"])  # from here on the mark names the new boot

    log = reopened(fs.kill())

    assert log.read("a").gap == gap
    assert log.append("a", ["another"]).first_seq > acked


def test_a_clean_close_of_an_earlier_run_does_not_hide_a_power_cut() -> None:
    fs = MemoryFilesystem()
    with reopened(fs) as log:
        log.create("a", durability="disk")
        log.append("a", ["kept"])
    acked = reopened(fs).append("a", ["not synced"]).last_seq

    log = reopened(fs.power_cut(lambda change: VANISH))

    assert log.read("a", after=1).gap is not None
    assert log.append("a", ["another"]).first_seq > acked


def test_a_kill_while_a_shard_makes_its_first_file_loses_nothing() -> None:
    fs = MemoryFilesystem()
    with reopened(fs) as log:
        log.create("a", durability="disk")
        log.append("a", ["kept"])
    log = reopened(fs, shards=2)
    stop_before_creating(fs, "durable.mark")
    with pytest.raises(PowerLost):
        log.create("b", durability="fsync")
    fs.on_operation = None

    log = reopened(fs.copy(), shards=2)

    assert (log.topic("a").head_seq, log.read("a", after=1).gap) == (1, None)


def test_one_power_cut_makes_one_gap_however_often_the_process_is_killed() -> None:
    fs = MemoryFilesystem()
    log = reopened(fs, shards=2)
    for name in "abcdef":
        log.create(name, durability="disk")
    log.append("a", ["x"])
    fs = fs.power_cut(lambda change: LAND)
    log = reopened(fs, shards=2)
    seq = log.append("a", ["y"]).last_seq  # the other shard is not written to

    log = reopened(fs.kill(), shards=2)

    assert log.append("a", ["z"]).first_seq == seq + 1


def test_a_write_that_fails_during_a_sync_does_not_hurt_those_it_covers() -> None:
    fs = MemoryFilesystem()
    log = reopened(fs)
    log.create("safe", durability="fsync")
    log.create("fast", durability="disk")
    refused: list[LogFailed] = []

    def break_meanwhile(index: int, kind: str, path: str) -> None:
        if kind == "sync" and not refused:
            fs.fail("write", path="wal-")
            with pytest.raises(LogFailed) as caught:
                log.append("fast", ["refused"])
            refused.append(caught.value)

    fs.on_operation = break_meanwhile

    log.append("safe", ["synced"])

    assert refused
    assert payloads(log, "safe") == ["synced"]
