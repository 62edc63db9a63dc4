"""`df.write` and `df.writeStream`: tasks write, each row is in its topic once.

A partition's frames are numbered by (epoch, place in the partition), and their producer is
(query, partition) or (write, partition). The topic remembers how far each producer has come, with
its records, so that a task that runs twice, now or in a year, adds nothing. An epoch is a run of
numbers, with a proof of its rows: one that comes again with other rows is refused, never dropped.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.errors import InvalidArgument
from penstock.spark.chunks import Chunk, Chunks
from penstock.spark.ending import whole
from penstock.spark.laying import Layout, lay, lay_sorted, layout_of
from penstock.spark.link import Link, profile_of
from penstock.spark.sink_options import SinkOptions
from penstock.topics.producers import RUN_BITS
from penstock.wire.sending import INCARNATION_BYTES, parcel_head
from penstock.wire.spool_frame import encode_frame

PRODUCER: Final = "penstock-spark-1"  # changes with how rows are laid out and cut
_EPOCH_MAX: Final = 1 << (62 - RUN_BITS)
_QUERY: Final = "sql.streaming.queryId"  # what Spark tells its tasks
_EPOCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task has written, on the disk of the server."""

    partition: int
    records: int
    frames: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose rows these are: one partition of one epoch. A batch write is its epoch 0."""

    owner: str  # a query's id, or that of a write
    epoch: int
    partition: int

    @property
    def producer(self) -> bytes:
        told = f"{PRODUCER}\n{self.owner}\n{self.partition}".encode()
        return hashlib.sha256(told).digest()[:INCARNATION_BYTES]

    @property
    def first_number(self) -> int:
        if not 0 <= self.epoch < _EPOCH_MAX:
            raise AssertionError(f"epoch {self.epoch} has no number")
        return self.epoch << RUN_BITS

    @property
    def sender_id(self) -> str:
        """By which the server can tell who is connected."""
        return f"spark-{self.producer.hex()[:12]}-{self.partition}"


def write_rows(options: SinkOptions, layout: Layout, turn: Turn, batches: Iterator[Any]) -> Written:
    """Write one partition, and return when all of it is past a sync."""
    profile = profile_of(options.url, options.token, turn.sender_id, options.tls_ca)
    records = 0
    with Link(
        profile, turn.producer, turn.first_number, timeout_s=options.timeout_ms / 1000
    ) as link:
        for chunk in _chunks(options, layout, batches):
            _send(link, chunk, is_proved=options.is_proved)
            records += chunk.count
        link.finish()
        return Written(turn.partition, records, link.next_fsn - turn.first_number)


def _chunks(options: SinkOptions, layout: Layout, batches: Iterator[Any]) -> Iterator[Chunk]:
    made = Chunks()
    if options.keeps_order:
        for batch in batches:
            yield from made.add(lay(layout, batch))
    else:
        yield from made.add(lay_sorted(layout, batches))
    yield from made.rest()


def _send(link: Link, chunk: Chunk, *, is_proved: bool) -> None:
    if (link.next_fsn + 1) % (1 << RUN_BITS) == 0:
        raise InvalidArgument("the partition has too many rows: repartition the DataFrame")
    proof = chunk.proof if is_proved else b""
    payload = parcel_head(chunk.topic, chunk.count, proof) + chunk.rows
    link.send(encode_frame(link.next_fsn, payload))


class _Writer:
    """What both kinds of writer are made of. Built on the driver, and sent to the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgument(
                "a topic is appended to: use mode append, and outputMode append or update"
            )
        self._options = options
        self._layout = layout_of(schema.fieldNames(), options.topic)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """One batch write. Without `writeId` every write is another one."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._owner = f"write:{options.write_id}" if options.write_id else f"uuid:{uuid.uuid4()}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        turn = Turn(self._owner, 0, _context().partitionId())
        return write_rows(self._options, self._layout, turn, whole(iterator))


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """One epoch of a streaming query."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        if options.write_id:
            raise InvalidArgument("option writeId is for batch writes: a query has its own id")

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = _context()
        query, epoch = context.getLocalProperty(_QUERY), context.getLocalProperty(_EPOCH)
        if not query or not epoch:
            raise AssertionError("Spark does not say which query and which epoch this is")
        turn = Turn(f"query:{query}", int(epoch), context.partitionId())
        return write_rows(self._options, self._layout, turn, whole(iterator))


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise AssertionError("rows are written by tasks")
    return context
