"""The topics that a subscriber follows: its cursors, and the next page to send.

Nothing is queued for a slow reader. It is served from the log by its cursor, and records that
retention has evicted meanwhile become a tombstone.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from collections.abc import Callable
from typing import Protocol

from penstock.engine.handle import Handle
from penstock.engine.read import ReadOptions
from penstock.server.feeds import Feed
from penstock.server.service import Service
from penstock.types import Gap, JsonPage

_log = logging.getLogger("penstock.server")
_numbers = itertools.count()
MATCHES_MAX = 1_000  # topics one subscription may follow through patterns


class Cursor:
    """The cursor of a subscriber in one topic. Outlives a connection when a session owns it."""

    __slots__ = ("epoch", "feed", "is_behind", "is_first", "kind", "name", "seq", "wanted")

    def __init__(self, name: str, seq: int, epoch: int, wanted: ReadOptions) -> None:
        self.name = name
        self.seq = seq
        self.epoch = epoch
        self.wanted = wanted
        self.kind = _kind_of(wanted)
        self.feed: Feed | None = None
        self.is_first = True  # nothing read yet in this connection
        self.is_behind = True  # a backlog is being worked off


@functools.lru_cache(maxsize=4096)
def _kind_of(wanted: ReadOptions) -> int:
    """A number for equal options, which is cheap to compare for every event. Options that were
    evicted from the table get a new number, and share fewer pages."""
    return next(_numbers)


class Sink(Protocol):
    """The receiver of the events of a subscription."""

    @property
    def is_full(self) -> bool:
        """True while the receiver is full; call `pump` again when it has drained."""

    def added(self, cursor: Cursor) -> None:
        """A topic that fits a pattern was created."""

    def record(self, cursor: Cursor, after: int, page: JsonPage) -> None:
        """The cursor is already past the page."""

    def tombstone(self, cursor: Cursor, gap: Gap) -> None: ...

    def caught_up(self, cursor: Cursor, head: int) -> None: ...

    def deleted(self, cursor: Cursor) -> None: ...

    def failed(self, error: Exception) -> None:
        """The log could not be read. No more events follow."""


class Subscription:
    """Event loop only."""

    is_pushed = True

    def __init__(self, service: Service, sink: Sink, *, is_strong: bool = False) -> None:
        self.cursors: dict[str, Cursor] = {}
        self.patterns: dict[str, tuple[ReadOptions, Callable[[str], bool]]] = {}
        self._service = service
        self._sink = sink
        self._is_strong = is_strong
        self._dirty: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    def add(self, cursor: Cursor, handle: Handle) -> None:
        """Follow a topic. Joined before the first read, so that nothing is missed."""
        self.remove(cursor.name)
        cursor.feed = self._service.feeds.subscribe(handle, self)
        cursor.is_first = cursor.is_behind = True
        self.cursors[cursor.name] = cursor
        self._dirty[cursor.name] = None

    def add_pattern(
        self, prefix: str, wanted: ReadOptions, is_allowed: Callable[[str], bool]
    ) -> None:
        """Follow the topics with this prefix that will be created from now on."""
        self.patterns[prefix] = wanted, is_allowed
        self._service.feeds.on_created[self.created] = None

    def remove_pattern(self, prefix: str) -> None:
        """Stop following topics with this prefix. Topics that were requested by name stay."""
        wanted, _ = self.patterns.pop(prefix, (None, None))
        for name in [name for name, one in self.cursors.items() if one.wanted is wanted]:
            self.remove(name)

    def remove(self, name: str) -> None:
        cursor = self.cursors.pop(name, None)
        self._dirty.pop(name, None)
        if cursor is not None and cursor.feed is not None:
            self._service.feeds.unsubscribe(cursor.feed, self)
            cursor.feed = None

    def close(self) -> None:
        self.is_closed = True
        self._service.feeds.on_created.pop(self.created, None)
        self.patterns.clear()
        for name in list(self.cursors):
            self.remove(name)
        if self._task is not None:
            self._task.cancel()

    def wake(self, feed: Feed) -> None:
        name = feed.handle.name
        cursor = self.cursors.get(name)
        if cursor is not None and cursor.feed is feed:
            self._dirty[name] = None
            self.pump()

    def pump(self) -> None:
        """Send new records until the peer is full, one page per topic in turn."""
        while self._dirty and self._task is None and not self.is_closed:
            if self._sink.is_full:
                return
            cursor = self.cursors[next(iter(self._dirty))]
            del self._dirty[cursor.name]
            self._step(cursor)

    def created(self, name: str) -> None:
        """A topic of this name was created: follow it if a pattern matches."""
        for prefix, (wanted, is_allowed) in self.patterns.items():
            if not name.startswith(prefix) or name in self.cursors or not is_allowed(name):
                continue
            handle = self._service.core.catalogue.find(name)
            if handle is not None and len(self.cursors) < MATCHES_MAX:
                cursor = Cursor(name, 0, handle.epoch, wanted)
                self.add(cursor, handle)
                self._sink.added(cursor)
                self.pump()
            return

    def _step(self, cursor: Cursor) -> None:
        feed = cursor.feed
        if feed is None:
            return
        if feed.handle.is_dropped:
            self._drop(cursor)
            return
        page = None if self._is_strong else self._shared_page(cursor, feed)
        if page is None:
            self._task = asyncio.ensure_future(self._read(cursor, feed))
        else:
            self._deliver(cursor, page)

    def _shared_page(self, cursor: Cursor, feed: Feed) -> JsonPage | None:
        """A page for all subscribers with this cursor and these options, read once."""
        key = cursor.seq, cursor.epoch, cursor.kind
        page: JsonPage | None = feed.shared.get(key)
        if page is None:
            page = self._service.read_hot(
                feed.handle, cursor.seq, cursor.epoch, cursor.wanted, is_stream=not cursor.is_first
            )
            feed.keep(key, page)
        return page

    async def _read(self, cursor: Cursor, feed: Feed) -> None:
        """A page that needs a disk."""
        try:
            page = await self._service.read(
                feed.handle, cursor.seq, cursor.epoch, cursor.wanted, is_strong=self._is_strong
            )
        except Exception as error:  # noqa: BLE001 - else the peer would wait for ever
            self._task = None
            if not self.is_closed:
                _log.error("a stream of topic %r ended: %s", cursor.name, error)
                self._sink.failed(error)
            return
        self._task = None
        if cursor.feed is feed and not self.is_closed:
            self._deliver(cursor, page)
        self.pump()

    def _deliver(self, cursor: Cursor, page: JsonPage) -> None:
        after = cursor.seq
        cursor.epoch = page.epoch
        if page.gap is not None:
            # A recreated topic is read from its beginning, whatever its gap spans.
            is_new = page.gap.reason == "recreated"
            after = page.earliest_seq - 1 if is_new else max(after, page.gap.last)
            cursor.seq = after
            self._sink.tombstone(cursor, page.gap)
        cursor.is_first = False
        cursor.seq = page.next_seq
        if page.count:
            self._sink.record(cursor, after, page)
        if not page.caught_up:
            cursor.is_behind = True
            self._dirty[cursor.name] = None
        elif cursor.is_behind:
            cursor.is_behind = False
            self._sink.caught_up(cursor, page.head_seq)

    def _drop(self, cursor: Cursor) -> None:
        self.remove(cursor.name)
        self._sink.deleted(cursor)
        self.created(cursor.name)  # it may exist again since, while the sink was full
