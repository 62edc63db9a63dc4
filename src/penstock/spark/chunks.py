"""Divides rows into frames in a way that depends only on the rows and their order. Pure.

A task that runs again must give the same number to the same rows. So a frame ends neither by the
size of the batches in which rows arrive nor by limits of the server. Each frame carries a proof: a
checksum of all rows of its topic up to its end, and whether it is the last one. The limits below
must not change while queries are running: `PRODUCER` names them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import xxhash

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.spark.encoding import Rows

ROWS_MAX: Final = limits.BATCH_RECORDS_MAX
BYTES_MAX: Final = limits.MIB  # a row that is longer is a frame of its own
TOPICS_MAX: Final = 256  # of one partition


@dataclass(frozen=True, slots=True)
class Chunk:
    """The content of one frame."""

    topic: str
    count: int
    rows: bytes
    proof: bytes  # see `topics.idempotency`


class _Open:
    """The rows of one topic that are not in a frame yet, and the last full frame. That one waits
    for the next, because its proof says whether it is the last."""

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
        """Close the frame, and return the full frame before it."""
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
    """The frames of one partition, in the order of the rows that filled them."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def add(self, batch: Iterable[Rows]) -> list[Chunk]:
        """Add rows; the frames that can be sent now."""
        closed: list[tuple[int, Chunk]] = []
        for rows in batch:
            closed += self._add(rows)
        closed.sort(key=lambda one: one[0])  # stable: of one topic they are in order
        return [chunk for _, chunk in closed]

    def rest(self) -> list[Chunk]:
        """The remaining frames after the last row, by topic."""
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
            if upto <= at and open_.count:  # the next row does not fit into this frame
                yield from ((rows.index(at), chunk) for chunk in open_.close(rows.topic))
                continue
            upto = max(upto, at + 1)  # a row above the limit is a frame of its own
            open_.add(rows.data[ends[at] : ends[upto]], upto - at)
            at = upto
            if open_.count == ROWS_MAX or open_.size >= BYTES_MAX:
                yield from ((rows.index(at - 1), chunk) for chunk in open_.close(rows.topic))
