"""A pipe that wakes a thread in `select`, without a delay for the thread that wakes it.

Python releases the interpreter lock in a system call. The woken thread would take it, and the
producer would wait for it. So the byte is written by a call that keeps the lock. It cannot block.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading


class WakePipe:
    """One thread waits, any thread wakes it."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()  # faster to write to than a pair of sockets
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)
        self._is_signalled = False
        self._lock = threading.Lock()  # held while the descriptor is used
        self._is_closed = False

    def fileno(self) -> int:
        """For `select`: readable after `wake`."""
        return self._read_fd

    def wake(self) -> None:
        """Any thread."""
        if self._is_signalled:
            return
        with self._lock:
            if self._is_closed:  # the descriptor may belong to another file by now
                return
            self._is_signalled = True
            _write(self._write_fd)

    def clear(self) -> None:
        """Called by the waiting thread, before it checks for work."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_fd, 4096):
                pass
        # Last: the byte of a concurrent `wake` may be consumed, and the next `wake` must write one.
        self._is_signalled = False

    def close(self) -> None:
        """May be called again. A later `wake` has no effect."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._read_fd)
            os.close(self._write_fd)


def _send(pipe: int) -> None:
    with contextlib.suppress(OSError):
        os.write(pipe, b"!")


def _keeping_write(pipe: int) -> None:
    _libc.write(pipe, b"!", 1)


_write = _send
if os.name == "posix":
    with contextlib.suppress(OSError, AttributeError):
        _libc = ctypes.PyDLL(None)
        _libc.write.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
        _libc.write.restype = ctypes.c_ssize_t
        _write = _keeping_write
