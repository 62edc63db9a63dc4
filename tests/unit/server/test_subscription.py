"""Following topics: everything once and in order, losses told, nobody held up by a slow one.

Patterns, disks and leaving are in test_subscription_ends.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import Settings
from penstock.engine.open_log import open_log
from penstock.engine.read import options as read_options
from penstock.server.subscription import Cursor
from penstock.testing import MemoryFilesystem
from penstock.testing.log import ROOT
from tests.unit.server.bench import delete
from tests.unit.server.following import Stage, wanted
from tests.unit.server.support import on_loop, settled, until

# Everything, in order.


@on_loop
async def test_what_is_there_comes_first_and_then_what_comes() -> None:
    stage = Stage()
    stage.log.append("t", [1, 2])

    _, tape = stage.follow("t")
    stage.log.append("t", [3])
    await settled()
    stage.log.append("t", [4, 5])
    await settled()

    assert tape.events == [
        ("record", "t", 0, 2, 1, 2),
        ("caught up", "t", 2),
        ("record", "t", 2, 3, 3),
        ("record", "t", 3, 5, 4, 5),
    ]


@on_loop
async def test_an_empty_topic_is_caught_up_at_once() -> None:
    stage = Stage()
    stage.log.create("t")

    _, tape = stage.follow("t")

    assert tape.events == [("caught up", "t", 0)]


@on_loop
async def test_caught_up_is_told_once_for_each_backlog() -> None:
    stage = Stage()
    stage.log.create("t")
    _, tape = stage.follow("t", options=wanted(2))

    for _ in range(3):
        stage.log.append("t", [0])
        await settled()
    assert [event[0] for event in tape.events] == ["caught up", "record", "record", "record"]
    stage.log.append("t", [0] * 5)
    await settled()

    assert [event[0] for event in tape.events[4:]] == ["record"] * 3 + ["caught up"]


@on_loop
async def test_what_is_filtered_moves_the_cursor_and_is_caught_up_with() -> None:
    stage = Stage()
    stage.log.append("t", [1, 2], tag="a")
    options = read_options(100, None, None, "b", is_wire=True)

    subscription, tape = stage.follow("t", options=options)

    assert tape.events == [("caught up", "t", 2)]
    assert subscription.cursors["t"].seq == 2


@on_loop
async def test_topics_take_turns_page_by_page() -> None:
    stage = Stage()
    for topic in "ab":
        stage.log.append(topic, list(range(6)))

    _, tape = stage.follow("a", "b", options=wanted(2))

    pages = [event[1] for event in tape.events if event[0] == "record"]
    assert pages == ["a", "b", "a", "b", "a", "b"]


ACTIONS = st.lists(
    st.sampled_from(["append", "batch", "turn", "full", "drain", "seal", "wake", "join"]),
    max_size=25,
)


@given(actions=ACTIONS, limit=st.integers(1, 3))
@on_loop
async def test_no_interleaving_loses_or_doubles_a_record(actions: list[str], limit: int) -> None:
    stage = Stage()
    stage.log.create("t")
    stage.log.append("t", [0])
    sent = 1
    followers = [stage.follow("t", options=wanted(limit))]

    for action in actions:
        if action in ("append", "batch"):
            size = 1 if action == "append" else 4
            stage.log.append("t", list(range(sent, sent + size)))
            sent += size
        elif action == "turn":
            await asyncio.sleep(0)
        elif action == "full":
            followers[0][1].room = 1
        elif action == "drain":
            followers[0][1].room = None
            followers[0][0].pump()
        elif action == "seal":
            stage.log.compact()
        elif action == "wake":
            stage.service.handle("t").wake()
        else:
            followers.append(stage.follow("t", options=wanted(limit)))
    for subscription, tape in followers:
        tape.room = None
        subscription.pump()
    await until(lambda: all(s.cursors["t"].seq == sent for s, _ in followers))

    for subscription, tape in followers:
        assert tape.datas("t") == list(range(sent))
        steps = [event[2:4] for event in tape.events if event[0] == "record"]
        assert [after for after, _ in steps] == [0, *(to for _, to in steps[:-1])][: len(steps)]
        subscription.close()
    await stage.close()


@pytest.mark.parametrize("durability", ["ephemeral", "disk", "fsync"])
@on_loop
async def test_no_record_of_other_threads_is_lost_or_doubled(durability: str) -> None:
    log = open_log(
        ROOT,
        settings=Settings(wal_shards=1, segment_max_events=50, checkpoint_wal_bytes=4096),
        fs=MemoryFilesystem(),
    )
    stage = Stage(log)
    log.create("t", durability=durability)
    followers = [stage.follow("t", options=wanted(limit)) for limit in (1, 7, 100)]
    count = 300

    def write(writer: int) -> None:
        for n in range(count):
            log.append("t", [[writer, n]])

    writers = [threading.Thread(target=write, args=(n,)) for n in range(2)]
    for thread in writers:
        thread.start()
    await asyncio.to_thread(log.compact)
    await until(lambda: all(s.cursors["t"].seq == 2 * count for s, _ in followers))
    for thread in writers:
        thread.join()

    for subscription, tape in followers:
        for writer in range(2):
            assert [n for w, n in tape.datas("t") if w == writer] == list(range(count))
        subscription.close()
    await stage.close()


# Slow ones.


@on_loop
async def test_nothing_is_queued_for_a_full_sink_and_it_reads_on_when_it_drains() -> None:
    stage = Stage()
    stage.log.create("t")
    subscription, tape = stage.follow("t")
    tape.room = 1

    for n in range(100):
        stage.log.append("t", [n])
        await settled()
    assert len(tape.events) == 2
    tape.room = None
    subscription.pump()

    assert tape.events[2] == ("record", "t", 1, 100, *range(1, 100))


@on_loop
async def test_what_retention_took_from_a_slow_reader_is_a_tombstone() -> None:
    stage = Stage()
    stage.log.create("t", cap_records=3)
    subscription, tape = stage.follow("t")
    tape.room = 0

    stage.log.append("t", list(range(10)))
    await settled()
    tape.room = None
    subscription.pump()

    assert tape.events[1:] == [("gap", "t", 1, 7, "cap"), ("record", "t", 7, 10, 7, 8, 9)]


@on_loop
async def test_a_slow_reader_holds_up_nobody() -> None:
    stage = Stage()
    stage.log.create("t")
    _, slow = stage.follow("t")
    _, quick = stage.follow("t")
    slow.room = 0

    stage.log.append("t", [1])
    await settled()

    assert quick.datas("t") == [1]
    assert slow.datas("t") == []


# Losses and ends.


@on_loop
async def test_a_reader_from_before_the_first_record_is_told_what_is_gone() -> None:
    stage = Stage()
    stage.log.create("t", cap_records=2)
    stage.log.append("t", [1, 2, 3, 4])

    _, tape = stage.follow("t")

    assert tape.events == [
        ("gap", "t", 1, 2, "cap"),
        ("record", "t", 2, 4, 3, 4),
        ("caught up", "t", 4),
    ]


@pytest.mark.parametrize("seq", [0, 2, 50])
@on_loop
async def test_a_cursor_of_an_earlier_topic_of_that_name_begins_anew(seq: int) -> None:
    stage = Stage()
    stage.log.append("t", [1, 2, 3])
    old = stage.service.handle("t").topic.epoch
    stage.log.drop("t")
    stage.log.append("t", ["new", "newer"])

    subscription, tape = stage.follow("t", seq=seq, epoch=old)

    assert [event[0] for event in tape.events] == ["gap", "record", "caught up"]
    assert tape.events[0][4] == "recreated"
    assert tape.events[1] == ("record", "t", 0, 2, "new", "newer")
    assert subscription.cursors["t"].epoch != old


@on_loop
async def test_a_dropped_topic_is_told_once_and_its_successor_is_another() -> None:
    stage = Stage()
    for topic in "ab":
        stage.log.append(topic, [1])
    subscription, tape = stage.follow("a", "b")
    tape.events.clear()

    stage.log.drop("a")
    stage.log.append("a", ["new"])
    stage.log.append("b", [2])
    await settled()

    assert tape.events == [("deleted", "a"), ("record", "b", 1, 2, 2)]
    assert list(subscription.cursors) == ["b"]


@on_loop
async def test_deleted_records_are_shown_to_nobody_who_comes_later() -> None:
    """Others read them a moment ago, and what they read is kept to be shared."""
    stage = Stage()
    stage.log.append("t", ["secret", "public"])
    _, before = stage.follow("t")

    await delete(stage.service, "t", 2)
    _, after = stage.follow("t")

    assert before.datas("t") == ["secret", "public"]
    assert after.datas("t") == ["public"]


@on_loop
async def test_a_topic_told_to_keep_less_shows_less_to_who_comes_later() -> None:
    stage = Stage()
    stage.log.append("t", [1, 2, 3])
    stage.follow("t")

    await stage.service.create("t", {"cap_records": 1})
    _, after = stage.follow("t")

    assert after.datas("t") == [3]


# Sharing.


@contextmanager
def counted(target: Any, name: str) -> Iterator[list[Any]]:
    """How often a method is called."""
    calls: list[Any] = []
    real: Callable[..., Any] = getattr(target, name)

    def count(*args: Any, **named: Any) -> Any:
        calls.append(args)
        return real(*args, **named)

    setattr(target, name, count)
    yield calls
    setattr(target, name, real)


@on_loop
async def test_a_page_is_read_once_for_all_who_are_at_the_same_place() -> None:
    stage = Stage()
    stage.log.create("t")
    followers = [stage.follow("t") for _ in range(20)]
    others = [stage.follow("t", options=wanted(include_meta=False)) for _ in range(5)]

    with counted(stage.service, "read_hot") as calls:
        stage.log.append("t", [1])
        await settled()

    assert len(calls) == 2, "one for each kind of reader"
    assert all(tape.datas("t") == [1] for _, tape in [*followers, *others])


@on_loop
async def test_equal_wishes_are_of_one_kind_and_others_are_not() -> None:
    same = {Cursor("a", n, n, wanted()).kind for n in range(5)}
    other = Cursor("a", 0, 0, wanted(7)).kind

    assert len(same) == 1
    assert other not in same
