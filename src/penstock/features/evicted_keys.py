"""The keys of a part that are on disk: written in batches, found by a hash, read when needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from penstock.codec.kernel import xxh3_64
from penstock.features import key_order
from penstock.features.event_column import Int64s
from penstock.features.evicted_index import EvictedIndex, Hashes
from penstock.features.evicted_records import (
    HEAD_WORDS,
    WORD_BYTES,
    RecordCodec,
    bytes_of,
    key_of,
    keys_of,
)
from penstock.features.key_order import InOrder
from penstock.features.part_snapshot import PIECE_BYTES, Piece
from penstock.projections.projection import StateLost
from penstock.projections.spill import SpillFile, SpillFolder

FILE_BYTES_MIN: Final = 64 << 20
FILE_BYTES_MAX: Final = 2 << 30
_FILES: Final = 8  # about so many, as long as they need not be larger
_DEAD_SHARE: Final = 0.5  # of all bytes; then the file with the most dead ones is left
_GAP_BYTES: Final = 4096  # that are read for nothing rather than with another call
_RECORDS_MAX: Final = 1 << 16  # of a piece
_UNIT: Final = 16  # bytes; a record begins at a multiple of it
_HEAD_BYTES: Final = HEAD_WORDS * WORD_BYTES

# A place: the number of the file + 1, where the record begins and how long it is, in units. A
# length of 0 is one that does not fit.
_FILE_BITS: Final = 16
_START_BITS: Final = 28
_SIZE_BITS: Final = 20
_SIZE_MAX: Final = (1 << _SIZE_BITS) - 1


@dataclass(slots=True)
class EvictionCounts:
    """Since the part was made."""

    evicted: int = 0
    reloaded: int = 0


class EvictedKeys:
    """One thread at a time."""

    def __init__(self, folder: SpillFolder, codec: RecordCodec) -> None:
        self.codec = codec
        self.counts = EvictionCounts()
        self._folder = folder
        self._index = EvictedIndex(codec.has_times)
        self._files: dict[int, SpillFile] = {}
        self._current = -1
        self._sweep_entry = 0

    def __len__(self) -> int:
        """How many keys are on disk."""
        return len(self._index)

    @property
    def index_bytes(self) -> int:
        """Of memory."""
        return self._index.bytes

    @property
    def disk_bytes(self) -> int:
        return sum(file.size for file in self._files.values())

    # Writing.

    def add(self, piece: Piece) -> Hashes:
        """Write keys that are not here yet; their places. OSError: the disk is full or broken."""
        words, starts = self.codec.encode(piece)
        data = words.data.cast("B")
        ends = (starts * WORD_BYTES).tolist()
        words[starts[:-1]] = [xxh3_64(data[at + WORD_BYTES : end]) for at, end in pairwise(ends)]
        places = self._written(data, starts * WORD_BYTES)
        keys = piece["keys"]
        hashes = key_order.hashes(keys_of(keys["sizes"], keys["keys"]))
        self._index.add(hashes, places, keys["touched"])
        self.counts.evicted += len(places)
        return places

    def _written(self, data: memoryview, starts: Int64s) -> Hashes:
        """Append records to the current file; their places."""
        try:
            number = self._writable()
            at = self._files[number].append(data)
        except OSError as error:
            self._files.clear()  # the log needs the space
            reason = f"keys cannot be moved to disk: {error.strerror or error}"
            raise OSError(error.errno, reason) from error
        sizes = np.diff(starts) // _UNIT
        sizes = np.where(sizes > _SIZE_MAX, 0, sizes)
        begins = (at + starts[:-1]) // _UNIT
        found: Int64s = ((number + 1) << _START_BITS | begins) << _SIZE_BITS | sizes
        return found.astype(np.uint64)

    def _writable(self) -> int:
        current = self._files.get(self._current)
        most = min(max(self.disk_bytes // _FILES, FILE_BYTES_MIN), FILE_BYTES_MAX)
        if current is None or current.size >= most:
            self._current = next(n for n in range(len(self._files) + 1) if n not in self._files)
            self._files[self._current] = self._folder.create()
        return self._current

    # Reading.

    def take(self, keys: Sequence[bytes]) -> tuple[Int64s, Piece]:
        """Those of these keys that are here, by their numbers, and their state; they are here no
        longer."""
        found, entries, records = self._found(keys)
        self._drop(entries)
        self.counts.reloaded += len(found)
        return found, _decoded(self.codec, records)

    def peek(self, keys: Sequence[bytes]) -> Iterator[tuple[Int64s, Piece]]:
        """The same a piece at a time, and they stay here. Nothing else is called meanwhile."""
        step = max(16, PIECE_BYTES * len(self) // (self.disk_bytes + 1))
        for first in range(0, len(keys), step):
            found, _, records = self._found(keys[first : first + step])
            if len(found):
                yield first + found, _decoded(self.codec, records)

    def in_order(self, first: int, most: int) -> InOrder:
        """The entries of at least `most` keys from this hash on, if there are so many."""
        entries, end = self._index.in_order(first, most)
        return InOrder(entries, self._index.hashes(entries), end)

    def pieces(self, entries: Int64s) -> EvictedView:
        """The state of the keys of these entries, in no order."""
        return EvictedView(self._files, self.codec, self._index.places(entries), 0)

    def _found(self, keys: Sequence[bytes]) -> tuple[Int64s, Int64s, list[bytes]]:
        """The keys that are here: their numbers, their entries and their records."""
        hashes = key_order.hashes(keys)
        numbers = np.arange(len(keys))
        entries = self._index.find(hashes)
        records: dict[int, tuple[int, bytes]] = {}
        while (is_here := entries >= 0).any():
            numbers, entries = numbers[is_here], entries[is_here]
            read = _records(self._files, self._index.places(entries))
            is_other = np.zeros(len(numbers), np.bool_)
            for i, (number, entry) in enumerate(
                zip(numbers.tolist(), entries.tolist(), strict=True)
            ):
                if key_of(read[i]) == keys[number]:
                    records[number] = entry, read[i]
                else:
                    is_other[i] = True
            numbers, entries = numbers[is_other], entries[is_other]
            entries = self._index.find(hashes[numbers], entries)
        in_order = sorted(records)
        return (
            np.array(in_order, np.int64),
            np.array([records[number][0] for number in in_order], np.int64),
            [records[number][1] for number in in_order],
        )

    # Removing.

    def drop_older(self, time: int, most: int) -> None:
        """Remove keys whose latest event is older, of the next entries in turn."""
        size = self._index.size
        if len(self._index):
            first = self._sweep_entry if self._sweep_entry < size else 0
            self._sweep_entry = min(first + most, size)
            self._drop(self._index.older_than(time, first, self._sweep_entry))

    def _drop(self, entries: Int64s) -> None:
        places = _parts(self._index.places(entries))
        sizes = np.where(places.sizes > 0, places.sizes, _SIZE_MAX * _UNIT)
        for number, file in self._files.items():
            file.dead += int(sizes[places.files == number].sum())
        self._index.remove(entries)

    def compact(self) -> None:
        """Copy what is alive out of the file that has the most dead bytes, and leave the file, if
        most of all is dead. Those who read it as it was go on with the file that they hold."""
        dead = sum(file.dead for file in self._files.values())
        if dead <= max(_DEAD_SHARE * self.disk_bytes, FILE_BYTES_MIN // 4):
            return
        left = max(self._files, key=lambda number: self._files[number].dead)
        entries = self._index.entries()
        places = self._index.places(entries)
        here = _parts(places).files == left
        entries, places = entries[here], places[here]
        order = np.argsort(places)
        entries, places = entries[order], places[order]
        if self._current == left:
            self._current = -1
        at = 0
        while at < len(places):
            stop, records = _read_from(self._files, places, at)
            starts = np.cumsum([0, *map(len, records)])
            moved = self._written(memoryview(b"".join(records)), starts)
            self._index.move(entries[at:stop], moved)
            at = stop
        del self._files[left]

    def view(self, first_slot: int) -> EvictedView:
        """All keys as of now, to be saved with the slots from this one on."""
        places = self._index.places(self._index.entries())
        return EvictedView(self._files, self.codec, places, first_slot)

    def show(self, view: EvictedView, slots: Int64s, places: Hashes) -> None:
        """Add keys to a view that were not here when it was made, but are as they were then."""
        view.add(self._files, slots, places)


class EvictedView:
    """The keys that were on disk at one moment. It holds their files, so that it can be read while
    the keys go on changing. An iterator over pieces of their state."""

    def __init__(
        self, files: Mapping[int, SpillFile], codec: RecordCodec, places: Hashes, first_slot: int
    ) -> None:
        self._codec = codec
        self._pending: deque[tuple[dict[int, SpillFile], Int64s, Hashes]] = deque()
        self._places = np.sort(places)
        self._files = dict(files)
        self._first_slot = first_slot
        self._done = 0

    def __len__(self) -> int:
        """How many keys there were at first."""
        return len(self._places)

    def add(self, files: Mapping[int, SpillFile], slots: Int64s, places: Hashes) -> None:
        if len(slots):
            self._pending.append((dict(files), slots, places))

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        first = self._done
        if first < len(self._places):
            stop, records = _read_from(self._files, self._places, first)
            self._done = stop
            slots = self._first_slot + np.arange(first, stop)
        elif self._pending:
            files, slots, places = self._pending.popleft()
            stop, records = _read_from(files, places, 0)
            self.add(files, slots[stop:], places[stop:])
            slots = slots[:stop]
        else:
            raise StopIteration
        piece = _decoded(self._codec, records)
        piece["keys"]["slots"] = slots
        return piece


def _read_from(
    files: Mapping[int, SpillFile], places: Hashes, first: int
) -> tuple[int, list[bytes]]:
    """About PIECE_BYTES of records from this place on, and where to go on."""
    sizes = _parts(places[first : first + _RECORDS_MAX]).sizes
    sizes = np.where(sizes > 0, sizes, _SIZE_MAX * _UNIT)
    stop = first + 1 + int(np.searchsorted(np.cumsum(sizes), PIECE_BYTES))
    records = _records(files, places[first:stop])
    return first + len(records), records


def _decoded(codec: RecordCodec, records: Sequence[bytes]) -> Piece:
    words = np.frombuffer(b"".join(records), np.uint64)
    sizes = np.fromiter(map(len, records), np.int64, len(records)) // WORD_BYTES
    return codec.decode(words, np.cumsum(sizes) - sizes)


class _Places(NamedTuple):
    """What places say."""

    files: Int64s  # their numbers
    starts: Int64s  # in bytes
    sizes: Int64s  # in bytes; 0: the head of the record says it


def _parts(places: Hashes) -> _Places:
    whole = places.astype(np.int64)
    return _Places(
        (whole >> _START_BITS + _SIZE_BITS) - 1,
        (whole >> _SIZE_BITS & (1 << _START_BITS) - 1) * _UNIT,
        (whole & _SIZE_MAX) * _UNIT,
    )


def _records(files: Mapping[int, SpillFile], places: Hashes) -> list[bytes]:
    """Records as they were written, in this order. Those that are near to one another are read at
    once. StateLost: one is not what was written."""
    order = np.argsort(places)
    numbers, starts, sizes = (part[order].tolist() for part in _parts(places))
    found: list[bytes] = [b""] * len(places)
    first = 0
    while first < len(found):
        file, start = files[numbers[first]], starts[first]
        if not sizes[first]:
            sizes[first] = bytes_of(file.read(start, _HEAD_BYTES))
        end, stop = start + sizes[first], first + 1
        while stop < len(found) and numbers[stop] == numbers[first] and sizes[stop]:
            if starts[stop] > end + _GAP_BYTES or end > start + PIECE_BYTES:
                break
            end, stop = starts[stop] + sizes[stop], stop + 1
        data = file.read(start, end - start)
        for at in range(first, stop):
            begin = starts[at] - start
            found[order[at]] = _checked(data[begin : begin + sizes[at]], sizes[at])
        first = stop
    return found


def _checked(record: bytes, size: int) -> bytes:
    checksum = int.from_bytes(record[:WORD_BYTES], "little")
    if len(record) != size or xxh3_64(memoryview(record)[WORD_BYTES:]) != checksum:
        raise StateLost("the state of a key that was moved to disk is damaged there")
    return record
