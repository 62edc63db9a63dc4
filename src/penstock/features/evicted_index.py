"""Where the keys of a part that are not in memory are: a hash of each, and a place on disk."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.features.event_column import Int64s

Hashes = NDArray[np.uint64]
_EMPTY: Final = 0  # in the place of a hash
_REMOVED: Final = 1
_ENTRIES_MIN: Final = 64
_FILL_MAX: Final = 0.75
_GROWTH: Final = 1.25
_STEP: Final = 1 << 14  # entries, at most, that are looked at together
_UPPER: Final = np.uint64(32)


class EvictedIndex:
    """Open addressing over arrays: 16 bytes an entry, 24 with times, of which three quarters at
    most are in use. But for collisions, entries are in the order of their hashes. Several keys may
    have one hash: whoever finds an entry looks at the key on disk, and asks for the next one if it
    is another. One thread at a time.
    """

    def __init__(self, has_times: bool) -> None:
        self._has_times = has_times
        self._clear(_ENTRIES_MIN)

    def _clear(self, size: int) -> None:
        self._hashes = np.full(size, _EMPTY, np.uint64)
        self._places = np.zeros(size, np.uint64)
        self._times = np.zeros(size if self._has_times else 0, np.int64)
        self._live = 0
        self._removed = 0

    def __len__(self) -> int:
        return self._live

    @property
    def bytes(self) -> int:
        """The memory in use."""
        return self._hashes.nbytes + self._places.nbytes + self._times.nbytes

    def find(self, hashes: Hashes, after: Int64s | None = None) -> Int64s:
        """An entry with each of these hashes, -1 where there is none. `after`: the entries that
        were found before, to be passed over."""
        hashes = _usable(hashes)
        found = np.full(len(hashes), -1, np.int64)
        if not self._live:
            return found
        open_ = np.arange(len(hashes))
        at = self._home(hashes) if after is None else after + 1
        while len(open_):
            at %= len(self._hashes)
            seen = self._hashes[at]
            is_found = seen == hashes[open_]
            found[open_[is_found]] = at[is_found]
            goes_on = ~is_found & (seen != _EMPTY)
            open_, at = open_[goes_on], at[goes_on] + 1
        return found

    def add(self, hashes: Hashes, places: Hashes, times: Int64s | None = None) -> None:
        """Add entries. Places are distinct and above 0."""
        self._reserve(len(hashes))
        hashes = _usable(hashes)
        open_ = np.arange(len(hashes))
        at = self._home(hashes)
        while len(open_):
            at %= len(self._hashes)
            is_free = self._hashes[at] <= _REMOVED
            mine, to = open_[is_free], at[is_free]
            was_removed = self._hashes[to] == _REMOVED
            self._places[to] = places[mine]  # of several for one entry the last one has it
            is_mine = self._places[to] == places[mine]
            self._hashes[to[is_mine]] = hashes[mine[is_mine]]
            self._removed -= int(np.count_nonzero(was_removed & is_mine))
            if times is not None and self._has_times:
                self._times[to[is_mine]] = times[mine[is_mine]]
            is_done = np.zeros(len(open_), np.bool_)
            is_done[is_free] = is_mine
            open_, at = open_[~is_done], at[~is_done] + 1
        self._live += len(hashes)

    def remove(self, entries: Int64s) -> None:
        """Remove entries, each named once."""
        self._hashes[entries] = _REMOVED
        self._removed += len(entries)
        self._live -= len(entries)

    def entries(self) -> Int64s:
        """Of all keys."""
        return np.flatnonzero(self._hashes > _REMOVED)

    def places(self, entries: Int64s) -> Hashes:
        return self._places[entries]

    def older_than(self, time: int, first: int, stop: int) -> Int64s:
        """Those of the entries first..stop-1 whose time is below this one."""
        is_old = (self._hashes[first:stop] > _REMOVED) & (self._times[first:stop] < time)
        return first + np.flatnonzero(is_old)

    def move(self, entries: Int64s, places: Hashes) -> None:
        """Their keys are at other places now."""
        self._places[entries] = places

    @property
    def size(self) -> int:
        """All entries are below this number."""
        return len(self._hashes)

    def in_order(self, first: int, most: int) -> tuple[Int64s, int]:
        """(all entries whose hash is at least `first` and below an end, this end). These are at
        least `most`, if there are so many; the end is 2^64 if there are no more."""
        size = len(self._hashes)
        at, count = (first >> 32) * size >> 32, 0
        step = min(max(64, most * size // max(1, self._live)), _STEP)
        found = [np.empty(0, np.int64)]
        while at < size and count < most:
            stop = min(at + step, size)
            seen = np.arange(at, min(self._run_end(stop), at + size)) % size
            hashes = self._hashes[seen]
            homes = self._home(hashes)
            is_next = (hashes > _REMOVED) & (hashes >= np.uint64(first))
            found.append(seen[is_next & (homes >= at) & (homes < stop)])
            count += len(found[-1])
            at = stop
        return np.concatenate(found), -(-(at << 32) // size) << 32

    def _run_end(self, entry: int) -> int:
        """The first empty entry from here on; beyond the last one it begins again."""
        while self._hashes[entry % len(self._hashes)] != _EMPTY:
            entry += 1
        return entry

    def hashes(self, entries: Int64s) -> Hashes:
        return self._hashes[entries]

    def _home(self, hashes: Hashes) -> Int64s:
        """Their upper halves alone say where they begin."""
        return ((hashes >> _UPPER) * np.uint64(len(self._hashes)) >> _UPPER).astype(np.int64)

    def _reserve(self, more: int) -> None:
        size = len(self._hashes)
        wanted = self._live + more
        if wanted + self._removed <= _FILL_MAX * size:
            return
        while wanted > _FILL_MAX / _GROWTH * size:
            size = int(size * _GROWTH) + 1
        old: tuple[NDArray[Any], ...] = self._hashes, self._places, self._times
        entries = self.entries()
        hashes, places = old[0][entries], old[1][entries]
        times = old[2][entries] if self._has_times else None
        self._clear(size)
        self.add(hashes, places, times)


def _usable(hashes: Hashes) -> Hashes:
    """The two hashes that mean something else become others."""
    return np.where(hashes <= _REMOVED, hashes + np.uint64(2), hashes)
