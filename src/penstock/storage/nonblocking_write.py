"""Brief writes that keep the interpreter lock.

An ordinary system call releases the interpreter lock. A waiting thread takes it, and the writer
waits for the end of that thread's turn: many times as long as it takes to copy some KiB into the
page cache. So these writes keep the lock. A disk that blocks its writers would block all threads;
after one slow write, ordinary calls are used for a while.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Callable
from typing import Final

from penstock.clock import Clock, SystemClock

BRIEF_BYTES_MAX: Final = 256 * 1024
_SLOW_S: Final = 0.02
_WARY_S: Final = 10.0

Write = Callable[[int, bytes, int], int]  # descriptor, data, offset: as `os.pwrite`


class NonblockingWrites:
    """Safe from several threads: at worst one write more than needed is an ordinary call."""

    def __init__(self, clock: Clock, keeping: Write | None = None) -> None:
        self._clock = clock
        self._keeping = _keeping if keeping is None else keeping
        self._wary_until_s = clock.monotonic()

    def write(self, fd: int, data: bytes, offset: int) -> int:
        """As `os.pwrite`: it may write less than all, and raises OSError."""
        started_s = self._clock.monotonic()
        if started_s < self._wary_until_s or len(data) > BRIEF_BYTES_MAX:
            return os.pwrite(fd, data, offset)
        try:
            return self._keeping(fd, data, offset)
        finally:
            ended_s = self._clock.monotonic()
            if ended_s - started_s > _SLOW_S:
                self._wary_until_s = ended_s + _WARY_S


def _found() -> Write | None:
    """The call that keeps the interpreter lock, where there is one with offsets of 64 bits."""
    if ctypes.sizeof(ctypes.c_long) < 8:
        return None
    with contextlib.suppress(OSError, AttributeError):
        pwrite = ctypes.PyDLL(None, use_errno=True).pwrite
        pwrite.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long)
        pwrite.restype = ctypes.c_ssize_t

        def keeping(fd: int, data: bytes, offset: int) -> int:
            written: int = pwrite(fd, data, len(data), offset)
            if written < 0:
                number = ctypes.get_errno()
                if number == errno.EINTR:
                    return os.pwrite(fd, data, offset)
                raise OSError(number, os.strerror(number))
            return written

        return keeping
    return None


_keeping: Final[Write] = _found() or os.pwrite
BRIEF: Final = NonblockingWrites(SystemClock())  # all threads of the process would stop together
