"""Watches: callers are told when the head or the synced seq of a topic has moved.

One thread calls all of them. Publishing a record only marks its topic, and only if it is watched.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from penstock import forks
from penstock.engine.change_mark import ChangeMark
from penstock.engine.handle import Handle
from penstock.engine.watermarks import Watermarks
from penstock.errors import Closed, InvalidArgument
from penstock.storage.wal.shard import Shard
from penstock.topics import validation
from penstock.types import Offset

Notify = Callable[[str, Offset, Offset], None]
"""Called with a topic, its head and its synced seq."""

NO_TOPIC: Final = Offset(0, 0)
"""The head of a topic that does not exist."""

_AGAIN_S: Final = 1.0  # a sync whose caller was interrupted may have set no mark
_log = logging.getLogger("penstock")


class Watch:
    """The watch of some topics by one caller."""

    def __init__(self, watches: Watches, topics: Iterable[str], notify: Notify) -> None:
        self._watches = watches
        self._notify = notify
        self._told: dict[str, tuple[Offset, Offset] | None] = dict.fromkeys(topics)
        self._owner_pid = forks.pid()
        self.is_closed = False

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._told)

    def close(self) -> None:
        """End the watch. No call begins after that; one may be under way. May be repeated."""
        if self._owner_pid == forks.pid() and not self.is_closed:
            self.is_closed = True
            self._watches.remove(self)

    def tell(self, topic: str, head: Offset, synced: Offset) -> None:
        """For the thread of the watches: call back if something has moved."""
        if self.is_closed or self._told[topic] == (head, synced):
            return
        self._told[topic] = (head, synced)
        try:
            self._notify(topic, head, synced)
        except Exception:  # noqa: BLE001 - the caller's; the others are told all the same
            _log.exception("a watch of topic %r failed", topic)


class _Watched:
    """A watched name: its topic as of now, if there is one, and those who watch it."""

    __slots__ = ("handle", "mark", "watches")

    def __init__(self, mark: ChangeMark) -> None:
        self.mark = mark
        self.handle: Handle | None = None
        self.watches: tuple[Watch, ...] = ()

    def follow(self, handle: Handle | None) -> None:
        """The topic of this name is another one now."""
        if handle is not self.handle:
            if self.handle is not None:
                self.handle.mark_changes(None)
            if handle is not None:
                handle.mark_changes(self.mark)
            self.handle = handle


class Watches:
    """Safe from several threads. In a log without threads the callers are told in `deliver`."""

    def __init__(
        self,
        handles: Mapping[str, Handle],
        shards: Sequence[Shard],
        watermarks: Watermarks,
        *,
        is_threaded: bool,
    ) -> None:
        self._handles = handles
        self._shards = shards
        self._watermarks = watermarks
        self._is_threaded = is_threaded
        self._lock = threading.Lock()  # guards the names that are watched, and who watches them
        self._looking = threading.RLock()  # taken first: held while callers are told
        self._watched: dict[str, _Watched] = {}
        self._unsynced: set[str] = set()  # watched topics with a head past the synced seq
        self._changed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._synced = ChangeMark(self._changed, "")
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def add(self, topics: Sequence[str], notify: Notify, *, internal: bool = False) -> Watch:
        """Call `notify` with the present values of each topic, and again whenever they move. With
        `internal` the log's own topics may be named."""
        if isinstance(topics, str):
            raise InvalidArgument(f"topics must be a list of names, not {topics!r}")
        for topic in topics:
            if not (internal and validation.is_internal(topic)):
                validation.topic_name(topic)
        if not callable(notify):
            raise InvalidArgument(f"notify must be a function, not {notify!r}")
        if self._is_stopped:
            raise Closed("the log is closed")
        watch = Watch(self, topics, notify)
        with self._lock:
            for topic in watch.topics:
                watched = self._watched.get(topic)
                if watched is None:
                    watched = self._watched[topic] = _Watched(ChangeMark(self._changed, topic))
                watched.watches = (*watched.watches, watch)
            for shard in self._shards:
                shard.on_synced = self._synced.set
            if self._is_threaded and self._thread is None and not self._is_stopped:
                thread = threading.Thread(target=self._run, name="penstock-watches", daemon=True)
                thread.start()
                self._thread = thread
        for topic in watch.topics:
            self.changed(topic)
        if not self._is_threaded:
            self.deliver()
        return watch

    def remove(self, watch: Watch) -> None:
        with self._lock:
            for topic in watch.topics:
                watched = self._watched.get(topic)
                if watched is None:
                    continue
                watched.watches = tuple(one for one in watched.watches if one is not watch)
                if not watched.watches:
                    watched.follow(None)
                    del self._watched[topic]
            if not self._watched:
                for shard in self._shards:
                    shard.on_synced = None

    def changed(self, name: str) -> None:
        """A topic of this name was created or removed."""
        watched = self._watched.get(name)
        if watched is not None:
            watched.mark.set()

    def stop(self) -> None:
        """Tell what has changed so far, then nothing more."""
        self._is_stopped = True
        self._changed.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def deliver(self) -> None:
        """Without a thread: tell what has changed."""
        if self._is_threaded:
            return
        with self._looking:
            while True:
                try:
                    name = self._changed.get_nowait()
                except queue.Empty:
                    return
                if name is not None:
                    self._look(name)

    def _run(self) -> None:
        while True:
            try:
                name = self._changed.get(timeout=_AGAIN_S if self._unsynced else None)
            except queue.Empty:
                name = ""
            if name is None:
                return
            self._look(name)

    def _look(self, name: str) -> None:
        if name:
            self._look_at(name)
            return
        self._synced.is_set = False
        for unsynced in sorted(self._unsynced):
            self._look_at(unsynced)

    def _look_at(self, name: str) -> None:
        with self._lock:
            watched = self._watched.get(name)
            if watched is None:
                self._unsynced.discard(name)
                return
            watched.mark.is_set = False
            watched.follow(self._handles.get(name))
            handle, watches = watched.handle, watched.watches
        head = synced = NO_TOPIC
        self._unsynced.add(name)  # before the look: a sync that ends meanwhile is not missed
        if handle is not None:
            with handle.lock:
                watched.mark.is_set = False
                epoch = handle.epoch
                head = Offset(epoch, handle.head)
                synced = Offset(epoch, self._watermarks.synced_under_lock(handle))
        if synced.seq >= head.seq or (handle and handle.config.durability == "ephemeral"):
            self._unsynced.discard(name)
        for watch in watches:
            watch.tell(name, head, synced)
