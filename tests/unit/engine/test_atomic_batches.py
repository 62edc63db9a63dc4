"""Appends to several topics: all or nothing, durable, once, and in order with everyone else's.

Crashes at every point are in tests/crash/test_multi.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import limits
from penstock.append_options import AppendOptions
from penstock.codec import kernel
from penstock.engine import batch as batches
from penstock.engine.atomic_batches import TopicAppend
from penstock.engine.engine import Log
from penstock.engine.internal_topics import BATCHES
from penstock.errors import (
    BatchTooLarge,
    Closed,
    InvalidArgument,
    LogFailed,
    Overloaded,
    PenstockError,
    SeqMismatch,
    TopicFull,
    TopicNotFound,
)
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH
from penstock.testing.log import open_memory_log
from penstock.types import Appended, Record
from tests.unit.engine.support import everything, killed, restarted

CLASSES = ["ephemeral", "memory", "disk", "fsync"]


def part(
    log: Log, topic: str, records: Sequence[Any], key: str | None = None, **given: Any
) -> TopicAppend:
    handle = log.core.catalogue.find(topic)
    assert handle is not None
    batch = batches.prepare(records, tag=None, node=None, key=key)
    return TopicAppend(handle, batch, options=AppendOptions(**given))


def held(log: Log, topic: str) -> bool:
    handle = log.core.catalogue.find(topic)
    assert handle is not None
    return handle.holder is not None


def at_each_operation(log: Log, act: Callable[[], None]) -> None:
    """Call `act` before every change to the disk, from inside whatever makes it."""
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    fs.on_operation = lambda index, kind, path: act()


# What it does.


def test_a_batch_goes_to_every_topic_and_makes_those_that_are_missing(memory_log: Log) -> None:
    memory_log.append("a", [0])

    answers = memory_log.append_many([("a", [1, 2]), ("b", [3])])

    assert [(a.topic, a.first_seq, a.last_seq, a.count, a.created) for a in answers] == [
        ("a", 2, 3, 2, False),
        ("b", 1, 1, 1, True),
    ]
    assert (everything(memory_log, "a"), everything(memory_log, "b")) == ([0, 1, 2], [3])


@pytest.mark.parametrize("durability", CLASSES)
def test_a_batch_is_durable_on_return_whatever_the_class(durability: str) -> None:
    fs = MemoryFilesystem()
    log = open_memory_log(fs, wal_shards=2)
    log.create("a", durability=durability)
    log.create("b", durability="disk")

    log.append_many([("a", [1]), ("b", [2])])

    cut = open_memory_log(fs.power_cut(lambda change: VANISH), wal_shards=2)
    assert 2 in everything(cut, "b")
    assert (1 in everything(cut, "a")) or durability == "ephemeral"


def test_followers_are_woken_by_a_batch(memory_log: Log) -> None:
    woken: list[str] = []
    for topic, durability in (("a", "ephemeral"), ("b", "disk"), ("c", "fsync")):
        memory_log.create(topic, durability=durability)
        handle = memory_log.core.catalogue.find(topic)
        assert handle is not None
        handle.listen(lambda topic=topic: woken.append(topic))

    memory_log.append_many([("a", [1]), ("b", [2]), ("c", [3])])

    assert sorted(set(woken)) == ["a", "b", "c"]


def test_what_a_batch_leaves_behind_is_seen_by_nobody(memory_log: Log) -> None:
    memory_log.append_many([("a", [1]), ("b", [2])])

    assert memory_log.core.catalogue.names() == ["a", "b"]
    assert [info.name for info in memory_log.topics("_")] == []
    assert memory_log.stats().topics == 2
    assert memory_log.core.parts.handles[BATCHES.name].topic.live == 0


@pytest.mark.parametrize("verb", ["create", "append", "read", "topic", "drop"])
def test_nobody_can_name_the_topic_of_promises(memory_log: Log, verb: str) -> None:
    memory_log.append_many([("a", [1])])

    if verb == "drop":
        assert memory_log.drop(BATCHES.name) is False
        assert memory_log.core.catalogue.find(BATCHES.name) is None
        return
    with pytest.raises(InvalidArgument):
        getattr(memory_log, verb)(*((BATCHES.name, [1]) if verb == "append" else (BATCHES.name,)))


# All or nothing.


def test_a_batch_names_a_topic_and_each_once(memory_log: Log) -> None:
    memory_log.create("a")

    with pytest.raises(InvalidArgument, match="occurs twice"):
        memory_log.core.append_parts([part(memory_log, "a", [1]), part(memory_log, "a", [2])])
    with pytest.raises(InvalidArgument, match="at least one topic"):
        memory_log.append_many([])

    assert everything(memory_log, "a") == []


@pytest.mark.parametrize("name", ["deliver_at", "delay_ms"])
def test_a_batch_cannot_be_delayed(memory_log: Log, name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"append_many takes no {name}"):
        memory_log.append_many([("a", [1]), ("b", [2])], **{name: 1 << 40})  # type: ignore[arg-type]

    assert memory_log.topics() == []


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("why", ["full", "seq", "dropped"])
def test_one_part_that_cannot_be_appended_stops_all(
    memory_log: Log, position: int, why: str
) -> None:
    topics = ["a", "b", "c"]
    for topic in topics:
        memory_log.append(topic, [0])
    bad = topics[position]
    if why == "full":
        memory_log.create(bad, cap_records=2, discard="reject")
    parts = [
        part(memory_log, t, [1, 2], expected_seq=7 if why == "seq" and t == bad else 1)
        for t in topics
    ]
    if why == "dropped":
        memory_log.drop(bad)
    errors = {"full": TopicFull, "seq": SeqMismatch, "dropped": TopicNotFound}

    with pytest.raises(errors[why]):
        memory_log.core.append_parts(parts)

    left = [topic for topic in topics if memory_log.core.catalogue.find(topic) is not None]
    assert [everything(memory_log, topic) for topic in left] == [[0]] * len(left)
    assert not any(held(memory_log, topic) for topic in left)
    assert [memory_log.append(topic, [3]).first_seq for topic in left] == [2] * len(left)


def test_an_expected_seq_counts_what_is_under_way(memory_log: Log) -> None:
    memory_log.append("a", [1])

    answers = memory_log.core.append_parts([part(memory_log, "a", [2], expected_seq=1)])

    assert answers[0].first_seq == 2


def test_a_batch_that_no_queue_can_hold_is_refused_before_anything_is_written(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_log.append_many([("a", [0]), ("b", [0])])
    monkeypatch.setattr(limits, "SHARD_QUEUE_BYTES_MAX", 4000)

    with pytest.raises(BatchTooLarge):
        memory_log.append_many([("a", ["x" * 3000]), ("b", ["y" * 3000])])

    assert (everything(memory_log, "a"), everything(memory_log, "b")) == ([0], [0])
    assert memory_log.append("a", [1]).first_seq == 2


def test_a_closed_log_takes_no_batch(memory_log: Log) -> None:
    memory_log.create("a")
    ready = part(memory_log, "a", [1])
    memory_log.close()

    with pytest.raises(Closed):
        memory_log.core.append_parts([ready])


def test_a_failing_disk_is_told_and_lets_the_topics_go(
    memory_log: Log, penstock_fs: MemoryFilesystem
) -> None:
    memory_log.append("a", [0])
    memory_log.append("b", [0])
    penstock_fs.fail("sync")

    with pytest.raises(LogFailed):
        memory_log.append_many([("a", [1]), ("b", [1])])

    assert not held(memory_log, "a")
    assert not held(memory_log, "b")
    with pytest.raises(LogFailed):
        memory_log.append_many([("a", [2]), ("b", [2])])


def test_a_full_queue_delays_a_batch_that_is_promised(
    memory_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_log.append_many([("a", [0]), ("b", [0])])
    handle = memory_log.core.catalogue.find("b")
    assert handle is not None
    submit = handle.shard.submit
    refused: list[object] = []

    def full_once(commit: Any, steps: Any = ()) -> None:
        if commit.ordering_key == handle.topic.id and not refused:
            refused.append(commit)
            raise Overloaded("the write queue is full", retry_after_ms=1)
        submit(commit, steps)

    monkeypatch.setattr(handle.shard, "submit", full_once)

    memory_log.append_many([("a", [1]), ("b", [1])])

    assert refused
    assert (everything(memory_log, "a"), everything(memory_log, "b")) == ([0, 1], [0, 1])


# Once.


def test_a_batch_sent_again_with_its_key_is_not_appended_again(memory_log: Log) -> None:
    first = memory_log.append_many([("a", [1, 2]), ("b", [3])], idempotency_key="k")

    again = memory_log.append_many([("a", [1, 2]), ("b", [3])], idempotency_key="k")

    assert [(a.first_seq, a.last_seq, a.deduped) for a in again] == [(1, 2, True), (1, 1, True)]
    assert [a.deduped for a in first] == [False, False]
    assert (everything(memory_log, "a"), everything(memory_log, "b")) == ([1, 2], [3])


def test_a_retry_is_not_held_to_the_seq_that_it_moved(memory_log: Log) -> None:
    memory_log.create("a")
    memory_log.core.append_parts([part(memory_log, "a", [1], "k", expected_seq=0)])

    again = memory_log.core.append_parts([part(memory_log, "a", [1], "k", expected_seq=0)])

    assert again[0].deduped


@pytest.mark.parametrize("how", [restarted, killed])
def test_a_key_outlives_a_restart(memory_log: Log, how: Callable[[Log], Log]) -> None:
    memory_log.append_many([("a", [1]), ("b", [2])], idempotency_key="k")

    log = how(memory_log)
    again = log.append_many([("a", [1]), ("b", [2])], idempotency_key="k")

    assert [answer.deduped for answer in again] == [True, True]
    assert (everything(log, "a"), everything(log, "b")) == ([1], [2])


# After a crash.


def interrupted(log: Log, act: Callable[[], object], *, at: str) -> MemoryFilesystem:
    """The disk just after the promise was synced, when `act` goes on to its parts."""
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    intents = log.core.parts.handles[BATCHES.name]
    taken: list[MemoryFilesystem] = []

    def look(index: int, kind: str, path: str) -> None:
        if kind == "write" and intents.topic.live and not taken:
            taken.append(fs.copy())

    fs.on_operation = look
    act()
    fs.on_operation = None
    assert taken, "the promise was never seen alone"
    return taken[0].kill() if at == "kill" else taken[0].power_cut(lambda change: VANISH)


@pytest.mark.parametrize("at", ["kill", "cut"])
@pytest.mark.parametrize("shards", [1, 2])
def test_opening_finishes_what_a_crash_cut_short(shards: int, at: str) -> None:
    log = open_memory_log(wal_shards=shards, default_durability="fsync")
    log.append_many([("a", [0]), ("b", [0])])
    rich = [Record({"n": 1}, tag="t", node="n", meta={"m": 1}), Record(" plain ", tag=None)]
    parts = [part(log, "a", rich), part(log, "b", [b" [1, 2] "])]

    disk = interrupted(log, lambda: log.core.append_parts(parts), at=at)

    again = open_memory_log(disk, wal_shards=shards)
    read = again.read("a").records[1:]
    assert [(r.data, r.tag, r.node, r.meta) for r in read] == [
        ({"n": 1}, "t", "n", {"m": 1}),
        (" plain ", None, None, None),
    ]
    assert everything(again, "b") == [0, [1, 2]]
    assert [record.seq for record in again.read("b").records] == [1, 2]


def test_a_node_for_all_records_survives_an_interruption() -> None:
    log = open_memory_log()
    log.append_many([("a", [0])])
    batch = batches.prepare([1], tag=None, node="n", key=None)
    handle = log.core.catalogue.find("a")
    assert handle is not None

    disk = interrupted(log, lambda: log.core.append_parts([TopicAppend(handle, batch)]), at="kill")

    assert open_memory_log(disk).read("a").records[-1].node == "n"


def test_a_finished_batch_is_not_finished_again_by_the_next_opening() -> None:
    log = open_memory_log()
    log.append_many([("a", [0]), ("b", [0])])
    disk = interrupted(log, lambda: log.append_many([("a", [1]), ("b", [2])]), at="kill")

    again = restarted(restarted(open_memory_log(disk)))

    assert (everything(again, "a"), everything(again, "b")) == ([0, 1], [0, 2])


def test_a_topic_that_was_dropped_since_gets_nothing() -> None:
    log = open_memory_log()
    log.append_many([("a", [0]), ("b", [0])])
    taken = interrupted(log, lambda: log.append_many([("a", [1]), ("b", [2])]), at="kill")
    log = open_memory_log(taken)
    log.drop("a")
    log.append("a", ["new"])

    again = restarted(log)

    assert (everything(again, "a"), everything(again, "b")) == (["new"], [0, 2])


def test_what_was_deleted_after_a_batch_does_not_come_back_with_its_promise(
    memory_log: Log, penstock_fs: MemoryFilesystem
) -> None:
    """That a promise was kept is noted without a sync, so a power cut may forget it."""
    for topic in "ab":
        memory_log.create(topic, durability="fsync")
    memory_log.append_many([("a", [1]), ("b", [2])])
    memory_log.delete("a", before_seq=9)

    for disk in penstock_fs.crash_states(64):
        log = open_memory_log(disk)
        assert (everything(log, "a"), everything(log, "b")) == ([], [2])


# With others.


def collected(log: Log, topic: str, records: list[Any], into: list[Any], **given: Any) -> None:
    def done(answer: Appended | PenstockError) -> None:
        into.append((topic, answer.first_seq if isinstance(answer, Appended) else type(answer)))

    log.submit(topic, records, done, **given)


@pytest.mark.parametrize("durability", CLASSES)
def test_appends_that_meet_a_batch_come_after_it_in_their_order(durability: str) -> None:
    log = open_memory_log(wal_shards=2)
    for topic in "ab":
        log.create(topic, durability=durability)
    answers: list[Any] = []
    sent = iter(range(4))

    def meddle() -> None:
        number = next(sent, None) if held(log, "a") and held(log, "b") else None
        if number is not None:
            collected(log, "ab"[number % 2], [{"single": number}], answers)

    at_each_operation(log, meddle)
    log.append_many([("a", ["batch", "batch"]), ("b", ["batch"])])

    assert next(sent, None) is None, "the batch was over before all had met it"
    singles = [{"single": n} for n in range(4)]
    assert everything(log, "a") == ["batch", "batch", *singles[::2]]
    assert everything(log, "b") == ["batch", *singles[1::2]]
    assert sorted(answers) == [("a", 3), ("a", 4), ("b", 2), ("b", 3)]


def test_an_append_sent_while_others_have_their_turn_comes_after_them() -> None:
    """The topics are let go only when all who waited have been served."""
    log = open_memory_log()
    log.append("a", [0], idempotency_key="k")
    order: list[Any] = []
    is_met: list[bool] = []

    def meet() -> None:
        if held(log, "a") and not is_met:
            is_met.append(True)
            # Answered at once when its turn comes, and that answer brings a third append.
            log.submit("a", [0], lambda _: collected(log, "a", [3], order), idempotency_key="k")
            collected(log, "a", [2], order)

    at_each_operation(log, meet)
    log.append_many([("a", [1]), ("b", [0])])

    assert everything(log, "a") == [0, 1, 2, 3]
    assert order == [("a", 3), ("a", 4)]


def test_an_append_that_waited_is_refused_with_its_own_reason() -> None:
    log = open_memory_log()
    log.create("a", cap_records=2, discard="reject")
    answers: list[Any] = []
    is_met: list[bool] = []

    def meet() -> None:
        if held(log, "a") and not is_met:
            is_met.append(True)
            collected(log, "a", [3], answers)

    at_each_operation(log, meet)
    log.append_many([("a", [1, 2]), ("b", [0])])

    assert answers == [("a", TopicFull)]
    assert everything(log, "a") == [1, 2]


def test_an_append_that_waited_with_a_known_key_gets_the_first_answer() -> None:
    log = open_memory_log()
    log.append("a", [0], idempotency_key="k")
    answers: list[Any] = []
    is_met: list[bool] = []

    def meet() -> None:
        if held(log, "a") and not is_met:
            is_met.append(True)
            collected(log, "a", [9], answers, idempotency_key="k")

    at_each_operation(log, meet)
    log.append_many([("a", [1]), ("b", [0])])

    assert answers == [("a", 1)]
    assert everything(log, "a") == [0, 1]


def test_batches_and_single_appends_of_many_threads_lose_and_double_nothing(
    tmp_path: Path,
) -> None:
    turns = 40
    topics = ["a", "b", "c"]
    with penstock.open(tmp_path / "log", wal_shards=2) as log:
        for topic, durability in zip(topics, ["fsync", "disk", "ephemeral"], strict=True):
            log.create(topic, durability=durability)
        done = threading.Semaphore(0)

        def batch(worker: int) -> None:
            for n in range(turns):
                log.append_many([(topic, [["batch", worker, n]]) for topic in topics])

        def block(worker: int) -> None:
            for n in range(turns):
                log.append(topics[n % 3], [["block", worker, n]])

        def submit(worker: int) -> None:
            for n in range(turns):
                log.submit(topics[n % 3], [["submit", worker, n]], lambda answer: done.release())

        threads = [
            threading.Thread(target=work, args=(worker,))
            for work in (batch, block, submit)
            for worker in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        for _ in range(2 * turns):
            assert done.acquire(timeout=60)

        found = {topic: everything(log, topic) for topic in topics}

    for index, topic in enumerate(topics):
        for kind, worker in [(kind, w) for kind in ("batch", "block", "submit") for w in range(2)]:
            mine = [n for k, w, n in found[topic] if (k, w) == (kind, worker)]
            wanted = range(turns) if kind == "batch" else range(index, turns, 3)
            assert mine == list(wanted), (topic, kind, worker)


def test_a_batch_waits_for_no_other_batch_but_in_turn(
    memory_log: Log, penstock_clock: FakeClock
) -> None:
    answers = [memory_log.append_many([("a", [n]), ("b", [n])]) for n in range(5)]

    assert [[a.first_seq for a in answer] for answer in answers] == [[n, n] for n in range(1, 6)]


def test_records_without_texts_of_their_own_make_no_promise(memory_log: Log) -> None:
    """The promise would be empty, and a crash between two topics would keep one of them."""
    body = kernel.pack_records([b"1"], b"", b"")
    table = kernel.packed_spans(body, 0, 1, 8, 8)
    assert table is not None
    spans = batches.RecordSpans([body], [table], 1)
    for topic in ("a", "b"):
        memory_log.create(topic)
    parts = [
        TopicAppend(memory_log.core.parts.handles[topic], batches.Batch([], 1, spans=spans))
        for topic in "ab"
    ]

    with pytest.raises(AssertionError, match="one by one"):
        memory_log.core.append_parts(parts)
