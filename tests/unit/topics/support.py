"""Records in plain lists, so that the rules of a topic are tried without a byte of the log."""

from __future__ import annotations

import json
from typing import NamedTuple

from hypothesis import strategies as st

from penstock.entries import FloorMoved, RecordsAppended, RecordsDeleted
from penstock.topics import sealing
from penstock.topics.bitmap import indices_of, pack_indices
from penstock.topics.spans import Run, Span
from penstock.topics.topic import Topic
from penstock.types import TopicConfig

ROOM = 4  # records that an open run takes before the next one is begun


class Row(NamedTuple):
    size: int = 1
    ts: int = 0
    tag: str = ""


class Rows:
    """A run that keeps its records in a list."""

    def __init__(self, rows: list[Row], *, is_sealed: bool = False) -> None:
        self.rows = rows
        self.is_sealed = is_sealed

    @property
    def last_ts(self) -> int:
        return self.rows[-1].ts

    @property
    def mark(self) -> int:
        return len(self.rows)

    def reset(self, mark: int) -> None:
        del self.rows[mark:]

    def measure(self, start: int, stop: int, dead: bytearray | None) -> tuple[int, int]:
        alive = self._alive(start, stop, dead)
        return len(alive), sum(self.rows[index].size for index in alive)

    def measure_some(self, indices: bytes) -> int:
        return sum(self.rows[index].size for index in indices_of(indices))

    def find_tags(
        self, start: int, stop: int, dead: bytearray | None, value: bytes, *, is_prefix: bool
    ) -> bytes:
        return pack_indices(
            index
            for index in self._alive(start, stop, dead)
            if (tag := self.rows[index].tag.encode())
            and (tag.startswith(value) if is_prefix else tag == value)
        )

    def older_than(self, start: int, stop: int, ts: int) -> int:
        return next((i for i in range(start, stop) if self.rows[i].ts >= ts), stop)

    def ts_of(self, index: int) -> int:
        return self.rows[index].ts

    def _alive(self, start: int, stop: int, dead: bytearray | None) -> list[int]:
        bits = int.from_bytes(dead or b"", "little")
        return [index for index in range(start, stop) if not bits >> index & 1]


def place(entry: RecordsAppended, tail: Run | None) -> tuple[Run, bool]:
    """As the engine does it: into the open run at the end, or a new one."""
    rows = [Row(*row) for row in json.loads(bytes(entry.frames))]
    if isinstance(tail, Rows) and not tail.is_sealed and len(tail.rows) < ROOM:
        tail.rows.extend(rows)
        return tail, False
    return Rows(rows), True


def appended(
    first: int, rows: list[Row] | int, *, topic_id: int = 1, key: bytes = b""
) -> RecordsAppended:
    """An append of these rows, or of that many records of one byte."""
    if isinstance(rows, int):
        rows = [Row()] * rows
    return RecordsAppended(
        topic_id,
        first,
        len(rows),
        rows[0].ts,
        rows[-1].ts,
        sum(row.size for row in rows),
        json.dumps(rows).encode(),
        b"",
        key,
    )


def topic_of(*rows: Row, first: int = 1, **config: object) -> Topic:
    """A topic with these records, appended one by one."""
    topic = Topic(1, "t", TopicConfig(**config), 0)
    for seq, row in enumerate(rows, first):
        topic.apply_append(appended(seq, [row]), place)
    return topic


def cut(span: Span, index: int) -> tuple[int, int]:
    """Drop the records below `index`; (records, bytes) that were alive."""
    before = span.live, span.bytes
    span.start, span.live, span.bytes = span.cut_at(index)
    return before[0] - span.live, before[1] - span.bytes


def span_of(*sizes: int, first: int = 1) -> Span:
    run = Rows([Row(size) for size in sizes])
    return Span(run, first=first, count=len(sizes), live=len(sizes), payload_bytes=sum(sizes))


def live_seqs(topic: Topic) -> list[int]:
    """Every live seq as the spans tell it."""
    return [
        span.first + index
        for span in topic.spans
        for index in range(span.start, span.count)
        if span.dead is None or index not in span.dead
    ]


def delete(topic: Topic, *, before: int | None = None, seqs: tuple[int, ...] = ()) -> None:
    topic.apply_delete(RecordsDeleted(1, before, None, seqs, topic.head))


def floors(topic: Topic, *, evict: int = 0, expiry: int = 0) -> Topic:
    topic.apply_floor(FloorMoved(1, evict, 0, expiry))
    return topic


stories = st.tuples(
    st.lists(st.integers(0, 3), max_size=14),  # how much later each record came
    st.sets(st.integers(1, 14)),  # deleted
    st.integers(0, 14),  # evicted up to here
    st.integers(0, 14),  # the first span is cut in two here
)


def told_as(story: tuple[list[int], set[int], int, int]) -> tuple[Topic, dict[int, int]]:
    """The topic, and the commit time of every record it still has, dead ones too."""
    steps, gone, evicted, cut = story
    times = [1 + sum(steps[: at + 1]) for at in range(len(steps))]  # 0 is no time: see `ts_of`
    topic = topic_of(*(Row(ts=ts) for ts in times))
    delete(topic, seqs=tuple(gone))
    floors(topic, evict=evicted)
    if topic.spans and topic.spans[0].start < cut < topic.spans[0].count:
        topic.spans[:1] = sealing.split(topic.spans[0], cut)
    held = {
        span.first + index: times[span.first + index - 1]
        for span in topic.spans
        for index in range(span.start, span.count)
    }
    return topic, held
