"""Whose rows they are, and what a task makes of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.errors import InvalidArgument
from penstock.spark.encoding import mapping_of
from penstock.spark.sink import BatchWriter, PartitionWrite, StreamWriter, Written, write_rows
from penstock.spark.sink_options import SinkOptions, sink_options
from tests.support.sink import DURABLE, OK, Sink, Visit

SCHEMA = StructType([StructField("id", LongType()), StructField("tag", StringType())])


def durable(visit: Visit) -> None:
    while True:
        visit.keep(visit.take())
        count = len(visit.taken) - 1
        visit.reply((OK, count), (DURABLE, count))


def options_for(sink: Sink, **more: str) -> SinkOptions:
    return sink_options({"url": f"http://{sink.addr}", "topic": "t", **more})


def batches(rows: int, size: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, rows, size):
        ids = pa.array(range(first, min(first + size, rows)))
        yield pa.record_batch({"id": ids})


def test_turns_differ_in_every_part() -> None:
    turns = [
        PartitionWrite("query:a", 1, 2),
        PartitionWrite("query:a", 1, 12),
        PartitionWrite("query:a1", 1, 2),
        PartitionWrite("write:a", 1, 2),
    ]

    assert len({turn.producer for turn in turns}) == 4
    assert PartitionWrite("query:a", 7, 2).producer == turns[0].producer
    assert PartitionWrite("query:a", 7, 2).first_number > turns[0].first_number + (1 << 23)


def test_a_partition_that_is_written_twice_is_the_same_frames() -> None:
    with Sink(durable, headers={"x-penstock-durable-ack": "enabled"}) as sink:
        turn, layout = PartitionWrite("query:q", 3, 0), mapping_of(["id"], "t")

        first = write_rows(options_for(sink), layout, turn, batches(25_000, 1_000))
        again = write_rows(options_for(sink), layout, turn, batches(25_000, 7_777))

        assert first == again == Written(0, 25_000, 3)
        assert sink.rows() == [b'{"id":%d}' % n for n in range(25_000)]
        sent = [[(f.fsn, f.payload) for f in visit.taken] for visit in sink.visits]
        assert sent[0] == sent[1]
        assert sent[0][0][0] == 3 << 24


def test_rows_in_any_order_are_the_same_frames_when_they_are_sorted() -> None:
    with Sink(durable, headers={"x-penstock-durable-ack": "enabled"}) as sink:
        turn, layout = PartitionWrite("query:q", 3, 0), mapping_of(["id"], "t")
        options = options_for(sink, rowOrder="any", verify="false")
        forwards = list(batches(12_000, 5_000))

        write_rows(options, layout, turn, iter(forwards))
        write_rows(options, layout, turn, reversed(forwards))

        sent = [[(f.fsn, f.payload) for f in visit.taken] for visit in sink.visits]
        assert sent[0] == sent[1]
        assert len(sink.rows()) == 12_000
        assert sink.kept[0].payload[4] == 0, "no proof"


def test_an_empty_partition_asks_for_nothing() -> None:
    with Sink(durable) as sink:
        found = write_rows(
            options_for(sink), mapping_of(["id"], "t"), PartitionWrite("q", 0, 0), iter([])
        )

        assert found == Written(0, 0, 0)
        assert not sink.requests


def test_a_topic_is_never_overwritten_and_a_query_is_not_renamed() -> None:
    given = {"url": "http://127.0.0.1:1", "topic": "t"}
    with pytest.raises(InvalidArgument, match="append"):
        BatchWriter(sink_options(given), SCHEMA, overwrite=True)
    with pytest.raises(InvalidArgument, match="writeId"):
        StreamWriter(sink_options(given | {"writeId": "w"}), SCHEMA, overwrite=False)
