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
        )

    def with_columns(self, names: frozenset[str]) -> TimedEvents:
        """All events with some of the columns."""
        columns = {name: column for name, column in self.columns.items() if name in names}
        return TimedEvents(columns, self.times, self.largest)


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

    def read(self, batch: Columns) -> TimedEvents:
        """The next events of the table. Counts the others."""
        decoded = self._decoder.decode(batch)
        self.counts.bad += decoded.bad_count
        for bad in decoded.bad[: BAD_KEPT - len(self.counts.bad_reasons)]:
            seq = int.from_bytes(batch.seqs[8 * bad.index : 8 * bad.index + 8], "little")
            self.counts.bad_reasons.append(f"record {seq}: {bad.reason}")
        tss = np.frombuffer(batch.tss, np.int64)[decoded.records]
        events = self._timed(decoded.columns, tss)
        columns, passes = self._plan.chain.run(events.columns, len(events))
        left = TimedEvents(columns, events.times, events.largest).only(passes)
        self.counts.filtered += len(events) - len(left)
        return left

    def _timed(self, columns: Named, tss: Int64s) -> TimedEvents:
        time = self._plan.event.time
        if time is None:
            events = TimedEvents(columns, tss, tss)
        else:
            column = columns[time.field]
            times = column.values
            is_time = column.is_present & (times > -TIME_END) & (times < TIME_END)
            self.counts.bad += len(times) - int(np.count_nonzero(is_time))
            events = TimedEvents(columns, times, times).only(is_time)
        if not len(events):
            return events
        largest = np.maximum(np.maximum.accumulate(events.times), self.largest)
        self.largest = int(largest[-1])
        events = TimedEvents(events.columns, events.times, largest)
        if time is None:
            return events
        in_time = events.times >= largest - time.lateness_ms
        self.counts.late += len(events) - int(np.count_nonzero(in_time))
        return events.only(in_time)
