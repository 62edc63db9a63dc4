"""What a projection is, and what it needs of a log. Both are declared here, so that this package
knows neither the engine nor the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from penstock.codec.columns import Columns, ColumnsPage
from penstock.storage.fs import Buffer
from penstock.types import Gap, Offset


class StateLost(Exception):
    """A part of the state of a projection is gone, or is not what it was. From `apply`, `lose`,
    `snapshot` or a read: the runner goes on from the saved state, or else from the beginning of the
    topic."""


class Projection(Protocol):
    """A fold over the records of one topic. The runner calls it under one lock.

    The state depends on the records and their order alone: on nothing else, and not on how the
    records were divided into batches. An exception from `apply` or `lose` stops the projection
    until it is rebuilt, so a record that cannot be used is counted and skipped.
    """

    @property
    def kind(self) -> str:
        """ "table", "features" and the like."""

    @property
    def version(self) -> int:
        """Of what `snapshot` gives; a file of another version is not used."""

    @property
    def definition(self) -> bytes:
        """Canonical JSON; a file of another definition is not used."""

    @property
    def wanted(self) -> int:
        """Bits of codec.columns."""

    def apply(self, columns: Columns) -> None:
        """Fold the next records of the topic, in their order."""

    def lose(self, gap: Gap) -> None:
        """These records were lost, and the projection goes on without them."""

    def snapshot(self) -> Iterator[Buffer]:
        """The state as of this call, in parts. Between two parts records may be applied; the parts
        do not show them, and a part that was given no longer changes. The first part is taken
        before anything else is applied."""

    def restore(self, parts: Iterable[memoryview]) -> None:
        """Take over the parts of a snapshot, in their order, into an empty state. Copies what it
        keeps. ValueError: they cannot be used."""

    @property
    def bytes(self) -> int:
        """An estimate of the memory in use. Quick."""


class Tail(Protocol):
    """One topic of a log, by its name, as a projection reads it. Safe from several threads."""

    @property
    def topic(self) -> str: ...

    @property
    def log_id(self) -> bytes:
        """16 bytes that no other log has."""

    @property
    def head(self) -> Offset | None:
        """The newest record that readers can see; None when the topic does not exist. Quick."""

    @property
    def synced(self) -> Offset | None:
        """Everything up to here survives a power cut. Quick. It may be behind the truth."""

    def sync(self) -> None:
        """Make what can be read now survive a power cut. `synced` says how far that was possible:
        a topic that is kept in memory only has nothing that survives."""

    def read_columns(self, after: int, limit: int, bits: int) -> ColumnsPage | None:
        """Up to `limit` records past seq `after`, of the topic that has the name now; None when
        there is none."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change, on a thread of the log: it must not wait."""

    def unlisten(self, listener: Callable[[], None]) -> None: ...
