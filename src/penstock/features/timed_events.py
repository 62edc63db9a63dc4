"""From records of a topic to the events of a table: decoded, timed, and run through its steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np

from penstock.codec.columns import Columns
from penstock.features.event_column import Bools, EventColumn, Int64s
from penstock.features.event_decoder import EventDecoder, FieldSchema
from penstock.features.table_plan import TablePlan
from penstock.features.time_bounds import TimeBounds

NO_TIME: Final = -(1 << 62)  # before any event
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
    bad: int = 0  # did not fit the schema, or had a time that is out of bounds
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
        time = plan.event.time
        self._bounds = None if time is None else TimeBounds.of(time)
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
        self._note_bad(batch, decoded.bad_count, ((one.index, one.reason) for one in decoded.bad))
        records, bounds = decoded.records, self._bounds
        tss = np.frombuffer(batch.tss, np.int64)[records]
        times = tss if bounds is None else decoded.columns[bounds.field].values
        known = times if largest is None else largest[records]
        events = TimedEvents(decoded.columns, times, known, records)
        if bounds is not None:
            events = self._within(bounds, batch, events, tss)
        if not len(events):
            return events
        if largest is None:
            known = np.maximum(np.maximum.accumulate(events.times), self.largest)
            events = TimedEvents(events.columns, events.times, known, events.records)
        self.largest = max(self.largest, int(events.largest.max()))
        return events

    def _within(
        self, bounds: TimeBounds, batch: Columns, events: TimedEvents, tss: Int64s
    ) -> TimedEvents:
        """Those of the events whose times are within the bounds."""
        times = events.columns[bounds.field]
        are_good = times.is_present & bounds.hold(times.values, tss)
        wrong = np.flatnonzero(~are_good).tolist()
        found = (times.values[one].item() if times.is_present[one] else None for one in wrong)
        reasons = (
            (int(events.records[one]), bounds.complaint(time, int(tss[one])))
            for one, time in zip(wrong, found, strict=True)
        )
        self._note_bad(batch, len(wrong), reasons)
        return events.only(are_good)

    def _note_bad(self, batch: Columns, count: int, reasons: Iterable[tuple[int, str]]) -> None:
        """Count bad records; the first few are kept with their reasons."""
        counts = self.counts
        counts.bad += count
        for record, reason in islice(reasons, BAD_KEPT - len(counts.bad_reasons)):
            seq = int.from_bytes(batch.seqs[8 * record : 8 * record + 8], "little")
            counts.bad_reasons.append(f"record {seq}: {reason}")

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
