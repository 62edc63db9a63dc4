"""What the feature store needs of a log. Declared here: it does not know the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.clock import Clock
from penstock.projections.projection import Tail
from penstock.types import Appended

T = TypeVar("T")


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

    def create_topic(self, topic: str, *, is_synced: bool) -> None:
        """Create a topic if it is missing. `is_synced`: its appends are acknowledged after their
        sync, also if it exists."""

    def lacks_records(self, topic: str) -> bool:
        """True if the topic no longer has its first record."""

    def append(self, topic: str, texts: list[bytes], *, is_synced: bool) -> Appended:
        """Append JSON texts, all or none. `is_synced`: return after their sync, whatever the
        topic's class is."""

    def sync(self, topic: str, seq: int) -> None:
        """Return when the records up to `seq`, which can be read, survive a power cut."""

    def watermarks(self, topic: str) -> tuple[int, int, int]:
        """The seqs up to which the topic is committed, written and synced; zeros when there is no
        such topic."""

    def seek(self, topic: str, ts_ms: int) -> int:
        """The seq after which the records committed at `ts_ms` or later begin."""
