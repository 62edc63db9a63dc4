"""Rows cut into frames, in a way that depends on the rows and their order alone. Pure.

A task that is run again must give the same number to the same rows. So neither the size of the
batches in which rows arrive nor anything of the server decides where a frame ends. These bounds
must not change while queries are under way: they are a part of what `PRODUCER` stands for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock import limits
from penstock.spark.laying import Rows

ROWS_MAX: Final = limits.BATCH_RECORDS_MAX
BYTES_MAX: Final = limits.MIB  # a row that is longer is a frame of its own


@dataclass(frozen=True, slots=True)
class Chunk:
    """The content of one frame."""

    topic: str
    count: int
    rows: bytes


class _Open:
    """The rows of one topic that wait for their frame to be full."""

    __slots__ = ("count", "parts", "size")

    def __init__(self) -> None:
        self.parts: list[memoryview] = []
        self.count = 0
        self.size = 0

    def taken(self, topic: str) -> Chunk:
        chunk = Chunk(topic, self.count, b"".join(self.parts))
        self.parts, self.count, self.size = [], 0, 0
        return chunk


class Chunks:
    """One partition's. Frames are in the order of the rows that filled them."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def add(self, batch: Iterable[Rows]) -> list[Chunk]:
        """The frames that are full now."""
        closed: list[tuple[int, Chunk]] = []
        for rows in batch:
            closed += self._add(rows)
        closed.sort(key=lambda one: one[0])  # stable: of one topic they are in order
        return [chunk for _, chunk in closed]

    def rest(self) -> list[Chunk]:
        """What is left when no more rows come, by topic."""
        return [open_.taken(topic) for topic, open_ in sorted(self._open.items()) if open_.count]

    def _add(self, rows: Rows) -> Iterator[tuple[int, Chunk]]:
        open_ = self._open.setdefault(rows.topic, _Open())
        ends = rows.ends
        at = 0
        while at < rows.count:
            most = min(rows.count, at + ROWS_MAX - open_.count)
            upto = bisect_right(ends, ends[at] + BYTES_MAX - open_.size, at, most + 1) - 1
            if upto <= at:
                if open_.count:
                    yield rows.place(at), open_.taken(rows.topic)
                    continue
                upto = at + 1  # longer than a frame may be: alone
            open_.parts.append(rows.data[ends[at] : ends[upto]])
            open_.count += upto - at
            open_.size += ends[upto] - ends[at]
            at = upto
            if open_.count == ROWS_MAX or open_.size >= BYTES_MAX:
                yield rows.place(at - 1), open_.taken(rows.topic)
