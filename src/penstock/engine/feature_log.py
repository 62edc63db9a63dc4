"""The feature store of a log: when it is opened, and the log as it uses it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from penstock.append_options import NO_OPTIONS
from penstock.clock import Clock
from penstock.codec.columns import DATA
from penstock.engine import batch as batches
from penstock.engine import deletion, read
from penstock.engine.batch import Batch
from penstock.engine.internal_topics import FEATURES
from penstock.engine.projections import TopicTail
from penstock.engine.queued_appends import QueuedAppend
from penstock.errors import InvalidArgument, PenstockError
from penstock.types import Appended

if TYPE_CHECKING:
    from penstock.engine.core import LogCore
    from penstock.features.store import FeatureStore


T = TypeVar("T")


class LogFeatures:
    """Safe from several threads. Nothing exists until the first use, unless something is
    registered."""

    def __init__(self, core: LogCore) -> None:
        self._core = core
        self.log = LogOfFeatures(core)
        self._opening = threading.Lock()
        self._store: FeatureStore | None = None

    @property
    def is_used(self) -> bool:
        """True if something was ever registered."""
        return FEATURES.name in self._core.parts.handles

    @property
    def store(self) -> FeatureStore:
        self._core.catalogue.check_open()
        if self._store is None:
            try:
                from penstock.features.store import FeatureStore
            except ModuleNotFoundError as error:
                raise InvalidArgument(
                    f"features need the package {error.name}: pip install 'penstock[features]'"
                ) from None
            with self._opening:
                if self._store is None:
                    most = self._core.parts.settings.feature_bytes_max
                    self._store = FeatureStore(self._core.projections.host, self.log, most)
        return self._store

    def start(self) -> None:
        """When the log is opened: fold what is registered, in the background. What cannot be read
        is reported to its first user."""
        if self._core.parts.settings.background and self.is_used:
            with contextlib.suppress(PenstockError):
                _ = self.store


class LogOfFeatures:
    """Safe from several threads."""

    def __init__(self, core: LogCore) -> None:
        self._core = core
        self._changing = threading.Lock()

    @property
    def clock(self) -> Clock:
        return self._core.parts.clock

    def tail(self, topic: str) -> TopicTail:
        return TopicTail(self._core, topic)

    def uninterrupted(self, verb: Callable[[], T]) -> T:
        return self._core.verb_threads.run(verb)

    def load_registry(self) -> bytes | None:
        handle = self._core.parts.handles.get(FEATURES.name)
        if handle is None or not handle.head:
            return None
        page = read.read_columns(handle, handle.head - 1, None, read.options(1, None, None), DATA)
        return None if page.columns.data is None else page.columns.data[1]

    def save_registry(self, text: bytes) -> None:
        handle = self._core.catalogue.internal(FEATURES)
        with self._changing:
            saved = self._core.append_to(handle, False, Batch([text], len(text)))
            # A crash before this leaves older records, which are not read.
            deletion.delete(self._core.catalogue, handle, saved.first_seq, None, ())

    def check_topics(self, topics: Mapping[str, bool]) -> None:
        catalogue = self._core.catalogue
        for topic, is_synced in topics.items():
            handle = catalogue.find(topic)
            if handle is not None and is_synced and handle.config.durability != "fsync":
                raise InvalidArgument(
                    f"topic {topic!r} has durability {handle.config.durability!r}, and its event "
                    "asks for sync per_event: expected 'fsync'; change the topic's durability first"
                )
        catalogue.check_room(topics)

    def create_topics(self, topics: Mapping[str, bool]) -> None:
        with self._core.catalogue.changing:
            self.check_topics(topics)
            for topic, is_synced in topics.items():
                if self._core.catalogue.find(topic) is None:
                    self._core.create(topic, {"durability": "fsync"} if is_synced else {})

    def lacks_records(self, topic: str) -> bool:
        handle = self._core.catalogue.find(topic)
        return handle is not None and handle.extent().earliest_seq > 1

    def append(self, topic: str, texts: list[bytes], *, is_synced: bool) -> Appended:
        batch = batches.prepare(texts, tag=None, node=None, key=None)
        appended = self._core.append(topic, batch, NO_OPTIONS)
        if is_synced:
            self.sync(topic, appended.last_seq)
        return appended

    def queue(
        self,
        topic: str,
        texts: list[bytes],
        done: Callable[[Appended | PenstockError], None] | None = None,
    ) -> QueuedAppend:
        core = self._core
        batch = batches.prepare(texts, tag=None, node=None, key=None)
        if done is None:
            return core.queued_appends.queue(topic, batch)
        return core.queued_appends.queue(
            topic, batch, lambda commit: done(core.answer(commit, batch))
        )

    def flush(self, topic: str) -> None:
        self._core.queued_appends.flush(topic)

    def submit_flush(self, topic: str, done: Callable[[PenstockError | None], None]) -> None:
        """The same by callback, on a thread of the log."""
        if not self._core.queued_appends.flush(topic, lambda commit: done(commit.error)):
            done(None)

    def check_sync(self, topic: str) -> None:
        catalogue = self._core.catalogue
        handle = catalogue.find(topic)
        config = catalogue.config(topic, {}) if handle is None else handle.config
        if config.durability == "ephemeral":
            raise InvalidArgument(
                f"topic {topic!r} has durability 'ephemeral', which is never synced, and the push "
                "asks for sync per_event: push without it, or give the topic durability 'disk' or "
                "'fsync'"
            )

    def is_synced(self, topic: str, seq: int) -> bool:
        """True if the records up to `seq` survive a power cut, or the topic is gone. Raises
        InvalidArgument if they are never synced."""
        handle = self._core.catalogue.find(topic)
        if handle is None or self._core.watermarks.synced_seq(handle) >= seq:
            return True
        self.check_sync(topic)  # again: its class may have changed since the append
        return False

    def sync(self, topic: str, seq: int) -> None:
        handle = self._core.catalogue.find(topic)
        if handle is not None and not self.is_synced(topic, seq):
            self._core.sync_all(handle)

    def watermarks(self, topic: str) -> tuple[int, int, int]:
        handle = self._core.catalogue.find(topic)
        if handle is None:
            return 0, 0, 0
        watermarks = self._core.watermarks
        return handle.head, watermarks.written_seq(handle), watermarks.synced_seq(handle)

    def seek(self, topic: str, ts_ms: int) -> int:
        return self._core.seek(topic, ts_ms)
