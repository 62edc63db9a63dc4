"""The projections of a log: what they need of it, and their beginning and end."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock import limits
from penstock.clock import Clock
from penstock.codec.columns import DATA, ColumnsPage
from penstock.engine import deletion, read
from penstock.engine.batch import Batch
from penstock.engine.handle import Handle
from penstock.engine.internal_topics import PROJECTIONS
from penstock.errors import PenstockError, TopicNotFound
from penstock.projections.host import HostedProjection, ProjectionHost
from penstock.projections.keyed_table import KeyedTables
from penstock.storage.fs import Filesystem
from penstock.types import Offset

if TYPE_CHECKING:
    from penstock.engine.core import LogCore
    from penstock.engine.watches import Watch

_Listener = Callable[[], None]


class TopicTail:
    """A topic by its name, for projections. The topic may be dropped and created again."""

    def __init__(self, core: LogCore, topic: str) -> None:
        self._core = core
        self.topic = topic
        self._watches: dict[_Listener, list[Watch]] = {}
        # In a log without threads. The listener is the object that the handle was given.
        self._handles: dict[_Listener, list[tuple[Handle, _Listener]]] = {}

    @property
    def log_id(self) -> bytes:
        return self._core.parts.layout.log_id

    @property
    def head(self) -> Offset | None:
        handle = self._core.catalogue.find(self.topic)
        if handle is None:
            return None
        if handle.is_behind:
            self._core.catalogue.refresh(handle)  # copies that a reader should see now
        return Offset(handle.epoch, handle.head)

    @property
    def synced(self) -> Offset | None:
        handle = self._core.catalogue.find(self.topic)
        if handle is None:
            return None
        return Offset(handle.epoch, self._core.synced_seq(handle))

    def sync(self) -> None:
        handle = self._core.catalogue.find(self.topic)
        if handle is not None and handle.config.durability != "ephemeral":
            self._core.sync_all(handle)

    def read_columns(self, after: int, limit: int, bits: int) -> ColumnsPage | None:
        try:
            handle = self._core.readable(self.topic, after)
        except TopicNotFound:
            return None
        wanted = read.options(limit, None, limits.READ_BYTES_MAX)
        return read.read_columns(handle, after, None, wanted, bits)

    def listen(self, listener: _Listener) -> None:
        if not self._core.parts.settings.background:
            handle = self._core.catalogue.find(self.topic)
            if handle is not None:
                handle.listen(listener)
                self._handles.setdefault(listener, []).append((handle, listener))
            return
        heads: list[Offset] = []

        def notify(topic: str, head: Offset, synced: Offset) -> None:
            if heads != [head]:  # not for a sync alone
                heads[:] = [head]
                listener()

        watch = self._core.watches.add([self.topic], notify)
        self._watches.setdefault(listener, []).append(watch)

    def unlisten(self, listener: _Listener) -> None:
        for watch in self._watches.pop(listener, ()):
            watch.close()
        for handle, given in self._handles.pop(listener, ()):
            handle.unlisten(given)


class LogProjections:
    """Safe from several threads. Nothing exists until the first use, unless the log has
    definitions."""

    def __init__(self, core: LogCore) -> None:
        self._core = core
        self._interval_ms = core.parts.settings.projection_interval_ms
        self._lock = threading.Lock()
        self._host: ProjectionHost | None = None
        self._tables: KeyedTables | None = None

    @property
    def host(self) -> ProjectionHost:
        return self._opened()[0]

    @property
    def tables(self) -> KeyedTables:
        return self._opened()[1]

    def hosted(self) -> list[HostedProjection]:
        """What runs at the moment. Opens nothing."""
        return [] if self._host is None else self._host.everything()

    def _opened(self) -> tuple[ProjectionHost, KeyedTables]:
        host, tables = self._host, self._tables
        if host is None or tables is None:
            with self._lock:
                self._core.catalogue.check_open()
                host, tables = self._host, self._tables
                if host is None or tables is None:
                    host = self._host = ProjectionHost(self, self._interval_ms)
                    tables = self._tables = KeyedTables(host, self.clock)
        return host, tables

    def start(self) -> None:
        """When the log is opened: fold what is defined, in the background. Definitions that cannot
        be read are reported to whoever uses them."""
        if self.is_threaded and PROJECTIONS.name in self._core.parts.handles:
            try:
                self._opened()
            except PenstockError:
                self._host = self._tables = None

    def upkeep(self) -> None:
        """In a log without threads: fold what is pending, and save what is due."""
        if self._host is not None:
            self._host.upkeep()

    def close(self) -> None:
        """Stop the threads and save what is new. Before the log is closed; may be repeated."""
        with self._lock:
            host = self._host
        if host is not None:
            host.close(may_save=not self._core.parts.failure.is_troubled)

    # For the host.

    @property
    def fs(self) -> Filesystem:
        return self._core.parts.fs

    @property
    def clock(self) -> Clock:
        return self._core.parts.clock

    @property
    def folder(self) -> str:
        return self._core.parts.layout.projections

    @property
    def is_threaded(self) -> bool:
        return self._core.parts.settings.background

    @property
    def is_writable(self) -> bool:
        return not self._core.parts.failure.is_troubled

    def tail(self, topic: str) -> TopicTail:
        return TopicTail(self._core, topic)

    def definitions(self) -> list[tuple[int, bytes]]:
        handle = self._core.parts.handles.get(PROJECTIONS.name)
        found: list[tuple[int, bytes]] = []
        after = 0
        while handle is not None:
            wanted = read.options(None, None, None)
            page = read.read_columns(handle, after, None, wanted, DATA)
            found += _rows(page)
            after = page.next_seq
            if page.caught_up:
                break
        return found

    def add_definition(self, text: bytes) -> int:
        handle = self._core.catalogue.internal(PROJECTIONS)
        return self._core.append_to(handle, False, Batch([text], len(text))).last_seq

    def remove_definitions(self, seqs: Sequence[int]) -> None:
        handle = self._core.catalogue.internal(PROJECTIONS)
        deletion.delete(self._core.catalogue, handle, None, None, seqs)


def _rows(page: ColumnsPage) -> list[tuple[int, bytes]]:
    columns = page.columns
    if columns.data is None:
        return []
    packed, joined, _ = columns.data
    ends = struct.unpack(f"<{columns.count + 1}I", packed)
    seqs = struct.unpack(f"<{columns.count}Q", columns.seqs)
    return [(seq, joined[ends[at] : ends[at + 1]]) for at, seq in enumerate(seqs)]
