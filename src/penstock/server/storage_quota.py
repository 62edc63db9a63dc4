"""The limit on the live payload of all topics together, `max_total_bytes`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from penstock.server.errors import throttled


class StorageQuota:
    """Event loop only. Appends are added up here. Deletes and evictions free space without a
    notice, so the bytes are counted again when the quota seems to be reached."""

    def __init__(self, bytes_max: int, count: Callable[[], int]) -> None:
        self.is_set = bytes_max > 0
        self._bytes_max = bytes_max
        self._count = count
        self._used = 0  # never below the truth while only appends happen
        self._under_way = 0  # of batches over several topics

    def admit(self, incoming: int) -> None:
        """Add the bytes of an append, or refuse it."""
        if self._used + incoming > self._bytes_max:
            self._used = self._count() + self._under_way
        if self._used + incoming > self._bytes_max:
            raise throttled("max_total_bytes", self._bytes_max)
        self._used += incoming

    @contextlib.contextmanager
    def under_way(self, size: int) -> Iterator[None]:
        """While inside, an admitted batch of this size is not in the topics yet."""
        self._under_way += size
        try:
            yield
        finally:
            self._under_way -= size
