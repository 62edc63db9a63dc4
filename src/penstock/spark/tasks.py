"""What one task reads, and how: from files, from a server, or from both."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.client import client as clients
from penstock.clock import SystemClock
from penstock.codec.columns import Columns
from penstock.engine.slices import Slice, SliceReader, Wanted
from penstock.errors import CorruptFrame
from penstock.spark import gaps
from penstock.spark.gaps import GapFound, GapRow
from penstock.spark.ledger import Ledger
from penstock.spark.options import OnGap
from penstock.spark.shape import Shape
from penstock.types import TagMatch

DAMAGED = "corrupt"
_PAGE_RECORDS = 10_000  # as many as a server gives at once
_PAGE_BYTES = 8 << 20

logger = logging.getLogger("penstock.spark")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Seqs past `after` up to `last` of one epoch of a topic, to be asked from a server."""

    topic: str
    epoch: int
    after: int
    last: int
    bytes: int


Work = Slice | Stretch


@dataclass(frozen=True, slots=True)
class Manner:
    """How to read, whatever it is."""

    url: str = ""
    token: str = ""
    on_gap: OnGap = "fail"
    gap_ledger: str = ""
    skips_corrupt: bool = False
    match: TagMatch | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads, in this order."""

    work: list[Work]
    manner: Manner
    shape: Shape


def read(part: Part) -> Iterator[Any]:
    """The record batches of a part."""
    reader = _Reader(part.manner)
    shape = part.shape
    for topic, epoch, found in reader.columns(part, shape.wanted):
        yield shape.batch_of(topic, epoch, found)


def missed(part: Part) -> Iterator[Any]:
    """What of a part cannot be read, as rows."""
    reader = _Reader(part.manner)
    for _ in reader.columns(part, 0):
        pass
    if reader.told:
        yield gaps.batch_of(part.shape.arrow, reader.told, SystemClock().now_ms())


class _Reader:
    """Notes what it leaves out, if it may leave out anything."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self.told: list[GapRow] = []

    def columns(self, part: Part, wanted: int) -> Iterator[tuple[str, int, Columns]]:
        """Some records of one topic each: (topic, epoch, them)."""
        manner = self._manner
        files = SliceReader(
            on_damage=self._damaged if manner.skips_corrupt else None, on_loss=self._lost_slice
        )
        with contextlib.ExitStack() as stack:
            client: clients.Client | None = None
            for one in part.work:
                if isinstance(one, Slice):
                    for found in files.read(one, Wanted(wanted, manner.match)):
                        yield one.topic, one.topic_id, found
                    continue
                if client is None:
                    connected = clients.connect(manner.url, manner.token or None)
                    client = stack.enter_context(connected)
                for found in self._pages(client, one, wanted):
                    yield one.topic, one.epoch, found

    def _pages(self, client: clients.Client, stretch: Stretch, wanted: int) -> Iterator[Columns]:
        at = stretch.after
        match = self._manner.match
        tag = None
        if match is not None:
            tag = match.value.decode() + ("*" if match.is_prefix else "")
        while at < stretch.last:
            page = client.read_columns(
                stretch.topic,
                at,
                min(_PAGE_RECORDS, stretch.last - at),
                columns=wanted,
                tag=tag,
                epoch=stretch.epoch,
                max_bytes=_PAGE_BYTES,
                seq_max=stretch.last,
            )
            if page.epoch != stretch.epoch:
                row = GapRow(stretch.topic, stretch.epoch, at + 1, stretch.last, "recreated")
                return self._lost(self._manner.url, row)
            if page.gap is not None:
                last = min(page.gap.last, stretch.last)
                row = GapRow(stretch.topic, stretch.epoch, at + 1, last, page.gap.reason)
                self._lost(self._manner.url, row)
            if page.columns.count:
                yield page.columns
            if page.next_seq <= at:
                raise CorruptFrame(
                    self._manner.url,
                    reason=f"topic {stretch.topic} ends at {at}, before record {stretch.last}",
                    hint="was the server's directory replaced?",
                )
            at = page.next_seq

    def _damaged(self, one: Slice, first: int, last: int, error: CorruptFrame) -> None:
        logger.warning("skipped records %d to %d of topic %s: %s", first, last, one.topic, error)
        row = GapRow(one.topic, one.topic_id, first, last, DAMAGED)
        self.told.append(row)
        self._note(row)

    def _lost_slice(self, one: Slice, first: int, last: int, reason: str) -> None:
        self._lost(one.root, GapRow(one.topic, one.topic_id, first, last, reason))

    def _lost(self, where: str, row: GapRow) -> None:
        """Gone since the batch was planned."""
        if self._manner.on_gap == "fail":
            raise GapFound(where, [row])
        self.told.append(row)
        if self._manner.on_gap == "report":
            logger.warning("%s are gone (%s)", row, row.reason)
            self._note(row)

    def _note(self, row: GapRow) -> None:
        if self._manner.gap_ledger:
            Ledger(self._manner.gap_ledger).note([row], SystemClock().now_ms())
