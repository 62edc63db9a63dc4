"""Feeds: one wake-up for all watchers, one encoding for all of them."""

from __future__ import annotations

import asyncio

from penstock.engine.engine import Log
from penstock.server.bridge import Bridge
from penstock.server.feeds import Feed, Feeds


class Watcher:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self, feed: Feed) -> None:
        self.woken += 1


def test_watchers_are_woken_once_for_what_came_together(memory_log: Log) -> None:
    memory_log.create("t")
    handle = memory_log.find("t")
    assert handle is not None

    async def main() -> tuple[list[int], list[int]]:
        feeds = Feeds(Bridge(asyncio.get_running_loop()))
        watchers = [Watcher() for _ in range(3)]
        feed = None
        for watcher in watchers:
            feed = feeds.join(handle, watcher)
        for number in range(10):
            memory_log.append("t", [number])
        await asyncio.sleep(0)
        first = [watcher.woken for watcher in watchers]
        assert feed is not None
        for watcher in watchers:
            feeds.leave(feed, watcher)
        memory_log.append("t", ["nobody hears"])
        await asyncio.sleep(0)
        return first, [watcher.woken for watcher in watchers]

    assert asyncio.run(main()) == ([1, 1, 1], [1, 1, 1])
    assert handle.listeners == ()


def test_what_is_shared_is_made_once_until_the_next_change(memory_log: Log) -> None:
    memory_log.create("t")
    handle = memory_log.find("t")
    assert handle is not None
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    async def main() -> list[int]:
        feeds = Feeds(Bridge(asyncio.get_running_loop()))
        watcher = Watcher()
        feed = feeds.join(handle, watcher)
        found = [feed.share("key", make) for _ in range(5)]
        memory_log.append("t", [1])
        await asyncio.sleep(0)
        found.append(feed.share("key", make))
        feeds.leave(feed, watcher)
        return found

    assert asyncio.run(main()) == [1, 1, 1, 1, 1, 2]


def test_whoever_follows_a_pattern_hears_of_new_topics() -> None:
    async def main() -> list[str]:
        feeds = Feeds(Bridge(asyncio.get_running_loop()))
        heard: list[str] = []
        hear = heard.append
        feeds.on_created[hear] = None
        feeds.created("a")
        del feeds.on_created[hear]
        feeds.created("b")
        return heard

    assert asyncio.run(main()) == ["a"]
