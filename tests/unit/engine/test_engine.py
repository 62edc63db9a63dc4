"""The verbs of a log as its users meet them: syncing, deleting, closing, failing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.engine.engine import Log
from penstock.errors import Closed, InvalidArgument, LogFailed, PenstockError, TopicNotFound
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import LAND, VANISH
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import TOPICS, WAL, everything, killed, paths, restarted

# A session.


def test_a_session_on_a_real_disk(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "data", wal_shards=2) as log:
        log.create("orders", durability="fsync")
        log.append("orders", [{"id": 1}, {"id": 2}], tag="new", node="shop")
        log.append("orders", [b'{"id":3}'])
        log.delete("orders", tag="new", before_seq=2)
        log.compact()
        log.append("orders", [{"id": 4}])
    with penstock.open(str(tmp_path / "data")) as log:
        page = log.read("orders")

        assert [record.data["id"] for record in page.records] == [2, 3, 4]
        assert [record.seq for record in page.records] == [2, 3, 4]
        assert log.recovery.is_healthy
        assert log.stats().topics == 1


def test_settings_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_WAL_SHARDS", "3")
    monkeypatch.setenv("PENSTOCK_DEFAULT_DURABILITY", "memory")

    with penstock.open(tmp_path) as log:
        assert len(log.core.parts.shards) == 3
        assert log.create("t").config.durability == "memory"


# Syncing.


def test_sync_makes_everything_acknowledged_durable_whatever_its_class() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, wal_shards=2)
    for name in ("a", "b", "c", "d"):
        log.append(name, [name])

    log.sync()

    cut = open_memory_log(fs.power_cut(lambda _: VANISH), wal_shards=2)
    assert [everything(cut, name)[0] for name in ("a", "b", "c", "d")] == ["a", "b", "c", "d"]


def test_a_sync_that_fails_says_so() -> None:
    fs, clock = MemoryFilesystem(), FakeClock()
    clock.advance(1)
    log = open_memory_log(fs, clock)
    log.append("t", [1])
    fs.fail("sync")

    with pytest.raises(LogFailed):
        log.sync()


# Deletes.


def test_a_delete_answers_what_it_did(memory_log: Log) -> None:
    memory_log.append("t", [1, 2, 3, 4], tag="x")

    removed = memory_log.delete("t", before_seq=3)

    assert (removed.deleted, removed.earliest_seq, removed.head_seq) == (2, 3, 4)
    assert (removed.count, removed.bytes) == (2, 2)


@pytest.mark.parametrize(
    ("what", "left"),
    [
        ({"before_seq": 3}, [3, 4, 5]),
        ({"before_seq": 0}, [1, 2, 3, 4, 5]),
        ({"tag": "a"}, [2, 3, 4, 5]),
        ({"tag": "a*"}, [3, 4, 5]),
        ({"tag": "*"}, [4, 5]),
        ({"tag": ("tag", "Eq", "a*")}, [1, 2, 3, 4, 5]),
        ({"tag": "a*", "before_seq": 2}, [2, 3, 4, 5]),
        ({"seqs": [2, 4, 99]}, [1, 3, 5]),
        ({"seqs": [2, 4], "before_seq": 4}, [1, 3, 4, 5]),
    ],
)
@pytest.mark.parametrize("sealed", [False, True])
def test_a_delete_takes_what_it_names(what: dict[str, Any], left: list[int], sealed: bool) -> None:
    log = open_memory_log()
    for data, tag in [(1, "a"), (2, "ab"), (3, "b"), (4, None), (5, None)]:
        log.append("t", [data], tag=tag)
    if sealed:
        log.checkpoint(everything=True)

    removed = log.delete("t", **what)

    assert removed.deleted == 5 - len(left)
    assert everything(log) == left
    assert everything(killed(log)) == left


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_a_delete_is_durable_when_it_returns(durability: str) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability=durability)
    log.append("t", [1, 2])

    log.delete("t", seqs=[1])

    assert everything(open_memory_log(fs.power_cut(lambda _: VANISH)))[0] == 2


def test_a_delete_never_takes_what_came_after_it_not_even_on_replay() -> None:
    log = open_memory_log()
    log.append("t", [1], tag="x")
    log.delete("t", tag="x")
    log.delete("t", before_seq=1 << 40)
    log.append("t", [2], tag="x")

    assert everything(log) == [2]
    assert everything(killed(log)) == [2]


@pytest.mark.parametrize(
    "what",
    [
        {},
        {"seqs": []},
        {"before_seq": -1},
        {"before_seq": "5"},
        {"tag": ""},
        {"tag": 5},
        {"seqs": ["a"]},
        {"seqs": [-1]},
        {"seqs": [1 << 64]},
        {"before_seq": 1 << 64},
    ],
)
def test_a_senseless_delete_is_a_usage_error(memory_log: Log, what: dict[str, Any]) -> None:
    memory_log.append("t", [1])

    with pytest.raises(InvalidArgument):
        memory_log.delete("t", **what)

    assert everything(memory_log) == [1]


# Closing.

VERBS: dict[str, Callable[[Log], object]] = {
    "create": lambda log: log.create("t"),
    "create another": lambda log: log.create("u"),
    "drop": lambda log: log.drop("t"),
    "topics": lambda log: log.topics(),
    "topic": lambda log: log.topic("t"),
    "append": lambda log: log.append("t", [1]),
    "append to another": lambda log: log.append("u", [1]),
    "append without creating": lambda log: log.append("t", [1], create=False),
    "submit": lambda log: log.submit("t", [1], print),
    "read": lambda log: log.read("t"),
    "read_json": lambda log: log.read_json("t"),
    "follow": lambda log: next(log.follow("t")),
    "delete": lambda log: log.delete("t", before_seq=1),
    "sync": lambda log: log.sync(),
    "checkpoint": lambda log: log.checkpoint(),
    "compact": lambda log: log.compact(),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_closed_log_answers_every_verb_with_closed(verb: Callable[[Log], object]) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.close()
    before = fs.fingerprint()

    with pytest.raises(Closed):
        verb(log)

    log.upkeep()
    log.close()
    assert fs.fingerprint() == before


class ClosingClock(FakeClock):
    """Closes a log the next time somebody asks for the time, and notes what is written then."""

    def __init__(self) -> None:
        super().__init__()
        self.log: Log | None = None
        self.written: list[str] = []

    def now_ms(self) -> int:
        log, self.log = self.log, None
        if log is not None:
            log.close()
            fs = log.core.parts.fs
            assert isinstance(fs, MemoryFilesystem)
            fs.on_operation = lambda index, kind, path: self.written.append(f"{kind} {path}")
        return super().now_ms()


@pytest.mark.parametrize("durability", ["ephemeral", "disk", "fsync"])
@pytest.mark.parametrize("has_written", [True, False])
def test_an_append_that_meets_the_close_is_refused_and_writes_nothing(
    durability: str, has_written: bool
) -> None:
    """The directory may belong to another process by now."""
    clock = ClosingClock()
    log = open_memory_log(clock=clock)
    log.create("t", durability=durability)
    log = log if has_written else restarted(log, clock)
    clock.log = log

    with pytest.raises(PenstockError):
        log.append("t", [1])

    assert clock.written == []


def test_a_log_is_a_context_manager(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as log:
        log.append("t", [1])

    with pytest.raises(Closed):
        log.read("t")
    assert everything_at(tmp_path) == [1]


def everything_at(path: Path) -> list[object]:
    with penstock.open(path) as log:
        return everything(log)


def test_closing_leaves_nothing_for_a_power_cut() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])
    log.close()

    for state in fs.crash_states(50):
        assert everything(open_memory_log(state)) == [1]


# Failing.


def test_a_failed_log_still_reads_and_deletes_nothing() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.create("t", durability="fsync")
    log.append("t", [1, 2])
    fs.fail("sync")
    with pytest.raises(LogFailed):
        log.append("t", [3])

    for verb in ("delete", "create", "create another", "drop", "checkpoint", "sync"):
        with pytest.raises(LogFailed):
            VERBS[verb](log) if verb != "create" else log.create("t", ttl_ms=5)

    assert everything(log) == [1, 2]
    assert log.stats().is_read_only
    log.close()
    assert fs.synced_after_failure == 0


def test_a_full_disk_stops_writers_and_nobody_else() -> None:
    fs = MemoryFilesystem(capacity_bytes=300_000)
    log = open_memory_log(fs, wal_file_bytes=64 * 1024)
    log.create("t", durability="fsync")
    kept: list[int] = []

    def fill() -> None:
        for number in range(1000):
            log.append("t", [str(number) * 2000])
            kept.append(number)

    with pytest.raises(LogFailed, match="No space left"):
        fill()

    assert kept
    assert len(everything(log)) == len(kept)
    fs.capacity_bytes = None
    assert len(everything(open_memory_log(fs.kill()))) == len(kept)


def test_files_are_where_the_documents_say(memory_log: Log, penstock_fs: MemoryFilesystem) -> None:
    memory_log.append("t", [1])
    memory_log.checkpoint(everything=True)

    assert paths(penstock_fs, TOPICS) == [
        f"{TOPICS}/00000001/seg-0000000000000001.data",
        f"{TOPICS}/00000001/seg-0000000000000001.idx",
    ]
    assert paths(penstock_fs, WAL, ".log")[0] == f"{WAL}/wal-0000000000000001.log"


def test_a_dropped_topic_answers_those_who_still_hold_it(memory_log: Log) -> None:
    memory_log.append("t", [1])
    events = memory_log.follow("t")
    next(events)

    memory_log.drop("t")

    assert list(events) == []
    with pytest.raises(TopicNotFound):
        memory_log.read("t")


def test_a_power_cut_in_the_middle_of_anything_is_survived() -> None:
    """One of everything, cut before every operation, with all pending changes landed."""
    fs = MemoryFilesystem()
    log = open_memory_log(fs, wal_file_bytes=4096)
    log.create("t", durability="fsync")
    states: list[tuple[int, MemoryFilesystem]] = []
    acknowledged = [0]
    fs.on_operation = lambda *_: states.append((acknowledged[0], fs.power_cut(lambda _: LAND)))

    for number in range(1, 60):
        log.append("t", [number])
        acknowledged[0] = number
        if number % 20 == 0:
            log.checkpoint(everything=True)
    fs.on_operation = None

    for count, state in states:
        found = everything(open_memory_log(state))
        assert found[:count] == list(range(1, count + 1))
        assert len(found) <= count + 1
