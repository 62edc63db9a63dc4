"""Feeds: one wake-up for all watchers, one encoding for all of them."""

from __future__ import annotations

import asyncio
import threading

from penstock.engine.engine import Log
from penstock.server.feeds import Feed
from penstock.testing.log import open_memory_log
from tests.unit.server.support import feeds_of, on_loop, settled, until


class Watcher:
    is_pushed = False

    def __init__(self) -> None:
        self.woken = 0

    def wake(self, feed: Feed) -> None:
        self.woken += 1


def test_watchers_are_woken_once_for_what_came_together(memory_log: Log) -> None:
    memory_log.create("t")
    handle = memory_log.core.catalogue.find("t")
    assert handle is not None

    async def main() -> tuple[list[int], list[int]]:
        feeds = feeds_of(asyncio.get_running_loop())
        watchers = [Watcher() for _ in range(3)]
        feed = None
        for watcher in watchers:
            feed = feeds.subscribe(handle, watcher)
        for number in range(10):
            memory_log.append("t", [number])
        await asyncio.sleep(0)
        first = [watcher.woken for watcher in watchers]
        assert feed is not None
        for watcher in watchers:
            feeds.unsubscribe(feed, watcher)
        memory_log.append("t", ["nobody hears"])
        await asyncio.sleep(0)
        return first, [watcher.woken for watcher in watchers]

    assert asyncio.run(main()) == ([1, 1, 1], [1, 1, 1])
    assert handle.listeners == ()


def test_what_is_shared_is_made_once_until_the_next_change(memory_log: Log) -> None:
    memory_log.create("t")
    handle = memory_log.core.catalogue.find("t")
    assert handle is not None
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    async def main() -> list[int]:
        feeds = feeds_of(asyncio.get_running_loop())
        watcher = Watcher()
        feed = feeds.subscribe(handle, watcher)
        found = [feed.share("key", make) for _ in range(5)]
        memory_log.append("t", [1])
        await asyncio.sleep(0)
        found.append(feed.share("key", make))
        feeds.unsubscribe(feed, watcher)
        return found

    assert asyncio.run(main()) == [1, 1, 1, 1, 1, 2]


def test_whoever_follows_a_pattern_hears_of_new_topics() -> None:
    async def main() -> list[str]:
        feeds = feeds_of(asyncio.get_running_loop())
        heard: list[str] = []
        hear = heard.append
        feeds.on_created[hear] = None
        feeds.created("a")
        del feeds.on_created[hear]
        feeds.created("b")
        return heard

    assert asyncio.run(main()) == ["a"]


@on_loop
async def test_what_was_shared_is_gone_when_records_go() -> None:
    log = open_memory_log()
    log.create("t")
    handle = log.core.catalogue.find("t")
    assert handle is not None
    feeds = feeds_of(asyncio.get_running_loop())
    feeds.changed(handle)  # nobody is there
    watcher = Watcher()
    feed = feeds.subscribe(handle, watcher)
    made = iter(range(9))

    first = feed.share("key", lambda: next(made) + 1)
    feeds.changed(handle)
    second = feed.share("key", lambda: next(made) + 1)
    await settled()

    assert (first, second) == (1, 2)
    assert watcher.woken == 0, "nothing came"


@on_loop
async def test_only_so_much_is_kept_to_be_shared() -> None:
    log = open_memory_log()
    log.create("t")
    handle = log.core.catalogue.find("t")
    assert handle is not None
    feed = feeds_of(asyncio.get_running_loop()).subscribe(handle, Watcher())

    found = [feed.share(n, lambda n=n: n + 1) for n in range(1000)]

    assert found == list(range(1, 1001))
    assert len(feed.shared) < 100


@on_loop
async def test_no_change_of_other_threads_goes_unheard() -> None:
    """Whoever looks after each wake-up has seen everything at last."""
    log = open_memory_log()
    log.create("t", durability="ephemeral")
    handle = log.core.catalogue.find("t")
    assert handle is not None
    feeds = feeds_of(asyncio.get_running_loop())
    heads: list[int] = []

    class Reader:
        is_pushed = True

        def wake(self, feed: Feed) -> None:
            heads.append(feed.handle.topic.head)

    feed = feeds.subscribe(handle, Reader())
    threads = [
        threading.Thread(target=lambda: [log.append("t", [0]) for _ in range(300)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    await until(lambda: heads and heads[-1] == 900)
    for thread in threads:
        thread.join()

    assert heads == sorted(heads)
    assert feed.shared == {}


@on_loop
async def test_watchers_may_come_and_go_while_they_are_woken() -> None:
    log = open_memory_log()
    log.create("t")
    handle = log.core.catalogue.find("t")
    assert handle is not None
    feeds = feeds_of(asyncio.get_running_loop())
    late = Watcher()

    class Fickle(Watcher):
        def wake(self, feed: Feed) -> None:
            super().wake(feed)
            feeds.unsubscribe(feed, self)
            feeds.subscribe(handle, late)

    fickle = [Fickle() for _ in range(3)]
    for watcher in fickle:
        feeds.subscribe(handle, watcher)
    for _ in range(2):
        log.append("t", [1])
        await settled()

    assert [watcher.woken for watcher in fickle] == [1, 1, 1]
    assert late.woken == 1
    assert len(handle.listeners) == 1
