"""What Spark's tasks do for a feature table: the two stages of `features.key_shuffle`, with Arrow
batches in and out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidArgument
from penstock.features.event_column import Int64s
from penstock.features.key_shuffle import (
    KeyedEventReader,
    LargestTimes,
    PartitionSummary,
    check_epoch,
)
from penstock.features.table_part import TablePart
from penstock.features.timed_events import NO_TIME
from penstock.spark import feature_columns
from penstock.spark.feature_columns import EVENT, KEYED_ARROW, LABEL, SUMMARY
from penstock.spark.feature_job import FeatureJob, KeyShuffle

_ROWS: Final = 1000  # of one batch that is given to Spark


def keyed(job: FeatureJob, shuffle: KeyShuffle, batches: Iterable[Any]) -> Iterator[Any]:
    """The first stage: the events of a partition with their keys; then its summary, once for each
    bucket."""
    reader = KeyedEventReader(
        job.plan, keeps_ahead=shuffle.keeps_ahead, ahead_of_ms=shuffle.ahead_of_ms
    )
    for batch in batches:
        if not batch.num_rows:
            continue
        epochs = pc.min_max(batch.column("epoch")).as_py()
        check_epoch(epochs["min"], epochs["max"])
        found = reader.read(feature_columns.records_of(batch), epochs["min"])
        if len(found.records):
            offsets, keys = pa.py_buffer(found.key_offsets), pa.py_buffer(found.keys)
            count = len(found.records)
            records = pa.array(found.records)
            yield _batch(
                kind=pa.repeat(pa.scalar(EVENT, pa.int32()), count),
                key=pa.Array.from_buffers(pa.binary(), count, [None, offsets, keys]),
                seq=batch.column("seq").take(records),
                ts=batch.column("ts").take(records),
                largest=pa.array(found.largest),
                data=batch.column("data").take(records),
            )
    summary = reader.summary()
    if summary is not None:
        text = msgspec.json.encode(summary).decode()
        yield _batch(
            kind=pa.repeat(pa.scalar(SUMMARY, pa.int32()), shuffle.buckets),
            bucket=pa.array(range(shuffle.buckets), pa.int32()),
            seq=pa.repeat(pa.scalar(summary.first, pa.int64()), shuffle.buckets),
            data=pa.repeat(pa.scalar(text), shuffle.buckets),
        )


def _batch(**columns: Any) -> Any:
    count = len(columns["kind"])
    return pa.RecordBatch.from_arrays(
        [
            columns[field.name] if field.name in columns else pa.nulls(count, field.type)
            for field in KEYED_ARROW
        ],
        schema=KEYED_ARROW,
    )


class BucketRows:
    """What a task of the second stage reads: the summaries of all partitions, the labels of its
    keys, then the events of its keys. `before` is the largest time in front of the partitions."""

    def __init__(self, batches: Iterable[Any], before: int = NO_TIME) -> None:
        found = iter(batches)
        texts: list[str] = []
        buckets: set[int] = set()
        rest: list[Any] = []
        self.labels: list[Any] = []
        """Batches, in the order of their places."""
        for batch in found:
            summaries = _of_kind(batch, SUMMARY)
            texts += summaries.column("data").to_pylist()
            buckets.update(summaries.column("bucket").to_pylist())
            labels = _of_kind(batch, LABEL)
            if labels.num_rows:
                self.labels.append(labels)
                buckets.update(pc.unique(labels.column("bucket")).to_pylist())
            events = _of_kind(batch, EVENT)
            if events.num_rows:
                rest.append(events)
                break
        if len(buckets) > 1:
            raise InvalidArgument(
                f"one task has the keys of buckets {sorted(buckets)}: Spark divided the rows in "
                "another way than it was told"
            )
        self.bucket = buckets.pop() if buckets else None
        """None: there are no records at all."""
        self.times = LargestTimes(
            (msgspec.json.decode(text, type=PartitionSummary) for text in texts), before
        )
        self.batches: Iterator[Any] = chain(rest, found)

    def fold_into(self, part: TablePart) -> None:
        """Fold all events. Of records without a key, which no task has, the first task counts what
        became of them."""
        for batch in self.batches:
            apply(part, batch, self.times)
        part.advance(self.times.largest)
        if self.bucket == 0:
            for summary in self.times.summaries:
                part.add_counts(summary.counts)


def _of_kind(batch: Any, kind: int) -> Any:
    """The rows of a kind, which are next to each other."""
    kinds = batch.column("kind").to_numpy()
    first, end = np.searchsorted(kinds, kind, "left"), np.searchsorted(kinds, kind, "right")
    return batch.slice(first, end - first)


def apply(part: TablePart, batch: Any, times: LargestTimes, *, may_sweep: bool = True) -> None:
    """Fold a batch of events."""
    part.apply(feature_columns.records_of(batch), largest_of(batch, times), may_sweep=may_sweep)


def largest_of(batch: Any, times: LargestTimes) -> Int64s:
    """The largest time of all events at each event of a batch."""
    seqs = feature_columns.bytes_of(batch.column("seq"))
    return times.of(seqs, feature_columns.bytes_of(batch.column("largest")))


def table_rows(job: FeatureJob, now_ms: int, batches: Iterable[Any]) -> Iterator[Any]:
    """The second stage of `feature_table`: the rows of the keys of a bucket."""
    rows = BucketRows(batches)
    part = TablePart(job.plan)
    rows.fold_into(part)
    yield from part_rows(job, part, part.all_keys(), now_ms)


def part_rows(
    job: FeatureJob, part: TablePart, keys: Iterable[tuple[Any, ...]], now_ms: int
) -> Iterator[Any]:
    """The rows of some keys, as batches; a cold key has none."""
    names: list[tuple[Any, ...]] = []
    rows: list[dict[str, Any]] = []
    for key in keys:
        row = part.row(key, now_ms, job.features)
        if row is not None:
            names.append(key)
            rows.append(row)
        if len(rows) == _ROWS:
            yield feature_columns.rows_batch(job, names, rows)
            names, rows = [], []
    if rows:
        yield feature_columns.rows_batch(job, names, rows)
