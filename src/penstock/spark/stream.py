"""`readStream`: how far the log is, how much of it the next batch takes, and what that batch reads.

Spark keeps the offsets in its checkpoint, and plans a batch anew from them when it has to run it
again. So which records a batch reads, and which of its tasks reads them, follows from two offsets;
the log only says where they are, and which of them are gone.
"""

from __future__ import annotations

import logging
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

from penstock.clock import SystemClock
from penstock.errors import InvalidArgument
from penstock.spark import cuts, places, tasks
from penstock.spark.bounds import Bounds
from penstock.spark.gaps import GapFound, GapRow
from penstock.spark.ledger import Ledger
from penstock.spark.offsets import Offsets, of_json, to_json
from penstock.spark.options import SEQ_MAX, ReadOptions
from penstock.spark.remote import place_of
from penstock.spark.shape import shape_of
from penstock.spark.tasks import Part

logger = logging.getLogger("penstock.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query. Spark calls it from one thread of a process of its own; `read` is
    called in the tasks, on a fresh one."""

    def __init__(self, options: ReadOptions, asked: StructType) -> None:
        if options.rows == "gaps":
            raise InvalidArgument("rows=gaps is for spark.read; a stream writes a gapLedger")
        if options.on_gap == "report" and not options.gap_ledger:
            raise InvalidArgument(
                "onGap=report needs option gapLedger in a stream: a directory for what is missed"
            )
        if options.ending_offsets or options.ending_seq < SEQ_MAX:
            raise InvalidArgument(
                "a stream has no end: endingSeq and endingOffsets are for batches"
            )
        self._options = options
        self._shape = shape_of(options, asked)
        self._place = place_of(options)
        self._target: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        found = self._place.beginning()
        for topic, offset in found.items():
            if self._options.starting_seq > offset.seq + 1:
                raise InvalidArgument(
                    f"startingSeq {self._options.starting_seq} is past the head of topic {topic}, "
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
        self._target = self._place.heads()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = of_json(start)
        # Spark has finished the batch that ends here. It says so itself only when it begins
        # another one.
        self._place.note({topic: one for topic, one in begun.items() if not one.is_initial})
        heads = self._place.heads()
        if self._target is not None:
            heads = self._towards(self._target, begun, heads)
        if not isinstance(limit, ReadAllAvailable):
            records_max = (
                limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.records_max
            )
            bytes_max = (
                limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.bytes_max
            )
            heads = self._place.within(begun, heads, records_max, bytes_max)
        return to_json(cuts.carried(begun, heads))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json(self._place.heads())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        end_ = of_json(end)
        begun, told = cuts.settled(of_json(start), end_)
        bounds = Bounds(ts_min=self._options.starting_ts)
        plan = self._place.between(begun, end_, bounds)
        self._tell(told + plan.gaps)
        # One for each piece, even if nothing of it is left: others must keep their numbers.
        manner = places.manner_of(self._options, bounds)
        pieces = cuts.cut(begun, end_, self._options.partition_records)
        return [InputPartition(Part(plan.of(one), manner, self._shape)) for one in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return tasks.read(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        self._place.note(of_json(end))

    def stop(self) -> None:
        self._place.close()

    def _towards(self, target: Offsets, begun: Offsets, heads: Offsets) -> Offsets:
        """Nothing that came since the run began; and what went since is for another run to find.
        What had gone before is left out, and so a gap."""
        found: Offsets = {}
        for topic, offset in target.items():
            head = heads.get(topic)
            if head is not None and head.epoch == offset.epoch:
                found[topic] = min((offset, head), key=lambda one: one.seq)
            elif topic in begun:
                found[topic] = begun[topic]
        return found

    def _tell(self, gaps: list[GapRow]) -> None:
        if not gaps:
            return
        if self._options.on_gap == "fail":
            raise GapFound(self._options.path or self._options.url, gaps)
        if self._options.on_gap == "report":
            for gap in gaps:
                logger.warning("%s are gone (%s)", gap, gap.reason)
            Ledger(self._options.gap_ledger).note(gaps, SystemClock().now_ms())
