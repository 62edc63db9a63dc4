"""The first failed write or sync of any shard closes the whole log for writing.

The shards share a disk, and after a failed sync nobody knows what reached it. Only a restart ends
this state. Damage that was found is here, too: a shard whose part of the WAL cannot be read is
read-only, and the other shards go on. `opening` finds the damage of the WAL.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from penstock.errors import LogFailed, StorageError
from penstock.storage.wal.shard import Shard


class LogFailure:
    """Whether a log may be written. Any thread may read it and fail the log; `_lock` guards the
    first failure."""

    def __init__(self, root: str) -> None:
        self.error: LogFailed | None = None
        self.damage: list[StorageError] = []
        self.is_troubled = False  # failed or damaged: look closer before writing
        self.on_failure: Callable[[], None] = lambda: None
        self.shards: Sequence[Shard] = ()  # set when they are started
        self._root = root
        self._lock = threading.Lock()
        self._read_only: dict[Shard, StorageError] = {}

    def fail(self, error: LogFailed) -> None:
        """Close every shard after the first failure: they share a disk."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            self.is_troubled = True
        for shard in self.shards:
            if shard.failed is None:
                shard.failed = error
        self.on_failure()

    def fail_interrupted(self, cause: BaseException) -> None:
        """An asynchronous exception interrupted a change: the state in memory must not be used."""
        self.fail(LogFailed.interrupted(cause, self._root))

    # Damage.

    @property
    def is_damaged(self) -> bool:
        """True if part of the WAL cannot be read: nothing may be absorbed or removed."""
        return bool(self._read_only)

    def close_shard(self, shard: Shard, error: StorageError) -> None:
        """Part of the shard's WAL cannot be read. The first error of a shard counts."""
        self._read_only.setdefault(shard, error)
        self.is_troubled = True

    def note_damage(self, error: StorageError) -> None:
        """Record damage that maintenance found, so that it is reported and not retried."""
        if all(str(error) != str(known) for known in self.damage):
            self.damage.append(error)

    # Before a write.

    def check_writable(self, shard: Shard) -> None:
        if self.error is not None:
            raise self.error
        if self._read_only:
            bad = self._read_only.get(shard)
            if bad is not None:
                raise bad

    def check_undamaged(self) -> None:
        if self.error is not None:
            raise self.error
        for error in self._read_only.values():
            raise error
