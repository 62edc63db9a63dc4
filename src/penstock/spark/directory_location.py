"""Reads a data directory while another process may write to it. Sees only synced records."""

from __future__ import annotations

from bisect import bisect_left

from penstock.directory.directory_view import DirectoryView, look, pulse
from penstock.directory.slices import cut, reach, weigh
from penstock.errors import TopicNotFound
from penstock.spark import locations
from penstock.spark.bounds import SEQ_MAX, Bounds
from penstock.spark.gaps import GapRow
from penstock.spark.locations import Plan, ReadableRange
from penstock.spark.offsets import Offsets, StreamOffset
from penstock.spark.options import SourceOptions
from penstock.spark.ranges import Facts, between, vanished
from penstock.spark.tasks import Work
from penstock.topics import seek_by_time
from penstock.topics.topic import Topic


class DirectoryLocation:
    """Reads the state of the directory again when it has changed."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._view: DirectoryView | None = None
        self._pulse: object = None

    def beginning(self) -> Offsets:
        return self._beginning(self.look())

    def heads(self) -> Offsets:
        return self._heads(self.look())

    def within(self, begun: Offsets, heads: Offsets, records_max: int, bytes_max: int) -> Offsets:
        view = self.look()
        found = dict(heads)
        waiting: dict[str, tuple[Topic, int]] = {}
        for name, head in heads.items():
            topic, start = view.topic(name), begun.get(name)
            if topic is None or topic.epoch != head.epoch:
                continue
            after = start.seq if start is not None and start.epoch == head.epoch else 0
            after = max(after, min(topic.lost_floor, head.seq))
            if after < head.seq:
                waiting[name] = topic, after
        records = {name: heads[name].seq - after for name, (_, after) in waiting.items()}
        mine = locations.shared(records, records_max)
        size: dict[str, int] = {}
        if bytes_max:
            size = {
                name: max(1, weigh(topic, after=after, last=heads[name].seq))
                for name, (topic, after) in waiting.items()
            }
        mine_bytes = locations.shared(size, bytes_max)
        for name, (topic, after) in waiting.items():
            last = reach(
                topic,
                after=after,
                last=heads[name].seq,
                records_max=mine[name] if records_max else SEQ_MAX,
                bytes_max=mine_bytes[name] if bytes_max else SEQ_MAX,
            )
            found[name] = StreamOffset(topic.epoch, last)
        return found

    def between(self, begun: Offsets, end: Offsets, bounds: Bounds) -> Plan:
        return self._between(self.look(), begun, end, bounds)

    def whole(self, bounds: Bounds) -> Plan:
        view = self.look()
        end = locations.ends(self._heads(view), self._options)
        return self._between(view, self._beginning(view), end, bounds)

    def record_progress(self, end: Offsets) -> None:
        """Does nothing: a directory is only read."""

    def close(self) -> None:
        self._view = None

    def look(self) -> DirectoryView:
        """The directory now."""
        before = pulse(self._options.path)
        if self._view is None or before is None or before != self._pulse:
            self._view, self._pulse = look(self._options.path), before
        return self._view

    def _beginning(self, view: DirectoryView) -> Offsets:
        given = self._options.starting_offsets
        found = {topic: given[topic] for topic in given if self._options.matches(topic)}
        for name in self._options.chosen([topic.name for topic in view.topics()]):
            topic = view.topic(name)
            if topic is None:
                raise TopicNotFound(name)
            found.setdefault(name, self._begin(topic))
        return found

    def _begin(self, topic: Topic) -> StreamOffset:
        options = self._options
        seq = min(topic.lost_floor, topic.head)
        if options.starting_ts:
            seq = older(topic, options.starting_ts)
        elif options.starting_seq:
            seq = options.starting_seq - 1
        elif options.rows == "gaps":
            seq = 0  # a query for gaps is about the whole topic
        return StreamOffset(topic.epoch, min(seq, topic.head))

    def _heads(self, view: DirectoryView) -> Offsets:
        return {
            topic.name: StreamOffset(topic.epoch, topic.head)
            for topic in view.topics()
            if self._options.matches(topic.name)
        }

    def _between(self, view: DirectoryView, begun: Offsets, end: Offsets, bounds: Bounds) -> Plan:
        plan = Plan()
        for name in sorted({*begun, *end}):
            topic = view.topic(name)
            if bounds.topics is not None and name not in bounds.topics:
                continue
            if topic is None or name not in end:
                start = begun.get(name, StreamOffset(end[name].epoch, 0) if name in end else None)
                plan.gaps += [] if start is None else vanished(name, start, end.get(name))
                continue
            start = begun.get(name, StreamOffset(end[name].epoch, 0))
            asked = between(facts_of(topic), start, end[name])
            after, last = bounded(topic, asked.after, asked.last, bounds)
            plan.gaps += asked.gaps + losses(view, topic, after, last)
            if after < last:
                plan.ranges[name] = self._range(view, topic, after, last)
        return plan

    def _range(self, view: DirectoryView, topic: Topic, after: int, last: int) -> ReadableRange:
        most = self._options.partition_records

        def work(start: int, stop: int) -> list[Work]:
            return [*cut(view, topic, after=start, last=stop, records_max=most).slices]

        return ReadableRange(after, last, work)


def facts_of(topic: Topic) -> Facts:
    return Facts(topic.name, topic.epoch, topic.head)


def older(topic: Topic, ts: int) -> int:
    """The last seq that is known to be older than `ts`; 0 if there is none. The age of lost records
    is unknown."""
    if topic.last_ts < ts:
        return topic.head
    spans = topic.spans
    at = bisect_left(spans, ts, key=lambda span: span.run.last_ts)  # times never fall
    for number in range(at, len(spans)):
        span = spans[number]
        index = span.run.older_than(span.start, span.count, ts)
        if span.start < index < span.count:
            return span.first + index - 1
        if index < span.count:
            return spans[number - 1].last if number else 0
    return spans[-1].last if spans else 0


def bounded(topic: Topic, after: int, last: int, bounds: Bounds) -> tuple[int, int]:
    """The part of a range that is within the bounds."""
    after = max(after, bounds.seq_min - 1)
    last = min(last, bounds.seq_max)
    if bounds.ts_min:
        after = max(after, older(topic, bounds.ts_min))
    if bounds.ts_max < SEQ_MAX:
        last = min(last, seek_by_time.seek(topic, bounds.ts_max + 1))
    return after, last


def losses(view: DirectoryView, topic: Topic, after: int, last: int) -> list[GapRow]:
    """The gaps within a range."""
    found = cut(view, topic, after=after, last=last, records_max=1 << 62)
    return [GapRow(topic.name, topic.epoch, gap.first, gap.last, gap.reason) for gap in found.gaps]
