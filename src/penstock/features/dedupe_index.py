"""The ids of an event type that were seen within its dedupe window: a projection of its topic.

Ids are kept in buckets of an eighth of the window, so that they are forgotten a bucket at a time:
an id is remembered for the window, and at most an eighth longer. They are forgotten when the next
id comes.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np

from penstock.codec.columns import DATA, Columns
from penstock.features.event_decoder import EventDecoder, FieldSchema
from penstock.types import Gap

_BUCKETS: Final = 8
_ENTRY_BYTES: Final = 96  # of memory, at most about: the seq of an id, and its place in the bucket

Id = str | int


@dataclass(slots=True)
class _Bucket:
    start: int  # ms
    ids: dict[Id, int] = field(default_factory=dict)  # with the seq of the first event
    bytes: int = 0

    def add(self, ids: Mapping[Id, int]) -> None:
        """Add ids that it does not have."""
        self.ids.update(ids)
        self.bytes += bytes_of(ids)


class DedupeIndex:
    """One thread at a time. Its times are those of the log, so a replay gives the same state."""

    kind: Final = "dedupe"
    version: Final = 1
    wanted: Final = DATA

    def __init__(self, event: str, id_field: str, schema: FieldSchema, window_ms: int) -> None:
        self.definition = msgspec.json.encode([event, id_field, schema.type, window_ms])
        self.window_ms = window_ms
        self._field = id_field
        self._bucket_ms = max(1, -(-window_ms // _BUCKETS))
        self._decoder = EventDecoder(event, {id_field: FieldSchema(schema.type, is_optional=True)})
        self._buckets: deque[_Bucket] = deque()  # by start, oldest first

    def find(self, one: Id, now_ms: int) -> int | None:
        """The seq of the first event with this id within the window; None when there is none."""
        for bucket in self._buckets:
            if self._end_of(bucket) > now_ms and one in bucket.ids:
                return bucket.ids[one]
        return None

    def bytes_at(self, now_ms: int) -> int:
        """The memory of the ids that an event of now would not make it forget."""
        return sum(bucket.bytes for bucket in self._kept_at(now_ms))

    def count_at(self, now_ms: int) -> int:
        return sum(len(bucket.ids) for bucket in self._kept_at(now_ms))

    def frees_in_ms(self, now_ms: int) -> int:
        """How long until an event makes it forget some of these."""
        kept = self._kept_at(now_ms)
        if not kept:
            return 0
        return -(-self._end_of(kept[0]) // self._bucket_ms) * self._bucket_ms - now_ms

    def _kept_at(self, now_ms: int) -> list[_Bucket]:
        start = now_ms - now_ms % self._bucket_ms
        return [bucket for bucket in self._buckets if self._end_of(bucket) > start]

    def _end_of(self, bucket: _Bucket) -> int:
        """When its newest ids are no longer within the window."""
        return bucket.start + self._bucket_ms + self.window_ms

    def apply(self, columns: Columns) -> None:
        events = self._decoder.decode(columns)
        column = events.columns[self._field]
        kept = np.flatnonzero(column.is_present)
        if not len(kept):
            return
        records = events.records[kept]
        ids: list[Id] = column.values[kept].tolist()
        seqs: list[int] = np.frombuffer(columns.seqs, np.int64)[records].tolist()
        tss = np.frombuffer(columns.tss, np.int64)[records]
        starts = tss - tss % self._bucket_ms
        edges = [0, *(np.flatnonzero(np.diff(starts)) + 1).tolist(), len(ids)]
        for first, last in itertools.pairwise(edges):
            self._add(int(starts[first]), ids[first:last], seqs[first:last])

    def _add(self, start: int, ids: list[Id], seqs: list[int]) -> None:
        """The first event with an id counts: later ones are its duplicates."""
        while self._buckets and self._end_of(self._buckets[0]) <= start:
            self._buckets.popleft()
        if not self._buckets or self._buckets[-1].start < start:
            self._buckets.append(_Bucket(start))
        found = dict(zip(reversed(ids), reversed(seqs), strict=True))
        for bucket in self._buckets:
            for one in bucket.ids.keys() & found.keys():
                del found[one]
        self._buckets[-1].add(found)

    def lose(self, gap: Gap) -> None:
        """Lost ids are unknown: an event with one of them would be taken for a new one."""

    def snapshot(self) -> Iterator[bytes]:
        copies = [(bucket.start, dict(bucket.ids)) for bucket in self._buckets]

        def parts() -> Iterator[bytes]:
            yield msgspec.msgpack.encode(len(copies))
            for start, ids in copies:
                yield msgspec.msgpack.encode((start, list(ids), list(ids.values())))

        return parts()

    def restore(self, parts: Iterable[memoryview]) -> None:
        given = iter(parts)
        try:
            buckets = msgspec.msgpack.decode(next(given, b""), type=int)
            for part in given:
                start, ids, seqs = msgspec.msgpack.decode(
                    part, type=tuple[int, list[str | int], list[int]]
                )
                self._buckets.append(_Bucket(start))
                self._buckets[-1].add(dict(zip(ids, seqs, strict=True)))
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error
        if len(self._buckets) != buckets:
            raise ValueError(f"{len(self._buckets)} buckets of ids: expected {buckets}")

    @property
    def count(self) -> int:
        """How many ids it has."""
        return sum(len(bucket.ids) for bucket in self._buckets)

    @property
    def bytes(self) -> int:
        return sum(bucket.bytes for bucket in self._buckets)


def bytes_of(ids: Collection[Id]) -> int:
    """The memory that ids take, at most about."""
    return len(ids) * _ENTRY_BYTES + sum(map(sys.getsizeof, ids))


def id_of(event: Mapping[str, Any], field: str) -> Id | None:
    """The id of an event that was checked; None when it has none."""
    found = event.get(field)
    return found if isinstance(found, (str, int)) else None
