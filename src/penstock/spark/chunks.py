"""Rows cut into frames, in a way that depends on the rows and their order alone. Pure.

A task that is run again must give the same number to the same rows. So neither the size of the
batches in which rows arrive nor anything of the server decides where a frame ends. Each frame
carries a proof: a checksum of all rows of its topic up to there, and whether they end there.
These bounds must not change while queries are under way: they are a part of what `PRODUCER`
stands for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import xxhash

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.spark.laying import Rows

ROWS_MAX: Final = limits.BATCH_RECORDS_MAX
BYTES_MAX: Final = limits.MIB  # a row that is longer is a frame of its own
TOPICS_MAX: Final = 256  # of one partition


@dataclass(frozen=True, slots=True)
class Chunk:
    """The content of one frame."""

    topic: str
    count: int
    rows: bytes
    proof: bytes  # as `topics.producers` has it


class _Open:
    """The rows of one topic that wait for their frame to be full, and the frame before, which
    waits for the next: whether it is the last one is a part of it."""

    __slots__ = ("checksum", "count", "full", "parts", "size")

    def __init__(self) -> None:
        self.parts: list[memoryview] = []
        self.count = 0
        self.size = 0
        self.full: tuple[int, bytes] | None = None
        self.checksum = 0

    def add(self, rows: memoryview, count: int) -> None:
        self.parts.append(rows)
        self.count += count
        self.size += len(rows)

    def close(self, topic: str) -> Iterator[Chunk]:
        """This frame is full: the one before can go."""
        before, self.full = self.full, (self.count, b"".join(self.parts))
        self.parts, self.count, self.size = [], 0, 0
        if before is not None:
            yield self._chunk(topic, before, is_last=False)

    def rest(self, topic: str) -> Iterator[Chunk]:
        if self.count:
            yield from self.close(topic)
        if self.full is not None:
            yield self._chunk(topic, self.full, is_last=True)

    def _chunk(self, topic: str, full: tuple[int, bytes], *, is_last: bool) -> Chunk:
        count, rows = full
        self.checksum = xxhash.xxh3_64_intdigest(rows, seed=self.checksum)
        proof = self.checksum.to_bytes(8, "big") + bytes([is_last])
        return Chunk(topic, count, rows, proof)


class Chunks:
    """One partition's. Frames are in the order of the rows that filled them."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def add(self, batch: Iterable[Rows]) -> list[Chunk]:
        """The frames that can go now."""
        closed: list[tuple[int, Chunk]] = []
        for rows in batch:
            closed += self._add(rows)
        closed.sort(key=lambda one: one[0])  # stable: of one topic they are in order
        return [chunk for _, chunk in closed]

    def rest(self) -> list[Chunk]:
        """What is left when no more rows come, by topic."""
        return [chunk for topic in sorted(self._open) for chunk in self._open[topic].rest(topic)]

    def _add(self, rows: Rows) -> Iterator[tuple[int, Chunk]]:
        open_ = self._open.setdefault(rows.topic, _Open())
        if len(self._open) > TOPICS_MAX:
            raise InvalidArgument(
                f"one partition has rows for more than {TOPICS_MAX} topics, and each takes up to "
                '2 MiB of memory: repartition the DataFrame by "topic"'
            )
        ends = rows.ends
        at = 0
        while at < rows.count:
            most = min(rows.count, at + ROWS_MAX - open_.count)
            upto = bisect_right(ends, ends[at] + BYTES_MAX - open_.size, at, most + 1) - 1
            if upto <= at and open_.count:  # the next row has no room any more
                yield from ((rows.place(at), chunk) for chunk in open_.close(rows.topic))
                continue
            upto = max(upto, at + 1)  # one that is longer than a frame may be is alone
            open_.add(rows.data[ends[at] : ends[upto]], upto - at)
            at = upto
            if open_.count == ROWS_MAX or open_.size >= BYTES_MAX:
                yield from ((rows.place(at - 1), chunk) for chunk in open_.close(rows.topic))
