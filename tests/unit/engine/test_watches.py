"""Watches: a caller learns where a topic is, and whenever that changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.engine.batch import Batch
from penstock.engine.engine import Log
from penstock.engine.internal_topics import AUDIT
from penstock.engine.watches import NO_TOPIC, Watch
from penstock.errors import Closed, InvalidArgument
from penstock.types import Offset

Told = tuple[str, int, int]


class Listener:
    """What a watch was told: topic, head and synced seq; and the offsets."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.offsets: list[Offset] = []
        self._news = threading.Condition()

    def __call__(self, topic: str, head: Offset, synced: Offset) -> None:
        with self._news:
            self.told.append((topic, head.seq, synced.seq))
            self.offsets.append(head)
            self._news.notify_all()

    def wait_for(self, wanted: Told) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self.told[-1:] == [wanted], timeout=20), self.told


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with penstock.open(tmp_path / "log", wal_shards=2, sync_tick_ms=5) as opened:
        yield opened


def test_a_watch_begins_with_the_present_values(memory_log: Log) -> None:
    memory_log.append("t", [1, 2])
    heard = Listener()

    memory_log.watch(["t", "u"], heard)

    assert heard.told == [("t", 2, 0), ("u", 0, 0)]
    assert heard.offsets[1] == NO_TOPIC
    assert heard.offsets[0].epoch == memory_log.topic("t").epoch


def test_moves_are_told_together_and_only_once(memory_log: Log) -> None:
    heard = Listener()
    memory_log.watch(["t"], heard)

    memory_log.append("t", [1])
    memory_log.append("t", [2])
    memory_log.upkeep()
    memory_log.upkeep()
    memory_log.sync()
    memory_log.sync()

    assert heard.told == [("t", 0, 0), ("t", 2, 0), ("t", 2, 2)]


def test_a_topic_that_is_dropped_and_created_again_has_another_epoch(memory_log: Log) -> None:
    memory_log.append("t", [1])
    heard = Listener()
    memory_log.watch(["t"], heard)

    memory_log.drop("t")
    memory_log.upkeep()
    memory_log.append("t", [1])
    memory_log.sync()
    before, gone, after = (one.epoch for one in heard.offsets)

    assert heard.told == [("t", 1, 0), ("t", 0, 0), ("t", 1, 1)]
    assert gone == 0 < before < after


def test_a_closed_watch_hears_nothing(memory_log: Log) -> None:
    first, second = Listener(), Listener()
    watch = memory_log.watch(["t"], first)
    memory_log.watch(["t"], second)

    watch.close()
    watch.close()
    memory_log.append("t", [1])
    memory_log.sync()

    assert (len(first.told), second.told[-1]) == (1, ("t", 1, 1))


def test_nobody_watches_when_the_last_watch_is_closed(memory_log: Log) -> None:
    memory_log.create("t")
    handle = memory_log.core.parts.handles["t"]
    watch = memory_log.watch(["t"], Listener())
    assert handle.is_followed

    watch.close()

    assert not handle.is_followed
    assert all(shard.on_synced is None for shard in memory_log.core.parts.shards)


def test_an_error_of_one_watch_is_logged_and_the_others_hear(
    memory_log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(topic: str, head: Offset, synced: Offset) -> None:
        raise ValueError("mine")

    heard = Listener()
    with caplog.at_level(logging.ERROR, "penstock"):
        memory_log.watch(["t"], fail)
    memory_log.watch(["t"], heard)

    assert "a watch of topic 't' failed" in caplog.text
    assert heard.told == [("t", 0, 0)]


def test_only_topics_of_callers_are_watched(memory_log: Log) -> None:
    with pytest.raises(InvalidArgument):
        memory_log.watch(["_audit"], Listener())
    with pytest.raises(InvalidArgument, match="list of names"):
        memory_log.watch("t", Listener())
    with pytest.raises(InvalidArgument, match="must be a function"):
        memory_log.watch(["t"], None)  # type: ignore[arg-type]

    heard = Listener()
    memory_log.core.watches.add(["_audit"], heard, internal=True)
    audit = memory_log.core.catalogue.internal(AUDIT)
    memory_log.core.append_to(audit, False, Batch([b"1"], 1))
    memory_log.sync()
    assert heard.told[-1] == ("_audit", 1, 1)


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
def test_the_thread_tells_heads_and_syncs(log: Log, durability: str) -> None:
    heard = Listener()
    log.create("t", durability=durability)
    log.watch(["t"], heard)

    for seq in range(1, 20):
        log.append("t", [seq])
    heard.wait_for(("t", 19, 19))

    heads = [head for _, head, _ in heard.told]
    synced = [seq for _, _, seq in heard.told]
    assert heads == sorted(heads)
    assert synced == sorted(synced)
    assert all(seq <= head for _, head, seq in heard.told)


def test_records_in_memory_only_move_the_head_alone(log: Log) -> None:
    heard = Listener()
    log.create("t", durability="ephemeral")
    log.watch(["t"], heard)

    log.append("t", [1, 2])

    heard.wait_for(("t", 2, 0))


def test_copies_of_a_router_are_told(log: Log) -> None:
    heard = Listener()
    log.create_router("r", "s", "t")
    log.watch(["t"], heard)

    log.append("s", [1, 2])

    heard.wait_for(("t", 2, 2))


def test_a_watch_may_be_closed_by_its_own_call(log: Log) -> None:
    closed = threading.Event()
    watches: list[Watch] = []

    def once(topic: str, head: Offset, synced: Offset) -> None:
        if head.seq:
            watches[0].close()
            closed.set()

    watches.append(log.watch(["t"], once))
    log.append("t", [1])

    assert closed.wait(20)


def test_a_closed_log_cannot_be_watched(tmp_path: Path) -> None:
    log = penstock.open(tmp_path / "log")
    watch = log.watch(["t"], Listener())
    log.close()

    with pytest.raises(Closed):
        log.watch(["t"], Listener())
    watch.close()
