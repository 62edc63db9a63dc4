"""One measured number, and small helpers to take it."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable, Iterator

import msgspec

from penstock.cli.scratch import remove

PAYLOAD = (  # 100 bytes
    b'{"user":12345,"event":"page_view","path":"/products/9876",'
    b'"ms":42,"ref":"https://shop.example/home"}'
)


class Figure(msgspec.Struct, frozen=True):
    """`goal` is a lower bound unless `at_most`. A value that could not be taken is not a number,
    and the note says why."""

    name: str
    value: float
    unit: str
    note: str = ""
    goal: float | None = None
    at_most: bool = False

    @property
    def holds(self) -> bool | None:
        if self.goal is None or math.isnan(self.value):
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal


@contextlib.contextmanager
def folder(root: str) -> Iterator[str]:
    """A directory of its own, gone afterwards: what one measurement wrote must not be what
    the next one reads."""
    path = tempfile.mkdtemp(dir=root)
    try:
        yield path
    finally:
        remove(path)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best(rounds: int, measure: Callable[[], float]) -> float:
    """The fastest of several rounds: the others were disturbed by something."""
    return max(measure() for _ in range(rounds))
