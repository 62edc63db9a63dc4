"""Jobs that were handed out too often: put aside once, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import limits
from penstock.engine.engine import Log
from penstock.engine.queues import Queues
from penstock.errors import Overloaded
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH, PowerLost
from penstock.testing.log import open_memory_log
from penstock.types import QueueCounts, Record
from tests.unit.engine.support import TOPICS, everything, paths
from tests.unit.engine.test_queues import LEASE_MS, each_class, outs, queue, seqs

MINUTE_MS = 60_000


def doomed(log: Log, clock: FakeClock, *jobs: Any, **config: Any) -> None:
    """A queue whose jobs have all been out as often as they may."""
    queue(log, *jobs, **{"max_deliveries": 1, "dead_letter": "dead", **config})
    log.claim("q", "ann", len(jobs))
    clock.advance(LEASE_MS + 1)


def dead(log: Log) -> list[Any]:
    """The payloads, without the gaps that a crash leaves."""
    found = everything(log, "dead") if log.core.catalogue.find("dead") else []
    return [one for one in found if not isinstance(one, tuple)]


def everywhere(log: Log) -> set[Any]:
    return {record.data for record in log.read("q").records} | set(dead(log))


# What is put aside, and how.


@each_class
def test_a_job_that_was_out_too_often_is_put_aside_by_the_next_claim(durability: str) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, durability=durability, max_deliveries=2, dead_letter="dead")
    log.append("q", [Record({"a": 1}, tag="t", node="n", meta={"m": 1}), 2])
    for deliveries in (1, 2):
        assert outs(log.claim("q", "ann")) == {1: deliveries}
        clock.advance(LEASE_MS + 1)

    claimed = log.claim("q", "ann", 5)

    assert outs(claimed) == {2: 1}
    assert log.queue_counts("q") == QueueCounts(0, 1, 0, 1)
    [record] = log.read("dead").records
    assert (record.data, record.tag, record.node) == ({"a": 1}, "t", "n")
    assert record.meta == {
        "m": 1,
        "$dead_letter_from": "q",
        "$dead_letter_deliveries": "2",
        "$dead_letter_src_seq": "1",
    }


@pytest.mark.parametrize("meta", [None, "text", [1], 5])
def test_a_meta_that_takes_no_members_is_replaced(meta: Any) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    doomed(log, clock, Record(1, meta=meta))

    log.claim("q", "ann")

    assert log.read("dead").records[0].meta.keys() == {
        "$dead_letter_from",
        "$dead_letter_deliveries",
        "$dead_letter_src_seq",
    }


def test_the_largest_job_can_be_put_aside() -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    meta = {"m": "x" * (limits.META_BYTES_MAX - 8)}
    size = limits.RECORD_BYTES_MAX - limits.META_BYTES_MAX - 2
    doomed(log, clock, Record("x" * size, meta=meta))

    log.claim("q", "ann")

    assert [record.data for record in log.read("dead").records] == ["x" * size]
    assert log.topic("q").count == 0


def test_many_are_put_aside_and_the_living_are_handed_out_by_one_claim() -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    doomed(log, clock, *range(1_500))
    log.claim("q", "ann", 1_000)  # the claim before took a thousand: these are the rest
    log.append("q", ["alive"])

    clock.advance(LEASE_MS + 1)
    claimed = log.claim("q", "bob", 3)

    assert [job.data for job in claimed.jobs] == ["alive"]
    assert log.queue_counts("q") == QueueCounts(0, 1, 0, 1_500)
    assert sorted(dead(log)) == list(range(1_500))


@pytest.mark.parametrize("config", [{"max_deliveries": 0}, {"dead_letter": None}])
def test_without_a_bound_or_a_place_for_them_jobs_come_back_for_ever(
    config: dict[str, Any],
) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    doomed(log, clock, 1, **config)
    for deliveries in range(2, 9):
        assert outs(log.claim("q", "ann")) == {1: deliveries}
        clock.advance(LEASE_MS + 1)


# What happens meanwhile.


def test_what_the_dead_letters_do_not_take_goes_back_and_others_go_on() -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    log.create("dead", cap_records=1, discard="reject")
    doomed(log, clock, 1, 2, 3)
    log.append("q", [4])

    first = log.claim("q", "ann", 9)
    log.delete("dead", before_seq=9)
    log.claim("q", "ann", 9)

    assert seqs(first) == [4]
    assert dead(log) == [2]
    assert log.queue_counts("q") == QueueCounts(1, 1, 0, 2)


def test_a_full_write_queue_loses_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    doomed(log, clock, 1, 2)
    log.create("dead")
    with monkeypatch.context() as busy:
        busy.setattr(limits, "SHARD_QUEUE_SUBMISSIONS_MAX", 0)
        assert log.claim("q", "ann", 2).jobs == []
    before = log.queue_counts("q")

    log.claim("q", "ann", 2)

    assert before == QueueCounts(2, 0, 0, 0)
    assert dead(log) == [1, 2]
    assert log.queue_counts("q") == QueueCounts(0, 0, 0, 2)


def test_a_damaged_job_is_not_put_aside_and_the_others_are() -> None:
    clock = FakeClock()
    fs = MemoryFilesystem()
    log = open_memory_log(fs, clock)
    doomed(log, clock, "one", "two", "three")
    log.checkpoint(everything=True)
    path = paths(fs, TOPICS, ".data")[0]
    fs.corrupt(path, fs.read(path).index(b'"two"'))

    log.claim("q", "ann", 9)
    log.claim("q", "ann", 9)

    assert dead(log) == ["one", "three"]
    assert log.queue_counts("q") == QueueCounts(0, 0, 1, 2)
    assert len(log.damage) == 1


def test_two_who_put_jobs_aside_at_once_are_both_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    queue(log, 1, 2, durability="fsync", max_deliveries=1, dead_letter="dead")
    log.claim("q", "ann", lease_ms=1_000)
    log.claim("q", "ann", lease_ms=2_000)
    clock.advance(1_001)
    real = Queues._finish
    others = iter([lambda: log.claim("q", "bob")])

    def and_meanwhile(self: Queues, handle: Any, commit: Any) -> None:
        clock.advance(1_000)  # before the first removal is on disk the second job is due
        next(others, lambda: None)()
        real(self, handle, commit)

    monkeypatch.setattr(Queues, "_finish", and_meanwhile)
    log.claim("q", "cy")

    assert sorted(dead(log)) == [1, 2]
    assert log.queue_counts("q") == QueueCounts(0, 0, 0, 2)


# Crashes between the copy and the delete.


@pytest.fixture
def torn_apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The power goes after the copy and before the delete, once."""
    real = Queues._stage_removal
    cuts = iter([True])

    def cut(*given: Any) -> Any:
        if next(cuts, False):
            raise PowerLost
        return real(*given)

    monkeypatch.setattr(Queues, "_stage_removal", cut)
    return


@pytest.mark.usefixtures("torn_apart")
@pytest.mark.parametrize("away_ms", [0, MINUTE_MS])
def test_a_crash_between_copy_and_delete_makes_no_second_copy(away_ms: int) -> None:
    """As long as the dead letters remember keys, two minutes unless they are told otherwise."""
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    doomed(log, clock, 1, 2)
    with pytest.raises(PowerLost):
        log.claim("q", "ann", 9)
    assert dead(log) == [1, 2]
    assert isinstance(log.core.parts.fs, MemoryFilesystem)

    clock.advance(away_ms)
    log = open_memory_log(log.core.parts.fs.kill(), clock)
    log.claim("q", "bob", 9)

    assert dead(log) == [1, 2]
    assert log.topic("q").count == 0


@pytest.mark.parametrize("shards", [1, 2])
def test_wherever_the_power_goes_a_job_is_in_one_place_or_the_other(shards: int) -> None:
    for stop in range(12):
        fs, clock = MemoryFilesystem(), FakeClock()
        log = open_memory_log(fs, clock, wal_shards=shards)
        doomed(log, clock, 1, 2, durability="fsync")
        log.create("other")
        log.create("dead")  # of two shards it has the other one
        fs.stop_before(fs.operations + stop)
        with contextlib.suppress(PowerLost):
            log.claim("q", "ann", 9)

        for state in fs.crash_states(32):
            again = open_memory_log(state, clock, wal_shards=shards)
            assert everywhere(again) == {1, 2}, (stop, state.last_cut)
            again.claim("q", "bob", 9)
            again.claim("q", "bob", 9)
            assert everywhere(again) == {1, 2}, (stop, state.last_cut)
            assert len(dead(again)) <= 2


def test_a_copy_that_was_not_synced_is_not_the_only_one() -> None:
    """The queue promises a sync and the dead letters, on another shard, do not."""
    fs, clock = MemoryFilesystem(), FakeClock()
    log = open_memory_log(fs, clock, wal_shards=2)
    doomed(log, clock, 1, durability="fsync")
    log.create("other")
    log.create("dead", durability="disk")
    log.sync()
    assert log.core.catalogue.find("q").shard is not log.core.catalogue.find("dead").shard  # type: ignore[union-attr]

    log.claim("q", "ann")
    state = fs.power_cut(lambda change: VANISH)

    assert everywhere(open_memory_log(state, clock, wal_shards=2)) == {1}


def test_a_refused_delete_leaves_the_job_and_no_second_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    log = open_memory_log(clock=clock)
    doomed(log, clock, 1, 2)
    with monkeypatch.context() as busy:
        busy.setattr(Queues, "_stage_removal", refused)
        with pytest.raises(Overloaded):
            log.claim("q", "ann", 9)

    assert log.queue_counts("q") == QueueCounts(2, 0, 0, 0)
    log.claim("q", "ann", 9)
    assert dead(log) == [1, 2]
    assert log.queue_counts("q") == QueueCounts(0, 0, 0, 2)


def refused(*given: Any) -> Any:
    raise Overloaded("the write queue is full", retry_after_ms=100)
