"""What the feature store needs of a log. Declared here: it does not know the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.projections.projection import Tail
from penstock.types import Appended

T = TypeVar("T")


class AppendUnderWay(Protocol):
    """An append that has its place in the topic."""

    @property
    def first_seq(self) -> int: ...

    @property
    def is_done(self) -> bool:
        """True if its records can be read, or it has failed. Appends to a topic are done in their
        order. Any thread."""

    def wait(self) -> Appended:
        """Return when the topic's class is met; raise why it is not. For the caller of `queue`."""


class FeatureLog(Protocol):
    """Safe from several threads."""

    @property
    def clock(self) -> Clock: ...

    def tail(self, topic: str) -> Tail: ...

    def uninterrupted(self, verb: Callable[[], T]) -> T:
        """Call `verb`, on another thread where possible: an exception from outside, as of Ctrl-C,
        ends the wait for it and not the verb. The caller holds no lock that the verb takes."""

    def load_registry(self) -> bytes | None:
        """What `save_registry` was given last; None when there is nothing."""

    def save_registry(self, text: bytes) -> None:
        """Durable on return."""

    def check_topics(self, topics: Mapping[str, bool]) -> None:
        """Check that `create_topics` would succeed, or raise."""

    def create_topics(self, topics: Mapping[str, bool]) -> None:
        """Create the topics that are missing, after all are checked. True: appends to this topic
        are acknowledged after their sync, also if it exists."""

    def lacks_records(self, topic: str) -> bool:
        """True if the topic no longer has its first record."""

    def append(self, topic: str, texts: list[bytes], *, is_synced: bool) -> Appended:
        """Append JSON texts, all or none. `is_synced`: return after their sync, whatever the
        topic's class is."""

    def queue(
        self,
        topic: str,
        texts: list[bytes],
        done: Callable[[Appended | PenstockError], None] | None = None,
    ) -> AppendUnderWay:
        """The first half of an append. With `done` nobody waits for the other half: it is called
        with the answer, on a thread of the log."""

    def flush(self, topic: str) -> None:
        """Return when the appends that are queued can be read, or have failed."""

    def check_sync(self, topic: str) -> None:
        """Raise InvalidArgument if records appended to this topic are never synced."""

    def sync(self, topic: str, seq: int) -> None:
        """Return when the records up to `seq`, which can be read, survive a power cut."""

    def watermarks(self, topic: str) -> tuple[int, int, int]:
        """The seqs up to which the topic is committed, written and synced; zeros when there is no
        such topic."""

    def seek(self, topic: str, ts_ms: int) -> int:
        """The seq after which the records committed at `ts_ms` or later begin."""
