"""Segment files that wait to be used, so that a producer never waits for one to be made."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

from penstock.clock import Clock
from penstock.sender.files import SegmentFiles, Spare


class Spares:
    """Safe from several threads. `grow` is called with the bytes that a file takes before it is
    made, and raises when the spool has no room for them; and with the same, negative, when it is
    gone again."""

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
        self._making = threading.Lock()  # held while one is made; guards the next
        self._number = number  # of the newest file there is, in use or not
        self._ready: deque[Spare] = deque()  # taken without the lock
        self._is_making = False

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def is_one_coming(self) -> bool:
        """Is one ready, or will be in a moment? Its bytes count by then, and are for frames."""
        return self._is_making or bool(self._ready)

    def take(self) -> Spare:
        """The next one; made here and now if none is ready."""
        with contextlib.suppress(IndexError):
            return self._ready.popleft()
        with self._making:  # one may be under way
            return self._ready.popleft() if self._ready else self._make()

    def add(self, *, warms: bool) -> None:
        """Make one, with its pages if there is time for that."""
        with self._making:
            self._is_making = True
            try:
                spare = self._make()
                if warms:
                    self._files.warm(spare)
                self._ready.append(spare)
            finally:
                self._is_making = False

    def discard(self, first: Spare) -> None:
        """One that could not be taken into use, and those behind it: numbers have no holes."""
        with self._making:
            self._ready.appendleft(first)
            self._number = first.head.number - 1
            self._clear()

    def close(self) -> None:
        """None is needed any more."""
        with self._making:
            self._clear()

    def _clear(self) -> None:
        while self._ready:
            spare = self._ready.popleft()
            self._files.discard(spare)
            self._grow(-spare.size)

    def _make(self) -> Spare:
        size = self._files.segment_bytes
        self._grow(size)
        try:
            spare = self._files.prepare(
                self._number + 1, self._incarnation, now_ms=self._clock.now_ms()
            )
        except BaseException:
            self._grow(-size)
            raise
        self._number += 1
        return spare
