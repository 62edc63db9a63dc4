"""Consumer positions: what they say, what they survive, and what they refuse."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import limits
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.entries import PositionMoved
from penstock.errors import Closed, InvalidArgument, LogFailed, Overloaded, TopicNotFound
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Position
from tests.unit.engine.support import TOPICS, killed, paths, restarted


def stands(log: Log, topic: str = "t") -> dict[str, int]:
    return {position.name: position.seq for position in log.positions(topic)}


# What they say.


def test_a_position_says_where_it_stands_and_what_is_ahead(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    memory_log.append("t", [1, 2])
    penstock_clock.advance(70)
    memory_log.append("t", [3, 4, 5])
    penstock_clock.advance(30)
    epoch, now = memory_log.topic("t").epoch, penstock_clock.now_ms()

    moved = memory_log.move_position("t", "billing", 1)
    penstock_clock.advance(5)

    assert moved == Position("billing", 1, epoch, now, 4, 100, 5)
    assert memory_log.position("t", "billing") == Position("billing", 1, epoch, now, 4, 105, 5)
    assert memory_log.move_position("t", "billing", 2).lag_ms == 35
    assert memory_log.position("t", "audit") is None


def test_one_that_has_read_everything_lags_by_nothing(memory_log: Log) -> None:
    memory_log.append("t", [1, 2])

    found = memory_log.move_position("t", "a", 2)

    assert (found.lag_records, found.lag_ms, found.head_seq) == (0, 0, 2)


def test_what_was_deleted_or_evicted_is_no_lag(memory_log: Log, penstock_clock: FakeClock) -> None:
    memory_log.create("t", cap_records=8)
    for number in range(12):
        memory_log.append("t", [number], tag="x" if number % 3 else None)
        penstock_clock.advance(10)
    memory_log.move_position("t", "a", 0)
    memory_log.move_position("t", "b", 6)

    def lags() -> list[tuple[int, int]]:
        return [(found.lag_records, found.lag_ms) for found in memory_log.positions("t")]

    before = lags()
    memory_log.delete("t", tag="x")
    after = lags()
    memory_log.checkpoint(everything=True)

    assert before == [(8, 80), (6, 60)]
    assert after == [(2, 60), (2, 60)]  # seqs 7 and 10
    assert lags() == after


def test_what_expired_is_no_lag(memory_log: Log, penstock_clock: FakeClock) -> None:
    memory_log.create("t", ttl_ms=100)
    memory_log.append("t", [1, 2])
    memory_log.move_position("t", "a", 0)

    penstock_clock.advance(101)

    assert memory_log.positions("t")[0].lag_records == 0


def test_positions_are_listed_by_name_and_belong_to_one_topic(memory_log: Log) -> None:
    memory_log.append("t", [1, 2, 3])
    memory_log.append("u", [1])
    for name, seq in (("b", 1), ("c", 3), ("a", 0), ("b", 2)):
        memory_log.move_position("t", name, seq)
    memory_log.move_position("u", "a", 1)

    assert list(stands(memory_log).items()) == [("a", 0), ("b", 2), ("c", 3)]
    assert stands(memory_log, "u") == {"a": 1}


def test_a_position_may_move_back(memory_log: Log) -> None:
    memory_log.append("t", [1, 2, 3])

    memory_log.move_position("t", "a", 3)
    memory_log.move_position("t", "a", 1)

    assert stands(memory_log) == {"a": 1}


def test_dropping_says_whether_there_was_one(memory_log: Log) -> None:
    memory_log.append("t", [1])
    memory_log.move_position("t", "a", 1)

    assert [memory_log.drop_position("t", "a"), memory_log.drop_position("t", "a")] == [True, False]
    assert memory_log.positions("t") == []


def test_a_position_never_reads_a_data_file() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1, 2, 3])
    log.checkpoint(everything=True)
    log = open_memory_log(fs.kill())
    assert isinstance(log.core.parts.fs, MemoryFilesystem)
    for path in paths(log.core.parts.fs, TOPICS, ".data"):
        log.core.parts.fs.unlink(path)

    assert log.move_position("t", "a", 1).lag_records == 2


# What they survive.


@pytest.mark.parametrize("end", [killed, restarted])
@pytest.mark.parametrize("checkpoint", ["never", "before", "between", "after"])
@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
def test_positions_survive_a_restart(durability: str, checkpoint: str, end: Any) -> None:
    log = open_memory_log()

    def check(when: str) -> None:
        if when == checkpoint:
            log.checkpoint(everything=True)

    log.create("t", durability=durability)
    log.append("t", [1, 2, 3])
    check("before")
    log.move_position("t", "gone", 2)
    log.move_position("t", "a", 3)
    check("between")
    log.move_position("t", "a", 1)
    log.drop_position("t", "gone")
    log.move_position("t", "b", 2)
    check("after")
    before = [(found.name, found.seq, found.ts) for found in log.positions("t")]

    again = end(log)

    assert [(found.name, found.seq, found.ts) for found in again.positions("t")] == before
    assert stands(again) == {"a": 1, "b": 2}


def test_an_acknowledged_position_survives_a_power_cut_with_what_it_stands_on() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability="disk")
    log.append("t", [1, 2, 3])
    log.move_position("t", "a", 3)

    states = list(fs.crash_states(64))

    assert states
    for state in states:
        again = open_memory_log(state)

        assert stands(again) == {"a": 3}
        assert [record.seq for record in again.read("t").records] == [1, 2, 3]


def test_positions_go_with_their_topic() -> None:
    log = open_memory_log()
    log.append("t", [1])
    log.move_position("t", "a", 1)
    log.drop("t")
    log.append("t", [1])

    assert log.positions("t") == []
    assert killed(log).positions("t") == []


# What they refuse.


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 256, None, 5])
def test_a_senseless_name_is_refused(memory_log: Log, name: Any) -> None:
    memory_log.append("t", [1])

    for verb in (memory_log.position, memory_log.drop_position):
        with pytest.raises(InvalidArgument, match="position name"):
            verb("t", name)
    with pytest.raises(InvalidArgument, match="position name"):
        memory_log.move_position("t", name, 1)


@pytest.mark.parametrize("seq", [-1, 3, 1 << 64, "1", None, True])
def test_a_seq_that_was_never_given_out_is_refused(memory_log: Log, seq: Any) -> None:
    memory_log.append("t", [1, 2])

    with pytest.raises(InvalidArgument):
        memory_log.move_position("t", "a", seq)

    assert memory_log.positions("t") == []


def test_a_topic_that_is_not_there_has_no_positions(memory_log: Log) -> None:
    for call in (
        lambda: memory_log.move_position("t", "a", 0),
        lambda: memory_log.position("t", "a"),
        lambda: memory_log.positions("t"),
        lambda: memory_log.drop_position("t", "a"),
    ):
        with pytest.raises(TopicNotFound):
            call()


def test_a_topic_has_so_many_positions_and_no_more(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "POSITIONS_MAX", 3)
    memory_log.append("t", [1])
    for name in "abc":
        memory_log.move_position("t", name, 0)

    with pytest.raises(Overloaded, match="3 positions"):
        memory_log.move_position("t", "d", 0)
    memory_log.move_position("t", "c", 1)
    memory_log.drop_position("t", "a")
    memory_log.move_position("t", "d", 0)

    assert stands(memory_log) == {"b": 0, "c": 1, "d": 0}


def test_many_who_come_at_once_do_not_pass_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "POSITIONS_MAX", 5)
    with penstock.open(tmp_path) as log, ThreadPoolExecutor(8) as pool:
        log.append("t", [1])

        def move(number: int) -> bool:
            try:
                log.move_position("t", f"c{number}", 1)
            except Overloaded:
                return False
            return True

        answers = list(pool.map(move, range(20)))

        assert sum(answers) == len(log.positions("t")) == 5


def test_a_failed_log_takes_no_position_and_shows_what_it_has() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1, 2])
    log.move_position("t", "a", 1)
    fs.fail("sync")

    for _ in range(2):
        with pytest.raises(LogFailed):
            log.move_position("t", "a", 2)

    assert stands(log) == {"a": 1}


def test_a_closed_log_says_so(memory_log: Log) -> None:
    memory_log.append("t", [1])
    memory_log.close()

    with pytest.raises(Closed):
        memory_log.move_position("t", "a", 1)


# Without waiting.


def later(handle: Handle) -> None:
    """Pushed by the test."""


def test_positions_moved_together_share_their_syncs(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as log:
        log.append("t", [1, 2, 3])
        handle = log.core.catalogue.get("t")
        told: queue.Queue[object] = queue.Queue()
        syncs = log.stats().wal_syncs_total

        for number in range(200):
            log.core.consumers.submit_move(handle, f"c{number}", 2, told.put, push=later)
        handle.push()

        moved = [told.get(timeout=60) for _ in range(200)]
        assert all(isinstance(one, PositionMoved) for one in moved)
        assert len(log.positions("t")) == 200
        assert log.stats().wal_syncs_total - syncs < 200


def test_a_drop_without_waiting_says_whether_there_was_one(memory_log: Log) -> None:
    memory_log.append("t", [1])
    memory_log.move_position("t", "a", 1)
    handle = memory_log.core.catalogue.get("t")
    told: list[object] = []

    for name in "ab":
        memory_log.core.consumers.submit_drop(handle, name, told.append, push=later)
    assert told == [False]
    handle.push()

    assert told == [False, True]
    assert memory_log.positions("t") == []


def test_new_names_under_way_count_towards_the_bound(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "POSITIONS_MAX", 2)
    memory_log.append("t", [1])
    handle = memory_log.core.catalogue.get("t")
    consumers = memory_log.core.consumers
    told: list[object] = []

    for name in ("a", "b", "a"):
        consumers.submit_move(handle, name, 1, told.append, push=later)
    with pytest.raises(Overloaded, match="2 positions"):
        consumers.submit_move(handle, "c", 1, told.append)
    handle.push()

    assert len(told) == 3
    assert stands(memory_log) == {"a": 1, "b": 1}
    assert not consumers._under_way
