"""Reads a server, or a server together with its data directory, from which old records are read
faster."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from penstock.client.client import Client
from penstock.client.connect import connect
from penstock.directory.slices import cut
from penstock.errors import (
    Forbidden,
    InvalidArgument,
    Overloaded,
    TopicNotFound,
    Unauthorized,
    UsageError,
)
from penstock.spark import locations
from penstock.spark.bounds import Bounds
from penstock.spark.directory_location import DirectoryLocation, bounded, losses
from penstock.spark.gaps import GapRow
from penstock.spark.locations import Location, Plan, ReadableRange
from penstock.spark.offsets import Offsets, StreamOffset
from penstock.spark.options import SourceOptions
from penstock.spark.ranges import Facts, between, vanished
from penstock.spark.tasks import RemoteRange, Work
from penstock.topics import validation
from penstock.types import TopicInfo

_REMOTE_RANGE_RECORDS = 100_000  # at most, in one piece of work
_SMALL_RANGE_RECORDS = 20_000  # so few are read from the server without opening the directory

logger = logging.getLogger("penstock.spark")


def location_of(options: SourceOptions) -> Location:
    if not options.url:
        return DirectoryLocation(options)
    return CombinedLocation(options) if options.path else ServerLocation(options)


class ServerLocation:
    """Reads a server."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: Client | None = None
        self._recorded: Offsets = {}
        self._younger: set[tuple[str, int]] = set()  # topics and epochs past startingTimestamp

    def beginning(self) -> Offsets:
        return self._beginning(self._topics(), frozenset())

    def heads(self) -> Offsets:
        return self._heads(self._topics())

    def within(self, begun: Offsets, heads: Offsets, records_max: int, bytes_max: int) -> Offsets:
        known = self._topics()
        waiting: dict[str, int] = {}
        size: dict[str, int] = {}
        for name, head in heads.items():
            start, info = begun.get(name), known.get(name)
            after = start.seq if start is not None and start.epoch == head.epoch else 0
            if info is not None and info.epoch == head.epoch and after < head.seq:
                after = max(after, min(info.earliest_seq - 1, head.seq - 1))
                waiting[name] = head.seq - after
                size[name] = max(1, waiting[name] * max(1, info.bytes // max(1, info.count)))
        records = locations.shared(waiting, records_max)
        bytes_ = locations.shared(size, bytes_max)
        found = dict(heads)
        for name, amount in waiting.items():
            step = min(records[name], max(1, amount * bytes_[name] // size[name]))
            found[name] = StreamOffset(heads[name].epoch, heads[name].seq - amount + step)
        return found

    def between(self, begun: Offsets, end: Offsets, bounds: Bounds) -> Plan:
        return self._between(self._topics(), begun, end, bounds, frozenset())

    def whole(self, bounds: Bounds) -> Plan:
        known = self._topics()
        options = self._options
        default_start: frozenset[str] = frozenset()
        if not options.starting_ts and not options.starting_seq and options.rows != "gaps":
            default_start = frozenset(options.chosen(known)) - frozenset(options.starting_offsets)
        begun = self._beginning(known, default_start)
        end = locations.ends(self._heads(known), options)
        return self._between(known, begun, end, bounds, default_start)

    def record_progress(self, end: Offsets) -> None:
        """Move the consumer position, with which others see the lag."""
        if not self._options.consumer:
            return
        for topic, offset in end.items():
            if self._recorded.get(topic) == offset:
                continue
            try:
                self._server().move_position(
                    topic, self._options.consumer, offset.seq, epoch=offset.epoch
                )
            except (Unauthorized, Forbidden, InvalidArgument):
                raise
            except (Overloaded, UsageError) as error:
                # The topic was dropped or recreated, or the server is busy. The checkpoint of
                # Spark has the position as well.
                logger.warning("position of %s in %s: %s", self._options.consumer, topic, error)
                if isinstance(error, Overloaded):
                    continue
            self._recorded[topic] = offset

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _beginning(self, known: dict[str, TopicInfo], default_start: frozenset[str]) -> Offsets:
        """The starting offsets. Topics in `default_start` start at seq 0."""
        given = self._options.starting_offsets
        found = {topic: given[topic] for topic in given if self._options.matches(topic)}
        for name in self._options.chosen(known):
            if name not in known:
                raise TopicNotFound(name)
            if name in default_start:
                found[name] = StreamOffset(known[name].epoch, 0)
            elif name not in found:
                found[name] = self._begin(known[name])
        return found

    def _begin(self, info: TopicInfo) -> StreamOffset:
        options = self._options
        seq = 0
        if options.starting_ts:
            seq = self._older(info, options.starting_ts)
        elif options.starting_seq:
            seq = options.starting_seq - 1
        elif options.rows != "gaps":
            gap = self._server().read_columns(info.name, 0, 1, columns=0).gap
            seq = 0 if gap is None or gap.first > 1 else gap.last
        return StreamOffset(info.epoch, min(seq, info.head_seq))

    def _heads(self, known: dict[str, TopicInfo]) -> Offsets:
        return {
            name: StreamOffset(info.epoch, info.head_seq)
            for name, info in known.items()
            if self._options.matches(name)
        }

    def _between(
        self,
        known: dict[str, TopicInfo],
        begun: Offsets,
        end: Offsets,
        bounds: Bounds,
        default_start: frozenset[str],
    ) -> Plan:
        plan = Plan()
        for name in sorted({*begun, *end}):
            if bounds.topics is not None and name not in bounds.topics:
                continue
            info = known.get(name)
            if info is None or name not in end:
                start = begun.get(name, StreamOffset(end[name].epoch, 0) if name in end else None)
                plan.gaps += [] if start is None else vanished(name, start, end.get(name))
                continue
            start = begun.get(name, StreamOffset(end[name].epoch, 0))
            asked = between(Facts(name, info.epoch, info.head_seq), start, end[name])
            plan.gaps += asked.gaps
            after = max(asked.after, bounds.seq_min - 1)
            if bounds.ts_min:
                after = max(after, self._passed(info, after, bounds.ts_min))
            last = min(asked.last, bounds.seq_max)
            if after < last:
                reported, found = self._range(info, after, last, bounds, name in default_start)
                plan.gaps += reported
                plan.ranges[name] = found
        return plan

    def _range(
        self, info: TopicInfo, after: int, last: int, bounds: Bounds, is_default_start: bool
    ) -> tuple[list[GapRow], ReadableRange]:
        """A range of a topic. A gap at its start is reported here, unless the start is the default.
        Tasks report all other gaps."""
        reported: list[GapRow] = []
        page = self._server().read_columns(info.name, after, 1, columns=0, epoch=info.epoch)
        if page.gap is not None:
            lost = min(page.gap.last, last)
            if not is_default_start:
                reported.append(GapRow(info.name, info.epoch, after + 1, lost, page.gap.reason))
            after = lost
        return reported, ReadableRange(
            after, last, lambda start, stop: [*self._remote_ranges(info, start, stop)]
        )

    def _remote_ranges(self, info: TopicInfo, after: int, last: int) -> Iterator[RemoteRange]:
        each = max(1, info.bytes // max(1, info.count))
        most = min(self._options.partition_records, _REMOTE_RANGE_RECORDS)
        for start in range(after, last, most):
            stop = min(last, start + most)
            yield RemoteRange(info.name, info.epoch, start, stop, (stop - start) * each)

    def _older(self, info: TopicInfo, ts: int) -> int:
        """The last seq that is known to be older than `ts`; 0 if there is none. The age of lost
        records is unknown."""
        if info.last_write_ts is None or info.last_write_ts < ts:
            return info.head_seq
        seq = self._server().seek(info.name, ts)
        return 0 if seq < info.earliest_seq else seq

    def _passed(self, info: TopicInfo, after: int, ts: int) -> int:
        """The same, without a request once the reader is above that seq."""
        key = info.name, info.epoch
        if key in self._younger:
            return 0
        seq = self._older(info, ts)
        if seq <= after:
            self._younger.add(key)
        return seq

    def _topics(self) -> dict[str, TopicInfo]:
        """All topics except internal ones."""
        found = self._server().topics()
        return {info.name: info for info in found if not validation.is_internal(info.name)}

    def _server(self) -> Client:
        if self._client is None:
            self._client = connect(self._options.url, self._options.token or None)
        return self._client


class CombinedLocation(ServerLocation):
    """Uses the heads of the server, and reads sealed segments from its directory."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._directory = DirectoryLocation(options)

    def _range(
        self, info: TopicInfo, after: int, last: int, bounds: Bounds, is_default_start: bool
    ) -> tuple[list[GapRow], ReadableRange]:
        reported, found = super()._range(info, after, last, bounds, is_default_start)
        if found.last - found.after <= _SMALL_RANGE_RECORDS:
            return reported, found
        view = self._directory.look()
        topic = view.topic(info.name)
        if topic is None or topic.epoch != info.epoch:
            return reported, found
        end = max((span.last for span in topic.spans if span.run.is_sealed), default=0)
        end = min(last, end)
        if end <= found.after:
            return reported, found
        low, high = bounded(topic, found.after, end, bounds)
        if is_default_start:  # the floor may have moved since the request
            low = max(low, min(topic.lost_floor, high))
        reported += losses(view, topic, low, high)
        most = self._options.partition_records

        def work(start: int, stop: int) -> list[Work]:
            first, until = max(start, low), min(stop, high)
            slices = cut(view, topic, after=first, last=until, records_max=most).slices
            return [*slices, *self._remote_ranges(info, max(start, end), stop)]

        return reported, ReadableRange(found.after, last, work)
