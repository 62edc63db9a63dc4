"""Several C calls as one, so that no asynchronous exception comes between them.

A signal handler (Ctrl-C) and an exception set by another thread run between two bytecodes, never
inside a call of C code. State of several fields that must change together is changed here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import starmap
from operator import call
from typing import Any

Step = tuple[Any, ...]
"""A C function and its arguments, such as `(setattr, topic, "head", 7)`."""

_consume: Callable[[Iterable[Any]], None] = deque[Any](maxlen=0).extend


def perform(steps: Iterable[Step]) -> None:
    """Make all these calls. None of them may run Python code: no property, no method of ours."""
    _consume(starmap(call, steps))
