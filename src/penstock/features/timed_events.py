"""From records of a topic to the events of a table: decoded, timed, and run through its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from penstock.codec.columns import Columns
from penstock.features.event_column import Bools, EventColumn, Int64s
from penstock.features.event_decoder import EventDecoder, FieldSchema
from penstock.features.table_plan import TablePlan

NO_TIME: Final = -(1 << 62)  # before any event
TIME_END: Final = 1 << 53  # ms; times at or beyond it are no times
BAD_KEPT: Final = 8  # reasons of bad events that are kept to be shown

Named = Mapping[str, EventColumn]


@dataclass(frozen=True, slots=True)
class TimedEvents:
    """Events in the order of the log. Immutable."""

    columns: Named
    times: Int64s
    largest: Int64s  # the largest time of all events of the topic, up to each one
    records: Int64s  # the number of each event's record in the batch

    def __len__(self) -> int:
        return len(self.times)

    def only(self, kept: Bools) -> TimedEvents:
        """Some of the events."""
        if kept.all():
            return self
        return TimedEvents(
            {
                name: EventColumn(column.type, column.values[kept], column.is_present[kept])
                for name, column in self.columns.items()
            },
            self.times[kept],
            self.largest[kept],
            self.records[kept],
        )

    def with_columns(self, names: frozenset[str]) -> TimedEvents:
        """All events with some of the columns."""
        columns = {name: column for name, column in self.columns.items() if name in names}
        return TimedEvents(columns, self.times, self.largest, self.records)


@dataclass(slots=True)
class EventCounts:
    """What became of the records. `bad_reasons` has the first few; it is not saved."""

    events: int = 0  # reached a key
    bad: int = 0  # did not fit the schema
    late: int = 0  # were older than the lateness allows
    filtered: int = 0  # did not pass a step
    ignored: int = 0  # had no key
    lost: int = 0  # were gone before they could be folded
    bad_reasons: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, int]:
        names = ("events", "bad", "late", "filtered", "ignored", "lost")
        return {name: getattr(self, name) for name in names}

    def add(self, counts: Mapping[str, int]) -> None:
        """Add what `to_json` gave of others."""
        for name in self.to_json():
            setattr(self, name, getattr(self, name) + counts.get(name, 0))


class TimedEventReader:
    """Knows the largest time so far. One thread at a time."""

    def __init__(self, plan: TablePlan) -> None:
        self.counts = EventCounts()
        self.largest = NO_TIME
        self._plan = plan
        self._decoder = EventDecoder(
            plan.event.name,
            {
                name: FieldSchema(declared.type, declared.is_optional)
                for name, declared in plan.event.fields.items()
            },
        )

    def read(self, batch: Columns, largest: Int64s | None = None) -> TimedEvents:
        """The next events of the table. Counts the others. Without the records of other keys,
        `largest` has for each record the largest time of all events up to it."""
        return self.stepped(self.timed(batch, largest))

    def timed(self, batch: Columns, largest: Int64s | None = None) -> TimedEvents:
        """All events with a time, also those that are late and those that no step lets pass."""
        decoded = self._decoder.decode(batch)
        self.counts.bad += decoded.bad_count
        for bad in decoded.bad[: BAD_KEPT - len(self.counts.bad_reasons)]:
            seq = int.from_bytes(batch.seqs[8 * bad.index : 8 * bad.index + 8], "little")
            self.counts.bad_reasons.append(f"record {seq}: {bad.reason}")
        records = decoded.records
        time = self._plan.event.time
        if time is None:
            times = np.frombuffer(batch.tss, np.int64)[records]
        else:
            times = decoded.columns[time.field].values
        known = times if largest is None else largest[records]
        events = TimedEvents(decoded.columns, times, known, records)
        if time is not None:
            is_time = decoded.columns[time.field].is_present
            is_time = is_time & (times > -TIME_END) & (times < TIME_END)
            self.counts.bad += len(times) - int(np.count_nonzero(is_time))
            events = events.only(is_time)
        if not len(events):
            return events
        if largest is None:
            known = np.maximum(np.maximum.accumulate(events.times), self.largest)
            events = TimedEvents(events.columns, events.times, known, events.records)
        self.largest = max(self.largest, int(events.largest.max()))
        return events

    def stepped(self, events: TimedEvents) -> TimedEvents:
        """Those of timed events that are in time and pass the steps, with the columns behind
        them."""
        time = self._plan.event.time
        if time is not None:
            in_time = events.times >= events.largest - time.lateness_ms
            self.counts.late += len(events) - int(np.count_nonzero(in_time))
            events = events.only(in_time)
        columns, passes = self._plan.chain.run(events.columns, len(events))
        left = TimedEvents(columns, events.times, events.largest, events.records).only(passes)
        self.counts.filtered += len(events) - len(left)
        return left
