"""Rows of a feature table as of many places in its topic: each label has a key and a place.

A place is a point of the log's clock, of the events' clock, or a seq. The row of a label has the
events up to its place, and no others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import StructField, StructType

from penstock.features.event_column import Int64s
from penstock.features.key_index import KeyIndex
from penstock.features.table_part import TablePart
from penstock.spark import feature_columns, feature_tasks
from penstock.spark.feature_columns import KEYED, KEYED_ARROW, LABEL
from penstock.spark.feature_job import FeatureJob
from penstock.spark.feature_tasks import BucketRows

FeatureClock = Literal["log", "event", "seq"]
PLACE: Final = "penstock_place"  # columns of labels, before the stages
NOW: Final = "penstock_now"
CARRIED: Final = "label"  # the columns that a label brings along, as one

Placed = tuple[Int64s, list[dict[str, Any] | None]]
"""The numbers of some labels, and the row of each; None: its key has no events, or is cold."""


def labelled_schema(carried: StructType) -> StructType:
    """What the second stage reads."""
    return StructType([*KEYED.fields, StructField(CARRIED, carried)])


def keyed_labels(job: FeatureJob, batches: Iterable[Any]) -> Iterator[Any]:
    """The first stage of labels. They have the key's columns, a place and the time of the read."""
    plan = job.plan
    types = dict(zip(plan.key, plan.key_types, strict=True))
    index = KeyIndex(plan.key_types)
    for batch in batches:
        count = batch.num_rows
        columns = feature_columns.key_columns(batch, types)
        offsets, texts, has_key = index.encoded(columns, count)
        bits = np.packbits(has_key, bitorder="little")
        keys = pa.Array.from_buffers(
            pa.binary(),
            count,
            [pa.py_buffer(bits), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(texts)],
        )
        found = {
            "kind": pa.repeat(pa.scalar(LABEL, pa.int32()), count),
            "key": keys,
            "seq": batch.column(PLACE),
            "ts": batch.column(NOW),
        }
        arrays = [found.get(field.name, pa.nulls(count, field.type)) for field in KEYED_ARROW]
        carried = batch.column(CARRIED)
        yield pa.RecordBatch.from_arrays(
            [*arrays, carried], schema=KEYED_ARROW.append(pa.field(CARRIED, carried.type))
        )


class LabelledFold:
    """The second stage: folds the events of a bucket, and gives the row of each label in between.

    A batch is folded in as many rounds as one key has labels in it, and not label by label: the
    events of other keys do not change a row.
    """

    def __init__(self, job: FeatureJob, clock: FeatureClock, batches: Iterable[Any]) -> None:
        self._job = job
        self._clock = clock
        self._rows = BucketRows(batches)
        self._part = TablePart(job.plan)
        labels = pa.Table.from_batches(self._rows.labels) if self._rows.labels else None
        self.carried: Any = None
        """The columns that the labels bring along, one row for each."""
        self._places: Int64s = np.empty(0, np.int64)
        self._nows: Int64s = self._places
        self._keys: list[bytes | None] = []
        if labels is not None:
            self.carried = labels.column(CARRIED).combine_chunks()
            self._places = labels.column("seq").to_numpy()
            self._nows = labels.column("ts").to_numpy()
            self._keys = labels.column("key").to_pylist()

    def rows(self) -> Iterator[Placed]:
        """The rows of all labels, each once."""
        done, count = 0, len(self._places)
        for batch in self._rows.batches:
            values = self._clock_of(batch)
            end = done + int(np.searchsorted(self._places[done:], values[-1], "left"))
            if end == done:
                feature_tasks.apply(self._part, batch, self._rows.times)
                continue
            yield from self._folded(batch, values, done, end)
            self._part.sweep(2 * batch.num_rows)
            done = end
            if done == count:
                return
        if done < count:
            yield self._read(np.arange(done, count))

    def _clock_of(self, batch: Any) -> Int64s:
        """Where each event is, by the clock of the labels. It never falls."""
        if self._clock == "event":
            return feature_tasks.largest_of(batch, self._rows.times)
        name = "ts" if self._clock == "log" else "seq"
        return np.frombuffer(feature_columns.bytes_of(batch.column(name)), np.int64)

    def _folded(self, batch: Any, values: Int64s, done: int, end: int) -> Iterator[Placed]:
        """Fold a batch that has the places of some labels, and read them."""
        befores = np.searchsorted(values, self._places[done:end], "right").tolist()
        labels: dict[bytes | None, list[int]] = {}
        places: dict[bytes | None, list[int]] = {}
        for number, before in zip(range(done, end), befores, strict=True):
            labels.setdefault(self._keys[number], []).append(number)
            places.setdefault(self._keys[number], []).append(before)
        nothing: list[int] = []
        rounds = np.array(
            [
                bisect_right(places.get(key, nothing), at)
                for at, key in enumerate(batch.column("key").to_pylist())
            ],
            np.int64,
        )
        for turn in range(max(map(len, labels.values())) + 1):
            self._apply(batch, np.flatnonzero(rounds == turn))
            numbers = [own[turn] for own in labels.values() if turn < len(own)]
            if numbers:
                yield self._read(np.array(numbers, np.int64))

    def _apply(self, batch: Any, events: NDArray[np.int64]) -> None:
        if len(events):
            some = batch.take(pa.array(events))
            feature_tasks.apply(self._part, some, self._rows.times, may_sweep=False)

    def _read(self, numbers: Int64s) -> Placed:
        found: list[dict[str, Any] | None] = []
        for number in numbers.tolist():
            key, now_ms = self._keys[number], int(self._nows[number])
            largest = self._rows.times.at(int(self._places[number]), now_ms)
            found.append(
                None if key is None else self._part.row_of(key, now_ms, self._job.features, largest)
            )
        return numbers, found


def label_batches(fold: LabelledFold, job: FeatureJob, schema: Any) -> Iterator[Any]:
    """Labels with the features that their keys had, as batches of this schema."""
    for numbers, rows in fold.rows():
        carried = fold.carried.take(pa.array(numbers)).flatten()
        features = feature_columns.feature_columns(job, [row or {} for row in rows])
        yield pa.RecordBatch.from_arrays([*carried, *features], names=schema)
