"""The ids of an event type that were seen within its dedupe window: a projection of its topic.

Ids are kept in buckets of an eighth of the window, so that they are forgotten a bucket at a time:
an id is remembered for the window, and at most an eighth longer.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from penstock.codec.columns import DATA, Columns
from penstock.features.event_decoder import EventDecoder, FieldSchema
from penstock.types import Gap

_BUCKETS: Final = 8
_ID_BYTES: Final = 160  # of memory, about: the text, its entry and the seq

Id = str | int


class DedupeIndex:
    """One thread at a time. Its times are those of the log, so a replay gives the same state."""

    kind: Final = "dedupe"
    version: Final = 1
    wanted: Final = DATA

    def __init__(self, event: str, field: str, schema: FieldSchema, window_ms: int) -> None:
        self.definition = msgspec.json.encode([event, field, schema.type, window_ms])
        self.window_ms = window_ms
        self._field = field
        self._bucket_ms = max(1, -(-window_ms // _BUCKETS))
        self._decoder = EventDecoder(event, {field: FieldSchema(schema.type, is_optional=True)})
        self._buckets: deque[tuple[int, dict[Id, int]]] = deque()  # by start, oldest first

    def find(self, one: Id, now_ms: int) -> int | None:
        """The seq of the first event with this id within the window; None when there is none."""
        for start, ids in self._buckets:
            if start + self._bucket_ms + self.window_ms > now_ms and one in ids:
                return ids[one]
        return None

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
        if not self._buckets or self._buckets[-1][0] < start:
            self._buckets.append((start, {}))
        while self._buckets[0][0] + self._bucket_ms + self.window_ms <= start:
            self._buckets.popleft()
        found = dict(zip(reversed(ids), reversed(seqs), strict=True))
        for _, known in self._buckets:
            for one in known.keys() & found.keys():
                del found[one]
        self._buckets[-1][1].update(found)

    def lose(self, gap: Gap) -> None:
        """Lost ids are unknown: an event with one of them would be taken for a new one."""

    def snapshot(self) -> Iterator[bytes]:
        copies = [(start, dict(ids)) for start, ids in self._buckets]

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
                self._buckets.append((start, dict(zip(ids, seqs, strict=True))))
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from error
        if len(self._buckets) != buckets:
            raise ValueError(f"{len(self._buckets)} buckets of ids: expected {buckets}")

    @property
    def bytes(self) -> int:
        return sum(len(ids) * _ID_BYTES + sys.getsizeof(ids) for _, ids in self._buckets)


def id_of(event: Mapping[str, Any], field: str) -> Id | None:
    """The id of an event that was checked; None when it has none."""
    found = event.get(field)
    return found if isinstance(found, (str, int)) else None
