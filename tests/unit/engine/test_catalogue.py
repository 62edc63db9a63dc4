from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.engine.engine import Log
from penstock.errors import InvalidArgument, LogFailed, Overloaded, TopicExists, TopicNotFound
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH
from penstock.testing.log import open_memory_log
from tests.unit.engine.support import everything, killed, restarted

# Making.


def test_a_fresh_topic_is_empty_and_says_so(memory_log: Log) -> None:
    info = memory_log.create("t", cap_records=5)

    assert (info.name, info.id, info.config.cap_records) == ("t", info.epoch, 5)
    assert (info.head_seq, info.earliest_seq, info.next_seq) == (0, 1, 1)
    assert (info.count, info.bytes, info.segments, info.last_write_ts) == (0, 0, 0, None)


def test_a_creation_and_a_change_are_durable_when_they_return() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)

    log.create("t", ttl_ms=5)
    created = open_memory_log(fs.power_cut(lambda _: VANISH)).topic("t").config.ttl_ms
    log.create("t", ttl_ms=6)
    changed = open_memory_log(fs.power_cut(lambda _: VANISH)).topic("t").config.ttl_ms

    assert (created, changed) == (5, 6)


def test_a_configuration_replaces_the_one_before_whole(memory_log: Log) -> None:
    memory_log.create("t", ttl_ms=5, cap_records=9)

    info = memory_log.create("t", cap_records=3)

    assert (info.config.ttl_ms, info.config.cap_records) == (0, 3)
    assert memory_log.topic("t").config == info.config


def test_the_same_configuration_again_writes_nothing(
    penstock_fs: MemoryFilesystem, memory_log: Log
) -> None:
    memory_log.create("t", ttl_ms=5)
    before = penstock_fs.fingerprint()

    memory_log.create("t", ttl_ms=5)

    assert penstock_fs.fingerprint() == before


def test_a_topic_cannot_become_another_type(memory_log: Log) -> None:
    memory_log.create("q", type="queue")

    with pytest.raises(TopicExists, match="queue"):
        memory_log.create("q")

    assert memory_log.topic("q").config.type == "queue"


def test_there_are_so_many_topics_at_most() -> None:
    log = open_memory_log(max_topics=2)
    log.create("a")
    log.append("b", [1])

    for call in (lambda: log.create("c"), lambda: log.append("c", [1])):
        with pytest.raises(Overloaded, match="max_topics"):
            call()

    log.create("a", ttl_ms=1)
    log.drop("b")
    log.create("c")
    assert [info.name for info in log.topics()] == ["a", "c"]


def test_racing_creators_make_one_topic(penstock_log: Log) -> None:
    together = threading.Barrier(6)
    created: list[bool] = []

    def work() -> None:
        for number in range(10):
            together.wait(60.0)
            created.append(penstock_log.append(f"t{number}", [1]).created)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)

    assert sum(created) == 10
    assert [info.count for info in penstock_log.topics()] == [6] * 10


# Finding.


def test_topics_are_listed_by_name_and_prefix(memory_log: Log) -> None:
    for name in ("b", "a:2", "c", "a:1"):
        memory_log.create(name)

    assert [info.name for info in memory_log.topics()] == ["a:1", "a:2", "b", "c"]
    assert [info.name for info in memory_log.topics("a:")] == ["a:1", "a:2"]
    assert memory_log.topics("x") == []


@pytest.mark.parametrize(
    "verb",
    [
        lambda log, name: log.topic(name),
        lambda log, name: log.read(name),
        lambda log, name: log.read_json(name),
        lambda log, name: next(log.follow(name)),
        lambda log, name: log.delete(name, before_seq=1),
        lambda log, name: log.append(name, [1], create=False),
        lambda log, name: log.submit(name, [1], print),
    ],
)
def test_every_verb_tells_a_missing_topic_from_a_bad_name(
    memory_log: Log, verb: Callable[[Log, str], Any]
) -> None:
    with pytest.raises(TopicNotFound, match="no topic named 't'") as caught:
        verb(memory_log, "t")
    with pytest.raises(InvalidArgument):
        verb(memory_log, "not a name")

    assert caught.value.topic == "t"


# Dropping.


def test_a_dropped_topic_is_gone_and_stays_gone() -> None:
    log = open_memory_log()
    log.append("t", [1])

    assert (log.drop("t"), log.drop("t")) == (True, False)

    for again in (restarted, killed):
        assert log.topics() == []
        log = again(log)
    assert log.topics() == []


def test_a_drop_is_durable_when_it_returns() -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs)
    log.append("t", [1])

    log.drop("t")

    assert open_memory_log(fs.power_cut(lambda _: VANISH)).topics() == []


def test_a_recreated_topic_is_another_one(memory_log: Log) -> None:
    first = memory_log.append("t", [1], idempotency_key="k")
    memory_log.drop("t")

    second = memory_log.append("t", [2], idempotency_key="k")

    assert second.epoch > first.epoch
    assert (second.first_seq, second.created, second.deduped) == (1, True, False)
    assert everything(memory_log) == [2]


def test_a_write_that_raced_a_drop_leaves_no_ghost_behind() -> None:
    """A frame of a topic behind its own end would bring a nameless topic back on replay."""
    log = open_memory_log()
    log.create("t", durability="fsync")
    log.create("t", durability="ephemeral")
    raced = log.core.parts.handles["t"]
    log.drop("t")

    with contextlib.suppress(TopicNotFound):
        log.core._check_room(raced, 1, may_wait=True)

    assert killed(log).topics() == []


# What is known of a topic.


def test_facts_follow_what_happens(memory_log: Log, penstock_clock: FakeClock) -> None:
    memory_log.create("t", cap_records=3)
    memory_log.append("t", [b"1", b"22", b"333", b"4444"])
    memory_log.delete("t", seqs=[2])

    info = memory_log.topic("t")

    assert (info.head_seq, info.earliest_seq, info.next_seq) == (4, 3, 5)
    assert (info.count, info.bytes) == (2, 7)
    assert info.last_write_ts == penstock_clock.now_ms()


def test_looking_at_a_topic_lets_its_time_pass(memory_log: Log, penstock_clock: FakeClock) -> None:
    memory_log.create("t", ttl_ms=10)
    memory_log.append("t", [1])
    penstock_clock.advance(11)

    assert [info.count for info in memory_log.topics()] == [0]


def test_a_ttl_longer_than_time_itself_lets_nothing_go(memory_log: Log) -> None:
    """Also of what is sealed, whose times are looked up in an index of unsigned numbers."""
    memory_log.append("t", [1])
    memory_log.compact()
    memory_log.create("t", ttl_ms=(1 << 64) - 1)
    memory_log.upkeep()

    assert memory_log.failed is None
    assert [record.data for record in memory_log.read("t").records] == [1]


# A drop that is on its way: queued, not written.


@pytest.fixture
def dropping(memory_log: Log) -> Log:
    memory_log.create("t", cap_records=5)
    memory_log.append("t", ["old"])
    handle = memory_log.core.catalogue.find("t")
    assert handle is not None
    catalogue = memory_log.core.catalogue
    with handle.lock:
        catalogue.journal.drop(handle, catalogue._end_drop)
    return memory_log


def test_an_append_during_a_drop_creates_the_topic_anew(dropping: Log) -> None:
    before = dropping.topic("t").epoch

    assert dropping.append("t", ["new"]).created

    assert everything(dropping) == ["new"]
    assert dropping.topic("t").epoch > before
    assert everything(restarted(dropping)) == ["new"]


def test_a_creation_during_a_drop_makes_a_fresh_topic(dropping: Log) -> None:
    info = dropping.create("t", cap_records=7)

    assert (info.count, info.head_seq, info.config.cap_records) == (0, 0, 7)


def test_a_creation_without_waiting_comes_after_the_drop(dropping: Log) -> None:
    made: list[bool] = []

    dropping.core.catalogue.submit_create("t", {}, lambda topic, is_new: made.append(is_new))
    assert not made
    assert dropping.drop("t")

    assert made == [True]
    assert dropping.topic("t").count == 0


def test_a_second_drop_joins_the_first(dropping: Log) -> None:
    assert dropping.drop("t")
    assert not dropping.drop("t")
    assert dropping.core.catalogue.names() == []


def test_a_drop_that_fails_tells_who_waits_to_create(dropping: Log) -> None:
    fs = dropping.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    told: list[object] = []
    dropping.core.catalogue.submit_create("t", {}, lambda topic, is_new: told.append(topic))

    fs.fail("write")
    with pytest.raises(LogFailed):
        dropping.drop("t")
    with pytest.raises(LogFailed):
        dropping.append("t", ["new"])
    with pytest.raises(LogFailed):
        dropping.core.catalogue.submit_create("t", {}, lambda topic, is_new: told.append(topic))

    assert [type(one) for one in told] == [LogFailed]


def test_records_that_cannot_be_read_are_reported_as_lost(memory_log: Log) -> None:
    memory_log.append("t", [1, 2, 3])

    memory_log.core.catalogue.report_unreadable(memory_log.core.catalogue.get("t"), 1, 2)

    page = memory_log.read("t")
    assert page.gap is not None
    assert (page.gap.first, page.gap.last, page.gap.reason) == (1, 2, "damage")
    assert [record.data for record in page.records] == [3]
