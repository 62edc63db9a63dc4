"""The watchers of each topic, which share one wake-up and one encoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from penstock.engine.handle import Handle
from penstock.server.delivery_scheduler import DeliveryScheduler
from penstock.server.loop_bridge import Bridge

_SHARED_MAX = 64  # encodings kept between two appends


class Watcher(Protocol):
    """A watcher of a topic. Event loop only."""

    @property
    def is_pushed(self) -> bool:
        """True for a stream, which is notified in the topic's turn. Long polls and claims are
        notified at once."""

    def wake(self, feed: Feed) -> None:
        """Something changed: records, configuration, or the topic is gone."""


class Feed:
    """One topic as its watchers see it. `notify` may come from any thread, the rest belongs to
    the event loop. A watcher joins before it reads, so nothing falls between the two."""

    __slots__ = ("_feeds", "_is_notified", "_listener", "_pushed", "_waiting", "handle", "shared")

    def __init__(self, handle: Handle, feeds: Feeds) -> None:
        self.handle = handle
        self.shared: dict[Any, Any] = {}
        self._feeds = feeds
        self._pushed: dict[Watcher, None] = {}
        self._waiting: dict[Watcher, None] = {}
        self._is_notified = False
        self._listener = self.notify  # one object: listeners are told apart by identity

    def notify(self) -> None:
        if not self._is_notified:
            self._is_notified = True
            self._feeds.bridge.post(self._wake, None)

    def subscribe(self, watcher: Watcher) -> None:
        if not self._pushed and not self._waiting:
            self.handle.listen(self._listener)
        (self._pushed if watcher.is_pushed else self._waiting)[watcher] = None

    def unsubscribe(self, watcher: Watcher) -> bool:
        """True when nobody is left."""
        group = self._pushed if watcher.is_pushed else self._waiting
        was_there = group.pop(watcher, self) is None
        is_empty = not self._pushed and not self._waiting
        if was_there and is_empty:
            self.handle.unlisten(self._listener)
        return is_empty

    def share(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of `make`, computed once for all callers before the next change."""
        found = self.shared.get(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found

    def keep(self, key: Any, value: Any) -> None:
        """Share a value until the next change."""
        if value is not None and len(self.shared) < _SHARED_MAX:
            self.shared[key] = value

    def _wake(self, _: None) -> None:
        self._is_notified = False
        self.shared.clear()
        for watcher in list(self._waiting):
            watcher.wake(self)
        if self._pushed:
            self._feeds.delivery.mark(self, self._feeds.priority_of(self.handle))

    def deliver(self) -> None:
        """Notify the streams: it is this topic's turn."""
        for watcher in list(self._pushed):
            watcher.wake(self)


class Feeds:
    """All feeds with watchers. Event loop only."""

    def __init__(
        self, bridge: Bridge, delivery: DeliveryScheduler, priority_of: Callable[[Handle], int]
    ) -> None:
        self.bridge = bridge
        self.delivery = delivery
        self.priority_of = priority_of
        self._by_id: dict[int, Feed] = {}
        self.on_created: dict[Callable[[str], None], None] = {}  # told of each new topic's name

    def subscribe(self, handle: Handle, watcher: Watcher) -> Feed:
        feed = self._by_id.get(handle.id)
        if feed is None:
            feed = self._by_id[handle.id] = Feed(handle, self)
        feed.subscribe(watcher)
        return feed

    def unsubscribe(self, feed: Feed, watcher: Watcher) -> None:
        if feed.unsubscribe(watcher):
            self._by_id.pop(feed.handle.id, None)
            self.delivery.forget(feed)

    def changed(self, handle: Handle) -> None:
        """Records were removed or change their form: shared values are invalid."""
        feed = self._by_id.get(handle.id)
        if feed is not None:
            feed.shared.clear()

    def wake_all(self) -> None:
        """The server stops: wake all watchers."""
        for feed in list(self._by_id.values()):
            feed.notify()

    def created(self, name: str) -> None:
        for tell in list(self.on_created):
            tell(name)
