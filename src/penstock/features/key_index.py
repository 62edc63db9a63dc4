"""The keys of a table: each has a slot, a small number that indexes the state of features."""

from __future__ import annotations

import secrets
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InvalidArgument
from penstock.features import fold_kernel
from penstock.features.event_column import (
    Bools,
    ColumnType,
    EventColumn,
    Int64s,
)
from penstock.features.event_decoder import fits

GARBAGE_SHARE: Final = 4  # of the arena, one part in so many may be bytes of removed keys
_SPARE: Final = 8  # unused bytes at the end of the arena
_SEEDS: Final = secrets.randbits(64), secrets.randbits(64)  # nobody can make keys collide
RANK_BITS: Final = 32
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_HALF_BITS: Final = np.uint64(32)
_STEP_PLACES: Final = 1 << 14  # of the table, at most, that are looked at together
_REVERSED: Final = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)
_LIVE, _USED, _NEXT_FREE, _ARENA_END, _GARBAGE, _CREATED, _RETIRED = range(7)


@dataclass(frozen=True, slots=True)
class KeySlots:
    """The slots of a batch of events."""

    slots: Int64s  # -1 for an event without a key
    created: Int64s  # slots that are new with this batch, in the order of their first event
    retired: Int64s  # slots whose keys were cold and came back; they are in `created` again


class KeyIndex:
    """Slots are numbered from 0, in the order in which keys appear; those of removed keys are used
    again. One thread at a time.

    A key is one value for each column. What equals what depends on the declared types alone: 1,
    true and "1" cannot meet in one column.
    """

    def __init__(self, types: Sequence[ColumnType], cold_after: int | None = None) -> None:
        self.types = tuple(types)
        self.cold_after = cold_after  # ms; None: the times of events are not kept
        self._is_text = bytes(kind == "str" for kind in self.types)
        self._entries = np.zeros(16, np.uint64)
        self._starts = np.full(8, -1, np.int64)
        self._touched = np.zeros(0 if cold_after is None else 8, np.int64)
        self._arena = np.zeros(256, np.uint8)
        self._state = np.array([0, 0, -1, 0, 0, 0, 0], np.int64)
        self._created = np.empty(0, np.int64)  # by the last `insert`, and `touch`
        self._free_slots = np.empty(0, np.int64)  # while the index is loaded

    def __len__(self) -> int:
        """How many keys there are."""
        return int(self._state[_LIVE])

    @property
    def used(self) -> int:
        """All slots are below this number."""
        return int(self._state[_USED])

    @property
    def touched(self) -> Int64s:
        """The time of the latest event of each slot below `used`, if the times are kept; a view."""
        return self._touched[: self.used]

    def times_of(self, slots: Int64s) -> Int64s:
        """The times of the latest events of these slots; nothing if the times are not kept."""
        return self._touched[slots if self.cold_after is not None else slots[:0]]

    @property
    def has_key(self) -> Bools:
        """Which slots below `used` have a key."""
        return self._starts[: self.used] >= 0

    def insert(self, columns: Sequence[EventColumn], count: int) -> Int64s:
        """The slots of a batch of events, -1 for an event without a key; new keys get one. `touch`
        comes next."""
        return self._insert(*self.encoded(columns, count))

    def _insert(self, offsets: Int64s, texts: NDArray[np.uint8], present: Bools) -> Int64s:
        count = len(present)
        self._reserve(count, len(texts) + 4 * count)
        slots = np.empty(count, np.int64)
        self._created = np.empty(2 * count, np.int64)
        self._state[[_CREATED, _RETIRED]] = 0
        fold_kernel.chosen.find_slots(
            self._entries,
            *_SEEDS,
            self._starts,
            self._arena,
            self._state,
            offsets,
            texts,
            present,
            True,
            slots,
            self._created,
        )
        return slots

    def touch(self, slots: Int64s, times: Int64s, largest: Int64s) -> KeySlots:
        """Write the times of the events that `insert` was called for last. `largest` is the largest
        time so far at each event. A key whose latest event is more than `cold_after` ms older than
        that gets a new slot; its old one stays without a key until it is removed."""
        if self.cold_after is None:
            created = self._created[: self._state[_CREATED]]
            return KeySlots(slots, created, np.empty(0, np.int64))
        self._reserve(len(slots), 0)
        slots = slots.copy()
        retired = np.empty(len(slots), np.int64)
        fold_kernel.chosen.retire_slots(
            self._entries,
            *_SEEDS,
            self._starts,
            self._arena,
            self._state,
            slots,
            times,
            largest,
            self._touched,
            self.cold_after,
            self._created,
            retired,
        )
        created = self._created[: self._state[_CREATED]]
        return KeySlots(slots, created, retired[: self._state[_RETIRED]])

    def created(self) -> Int64s:
        """The slots that the last `insert` gave to new keys."""
        return self._created[: self._state[_CREATED]].copy()

    def came_back(self, slots: Int64s, touched: Int64s) -> None:
        """Some of those keys are not new; `touched`: the times of their latest events. Before
        `touch`."""
        if self.cold_after is None:
            return
        created = self.created()
        created = created[~np.isin(created, slots)]
        self._created[: len(created)] = created
        self._state[_CREATED] = len(created)
        self._touched[slots] = touched

    def add(self, keys: Sequence[bytes], touched: Int64s) -> Int64s:
        """Give slots to encoded keys that are not there. `touched` is empty if the times are not
        kept. ValueError: one is there already."""
        slots = self.insert_encoded(keys)
        if int(self._state[_CREATED]) != len(keys):
            raise ValueError("a key is there twice")
        if self.cold_after is not None:
            self._touched[slots] = touched
        return slots

    def insert_encoded(self, keys: Sequence[bytes]) -> Int64s:
        """The slots of encoded keys; new ones get one."""
        offsets = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, keys), np.int64, len(keys)), out=offsets[1:])
        texts = np.frombuffer(b"".join([*keys, bytes(_SPARE)]), np.uint8)
        return self._insert(offsets, texts, np.ones(len(keys), np.uint8))

    def find(self, key: Sequence[Any]) -> int:
        """The slot of a key, -1 for one that is not there. InvalidArgument for a key that has
        another number of values than there are columns, or values of other types."""
        return self.find_encoded(self.encoded_key(key))

    def find_encoded(self, key: bytes) -> int:
        """The slot of a key as it is kept, -1 for one that is not there."""
        text = memoryview(key + bytes(_SPARE))
        return fold_kernel.chosen.find_slot(self._entries, *_SEEDS, self._starts, self._arena, text)

    def encoded_key(self, key: Sequence[Any]) -> bytes:
        """A key as the kernel's `encode_keys` writes it. Raises as `find` does."""
        self._check(key)
        pieces: list[bytes] = []
        for value, kind in zip(key, self.types, strict=True):
            if kind == "str":
                text = value.encode()
                is_last = len(pieces) + 1 == len(self.types)
                pieces.append(text if is_last else len(text).to_bytes(4, sys.byteorder) + text)
            elif kind == "f64":
                pieces.append(struct.pack("d", value + 0.0))
            else:
                pieces.append(int(value).to_bytes(8, sys.byteorder, signed=True))
        return b"".join(pieces)

    def key(self, slot: int) -> tuple[Any, ...]:
        """The key of a slot. KeyError if it has none."""
        start = int(self._starts[slot]) if 0 <= slot < self.used else -1
        if start < 0:
            raise KeyError(slot)
        size = int.from_bytes(self._arena[start : start + 4].tobytes(), sys.byteorder)
        return self.decoded_key(self._arena[start + 4 : start + 4 + size].tobytes())

    def decoded_key(self, text: bytes) -> tuple[Any, ...]:
        """The values of a key as it is kept."""
        values: list[Any] = []
        at = 0
        size = len(text)
        for i, kind in enumerate(self.types):
            end = at + 8
            if kind == "str":
                end = size
                if i + 1 < len(self.types):
                    end = at + 4 + int.from_bytes(text[at : at + 4], sys.byteorder)
                    at += 4
                values.append(text[at:end].decode())
            elif kind == "f64":
                values.append(np.frombuffer(text[at:end])[0].item())
            else:
                number = int.from_bytes(text[at:end], sys.byteorder, signed=True)
                values.append(bool(number) if kind == "bool" else number)
            at = end
        return tuple(values)

    def encoded_keys(self, slots: Int64s) -> list[bytes]:
        """The keys of these slots, which all have one, as they are kept."""
        sizes, keys = self.save(slots)
        ends = np.cumsum(sizes + np.int64(4)).tolist()
        joined = keys.tobytes()
        return [joined[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]

    def in_order(self, first: int, most: int) -> tuple[Int64s, int]:
        """(the slots of all keys whose rank is at least `first` and below an end, this end). These
        are at least `most`, if there are so many; the end is 2^32 if there are no more. The
        table is in the order of the ranks, except that ranks begin with the last bit of a place."""
        size = len(self._entries)
        dropped = RANK_BITS + 1 - size.bit_length()
        at, count = first >> dropped, 0
        step = min(max(64, most * size // max(1, len(self))), _STEP_PLACES)
        found = [np.empty(0, np.int64)]
        while at < size and count < most:
            stop = min(at + step, size)
            entries = self._entries_at(reversed_bits(np.arange(at, stop) << dropped))
            is_next = reversed_bits(entries >> _HALF_BITS) >= first
            found.append((entries[is_next] & _LOW_HALF).astype(np.int64) - 1)
            count += len(found[-1])
            at = stop
        return np.concatenate(found), at << dropped

    def _entries_at(self, homes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The entries whose hash leads to one of these places, wherever they are."""
        mask = np.uint64(len(self._entries) - 1)
        found = [np.empty(0, np.uint64)]
        at = homes
        while len(at):
            entries = self._entries[at]
            goes_on = entries != 0
            at, homes, entries = at[goes_on], homes[goes_on], entries[goes_on]
            found.append(entries[(entries >> _HALF_BITS) & mask == homes])
            at = (at + np.uint64(1)) & mask
        return np.concatenate(found)

    def ranks(self, slots: Int64s) -> NDArray[np.uint64]:
        """The ranks of the keys of these slots."""
        entries = self._entries[self._entries != 0]
        found = np.zeros(self.used, np.uint64)
        found[(entries & _LOW_HALF).astype(np.int64) - 1] = reversed_bits(entries >> _HALF_BITS)
        return found[slots]

    def slots(self) -> Int64s:
        """The slots that have a key, ascending."""
        return np.flatnonzero(self.has_key).astype(np.int64, copy=False)

    def remove(self, slots: Int64s) -> None:
        """Remove the keys of these slots, so that others can use them."""
        fold_kernel.chosen.erase_keys(
            self._entries, *_SEEDS, self._starts, self._arena, self._state, slots
        )
        if self._state[_GARBAGE] > max(4096, self._state[_ARENA_END] // GARBAGE_SHARE):
            self._pack()

    def free_slots(self) -> Int64s:
        """The slots without a key, in the order in which they will be used again."""
        found = []
        slot = int(self._state[_NEXT_FREE])
        while slot >= 0:
            found.append(slot)
            slot = -3 - int(self._starts[slot])
        return np.array(found, np.int64)

    def save(self, slots: Int64s) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """The keys of these slots: their sizes (-1: none), and their bytes."""
        sizes = np.empty(len(slots), np.int32)
        keys = fold_kernel.chosen.gather_keys(self._starts, self._arena, slots, sizes)
        return sizes, np.frombuffer(keys, np.uint8)

    def load(
        self, slots: Int64s, sizes: NDArray[np.int32], keys: NDArray[np.uint8], touched: Int64s
    ) -> None:
        """Put saved keys into these slots. `start_loading` comes before it. `touched` is empty if
        the times are not kept."""
        times = 0 if self.cold_after is None else len(slots)
        if len(slots) != len(sizes) or len(touched) != times:
            raise ValueError("the saved keys are not as many as their slots")
        self._reserve(0, len(keys))
        fold_kernel.chosen.index_keys(
            self._entries, *_SEEDS, self._starts, self._arena, self._state, slots, keys, sizes
        )
        if self.cold_after is not None:
            self._touched[slots] = touched

    @property
    def key_bytes(self) -> int:
        """What the keys take in a snapshot."""
        return int(self._state[_ARENA_END] - self._state[_GARBAGE])

    def start_loading(self, used: int, key_bytes: int, free_slots: Int64s) -> None:
        """Make room in an empty index for saved keys, given all its slots and the free ones."""
        self._reserve(used, key_bytes)
        self._state[_USED] = used
        self._free_slots = free_slots

    def end_loading(self) -> None:
        """Check that the free slots are the ones without a key, and link them."""
        free = self._free_slots
        if len(free) + len(self) != self.used or (self._starts[free] >= 0).any():
            raise ValueError("the free slots are not those without a key")
        next_free = -1
        for slot in reversed(free.tolist()):
            self._starts[slot] = -3 - next_free
            next_free = slot
        self._state[_NEXT_FREE] = next_free

    def _check(self, key: Sequence[Any]) -> None:
        expected = ", ".join(self.types) or "no value"
        if isinstance(key, str) or len(key) != len(self.types):
            raise InvalidArgument(f"invalid key {key!r}: expected a list of {expected}")
        for value, kind in zip(key, self.types, strict=True):
            if not _fits(kind, value):
                raise InvalidArgument(f"invalid key {key!r}: expected {expected}, not {value!r}")

    def encoded(
        self, columns: Sequence[EventColumn], count: int
    ) -> tuple[Int64s, NDArray[np.uint8], Bools]:
        """Where each key begins, the bytes of the keys, and which events have one."""
        present = np.ones(count, np.bool_)
        for column in columns:
            present &= column.is_present
        numbers = [_bits(column) for column in columns if column.type != "str"]
        texts = [column.values.tolist() for column in columns if column.type == "str"]
        offsets = np.empty(count + 1, np.int64)
        grid = np.array(numbers, np.int64) if numbers else np.empty((1, 1), np.int64)
        keys = fold_kernel.chosen.encode_keys(
            self._is_text,
            grid.reshape(len(numbers) or 1, -1),
            texts,
            present.view(np.uint8),
            offsets,
        )
        return offsets, np.frombuffer(keys, np.uint8), present.view(np.uint8)

    def _reserve(self, slots: int, key_bytes: int) -> None:
        """Make room for so many more slots and bytes of keys."""
        wanted = self.used + max(0, slots - (self.used - len(self)))  # free ones come first
        if wanted > len(self._starts):
            size = max(wanted, len(self._starts) * 5 // 4)
            self._starts = grown(self._starts, size, -1)
            if self.cold_after is not None:
                self._touched = grown(self._touched, size, 0)
        end = int(self._state[_ARENA_END]) + key_bytes + _SPARE
        if end > len(self._arena):
            size = max(end, len(self._arena) * 5 // 4)
            self._arena = grown(self._arena, size, 0)
        size = len(self._entries)
        while 4 * max(wanted, len(self) + slots) > 3 * size:
            size *= 2
        if size > len(self._entries):
            entries = np.zeros(size, np.uint64)
            fold_kernel.chosen.move_entries(self._entries, entries)
            self._entries = entries

    def _pack(self) -> None:
        """Leave the bytes of removed keys behind."""
        sizes, keys = self.save(np.arange(self.used))
        has_key = sizes >= 0
        lengths = np.where(has_key, sizes.astype(np.int64) + 4, 0)
        ends = np.cumsum(lengths)
        self._starts[: self.used][has_key] = (ends - lengths)[has_key]
        self._arena = keys
        self._state[_ARENA_END] = int(ends[-1]) if len(ends) else 0
        self._state[_GARBAGE] = 0

    @property
    def bytes(self) -> int:
        """The memory in use."""
        arrays = self._entries, self._starts, self._touched, self._arena
        return sum(array.nbytes for array in arrays)


def ranks(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """Where encoded keys are in the order of a scan: 32 bits, of which nobody can foresee any, and
    which a key has in every index of this process."""
    index = KeyIndex(())
    return index.ranks(index.insert_encoded(keys))


def reversed_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Numbers of 32 bits with their first bit last."""
    swapped = values.astype(">u4").view(np.uint8)
    return _REVERSED[swapped].view("<u4").astype(np.uint64)


def grown(array: NDArray[Any], size: int, empty: int) -> NDArray[Any]:
    """A longer copy of an array; new elements are `empty`."""
    longer = np.empty(size, array.dtype)
    longer[: len(array)] = array
    longer[len(array) :] = empty
    return longer


def _bits(column: EventColumn) -> Int64s:
    """Numbers and booleans as 64 bits; equal values have equal bits."""
    if column.type == "f64":
        return (column.values + 0.0).view(np.int64)  # -0.0 becomes 0.0
    return column.values.astype(np.int64, copy=False)


def _fits(kind: ColumnType, value: Any) -> bool:
    match kind:
        case "str":
            return _is_unicode(value)
        case "bool":
            return isinstance(value, bool)
        case "i64":
            return type(value) is int and fits(kind, value)
        case "f64":
            return fits(kind, value)
        case "json":
            return False


def _is_unicode(value: object) -> bool:
    """Is it a text without half of a surrogate pair?"""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
