"""Wakes a thread that waits in `select`, without a pause for whoever rings.

A system call made the usual way lets other threads run meanwhile. The one that was woken would
go first and make the producer that rang it wait for a whole turn of its work, so the byte is
written by a call that keeps the interpreter. It cannot block.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading


class Bell:
    """One thread waits, any thread rings."""

    def __init__(self) -> None:
        self._heard, self._rung = os.pipe()  # cheaper to ring than a pair of sockets
        os.set_blocking(self._heard, False)
        os.set_blocking(self._rung, False)
        self._is_ringing = False
        self._lock = threading.Lock()  # held while the number of the pipe is used
        self._is_closed = False

    def fileno(self) -> int:
        """For `select`: readable once somebody rang."""
        return self._heard

    def ring(self) -> None:
        """Any thread."""
        if self._is_ringing:
            return
        with self._lock:
            if self._is_closed:  # by now the number may be that of another file
                return
            self._is_ringing = True
            _write(self._rung)

    def silence(self) -> None:
        """The one who waits has heard it, and looks next at what it was rung for."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._heard, 4096):
                pass
        # Last: the byte of whoever rang meanwhile may be gone, and the next one must be written.
        self._is_ringing = False

    def close(self) -> None:
        """May be repeated. Who rings later is not heard."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._heard)
            os.close(self._rung)


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
