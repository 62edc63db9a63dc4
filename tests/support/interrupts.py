"""Exceptions that come from outside: raised at the nth line of our code, one place after the other.

A Ctrl-C or a raising signal handler reaches the main thread after any call, at the beginning of any
function and of any round of a loop. A trace function can raise at the beginning of each line, and
finds the same place again in every run. Two kinds of lines are left out, which a signal cannot hit:
`with`, which is traced once more on the way out, just before the lock is released, and a release
in a `finally`.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import penstock

SOURCE = str(Path(penstock.__file__).parent)
OURS = tuple(f"{SOURCE}/{name}/" for name in ("engine", "topics", "storage", "codec"))


class FromOutside(BaseException):
    """As KeyboardInterrupt, but nobody else's."""


class Interrupter:
    """Raises at line `nth` of our code that is run while it is on."""

    def __init__(self, nth: int) -> None:
        self.left = nth
        self.place = ""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "call":
            return self if frame.f_code.co_filename.startswith(OURS) else None
        if event == "line" and not _is_release(frame):
            self.left -= 1
            if self.left == 0:
                name = frame.f_code.co_filename.removeprefix(SOURCE + "/")
                self.place = f"{name}:{frame.f_lineno}"
                sys.settrace(None)
                raise FromOutside(self.place)
        return self


def _is_release(frame: FrameType) -> bool:
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return line.startswith("with ") or line.endswith(".release()")


def interrupt(act: Callable[[], object], nth: int) -> str:
    """Run `act` and raise at its nth line; the place, or nothing if it had come to its end.
    An exception that `act` makes of it is ours to judge: it is passed on."""
    interrupter = Interrupter(nth)
    before = sys.gettrace()
    sys.settrace(interrupter)
    try:
        act()
    except FromOutside:
        pass
    finally:
        sys.settrace(before)
    return interrupter.place
