"""Routers on a real log: what is copied, when it is seen, what is refused, what a restart keeps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.engine.engine import Log
from penstock.engine.router_step import RouterSteps
from penstock.errors import (
    Closed,
    InvalidArgument,
    Overloaded,
    RouterCycle,
    RouterNotFound,
    TopicExists,
    TopicNotFound,
)
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import Gap, Record
from tests.support.serving import DEADLINE_S

each_class = pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
each_end = pytest.mark.parametrize("end", ["kill", "close", "checkpoint", "compact"])


def datas(log: Log, topic: str) -> list[Any]:
    found: list[Any] = []
    after = 0
    while True:
        page = log.read(topic, after, 1000)
        found += [record.data for record in page.records]
        after = page.next_seq
        if page.caught_up:
            return found


def again(log: Log, end: str = "kill") -> Log:
    """The log after an end of its process."""
    fs = log.core.parts.fs
    assert isinstance(fs, MemoryFilesystem)
    if end == "checkpoint":
        log.checkpoint()
    if end == "compact":
        log.compact()
    if end != "kill":
        log.close()
    return open_memory_log(fs.kill() if end == "kill" else fs)


# What is copied.


@each_class
def test_copies_are_seen_by_the_next_reader(memory_log: Log, durability: Any) -> None:
    memory_log.create("a", durability=durability)
    memory_log.create("b", durability=durability)
    memory_log.create_router("r", "a", "b")

    memory_log.append("a", [1, 2])
    assert datas(memory_log, "b") == [1, 2]
    memory_log.append("a", [3])

    assert memory_log.topic("b").count == 3
    assert memory_log.router("r").forwarded_total == 3


def test_only_what_comes_after_the_router_is_copied(memory_log: Log) -> None:
    memory_log.append("a", [1, 2])
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", [3])

    assert datas(memory_log, "b") == [3]


def test_node_tag_meta_and_times_travel_as_the_rules_say(memory_log: Log) -> None:
    memory_log.create_router("all", "a", "b")
    memory_log.create_router("bare", "a", "c", preserve_node=False, preserve_tag=False)
    memory_log.append("a", [Record(1, tag="t", node="n", meta={"k": 1})])

    (full,) = memory_log.read("b").records
    (bare,) = memory_log.read("c").records
    assert (full.data, full.tag, full.node, full.meta) == (1, "t", "n", {"k": 1})
    assert (bare.data, bare.tag, bare.node, bare.meta) == (1, None, None, {"k": 1})


def test_a_filter_takes_its_tags_and_no_untagged_record(memory_log: Log) -> None:
    memory_log.create_router("some", "a", "b", filter="eu:*")
    memory_log.create_router("one", "a", "c", filter=("tag", "Eq", "us"))
    for tag in ("eu:de", None, "us", "eu", "eu:fr", "us:x"):
        memory_log.append("a", [tag], tag=tag)

    assert datas(memory_log, "b") == ["eu:de", "eu:fr"]
    assert datas(memory_log, "c") == ["us"]
    assert memory_log.router("some").cursor == 6


def test_copies_follow_each_other_over_several_steps(memory_log: Log) -> None:
    for number in range(9):
        memory_log.create_router(f"r{number}", f"t{number}", f"t{number + 1}")
    memory_log.append("t0", ["far"])

    assert [len(datas(memory_log, f"t{number}")) for number in range(10)] == [1] * 9 + [0]


def test_a_destination_may_also_be_written_to(memory_log: Log) -> None:
    memory_log.create_router("r", "a", "b")
    for number in range(4):
        memory_log.append("a", [f"a{number}"])
        memory_log.append("b", [f"b{number}"])

    assert sorted(datas(memory_log, "b")) == sorted(
        [f"a{n}" for n in range(4)] + [f"b{n}" for n in range(4)]
    )


def test_no_record_comes_back_to_where_it_was(memory_log: Log) -> None:
    memory_log.create_router("ab", "a", "b")
    memory_log.create_router("bc", "b", "c")
    memory_log.create_router("ca", "c", "a", allow_cycle=True)
    for topic in "abc":
        memory_log.append(topic, [topic])

    for topic in "abc":
        assert sorted(datas(memory_log, topic)) == ["a", "b", "c"]


def test_deletes_do_not_travel_and_copies_outlive_the_router(memory_log: Log) -> None:
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", [1, 2, 3])
    assert datas(memory_log, "b") == [1, 2, 3]

    memory_log.delete("a", before_seq=10)
    assert memory_log.drop_router("r")
    memory_log.append("a", [4])

    assert datas(memory_log, "b") == [1, 2, 3]
    assert not memory_log.drop_router("r")


def test_what_was_deleted_before_it_was_copied_is_no_loss(memory_log: Log) -> None:
    memory_log.create("b", discard="reject", cap_records=1)
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", [1, 2, 3])
    assert datas(memory_log, "b") == [1]
    memory_log.delete("a", seqs=[2])

    memory_log.delete("b", seqs=[1])

    page = memory_log.read("b")
    assert [record.data for record in page.records] == [3]
    assert page.gap is None


# What stops it.


def test_a_full_destination_is_waited_for(memory_log: Log) -> None:
    memory_log.create("b", discard="reject", cap_records=3)
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", list(range(10)))

    assert datas(memory_log, "b") == [0, 1, 2]
    info = memory_log.router("r")
    assert (info.forwarded_total, info.lag_records) == (3, 7)
    assert "full" in info.stopped
    memory_log.delete("b", before_seq=3)
    assert datas(memory_log, "b") == [2, 3, 4]


def raise_cap(log: Log) -> None:
    log.create("b", discard="reject", cap_records=4)


@pytest.mark.parametrize(
    ("make_room", "held"),
    [
        (lambda log: log.delete("b", before_seq=2), [1, 2, 3]),
        (raise_cap, [0, 1, 2, 3]),
        (lambda log: log.delete("a", before_seq=11), [0, 1, 2]),
    ],
    ids=["delete", "cap", "source"],
)
def test_a_full_destination_is_tried_again_when_something_changed(
    memory_log: Log,
    make_room: Callable[[Log], object],
    held: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory_log.create("b", discard="reject", cap_records=3)
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", list(range(10)))
    for _ in range(2):  # the second knows that nothing is under way any more
        assert datas(memory_log, "b") == [0, 1, 2]
    tries = []
    step = RouterSteps._step

    def counted(self: RouterSteps, *given: Any) -> bool:
        tries.append(given)
        return step(self, *given)

    monkeypatch.setattr(RouterSteps, "_step", counted)
    for _ in range(5):
        assert datas(memory_log, "b") == [0, 1, 2]
    memory_log.append("a", [10])
    assert datas(memory_log, "b") == [0, 1, 2]
    assert tries == []

    make_room(memory_log)

    assert datas(memory_log, "b") == held
    assert tries


def test_bytes_that_do_not_fit_are_waited_for_one_record_at_a_time(memory_log: Log) -> None:
    memory_log.create("b", discard="reject", cap_bytes=100)
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", ["x" * 30] * 5)

    assert memory_log.topic("b").count == 3


def test_one_that_can_never_fit_is_told_and_passed(memory_log: Log) -> None:
    memory_log.create("b", discard="reject", cap_bytes=100)
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", ["x" * 30, "y" * 300, "z"])

    page = memory_log.read("b", after=1)
    assert page.gap == Gap(2, 2, "source_trim", 1, 1, 3)
    assert [record.data for record in page.records] == ["z"]


def test_what_the_source_lost_first_is_a_gap(memory_log: Log) -> None:
    memory_log.create("a", cap_records=3)
    memory_log.create("b", discard="reject", cap_records=2)
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", [1, 2])
    assert datas(memory_log, "b") == [1, 2]
    memory_log.append("a", [3, 4, 5, 6, 7])  # 3 and 4 go before they are copied
    memory_log.delete("b", before_seq=3)

    page = memory_log.read("b", after=2)
    assert page.gap is not None
    assert (page.gap.first, page.gap.last, page.gap.reason) == (3, 4, "source_trim")
    assert [record.data for record in page.records] == [5, 6]
    assert memory_log.router("r").forwarded_total == 4


# What is refused.


def test_every_refusal_leaves_nothing_behind(memory_log: Log) -> None:
    memory_log.create_router("ab", "a", "b")
    before = memory_log.core.catalogue.names()
    refused: list[tuple[type[Exception], tuple[Any, ...], dict[str, Any]]] = [
        (InvalidArgument, ("x", "a", "a"), {}),
        (InvalidArgument, ("bad name", "a", "c"), {}),
        (InvalidArgument, ("x", "_a", "c"), {}),
        (InvalidArgument, ("x", "a", "c"), {"filter": ""}),
        (TopicNotFound, ("x", "a", "nowhere"), {"create_dest": False}),
        (TopicExists, ("x", "c", "b"), {}),
        (TopicExists, ("ab", "a", "c"), {}),
        (RouterCycle, ("ba", "b", "a"), {}),
    ]
    for kind, args, named in refused:
        with pytest.raises(kind):
            memory_log.create_router(*args, **named)
    with pytest.raises(RouterNotFound):
        memory_log.router("ba")

    assert memory_log.core.catalogue.names() == before
    assert [info.name for info in memory_log.routers()] == ["ab"]


def test_the_cap_counts_new_routers_alone() -> None:
    with open_memory_log(max_routers=1) as log:
        log.create_router("r", "a", "b")
        with pytest.raises(Overloaded) as refused:
            log.create_router("s", "c", "d")
        assert refused.value.limit == ("max_routers", 1)
        assert not log.create_router("r", "a", "b", filter="x").created
        assert log.core.catalogue.names() == ["a", "b"]


def test_both_topics_are_made_or_none() -> None:
    with open_memory_log(max_topics=1) as log:
        with pytest.raises(Overloaded):
            log.create_router("r", "a", "b")
        assert log.core.catalogue.names() == []


def test_routers_of_a_closed_log_are_refused(memory_log: Log) -> None:
    memory_log.close()

    with pytest.raises(Closed):
        memory_log.create_router("r", "a", "b")
    with pytest.raises(Closed):
        memory_log.drop_router("r")


def test_other_rules_hold_from_then_on(memory_log: Log) -> None:
    memory_log.create_router("r", "a", "b", filter="x")
    memory_log.append("a", [1], tag="y")
    assert datas(memory_log, "b") == []

    assert not memory_log.create_router("r", "a", "b").created
    memory_log.append("a", [2], tag="y")

    assert datas(memory_log, "b") == [2]


def test_lists_are_sorted_and_filtered(memory_log: Log) -> None:
    for name, source, dest in (("z", "a", "b"), ("y", "a", "c"), ("x", "d", "e")):
        memory_log.create_router(name, source, dest)

    assert [info.name for info in memory_log.routers()] == ["x", "y", "z"]
    assert [info.name for info in memory_log.routers(source="a")] == ["y", "z"]
    assert [info.name for info in memory_log.routers(dest="e")] == ["x"]
    assert [info.name for info in memory_log.routers("z")] == ["z"]


# Dropping topics.


@pytest.mark.parametrize("topic", ["a", "b"])
@each_end
def test_a_topic_takes_its_routers_with_it(topic: str, end: str) -> None:
    log = open_memory_log()
    log.create_router("ab", "a", "b")
    log.create_router("other", "c", "d")
    log.append("a", [1])
    log.read("b")

    assert log.drop(topic)
    assert [info.name for info in log.routers()] == ["other"]
    with again(log, end) as log:
        assert [info.name for info in log.routers()] == ["other"]
        log.create("a")
        log.create("b")
        log.append("a", [2])
        assert 2 not in datas(log, "b")


# After a restart.


@each_class
@each_end
def test_copies_and_positions_outlive_the_process(durability: Any, end: str) -> None:
    log = open_memory_log(wal_file_bytes=4096)
    log.create("a", durability=durability)
    log.create("b", durability=durability)
    log.create_router("ab", "a", "b")
    log.create_router("bc", "b", "c", filter="t*")
    log.create_router("ad", "a", "d", exactly_once=True)
    for number in range(60):
        log.append("a", [{"n": number}], tag=f"t{number}" if number % 3 else None)
        if number % 7 == 0:
            log.read("c")
        if number == 30:
            log.checkpoint()
        if number % 10 == 0:
            log.delete("a", seqs=[number + 1])
            log.append("b", [f"direct {number}"])
    pages = {topic: log.read(topic, limit=1000) for topic in "bcd"}
    told = {info.name: info.forwarded_total for info in log.routers()}

    with again(log, end) as log:
        if durability != "ephemeral":
            for topic in "bcd":
                assert log.read(topic, limit=1000) == pages[topic]
            assert {info.name: info.forwarded_total for info in log.routers()} == told
        log.append("a", ["new"], tag="t")
        for topic in "bcd":
            assert datas(log, topic)[-1] == "new"
            assert datas(log, topic).count("new") == 1


def test_one_write_for_each_record_whatever_the_number_of_copies(memory_log: Log) -> None:
    for number in range(10):
        memory_log.create_router(f"r{number}", "a", f"t{number}")
    memory_log.append("a", ["x" * 1000] * 10)
    for number in range(10):
        memory_log.read(f"t{number}")

    stats = memory_log.stats()
    assert (stats.router_copies_derived_total, stats.router_copies_logged_total) == (100, 0)
    assert stats.wal_frames_bytes_total < 10 * 1100 + 10 * 1000


def test_a_stronger_topic_gets_its_copies_whole(memory_log: Log) -> None:
    memory_log.create("a", durability="disk")
    memory_log.create("b", durability="fsync")
    memory_log.create_router("r", "a", "b")
    memory_log.append("a", [1, 2])
    memory_log.read("b")

    assert memory_log.stats().router_copies_logged_total == 2


def test_what_waited_over_a_restart_is_copied_whole() -> None:
    log = open_memory_log()
    log.create("b", discard="reject", cap_records=1)
    log.create_router("r", "a", "b")
    log.append("a", [1, 2])
    log.read("b")

    with again(log) as log:
        log.delete("b", before_seq=2)
        assert datas(log, "b") == [2]
        assert log.stats().router_copies_logged_total == 1


# At work.


def test_copies_arrive_by_themselves(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as log:
        log.create_router("ab", "a", "b")
        log.create_router("bc", "b", "c")
        got: list[Any] = []
        arrived = threading.Event()

        def follow() -> None:
            for record in log.follow("c", timeout_s=DEADLINE_S):
                assert isinstance(record, Record)
                got.append(record.data)
                if len(got) == 100:
                    arrived.set()
                    return

        follower = threading.Thread(target=follow)
        log.read("c")
        follower.start()
        for number in range(100):
            log.append("a", [number])
        assert arrived.wait(DEADLINE_S)
        follower.join()
        assert got == list(range(100))


def test_many_writers_and_readers_lose_and_double_nothing(tmp_path: Path) -> None:
    with penstock.open(tmp_path) as log:
        for number in range(3):
            log.create_router(f"r{number}", "a", f"t{number}")

        def write(name: int) -> None:
            for number in range(100):
                log.append("a", [f"{name}:{number}"])
                if number % 10 == 0:
                    log.read(f"t{name % 3}")
                if number % 33 == 0:
                    log.checkpoint()

        writers = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        wanted = datas(log, "a")
        assert len(wanted) == 400
        for number in range(3):
            assert datas(log, f"t{number}") == wanted
    with penstock.open(tmp_path) as log:
        for number in range(3):
            assert datas(log, f"t{number}") == wanted


def test_a_time_to_live_of_the_source_is_a_gap_at_the_destination() -> None:
    clock = FakeClock()
    with open_memory_log(clock=clock) as log:
        log.create("a", ttl_ms=1000)
        log.create("b", discard="reject", cap_records=1)
        log.create_router("r", "a", "b")
        log.append("a", [1, 2])
        assert datas(log, "b") == [1]
        clock.advance(5000)
        log.read("a")
        log.append("a", [3])
        log.delete("b", before_seq=2)

        page = log.read("b", after=1)
        assert page.gap is not None
        assert page.gap.reason == "source_trim"
        assert [record.data for record in page.records] == [3]
