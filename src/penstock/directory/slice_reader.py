"""Reads slices: the columns of their records, from the files that have them now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.codec.columns import Columns
from penstock.directory.block import Block
from penstock.directory.moved_segments import MovedSegments, OnLoss, SegmentGone
from penstock.directory.slices import Sealed, Slice
from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.storage.fs import Filesystem
from penstock.storage.segments.maps import MapCache
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers.cold import Cold, filesystem_at, tier_at
from penstock.types import TagMatch

_MAPS_MAX = 6  # those of two segments: of an object store's they are whole in memory
_TRIES = 5

OnDamage = Callable[[Slice, int, int, CorruptFrame], None]
"""Called with the first and last seq that cannot be read, and the reason."""


@dataclass(frozen=True, slots=True)
class SliceOptions:
    """The columns to return, and the size of a page."""

    columns: int  # of codec.columns, added up
    match: TagMatch | None = None
    records_max: int = 262_144
    bytes_max: int = 64 << 20


class SliceReader:
    """Reads slices, one after the other. Files stay mapped from one to the next.

    Damaged or lost records are an error, unless a callback is given: then they are reported and
    left out. Deleted ones are left out.
    """

    def __init__(
        self,
        fs: Filesystem | None = None,
        *,
        on_damage: OnDamage | None = None,
        on_loss: OnLoss | None = None,
    ) -> None:
        self._given = fs
        self._filesystems: dict[str, Filesystem] = {}
        self._colds: dict[tuple[str, bytes], Cold] = {}
        self._maps = MapCache(_MAPS_MAX)
        self._moved = MovedSegments()
        self._on_damage = on_damage
        self._on_loss = on_loss

    def read(self, part: Slice, wanted: SliceOptions) -> Iterator[Columns]:
        """Its remaining records, in the order of their seqs."""
        at = part.first
        for run, base, stop, dead in self._sealed(part):
            try:
                for found, index in self._columns(part, run, base, at - base, stop, dead, wanted):
                    at = base + index
                    yield found
            except SegmentGone:
                break  # a checkpoint wrote it anew, or dropped it
            except ColdUnavailable:
                if part.sealed is not None and part.sealed.cold:
                    raise
                break  # the directory had no cold tier yet when it was cut
            return
        for _ in range(_TRIES):
            try:
                for found, seq in self._found_again(part, at, wanted):
                    at = seq
                    yield found
            except SegmentGone:
                continue
            return
        raise CorruptFrame(
            part.root,
            reason=f"files of topic {part.topic} were moved during each attempt",
            hint="try again",
        )

    def _fs(self, part: Slice) -> Filesystem:
        """Where its root is."""
        if self._given is not None:
            return self._given
        found = self._filesystems.get(part.root)
        if found is None:
            found = self._filesystems[part.root] = filesystem_at(part.root)
        return found

    def _cold(self, part: Slice, sealed: Sealed) -> Cold | None:
        if not sealed.cold:
            return None
        key = sealed.cold, sealed.log_id
        found = self._colds.get(key)
        if found is None:
            tier = tier_at(sealed.cold, self._fs(part))
            found = self._colds[key] = Cold(tier, sealed.log_id)
        return found

    def _sealed(self, part: Slice) -> Iterator[tuple[Segment, int, int, bytearray | None]]:
        """The segment from which the slice was made, if any."""
        sealed = part.sealed
        if sealed is not None:
            segment = Segment(
                self._fs(part),
                self._maps,
                sealed.directory,
                part.topic_id,
                sealed.log_id,
                sealed.facts,
                self._cold(part, sealed),
            )
            dead = None if sealed.dead is None else bytearray(sealed.dead)
            yield segment, sealed.facts.first, part.last + 1 - sealed.facts.first, dead

    def _found_again(
        self, part: Slice, at: int, wanted: SliceOptions
    ) -> Iterator[tuple[Columns, int]]:
        """The remaining records from seq `at` on: (records, the next seq)."""
        moved = self._moved.find(part, at, self._fs(part), self._lose)
        for run, base, start, stop, dead in moved:
            for found, index in self._columns(part, run, base, start, stop, dead, wanted):
                yield found, base + index

    def _lose(self, part: Slice, first: int, last: int, reason: str) -> None:
        if self._on_loss is None:
            raise CorruptFrame(
                part.root,
                reason=f"records {first} to {last} of topic {part.topic} were lost meanwhile "
                f"({reason})",
            )
        self._on_loss(part, first, last, reason)

    def _columns(
        self,
        part: Slice,
        run: Block | Segment,
        base: int,
        start: int,
        stop: int,
        dead: bytearray | None,
        wanted: SliceOptions,
    ) -> Iterator[tuple[Columns, int]]:
        """Live records in start..stop-1 of a run: (them, next index). SegmentGone when its
        file is."""
        bad: list[int] = []
        while start < stop:
            try:
                found, start = run.columns(
                    start,
                    stop,
                    dead,
                    wanted.records_max,
                    wanted.bytes_max,
                    wanted.columns,
                    base,
                    wanted.match,
                )
            except CorruptFrame as error:
                fs = self._fs(part)
                if isinstance(run, Segment) and not fs.exists(run.data_path):
                    self._moved.check(part, run, fs)
                if self._on_damage is None or isinstance(run, Block):
                    raise
                bad = bad or run.unreadable(start, stop, dead)
                first, last = _neighbours(bad, start)
                self._on_damage(part, base + first, base + last, error)
                start = last + 1
                continue
            if found.count:
                yield found, start


def _neighbours(bad: list[int], start: int) -> tuple[int, int]:
    """The first run of adjacent damaged records from `start` on."""
    left = [index for index in bad if index >= start]
    last = left[0]
    for index in left[1:]:
        if index != last + 1:
            break
        last = index
    return left[0], last
