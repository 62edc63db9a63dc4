"""Following topics: by pattern, from a disk, and the ways in which it ends."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.server.subscription import MATCHES_MAX, Cursor
from penstock.testing import MemoryFilesystem
from penstock.testing.log import open_memory_log
from penstock.types import JsonPage
from tests.unit.server.following import Stage, wanted
from tests.unit.server.support import on_loop, settled, until

# Patterns.


def everything(name: str) -> bool:
    return True


@on_loop
async def test_topics_made_later_join_from_their_beginning() -> None:
    stage = Stage()
    subscription, tape = stage.follow()
    subscription.add_pattern("log.", wanted(), everything)

    for topic in ("log.a", "other", "log.b"):
        await stage.service.create(topic, {})
        stage.log.append(topic, [topic])
    await settled()

    assert tape.cursors == ["log.a", "log.b"]
    assert tape.datas("log.a") == ["log.a"]
    assert tape.datas("log.b") == ["log.b"]
    assert not tape.datas("other")


@on_loop
async def test_a_pattern_shows_no_name_that_is_not_allowed_and_none_twice() -> None:
    stage = Stage()
    subscription, tape = stage.follow()
    subscription.add_pattern("", wanted(), lambda name: name.startswith("mine"))
    subscription.add_pattern("mine", wanted(), everything)

    for topic in ("yours", "mine"):
        await stage.service.create(topic, {})

    assert tape.cursors == ["mine"]


@on_loop
async def test_a_pattern_follows_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MATCHES_MAX == 1_000
    monkeypatch.setattr("penstock.server.subscription.MATCHES_MAX", 3)
    stage = Stage()
    subscription, tape = stage.follow()
    subscription.add_pattern("", wanted(), everything)

    for topic in "abcde":
        await stage.service.create(topic, {})

    assert tape.cursors == ["a", "b", "c"]


@pytest.mark.parametrize("is_slow", [False, True])
@on_loop
async def test_a_topic_made_again_is_followed_again_by_its_pattern(is_slow: bool) -> None:
    stage = Stage()
    await stage.service.create("t", {})
    subscription, tape = stage.follow("t")
    subscription.add_pattern("", wanted(), everything)
    tape.room = 0 if is_slow else None

    stage.log.drop("t")
    await settled()
    await stage.service.create("t", {})
    stage.log.append("t", ["new"])
    await settled()
    tape.room = None
    subscription.pump()

    assert ("deleted", "t") in tape.events
    assert tape.datas("t") == ["new"]


# Disks.


@on_loop
async def test_sealed_records_are_read_off_the_loop_and_in_order() -> None:
    stage = Stage()
    stage.log.append("t", list(range(10)))
    stage.log.compact()
    assert stage.service.read_hot(stage.service.handle("t"), 0, None, wanted()) is None

    subscription, tape = stage.follow("t", options=wanted(4))
    assert tape.events == []
    stage.log.append("t", [10])
    await until(lambda: subscription.cursors["t"].seq == 11)

    assert tape.datas("t") == list(range(11))


@on_loop
async def test_a_strong_follower_is_shown_only_what_is_past_a_sync() -> None:
    fs = MemoryFilesystem()
    stage = Stage(open_memory_log(fs))
    stage.log.create("t", durability="disk")
    subscription, tape = stage.follow("t", is_strong=True)
    synced: list[int] = []
    note = tape.record

    def record(cursor: Cursor, after: int, page: JsonPage) -> None:
        synced.append(fs.counts["sync"])
        note(cursor, after, page)

    tape.record = record  # type: ignore[method-assign]
    await until(lambda: tape.events)
    before = fs.counts["sync"]

    stage.log.append("t", [1])
    await until(lambda: tape.datas("t") == [1])

    assert synced[0] > before
    subscription.close()


@on_loop
async def test_a_log_that_cannot_be_read_is_told_to_the_sink() -> None:
    stage = Stage()
    stage.log.append("t", [1])
    stage.log.compact()

    def broken(*args: Any, **named: Any) -> None:
        raise PenstockError("unreadable")

    stage.service._read = broken  # type: ignore[method-assign, assignment]
    _, tape = stage.follow("t")
    await until(lambda: tape.events)

    assert tape.events == [("failed", "PenstockError")]


@on_loop
async def test_a_disk_that_fails_is_told_to_the_sink() -> None:
    stage = Stage()
    stage.log.append("t", [1])
    stage.log.compact()

    def broken(*args: Any, **named: Any) -> None:
        raise OSError(5, "Input/output error")

    stage.service._read = broken  # type: ignore[method-assign, assignment]
    _, tape = stage.follow("t")
    await until(lambda: tape.events)

    assert tape.events == [("failed", "OSError")]


# Leaving.


@on_loop
async def test_who_left_hears_nothing_and_leaves_nothing_behind() -> None:
    stage = Stage()
    stage.log.append("t", [1])
    subscription, tape = stage.follow("t")
    subscription.add_pattern("", wanted(), everything)
    tape.events.clear()

    subscription.close()
    stage.log.append("t", [2])
    await stage.service.create("new", {})
    await settled()
    subscription.pump()

    assert tape.events == []
    assert tape.cursors == []
    assert stage.service.feeds.on_created == {}
    assert stage.service.handle("t").listeners == ()


@on_loop
async def test_who_left_while_a_page_was_read_hears_nothing() -> None:
    stage = Stage()
    stage.log.append("t", [1])
    stage.log.compact()
    subscription, tape = stage.follow("t")

    subscription.close()
    await stage.close()
    await settled()

    assert tape.events == []


@on_loop
async def test_one_topic_can_be_left_while_its_page_is_read() -> None:
    stage = Stage()
    for topic in "ab":
        stage.log.append(topic, [topic])
    stage.log.compact()
    subscription, tape = stage.follow("a", "b")

    subscription.remove("a")
    await until(lambda: tape.datas("b"))

    assert tape.datas("a") == []
    assert tape.events == [("record", "b", 0, 1, "b"), ("caught up", "b", 1)]


@on_loop
async def test_adding_a_topic_again_begins_where_the_new_cursor_stands() -> None:
    stage = Stage()
    stage.log.append("t", [1, 2, 3])
    subscription, tape = stage.follow("t")
    handle = stage.service.handle("t")

    subscription.add(Cursor("t", 2, handle.topic.epoch, wanted()), handle)
    subscription.pump()

    assert tape.events[-2:] == [("record", "t", 2, 3, 3), ("caught up", "t", 3)]
    assert len(handle.listeners) == 1
