"""The input of one task, and how a task reads it from files and servers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.client.client import Client
from penstock.client.connect import connect
from penstock.clock import SystemClock
from penstock.codec.columns import Columns
from penstock.directory.slice_reader import SliceOptions, SliceReader
from penstock.directory.slices import Slice
from penstock.errors import CorruptFrame
from penstock.spark import gaps
from penstock.spark.gap_policy import GapPolicy
from penstock.spark.gaps import GapRow
from penstock.spark.options import OnGap
from penstock.spark.shape import Shape
from penstock.types import TagMatch

_PAGE_RECORDS = 10_000  # as many as a server gives at once
_PAGE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RemoteRange:
    """Seqs above `after` up to `last` of one epoch of a topic, to be read from a server."""

    topic: str
    epoch: int
    after: int
    last: int
    bytes: int


Work = Slice | RemoteRange


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """How tasks read and report gaps."""

    url: str = ""
    token: str = ""
    on_gap: OnGap = "fail"
    gap_ledger: str = ""
    skips_corrupt: bool = False
    match: TagMatch | None = None


@dataclass(frozen=True, slots=True)
class TaskInput:
    """The work of one task, in order."""

    work: list[Work]
    options: TaskOptions
    shape: Shape


def read(part: TaskInput) -> Iterator[Any]:
    """Read the records of a task as Arrow batches."""
    reader = _Reader(part.options)
    shape = part.shape
    for topic, epoch, found in reader.columns(part, shape.wanted):
        yield shape.batch_of(topic, epoch, found)


def read_gaps(part: TaskInput) -> Iterator[Any]:
    """Read a task for its gaps only, as rows."""
    reader = _Reader(part.options)
    for _ in reader.columns(part, 0):
        pass
    skipped = reader.policy.skipped
    if skipped:
        yield gaps.batch_of(part.shape.arrow, skipped, SystemClock().now_ms())


class _Reader:
    """`policy` decides about records that cannot be read, and collects the gaps it skips."""

    def __init__(self, options: TaskOptions) -> None:
        self._options = options
        self.policy = GapPolicy(options.on_gap, options.gap_ledger)

    def columns(self, part: TaskInput, wanted: int) -> Iterator[tuple[str, int, Columns]]:
        """Records in pages of one topic each: (topic, epoch, columns)."""
        options = self._options
        files = SliceReader(
            on_damage=self._skip_damaged if options.skips_corrupt else None,
            on_loss=self._skip_missing,
        )
        with contextlib.ExitStack() as stack:
            client: Client | None = None
            for one in part.work:
                if isinstance(one, Slice):
                    for found in files.read(one, SliceOptions(wanted, options.match)):
                        yield one.topic, one.topic_id, found
                    continue
                if client is None:
                    connected = connect(options.url, options.token or None)
                    client = stack.enter_context(connected)
                for found in self._pages(client, one, wanted):
                    yield one.topic, one.epoch, found

    def _pages(self, client: Client, remote: RemoteRange, wanted: int) -> Iterator[Columns]:
        at = remote.after
        match = self._options.match
        tag = None
        if match is not None:
            tag = match.value.decode() + ("*" if match.is_prefix else "")
        while at < remote.last:
            page = client.read_columns(
                remote.topic,
                at,
                min(_PAGE_RECORDS, remote.last - at),
                columns=wanted,
                tag=tag,
                epoch=remote.epoch,
                max_bytes=_PAGE_BYTES,
                seq_max=remote.last,
            )
            if page.epoch != remote.epoch:
                row = GapRow(remote.topic, remote.epoch, at + 1, remote.last, "recreated")
                return self.policy.skip_missing(self._options.url, [row])
            if page.gap is not None:
                last = min(page.gap.last, remote.last)
                row = GapRow(remote.topic, remote.epoch, at + 1, last, page.gap.reason)
                self.policy.skip_missing(self._options.url, [row])
            if page.columns.count:
                yield page.columns
            if page.next_seq <= at:
                raise CorruptFrame(
                    self._options.url,
                    reason=f"topic {remote.topic} ends at {at}, before record {remote.last}",
                    hint="check whether the data directory of the server was replaced",
                )
            at = page.next_seq

    def _skip_damaged(self, one: Slice, first: int, last: int, error: CorruptFrame) -> None:
        self.policy.skip_damaged(one.topic, one.topic_id, first, last, error)

    def _skip_missing(self, one: Slice, first: int, last: int, reason: str) -> None:
        self.policy.skip_missing(one.root, [GapRow(one.topic, one.topic_id, first, last, reason)])
