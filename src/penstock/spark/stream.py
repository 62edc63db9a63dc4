"""`readStream`: the heads of the log, the size of the next batch, and the tasks of a batch.

Spark stores the offsets in its checkpoint, and plans a batch from them again to rerun it. So two
offsets determine the records of a batch and the task of each record. The log only determines where
the records are and which of them are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.errors import InvalidArgument
from penstock.spark import locations, partitioning, tasks
from penstock.spark.bounds import Bounds
from penstock.spark.gap_policy import GapPolicy
from penstock.spark.offsets import Offsets, of_json, to_json
from penstock.spark.options import SEQ_MAX, SourceOptions
from penstock.spark.server_location import location_of
from penstock.spark.shape import shape_of
from penstock.spark.tasks import TaskInput


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query. Spark calls it on one thread of a separate process; tasks call `read` on
    a copy."""

    def __init__(self, options: SourceOptions, asked: StructType) -> None:
        if options.rows == "gaps":
            raise InvalidArgument("rows=gaps is only for spark.read; a stream writes a gapLedger")
        if options.on_gap == "report" and not options.gap_ledger:
            raise InvalidArgument(
                "onGap=report of a stream needs option gapLedger, a directory for the gaps"
            )
        if options.ending_offsets or options.ending_seq < SEQ_MAX:
            raise InvalidArgument(
                "endingSeq and endingOffsets are only for batch queries: a stream has no end"
            )
        self._options = options
        self._shape = shape_of(options, asked)
        self._location = location_of(options)
        self._target: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        found = self._location.beginning()
        for topic, offset in found.items():
            if self._options.starting_seq > offset.seq + 1:
                raise InvalidArgument(
                    f"startingSeq {self._options.starting_seq} is above the head of topic {topic}, "
                    f"which is {offset.seq}"
                )
        given = self._options.starting_offsets
        return to_json(
            {
                topic: offset if topic in given else replace(offset, begun=offset.seq)
                for topic, offset in found.items()
            }
        )

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.records_max:
            return ReadMaxRows(self._options.records_max)
        if self._options.bytes_max:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._location.heads()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = of_json(start)
        # Spark has finished the batch that ends here. It calls `commit` only when it starts
        # another one.
        self._location.record_progress(
            {topic: one for topic, one in begun.items() if not one.is_initial}
        )
        heads = self._location.heads()
        if self._target is not None:
            heads = self._towards(self._target, begun, heads)
        if not isinstance(limit, ReadAllAvailable):
            records_max = (
                limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.records_max
            )
            bytes_max = (
                limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.bytes_max
            )
            heads = self._location.within(begun, heads, records_max, bytes_max)
        return to_json(partitioning.with_begun(begun, heads))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self._location.heads())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        end_ = of_json(end)
        begun, reported = partitioning.resolved(of_json(start), end_)
        bounds = Bounds(ts_min=self._options.starting_ts)
        plan = self._location.between(begun, end_, bounds)
        policy = GapPolicy(self._options.on_gap, self._options.gap_ledger)
        policy.skip_missing(self._options.path or self._options.url, reported + plan.gaps)
        # One for each range, even if no record of it is left: the others must keep their numbers.
        options = locations.task_options(self._options, bounds)
        pieces = partitioning.divide(begun, end_, self._options.partition_records)
        return [InputPartition(TaskInput(plan.of(one), options, self._shape)) for one in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return tasks.read(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        self._location.record_progress(of_json(end))

    def stop(self) -> None:
        self._location.close()

    def _towards(self, target: Offsets, begun: Offsets, heads: Offsets) -> Offsets:
        """The offsets of the target, without records that came after the run began. Topics that
        were dropped since keep their offset; the next run reports them. Topics that were dropped
        before are left out, which makes them a gap."""
        found: Offsets = {}
        for topic, offset in target.items():
            head = heads.get(topic)
            if head is not None and head.epoch == offset.epoch:
                found[topic] = min((offset, head), key=lambda one: one.seq)
            elif topic in begun:
                found[topic] = begun[topic]
        return found
