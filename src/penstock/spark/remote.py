"""Records of a server; and of a server together with the directory that it writes, from which
old records come faster."""

from __future__ import annotations

import logging

from penstock.client import client as clients
from penstock.errors import Overloaded, TopicNotFound
from penstock.spark import places
from penstock.spark.bounds import Bounds
from penstock.spark.gaps import GapRow
from penstock.spark.local import LocalPlace, bounded, take
from penstock.spark.offsets import Offset, Offsets
from penstock.spark.options import ReadOptions
from penstock.spark.places import Place, Plan
from penstock.spark.ranges import Facts, between, vanished
from penstock.spark.tasks import Stretch
from penstock.types import TopicInfo

_STRETCH_RECORDS = 100_000  # one task's, at most, unless there are many
_NEWS_RECORDS = 20_000  # so few are asked for without a look at the directory

logger = logging.getLogger("penstock.spark")


def place_of(options: ReadOptions) -> Place:
    if not options.url:
        return LocalPlace(options)
    return BothPlaces(options) if options.path else RemotePlace(options)


class RemotePlace:
    """Asks a server."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client: clients.Client | None = None
        self._noted: Offsets = {}

    def beginning(self) -> Offsets:
        known = self._topics()
        given = self._options.starting_offsets
        found = {topic: given[topic] for topic in given if self._options.matches(topic)}
        for name in self._options.chosen(known):
            if name not in known:
                raise TopicNotFound(name)
            found.setdefault(name, self._begin(known[name]))
        return found

    def heads(self) -> Offsets:
        return {
            name: Offset(info.epoch, info.head_seq)
            for name, info in self._topics().items()
            if self._options.matches(name)
        }

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
        records = places.shared(waiting, records_max)
        bytes_ = places.shared(size, bytes_max)
        found = dict(heads)
        for name, amount in waiting.items():
            step = min(records[name], max(1, amount * bytes_[name] // size[name]))
            found[name] = Offset(heads[name].epoch, heads[name].seq - amount + step)
        return found

    def between(self, begun: Offsets, end: Offsets, bounds: Bounds) -> Plan:
        known = self._topics()
        plan = Plan()
        for name in sorted({*begun, *end}):
            if bounds.topics is not None and name not in bounds.topics:
                continue
            info = known.get(name)
            if info is None or name not in end:
                start = begun.get(name, Offset(end[name].epoch, 0) if name in end else None)
                plan.gaps += [] if start is None else vanished(name, start, end.get(name))
                continue
            start = begun.get(name, Offset(end[name].epoch, 0))
            asked = between(Facts(name, info.epoch, info.head_seq), start, end[name])
            plan.gaps += asked.gaps
            after = max(asked.after, bounds.seq_min - 1)
            self._take(plan, info, after, min(asked.last, bounds.seq_max), bounds)
        return plan

    def note(self, end: Offsets) -> None:
        """How far the consumer has come, for those who watch its lag."""
        if not self._options.consumer:
            return
        for topic, offset in end.items():
            if self._noted.get(topic) == offset:
                continue
            try:
                self._server().move_position(
                    topic, self._options.consumer, offset.seq, epoch=offset.epoch
                )
            except (Overloaded, TopicNotFound) as error:  # the checkpoint has it as well
                logger.warning("position of %s in %s: %s", self._options.consumer, topic, error)
            else:
                self._noted[topic] = offset

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _take(self, plan: Plan, info: TopicInfo, after: int, last: int, bounds: Bounds) -> None:
        """Put a range of a topic into the plan. What is lost right at its beginning is told now,
        any other loss by the task that meets it."""
        if after >= last:
            return
        page = self._server().read_columns(info.name, after, 1, columns=0, epoch=info.epoch)
        if page.gap is not None:
            lost = min(page.gap.last, last)
            plan.gaps.append(GapRow(info.name, info.epoch, after + 1, lost, page.gap.reason))
            after = lost
        each = max(1, info.bytes // max(1, info.count))
        most = min(self._options.partition_records, _STRETCH_RECORDS)
        for start in range(after, last, most):
            stop = min(last, start + most)
            size = (stop - start) * each
            plan.stretches.append(Stretch(info.name, info.epoch, start, stop, size))

    def _begin(self, info: TopicInfo) -> Offset:
        options = self._options
        seq = 0
        if options.starting_ts:
            seq = self._server().seek(info.name, options.starting_ts)
        elif options.starting_seq:
            seq = options.starting_seq - 1
        elif options.rows != "gaps":
            gap = self._server().read_columns(info.name, 0, 1, columns=0).gap
            seq = 0 if gap is None or gap.first > 1 else gap.last
        return Offset(info.epoch, min(seq, info.head_seq))

    def _topics(self) -> dict[str, TopicInfo]:
        """Without those that Penstock keeps for itself."""
        found = self._server().topics()
        return {info.name: info for info in found if not info.name.startswith("_")}

    def _server(self) -> clients.Client:
        if self._client is None:
            self._client = clients.connect(self._options.url, self._options.token or None)
        return self._client


class BothPlaces(RemotePlace):
    """The server says what there is. What its directory has sealed is read there."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._directory = LocalPlace(options)

    def _take(self, plan: Plan, info: TopicInfo, after: int, last: int, bounds: Bounds) -> None:
        if last - after > _NEWS_RECORDS:
            after = self._take_sealed(plan, info, after, last, bounds)
        super()._take(plan, info, after, last, bounds)

    def _take_sealed(
        self, plan: Plan, info: TopicInfo, after: int, last: int, bounds: Bounds
    ) -> int:
        """Up to where the directory's segments go."""
        view = self._directory.look()
        topic = view.topic(info.name)
        if topic is None or topic.epoch != info.epoch:
            return after
        sealed = max((span.last for span in topic.spans if span.run.is_sealed), default=0)
        if sealed <= after:
            return after
        low, high = bounded(topic, after, min(last, sealed), bounds)
        take(plan, view, topic, low, high, self._options.partition_records)
        return max(after, min(last, sealed))
