"""Records of a data directory, read beside whoever writes it. Only what is past a sync is seen."""

from __future__ import annotations

from penstock.engine.slices import cut, reach
from penstock.engine.view import View, look, pulse
from penstock.errors import TopicNotFound
from penstock.spark import places
from penstock.spark.bounds import SEQ_MAX, Bounds
from penstock.spark.gaps import GapRow
from penstock.spark.offsets import Offset, Offsets
from penstock.spark.options import ReadOptions
from penstock.spark.places import Plan
from penstock.spark.ranges import Facts, between, vanished
from penstock.topics import reading
from penstock.topics.index import Topic


class LocalPlace:
    """Looks at the directory again whenever something has come to it."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._view: View | None = None
        self._pulse: object = None

    def beginning(self) -> Offsets:
        view = self.look()
        given = self._options.starting_offsets
        found = {topic: given[topic] for topic in given if self._options.matches(topic)}
        for name in self._options.chosen([topic.name for topic in view.topics()]):
            topic = view.topic(name)
            if topic is None:
                raise TopicNotFound(name)
            found.setdefault(name, self._begin(topic))
        return found

    def heads(self) -> Offsets:
        return {
            topic.name: Offset(topic.epoch, topic.head)
            for topic in self.look().topics()
            if self._options.matches(topic.name)
        }

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
        size = {
            name: max(1, topic.bytes * records[name] // max(1, topic.head - topic.earliest + 1))
            for name, (topic, _) in waiting.items()
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
        view = self.look()
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
            plan.gaps += asked.gaps
            take(plan, view, topic, after, last, self._options.partition_records)
        return plan

    def note(self, end: Offsets) -> None:
        """A directory is only read: there is nobody to tell."""

    def close(self) -> None:
        self._view = None

    def _begin(self, topic: Topic) -> Offset:
        options = self._options
        seq = min(topic.lost_floor, topic.head)
        if options.starting_ts:
            seq = reading.seek(topic, options.starting_ts)
        elif options.starting_seq:
            seq = options.starting_seq - 1
        elif options.rows == "gaps":
            seq = 0  # whoever asks what is missing means the whole topic
        return Offset(topic.epoch, min(seq, topic.head))

    def look(self) -> View:
        """The directory as of now."""
        before = pulse(self._options.path)
        if self._view is None or before is None or before != self._pulse:
            self._view, self._pulse = look(self._options.path), before
        return self._view


def facts_of(topic: Topic) -> Facts:
    return Facts(topic.name, topic.epoch, topic.head)


def bounded(topic: Topic, after: int, last: int, bounds: Bounds) -> tuple[int, int]:
    """What filters leave of a range."""
    after = max(after, bounds.seq_min - 1)
    last = min(last, bounds.seq_max)
    if bounds.ts_min:
        after = max(after, reading.seek(topic, bounds.ts_min))
    if bounds.ts_max < SEQ_MAX:
        last = min(last, reading.seek(topic, bounds.ts_max + 1))
    return after, last


def take(plan: Plan, view: View, topic: Topic, after: int, last: int, records_max: int) -> None:
    """Put a range of a topic into the plan."""
    found = cut(view, topic, after=after, last=last, records_max=records_max)
    plan.slices += found.slices
    plan.gaps += [
        GapRow(topic.name, topic.epoch, gap.first, gap.last, gap.reason) for gap in found.gaps
    ]
