"""Preallocated segment files, so that a producer does not wait for the creation of one."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

from penstock.clock import Clock
from penstock.sender.segment_files import PreallocatedSegment, SegmentFiles


class PreallocatedSegments:
    """Safe from several threads. `grow` is called with the bytes of a file before it is created,
    and raises when the spool has no room for them; and with the negative number when it is
    removed."""

    def __init__(
        self,
        files: SegmentFiles,
        incarnation: bytes,
        clock: Clock,
        *,
        number: int,
        grow: Callable[[int], None],
    ) -> None:
        self._files = files
        self._incarnation = incarnation
        self._clock = clock
        self._grow = grow
        self._making = threading.Lock()  # held while one is created; guards the next
        self._number = number  # of the newest file, in use or not
        self._ready: deque[PreallocatedSegment] = deque()  # popped without the lock
        self._is_making = False

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def is_one_coming(self) -> bool:
        """True when one is ready or is being created: there is room for frames."""
        return self._is_making or bool(self._ready)

    def pop(self) -> PreallocatedSegment:
        """Remove and return the next one; created here if none is ready."""
        with contextlib.suppress(IndexError):
            return self._ready.popleft()
        with self._making:  # one may be in creation
            return self._ready.popleft() if self._ready else self._make()

    def add(self, *, prefaults: bool) -> None:
        """Create one; with `prefaults`, with its pages in memory."""
        with self._making:
            self._is_making = True
            try:
                preallocated = self._make()
                if prefaults:
                    self._files.prefault(preallocated)
                self._ready.append(preallocated)
            finally:
                self._is_making = False

    def discard(self, first: PreallocatedSegment) -> None:
        """Remove one that could not be used and all later ones: numbers must have no gaps."""
        with self._making:
            self._ready.appendleft(first)
            self._number = first.head.number - 1
            self._clear()

    def close(self) -> None:
        """Remove all."""
        with self._making:
            self._clear()

    def _clear(self) -> None:
        while self._ready:
            preallocated = self._ready.popleft()
            self._files.discard(preallocated)
            self._grow(-preallocated.size)

    def _make(self) -> PreallocatedSegment:
        size = self._files.segment_bytes
        self._grow(size)
        try:
            preallocated = self._files.prepare(
                self._number + 1, self._incarnation, now_ms=self._clock.now_ms()
            )
        except BaseException:
            self._grow(-size)
            raise
        self._number += 1
        return preallocated
