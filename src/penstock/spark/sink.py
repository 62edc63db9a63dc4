"""`df.write` and `df.writeStream`: tasks write to the server, and each row is stored once.

Frames are numbered by (epoch, index in the partition). Their producer is (query, partition) or
(write, partition). The topic stores the last number of each producer with its records, so a task
that runs twice adds nothing, at any later time. Each frame has a proof of the rows of its epoch: an
epoch that is repeated with other rows is refused, not ignored.
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
from penstock.spark.connection import SinkConnection, connect_options
from penstock.spark.encoding import ColumnMapping, encode, encode_sorted, mapping_of
from penstock.spark.sink_options import SinkOptions
from penstock.spark.truncated_input import untruncated
from penstock.topics.idempotency import RUN_BITS
from penstock.wire.sender_protocol import INCARNATION_BYTES, parcel_head
from penstock.wire.spool_frame import encode_frame

PRODUCER: Final = "penstock-spark-1"  # must change if rows are encoded or divided in another way
_EPOCH_MAX: Final = 1 << (62 - RUN_BITS)
_QUERY: Final = "sql.streaming.queryId"  # local properties of a task
_EPOCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task has written, synced by the server."""

    partition: int
    records: int
    frames: int


@dataclass(frozen=True, slots=True)
class PartitionWrite:
    """One partition of one epoch. A batch write has epoch 0."""

    owner: str  # a query's id, or that of a write
    epoch: int
    partition: int

    @property
    def producer(self) -> bytes:
        text = f"{PRODUCER}\n{self.owner}\n{self.partition}".encode()
        return hashlib.sha256(text).digest()[:INCARNATION_BYTES]

    @property
    def first_number(self) -> int:
        if not 0 <= self.epoch < _EPOCH_MAX:
            raise AssertionError(f"epoch {self.epoch} has no number")
        return self.epoch << RUN_BITS

    @property
    def sender_id(self) -> str:
        """The name under which the server lists the connection."""
        return f"spark-{self.producer.hex()[:12]}-{self.partition}"


def write_rows(
    options: SinkOptions, mapping: ColumnMapping, write: PartitionWrite, batches: Iterator[Any]
) -> Written:
    """Write one partition. Returns when the server has synced all of it."""
    target = connect_options(options.url, options.token, write.sender_id, options.tls_ca)
    records = 0
    with SinkConnection(
        target, write.producer, write.first_number, timeout_s=options.timeout_ms / 1000
    ) as connection:
        for chunk in _chunks(options, mapping, batches):
            _send(connection, chunk, is_proved=options.is_proved)
            records += chunk.count
        connection.finish()
        return Written(write.partition, records, connection.next_fsn - write.first_number)


def _chunks(
    options: SinkOptions, mapping: ColumnMapping, batches: Iterator[Any]
) -> Iterator[Chunk]:
    made = Chunks()
    if options.keeps_order:
        for batch in batches:
            yield from made.add(encode(mapping, batch))
    else:
        yield from made.add(encode_sorted(mapping, batches))
    yield from made.rest()


def _send(connection: SinkConnection, chunk: Chunk, *, is_proved: bool) -> None:
    if (connection.next_fsn + 1) % (1 << RUN_BITS) == 0:
        raise InvalidArgument("the partition has too many rows: repartition the DataFrame")
    proof = chunk.proof if is_proved else b""
    payload = parcel_head(chunk.topic, chunk.count, proof) + chunk.rows
    connection.send(encode_frame(connection.next_fsn, payload))


class _Writer:
    """The common part of both writers. Built on the driver and pickled to the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgument(
                "topics cannot be overwritten: use mode append, and outputMode append or update"
            )
        self._options = options
        self._mapping = mapping_of(schema.fieldNames(), options.topic)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """One batch write. Without `writeId` each write has a new identity."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._owner = f"write:{options.write_id}" if options.write_id else f"uuid:{uuid.uuid4()}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        write = PartitionWrite(self._owner, 0, _context().partitionId())
        return write_rows(self._options, self._mapping, write, untruncated(iterator))


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
            raise AssertionError("the task has no query id or epoch")
        write = PartitionWrite(f"query:{query}", int(epoch), context.partitionId())
        return write_rows(self._options, self._mapping, write, untruncated(iterator))


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise AssertionError("not in a Spark task")
    return context
