"""What clients wrote and read, and what is wrong with it.

Knows nothing of the code under test: records are told apart by who wrote them and a running
number. Anomalies have a kind as their first word, so that a rig can say what it caught.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

Value = tuple[str, int]  # the producer, and the number it gave the record
RETENTION = frozenset({"cap", "ttl", "mixed"})  # reasons for which an acknowledged record may go

UNKNOWN, ACKED = "unknown", "acked"


@dataclass(slots=True, eq=False)
class Write:
    """Records that must arrive together and in order, or not at all."""

    producer: str
    topic: str
    numbers: tuple[int, ...]
    key: str | None
    outcome: str = UNKNOWN
    first: int = 0
    last: int = 0
    attempts: int = 0
    is_part: bool = False  # of something that is written to several topics at once

    @property
    def values(self) -> list[Value]:
        return [(self.producer, number) for number in self.numbers]

    def __str__(self) -> str:
        key = f" with key {self.key}" if self.key else ""
        seqs = f" at {self.first}..{self.last}" if self.outcome == ACKED else ""
        return (
            f"{self.producer}#{self.numbers[0]}..{self.numbers[-1]} to {self.topic}{key}"
            f" ({self.outcome}{seqs}, {self.attempts} attempts)"
        )


@dataclass
class View:
    """What one reader was given of one topic, from its beginning on."""

    position: int = 0
    records: dict[int, Value] = field(default_factory=dict)
    gaps: list[tuple[int, int, str]] = field(default_factory=list)

    @cached_property
    def values(self) -> set[Value]:
        """Once it is complete."""
        return set(self.records.values())

    @property
    def is_retained(self) -> bool:
        """Does the topic let go of old records?"""
        return any(why in RETENTION for _, _, why in self.gaps)

    def gap_of(self, seq: int) -> str | None:
        """The reason this reader was told for a seq that it did not get."""
        return next((why for first, last, why in self.gaps if first <= seq <= last), None)


class History:
    """Gathered by one thread, or under a lock of the rig's own; judged at the end."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.groups: list[list[Write]] = []  # writes to several topics that go together
        self.views: dict[tuple[str, str], View] = {}  # of reader and topic
        self.anomalies: list[str] = []
        self.heads: Counter[str] = Counter()  # per topic, the newest seq somebody was promised
        self.counts: Counter[str] = Counter()
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: itertools.count(1))

    # Writing.

    def begin(self, producer: str, topic: str, count: int, key: str | None = None) -> Write:
        """A producer is about to write `count` records; it writes one batch after the other."""
        numbers = self._numbers[producer]
        write = Write(producer, topic, tuple(next(numbers) for _ in range(count)), key)
        self.writes.append(write)
        return write

    def together(self, writes: list[Write]) -> None:
        """These happen all or not at all."""
        self.groups.append(writes)
        for write in writes:
            write.is_part = True

    def acked(self, write: Write, first: int, last: int, *, deduped: bool) -> None:
        """The server answered. The same write may be answered again, with the same seqs."""
        self.counts["acks"] += 1
        self.counts["deduped"] += deduped
        if last - first + 1 != len(write.numbers):
            self._wrong("misnumbered", f"{write} was answered {first}..{last}")
        if write.outcome == ACKED:
            if not deduped:
                self._wrong("duplicated", f"{write} was taken again at {first}..{last}")
            elif (first, last) != (write.first, write.last):
                self._wrong("misnumbered", f"{write} was answered {first}..{last} when repeated")
        elif deduped and write.attempts < 2:
            self._wrong("misnumbered", f"{write} was called a repetition the first time")
        write.outcome, write.first, write.last = ACKED, first, last
        self.heads[write.topic] = max(self.heads[write.topic], last)

    # Reading.

    def view(self, reader: str, topic: str) -> View:
        return self.views.setdefault((reader, topic), View())

    def delivered(self, reader: str, topic: str, seq: int, value: Value) -> None:
        """A reader was given a record. It never asks twice for what it has."""
        self.counts["deliveries"] += 1
        view = self.view(reader, topic)
        if seq in view.records:
            self._wrong("redelivered", f"{reader} got {topic}:{seq} again")
            if view.records[seq] != value:
                self._wrong("changed", f"{topic}:{seq} was {view.records[seq]}, is {value}")
        elif seq <= view.position:
            self._wrong("reordered", f"{reader} got {topic}:{seq} when it was at {view.position}")
        view.records[seq] = value
        view.position = max(view.position, seq)

    def gap(self, reader: str, topic: str, first: int, last: int, reason: str) -> None:
        """A reader was told that seqs are missing."""
        self.counts["gaps"] += 1
        view = self.view(reader, topic)
        view.gaps.append((first, last, reason))
        view.position = max(view.position, last)

    def passed(self, reader: str, topic: str, seq: int) -> None:
        """A reader was told that there is nothing more for it up to `seq`."""
        view = self.view(reader, topic)
        view.position = max(view.position, seq)

    def head_seen(self, reader: str, topic: str, promised: int, head: int) -> None:
        """A read that began when `promised` was acknowledged says that this is the newest."""
        if head < promised:
            self._wrong("stale", f"{reader} was told head {head} of {topic} after ack {promised}")

    def behind(self, readers: Iterable[str], heads: Mapping[str, int]) -> list[str]:
        """Who has not come to the end of what."""
        return [
            f"{reader} is at {self.view(reader, topic).position} of {head} in {topic}"
            for reader in readers
            for topic, head in heads.items()
            if self.view(reader, topic).position < head
        ]

    # The verdict.

    def judge(self, final: str) -> list[str]:
        """Everything that is wrong, given that reader `final` has read all topics to their end
        after everyone else was done."""
        logs = {topic: view for (name, topic), view in self.views.items() if name == final}
        self._judge_writes(logs)
        self._judge_groups(logs)
        self._judge_order(logs)
        for (reader, topic), view in self.views.items():
            self._judge_reader(reader, topic, view, logs.get(topic, View()))
        return self.anomalies

    def _judge_writes(self, logs: Mapping[str, View]) -> None:
        known = {(write.topic, value) for write in self.writes for value in write.values}
        seen: dict[tuple[str, Value], int] = {}  # by anybody: retention may have taken it since
        for (_, topic), view in self.views.items():
            for seq, value in view.records.items():
                if (topic, value) not in known:
                    self._wrong("invented", f"{topic}:{seq} is {value}, which nobody wrote")
                other = seen.setdefault((topic, value), seq)
                if other != seq:
                    self._wrong("duplicated", f"{value} is at {other} and {seq} of {topic}")
        for write in self.writes:
            log = logs.get(write.topic, View())
            places = [seen.get((write.topic, value)) for value in write.values]
            there = [
                seq if seq is not None and log.records.get(seq) == value else None
                for seq, value in zip(places, write.values, strict=True)
            ]
            if write.outcome == ACKED:
                self._judge_acked(write, there, log)
            else:
                self._judge_unknown(write, there, log)

    def _judge_acked(self, write: Write, there: list[int | None], log: View) -> None:
        for seq, place in zip(range(write.first, write.last + 1), there, strict=False):
            if place == seq:
                continue
            if place is not None:
                self._wrong("misnumbered", f"{write}: what should be at {seq} is at {place}")
            elif log.gap_of(seq) not in RETENTION:
                self._wrong("lost", f"{write}: nothing at {seq}")

    def _judge_unknown(self, write: Write, there: list[int | None], log: View) -> None:
        """All of it or nothing, but for a beginning that retention took."""
        present = [seq for seq in there if seq is not None]
        if not present:
            return
        count = len(present) if log.is_retained else len(there)
        whole = list(range(present[0], present[0] + count))
        if present != whole or there[-1] is None:
            self._wrong("torn", f"of {write} there is {there}")

    def _judge_groups(self, logs: Mapping[str, View]) -> None:
        for group in self.groups:
            # Of a topic that lets go of records nobody can tell by now.
            judged = [one for one in group if not logs.get(one.topic, View()).is_retained]
            present = [one.values[0] in logs.get(one.topic, View()).values for one in judged]
            if any(present) and not all(present):
                self._wrong("torn", f"only {sum(present)} of {', '.join(map(str, group))}")

    def _judge_order(self, logs: Mapping[str, View]) -> None:
        for topic, log in logs.items():
            newest: dict[str, int] = {}
            for seq in sorted(log.records):
                producer, number = log.records[seq]
                if number <= newest.get(producer, 0):
                    self._wrong(
                        "reordered",
                        f"{producer}#{number} at {topic}:{seq} follows #{newest[producer]}",
                    )
                newest[producer] = number

    def _judge_reader(self, reader: str, topic: str, view: View, log: View) -> None:
        for seq, value in view.records.items():
            now = log.records.get(seq)
            if now is not None and now != value:
                self._wrong("dirty", f"{reader} read {value} at {topic}:{seq}, which is {now}")
            elif now is None and log.gap_of(seq) not in RETENTION:
                self._wrong("dirty", f"{reader} read {value} at {topic}:{seq}, which is gone")
        told: set[int] = set()
        for first, last, _ in view.gaps:
            told.update(range(first, min(last, view.position) + 1))
        for seq in told & log.records.keys():
            self._wrong("false-gap", f"{reader} was told that {topic}:{seq} is gone")
        for seq in range(1, view.position + 1):
            if seq not in view.records and seq not in told:
                self._wrong("silent-gap", f"{reader} was never told of {topic}:{seq}")

    def _wrong(self, kind: str, what: str) -> None:
        self.anomalies.append(f"{kind}: {what}")
