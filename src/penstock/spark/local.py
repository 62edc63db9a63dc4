"""Records of a data directory, read beside whoever writes it. Only what is past a sync is seen."""

from __future__ import annotations

from bisect import bisect_left

from penstock.engine.slices import cut, reach, weigh
from penstock.engine.view import View, look, pulse
from penstock.errors import TopicNotFound
from penstock.spark import places
from penstock.spark.bounds import SEQ_MAX, Bounds
from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offset, Offsets
from penstock.spark.options import ReadOptions
from penstock.spark.places import Plan, Reach
from penstock.spark.ranges import Facts, between, vanished
from penstock.spark.tasks import Work
from penstock.topics import reading
from penstock.topics.index import Topic


class LocalPlace:
    """Looks at the directory again whenever something has come to it."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._view: View | None = None
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
        mine = places.shared(records, records_max)
        size: dict[str, int] = {}
        if bytes_max:
            size = {
                name: max(1, weigh(topic, after=after, last=heads[name].seq))
                for name, (topic, after) in waiting.items()
            }
        mine_bytes = places.shared(size, bytes_max)
        for name, (topic, after) in waiting.items():
            last = reach(
                topic,
                after=after,
                last=heads[name].seq,
                records_max=mine[name] if records_max else SEQ_MAX,
                bytes_max=mine_bytes[name] if bytes_max else SEQ_MAX,
            )
            found[name] = Offset(topic.epoch, last)
        return found

    def between(self, begun: Offsets, end: Offsets, bounds: Bounds) -> Plan:
        return self._between(self.look(), begun, end, bounds)

    def whole(self, bounds: Bounds) -> Plan:
        view = self.look()
        end = places.ends(self._heads(view), self._options)
        return self._between(view, self._beginning(view), end, bounds)

    def note(self, end: Offsets) -> None:
        """A directory is only read: there is nobody to tell."""

    def close(self) -> None:
        self._view = None

    def look(self) -> View:
        """The directory as of now."""
        before = pulse(self._options.path)
        if self._view is None or before is None or before != self._pulse:
            self._view, self._pulse = look(self._options.path), before
        return self._view

    def _beginning(self, view: View) -> Offsets:
        given = self._options.starting_offsets
        found = {topic: given[topic] for topic in given if self._options.matches(topic)}
        for name in self._options.chosen([topic.name for topic in view.topics()]):
            topic = view.topic(name)
            if topic is None:
                raise TopicNotFound(name)
            found.setdefault(name, self._begin(topic))
        return found

    def _begin(self, topic: Topic) -> Offset:
        options = self._options
        seq = min(topic.lost_floor, topic.head)
        if options.starting_ts:
            seq = older(topic, options.starting_ts)
        elif options.starting_seq:
            seq = options.starting_seq - 1
        elif options.rows == "gaps":
            seq = 0  # whoever asks what is missing means the whole topic
        return Offset(topic.epoch, min(seq, topic.head))

    def _heads(self, view: View) -> Offsets:
        return {
            topic.name: Offset(topic.epoch, topic.head)
            for topic in view.topics()
            if self._options.matches(topic.name)
        }

    def _between(self, view: View, begun: Offsets, end: Offsets, bounds: Bounds) -> Plan:
        plan = Plan()
        for name in sorted({*begun, *end}):
            topic = view.topic(name)
            if bounds.topics is not None and name not in bounds.topics:
                continue
            if topic is None or name not in end:
                start = begun.get(name, Offset(end[name].epoch, 0) if name in end else None)
                plan.gaps += [] if start is None else vanished(name, start, end.get(name))
                continue
            start = begun.get(name, Offset(end[name].epoch, 0))
            asked = between(facts_of(topic), start, end[name])
            after, last = bounded(topic, asked.after, asked.last, bounds)
            plan.gaps += asked.gaps + losses(view, topic, after, last)
            if after < last:
                plan.reaches[name] = self._reach(view, topic, after, last)
        return plan

    def _reach(self, view: View, topic: Topic, after: int, last: int) -> Reach:
        most = self._options.partition_records

        def work(start: int, stop: int) -> list[Work]:
            return [*cut(view, topic, after=start, last=stop, records_max=most).slices]

        return Reach(after, last, work)


def facts_of(topic: Topic) -> Facts:
    return Facts(topic.name, topic.epoch, topic.head)


def older(topic: Topic, ts: int) -> int:
    """The last seq that is known to be older than `ts`, 0 without one. Of records that were lost
    nobody knows how old they were."""
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
    """What filters leave of a range."""
    after = max(after, bounds.seq_min - 1)
    last = min(last, bounds.seq_max)
    if bounds.ts_min:
        after = max(after, older(topic, bounds.ts_min))
    if bounds.ts_max < SEQ_MAX:
        last = min(last, reading.seek(topic, bounds.ts_max + 1))
    return after, last


def losses(view: View, topic: Topic, after: int, last: int) -> list[GapRow]:
    """What a reader of a range has to be told."""
    found = cut(view, topic, after=after, last=last, records_max=1 << 62)
    return [GapRow(topic.name, topic.epoch, gap.first, gap.last, gap.reason) for gap in found.gaps]
