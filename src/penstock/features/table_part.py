"""A part of a feature table: some of its features, for every key. A projection of the topic."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from penstock.codec.columns import DATA, Columns
from penstock.features import key_order, part_snapshot
from penstock.features.event_column import Int64s
from penstock.features.evicted_keys import EvictedView
from penstock.features.evicted_records import keys_of
from penstock.features.key_index import KeyIndex
from penstock.features.key_order import NO_KEYS
from penstock.features.part_fragment import Fragment
from penstock.features.part_memory import CHECKED_USES, PartMemory
from penstock.features.part_snapshot import PIECE_BYTES, PartSnapshot, Piece
from penstock.features.table_features import TableFeatures
from penstock.features.table_plan import TablePlan
from penstock.features.timed_events import TimedEventReader, TimedEvents
from penstock.projections.projection import StateLost
from penstock.types import Gap

KeyRow = tuple[tuple[Any, ...], dict[str, Any] | None]
"""A key and its row; None for a cold key."""

_Opened = tuple[list[memoryview], Fragment]  # a snapshot that is being restored

_LOADED_SHARE: Final = 2  # of a snapshot's bytes: the memory that it needs, at most about
_ROOM_CHECKS: Final = 16  # while a snapshot is restored
SWEEP_SLOTS_MIN: Final = 64  # looked at for old state with each batch; twice the events if more


class SnapshotShown(NamedTuple):
    """What the latest snapshot shows."""

    evicted: EvictedView | None  # the keys that were on disk
    largest: int  # the largest time of all events


class TablePart:
    """One thread at a time: the runner's lock guards it.

    What a row shows depends on the records and their order alone. The largest time of all events
    so far says which state is old: cells that no read can reach, and keys without events for longer
    than `cold_after`. Old state never shows; it is removed a few slots at a time with each batch.
    """

    kind: Final = "features"
    version: Final = 1
    wanted: Final = DATA

    def __init__(self, plan: TablePlan, memory: PartMemory | None = None) -> None:
        self.plan = plan
        self.memory = memory
        self.definition = msgspec.json.encode(
            [plan.name, plan.checksum, [[one.name, one.checksum] for one in plan.features]]
        )
        self._events = TimedEventReader(plan)
        self._begin_empty()
        self._columns = self._features.columns | frozenset(plan.key)
        self._sweep_slot = 0
        self._snapshot: weakref.ref[PartSnapshot] | None = None
        self._shown = SnapshotShown(None, 0)
        self._is_moving = False  # keys are between memory and disk

    def _begin_empty(self) -> None:
        self._keys = KeyIndex(self.plan.key_types, self.plan.cold_after_ms)
        self._features = TableFeatures(self.plan.features)

    @property
    def keys(self) -> int:
        """How many keys have a row, those that are cold but not removed yet among them."""
        return len(self._keys) + self.keys_on_disk

    @property
    def keys_on_disk(self) -> int:
        return 0 if self.memory is None else len(self.memory.evicted)

    @property
    def largest_time(self) -> int | None:
        """The largest time of all events; None before the first."""
        return self._events.largest if self.keys or self._events.counts.events else None

    @property
    def counters(self) -> dict[str, int]:
        """What became of the records."""
        return self._events.counts.to_json()

    @property
    def bad_reasons(self) -> list[str]:
        """Why the first few bad records since the start were skipped."""
        return list(self._events.counts.bad_reasons)

    # Folding.

    def apply(
        self, columns: Columns, largest: Int64s | None = None, *, may_sweep: bool = True
    ) -> None:
        """Fold the next records. In a part that has some keys alone, `largest` has for each record
        the largest time of the events of all keys up to it. A part whose keys are not all folded up
        to the same record must not sweep."""
        self._check_whole()
        self._fold(self._events.read(columns, largest).with_columns(self._columns), may_sweep)

    def apply_key(self, columns: Columns, key: Sequence[Any]) -> None:
        """Fold those of the next records that have this key. Of the others the times count, so that
        the row of the key is what it is in a part that folds them all."""
        self._check_whole()
        events = self._events.read(columns).with_columns(self._columns)
        has_key = np.ones(len(events), np.bool_)
        for name, value in zip(self.plan.key, key, strict=True):
            column = events.columns[name]
            has_key &= column.is_present & (column.values == value)
        self._fold(events.only(has_key), may_sweep=True)

    def _fold(self, events: TimedEvents, may_sweep: bool) -> None:
        slots = self._keys.insert([events.columns[name] for name in self.plan.key], len(events))
        if self.keys_on_disk:
            self._bring_back(self._keys.created())
        has_key = slots >= 0
        self._events.counts.ignored += len(events) - int(np.count_nonzero(has_key))
        self._events.counts.events += int(np.count_nonzero(has_key))
        events, slots = events.only(has_key), slots[has_key]
        self._before_change(slots)
        found = self._keys.touch(slots, events.times, events.largest)
        if len(events):
            self._features.fold(found.slots, self._keys.used, events)
        self._remove(found.retired)
        if may_sweep:
            self.sweep(2 * len(events))
        if self.memory is not None:
            self.memory.uses.note(found.slots, self._keys.used)
            self._hold_bound(len(events))

    def advance(self, largest: int) -> None:
        """Take over the largest time of the events of all keys, of which this part has some."""
        self._events.largest = max(self._events.largest, largest)

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add what became of records that another process decoded for this part."""
        self._events.counts.add(counts)

    def lose(self, gap: Gap) -> None:
        self._events.counts.lost += gap.last - gap.first + 1

    def sweep(self, most: int) -> None:
        """Remove old state of the next few slots, beginning again behind the last one. Not while a
        snapshot is taken, which may not have saved them yet."""
        used = self._keys.used
        if not used or self._running_snapshot() is not None:
            return
        most = min(max(most, SWEEP_SLOTS_MIN), used)
        first = self._sweep_slot if self._sweep_slot < used else 0
        stop = min(first + most, used)
        self._sweep_slots(first, stop)
        if most > stop - first:
            first, stop = 0, most - (stop - first)
            self._sweep_slots(first, stop)
        self._sweep_slot = stop
        if self.memory is not None and self.plan.cold_after_ms is not None:
            oldest = self._events.largest - self.plan.cold_after_ms
            self.memory.evicted.drop_older(oldest, 4 * most)

    def _sweep_slots(self, first: int, stop: int) -> None:
        largest, cold_after = self._events.largest, self.plan.cold_after_ms
        self._features.drop_old(first, stop, largest)
        if cold_after is not None:
            is_cold = self._keys.touched[first:stop] < largest - cold_after
            self._remove(first + np.flatnonzero(is_cold & self._keys.has_key[first:stop]))

    def _remove(self, slots: Int64s) -> None:
        if len(slots):
            self._features.clear(slots)
            self._keys.remove(slots)

    # Keys on disk.

    def _check_whole(self) -> None:
        """StateLost: an exception from outside ended a read while it moved keys."""
        if self._is_moving:
            raise StateLost(
                "keys were on their way between memory and disk when it was interrupted"
            )

    def _bring_back(self, slots: Int64s) -> None:
        """Load the state of those of these new keys that are on disk, all at once."""
        if self.memory is None or not len(slots):
            return
        self._is_moving = True
        found, piece = self.memory.evicted.take(keys_of(*self._keys.save(slots)))
        if len(found):
            self._keys.came_back(slots[found], piece["keys"]["touched"])
            self._features.load(slots[found], piece, self._keys.used)
        self._is_moving = False

    def is_in_memory(self, key: Sequence[Any]) -> bool:
        """Has this key a row in memory? If not, it may be on disk or nowhere."""
        return self._keys.find(key) >= 0

    def _load_missing(self, keys: Iterable[Sequence[Any]]) -> int:
        """Load those of these keys that are on disk; how many these were."""
        if self.memory is None or not self.keys_on_disk:
            return 0
        texts = [self._keys.encoded_key(key) for key in keys if self._keys.find(key) < 0]
        self._is_moving = True
        found, piece = self.memory.evicted.take(list(dict.fromkeys(texts)))
        if len(found):
            self._add(keys_of(piece["keys"]["sizes"], piece["keys"]["keys"]), piece)
        self._is_moving = False
        return len(found)

    def _add(self, keys: Sequence[bytes], piece: Piece, lacking: Collection[str] = ()) -> None:
        slots = self._keys.add(keys, piece["keys"]["touched"])
        self._features.load(slots, piece, self._keys.used, lacking)
        if self.memory is not None:
            self.memory.uses.note(slots, self._keys.used)

    def _hold_bound(self, uses: int) -> None:
        """Move keys to disk if there are too many. Quick if there are not."""
        memory = self.memory
        if memory is None or not memory.is_due(len(self._keys), uses):
            return
        self._is_moving = True
        count = memory.surplus(self.bytes, len(self._keys))
        if count:
            self._evict_oldest(memory, count)
        memory.evicted.compact()
        memory.check()
        self._is_moving = False

    def _evict_oldest(self, memory: PartMemory, count: int) -> None:
        everything = self._keys.slots()
        chosen = memory.uses.oldest(everything, count)
        step = max(64, PIECE_BYTES * len(everything) // (self.bytes + 1))
        for at in range(0, len(chosen), step):
            self._evict(chosen[at : at + step])
        if len(chosen) == len(everything):
            self._begin_empty()

    def _evict(self, slots: Int64s) -> None:
        if self.memory is None:
            raise AssertionError("a part without a bound moves nothing")
        snapshot = self._running_snapshot()
        largest = self._events.largest if snapshot is None else self._shown.largest
        evicted, piece = self.memory.evicted, self._piece(slots, largest)
        places = evicted.add(piece)
        if snapshot is not None and self._shown.evicted is not None:
            pending = snapshot.left_out(slots)
            at = np.searchsorted(slots, pending)
            evicted.show(self._shown.evicted, pending, places[at])
        self._remove(slots)

    # Reading.

    def row(
        self,
        key: Sequence[Any],
        now_ms: int,
        features: Iterable[str] | None = None,
        largest: int | None = None,
    ) -> dict[str, Any] | None:
        """Values of features, by default of all; None for a key without events. The key is one
        value for each key column. `largest` replaces the largest time of all events, for a part
        whose keys are not all folded up to the same record."""
        self._check_whole()
        loaded = self._load_missing([key])
        row = self._row(key, now_ms, features, largest)
        self._hold_bound(loaded)
        return row

    def _row(
        self,
        key: Sequence[Any],
        now_ms: int,
        features: Iterable[str] | None,
        largest: int | None = None,
    ) -> dict[str, Any] | None:
        return self._row_at(self._keys.find(key), now_ms, features, largest)

    def row_of(
        self, key: bytes, now_ms: int, features: Iterable[str] | None, largest: int
    ) -> dict[str, Any] | None:
        """The row of an encoded key that is in memory."""
        return self._row_at(self._keys.find_encoded(key), now_ms, features, largest)

    def _row_at(
        self, slot: int, now_ms: int, features: Iterable[str] | None, largest: int | None
    ) -> dict[str, Any] | None:
        largest = self._events.largest if largest is None else largest
        if not self._is_warm(slot, max(now_ms, largest)):
            return None
        names = self._features.states if features is None else features
        return self._features.row(slot, now_ms, largest, names)

    def rows(
        self, keys: Iterable[Sequence[Any]], now_ms: int, features: Sequence[str] | None = None
    ) -> list[dict[str, Any] | None]:
        """The row of each key."""
        self._check_whole()
        wanted = list(keys)
        loaded = self._load_missing(wanted)
        rows = [self._row(key, now_ms, features) for key in wanted]
        self._hold_bound(loaded)
        return rows

    def all_keys(self) -> Iterator[tuple[Any, ...]]:
        """Every key, those that are cold among them: first those in memory, by slot."""
        for slot in self._keys.slots().tolist():
            yield self._keys.key(slot)
        yield from self._keys_on_disk()

    def _keys_on_disk(self) -> Iterator[tuple[Any, ...]]:
        if self.memory is not None:
            for piece in self.memory.evicted.view(0):
                for text in keys_of(piece["keys"]["sizes"], piece["keys"]["keys"]):
                    yield self._keys.decoded_key(text)

    def scan(
        self, after: int, most: int, now_ms: int, features: Sequence[str]
    ) -> tuple[list[KeyRow], int | None]:
        """(the next keys with their rows, the next cursor; None at the end). No key moves."""
        self._check_whole()
        first = key_order.first_hash(after)
        here = key_order.in_memory(self._keys, first, most + 1)
        evicted = None if self.memory is None else self.memory.evicted
        there = NO_KEYS if evicted is None else evicted.in_order(first, most + 1)
        chosen = key_order.next_keys(here, there, most)
        rows = [
            (self._keys.key(slot), self._row_at(slot, now_ms, features, None))
            for slot in chosen.here.tolist()
        ]
        for piece in () if evicted is None else evicted.pieces(chosen.there):
            names = keys_of(piece["keys"]["sizes"], piece["keys"]["keys"])
            found = self._piece_rows(piece, now_ms, features)
            rows += zip(map(self._keys.decoded_key, names), found, strict=True)
        return rows, chosen.following

    def rows_in_place(
        self, keys: Sequence[Sequence[Any]], now_ms: int, features: Sequence[str]
    ) -> list[dict[str, Any] | None]:
        """The row of each key. No key moves."""
        self._check_whole()
        rows = [self._row(key, now_ms, features) for key in keys]
        if self.memory is not None and self.keys_on_disk:
            missing = [i for i, key in enumerate(keys) if not self.is_in_memory(key)]
            texts = [self._keys.encoded_key(keys[i]) for i in missing]
            for numbers, piece in self.memory.evicted.peek(texts):
                found = self._piece_rows(piece, now_ms, features)
                for number, row in zip(numbers.tolist(), found, strict=True):
                    rows[missing[number]] = row
        return rows

    def _piece_rows(
        self, piece: Piece, now_ms: int, names: Sequence[str]
    ) -> list[dict[str, Any] | None]:
        """The rows of keys that are not in memory."""
        states, count = TableFeatures(self.plan.features), len(piece["keys"]["sizes"])
        states.load(np.arange(count), piece, count)
        largest, cold_after = self._events.largest, self.plan.cold_after_ms
        is_warm = np.ones(count, np.bool_)
        if cold_after is not None:
            is_warm = piece["keys"]["touched"] >= max(now_ms, largest) - cold_after
        return [
            states.row(slot, now_ms, largest, names) if is_warm[slot] else None
            for slot in range(count)
        ]

    def _is_warm(self, slot: int, now_ms: int) -> bool:
        if slot < 0:
            return False
        cold_after = self.plan.cold_after_ms
        return cold_after is None or now_ms - int(self._keys.touched[slot]) <= cold_after

    # Snapshots.

    def snapshot(self) -> Iterator[bytes]:
        self._check_whole()
        used, largest = self._keys.used, self._events.largest
        view = None if self.memory is None else self.memory.evicted.view(used)
        head = {
            "used": used + self.keys_on_disk,
            "key_bytes": self._keys.key_bytes,
            "largest": largest,
            "counts": self._events.counts.to_json(),
            "windows": [window.to_json() for window in self._features.cells],
            "cells": [len(cells) for cells in self._features.cells.values()],
        }
        first = part_snapshot.encode({"part": {"head": head, "free": self._keys.free_slots()}})
        piece_slots = max(64, PIECE_BYTES * (used + 1) // (self.bytes + 1))
        snapshot = PartSnapshot(
            first,
            self._keys.has_key,
            piece_slots,
            lambda slots: part_snapshot.encode(self._piece(slots, largest)),
            () if view is None else self._whole(view),
        )
        self._snapshot = weakref.ref(snapshot)
        self._shown = SnapshotShown(view, largest)
        return snapshot

    def _whole(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The last pieces of a snapshot, if nothing was lost meanwhile."""
        for piece in pieces:
            self._check_whole()
            yield piece
        self._check_whole()

    def _piece(self, slots: Int64s, largest: int) -> Piece:
        sizes, keys = self._keys.save(slots)
        own = {"slots": slots, "sizes": sizes, "keys": keys}
        own["touched"] = self._keys.times_of(slots)
        return {"keys": own, **dict(self._features.save(slots, largest))}

    def _before_change(self, slots: Int64s) -> None:
        snapshot = self._running_snapshot()
        if snapshot is not None:
            snapshot.before_change(slots)

    def _running_snapshot(self) -> PartSnapshot | None:
        """The snapshot that is being taken, until its reader drops it."""
        return None if self._snapshot is None else self._snapshot()

    def restore(self, parts: Iterable[memoryview]) -> None:
        self.restore_all([parts])

    def restore_all(
        self, snapshots: Iterable[Iterable[memoryview]], lacking: Collection[str] = ()
    ) -> None:
        """Take over the snapshots of parts that have no key in common into this empty part. They
        have the same base, and at least its features but those that are `lacking`, which begin
        anew."""
        opened = [(list(parts), Fragment()) for parts in snapshots]
        windows = self._features.windows_of(lacking)
        for pieces, fragment in opened:
            fragment.begin(pieces, list(self._features.cells), windows)
        used = sum(fragment.used for _, fragment in opened)
        free = []
        for number, (_, fragment) in enumerate(opened):
            fragment.first_slot = sum(before.used for _, before in opened[:number])
            free.append(fragment.free + fragment.first_slot)
            self.advance(fragment.largest)
            self._events.counts.add(fragment.counts)
        free_slots = np.concatenate([np.empty(0, np.int64), *free])
        if not self._restore_here(opened, used, free_slots, lacking):
            self._begin_empty()
            self._restore_some(opened, used - len(free_slots), lacking)

    def _restore_here(
        self, opened: Sequence[_Opened], used: int, free_slots: Int64s, lacking: Collection[str]
    ) -> bool:
        """Restore all keys into memory, at once. False: there is no room for them."""
        size = sum(len(data) for pieces, _ in opened for data in pieces)
        if self.memory is not None and not self.memory.has_room(_LOADED_SHARE * size):
            return False  # before memory is taken
        cells = [sum(counts) for counts in zip(*(one.cells for _, one in opened), strict=True)]
        self._features.reserve(used, cells)
        key_bytes = sum(fragment.key_bytes for _, fragment in opened)
        self._keys.start_loading(used, key_bytes, free_slots)
        count = sum(len(pieces) for pieces, _ in opened)
        for number, (fragment, data) in enumerate(_each_piece(opened)):
            if number % max(1, count // _ROOM_CHECKS) == 0 and not self._has_room():
                return False
            piece = fragment.piece(data)
            keys = piece["keys"]
            self._keys.load(keys["slots"], keys["sizes"], keys["keys"], keys["touched"])
            self._features.load(keys["slots"], piece, used, lacking)
        self._keys.end_loading()
        if not self._has_room():
            return False
        if self.memory is not None:
            self.memory.uses.note(self._keys.slots(), used)
        return True

    def _has_room(self) -> bool:
        return self.memory is None or self.memory.has_room(self.bytes)

    def _restore_some(self, opened: Sequence[_Opened], keys: int, lacking: Collection[str]) -> None:
        """Restore as far as there is memory, and move the rest to disk."""
        for fragment, data in _each_piece(opened):
            piece = fragment.piece(data)
            names = keys_of(piece["keys"]["sizes"], piece["keys"]["keys"])
            self._add(names, piece, lacking)
            self._hold_bound(CHECKED_USES)
        if self.keys != keys:
            raise ValueError(f"{self.keys} keys: expected {keys}")

    @property
    def bytes(self) -> int:
        own = self._keys.bytes + self._features.bytes
        return own if self.memory is None else own + self.memory.bytes


def _each_piece(opened: Sequence[_Opened]) -> Iterator[tuple[Fragment, memoryview]]:
    """All pieces but the heads."""
    for pieces, fragment in opened:
        for data in pieces[1:]:
            yield fragment, data
