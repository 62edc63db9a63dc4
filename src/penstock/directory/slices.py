"""Parts of a topic that can be read elsewhere: by another thread, process or machine that sees the
same files.

A slice names its records by topic and seqs, and has their files at the time it was made. If they
were moved since, its reader finds them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from penstock.codec.columns import Columns
from penstock.directory.block import Block
from penstock.directory.directory_view import DirectoryView, look
from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.storage.fs import Filesystem
from penstock.storage.segments.format import SegmentFacts
from penstock.storage.segments.maps import MapCache
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers.cold import Cold, filesystem_at, tier_at
from penstock.topics import read_plan
from penstock.topics.topic import Topic
from penstock.types import Gap, TagMatch

_MAPS_MAX = 6  # those of two segments: of an object store's they are whole in memory
_TRIES = 5

OnDamage = Callable[["Slice", int, int, CorruptFrame], None]
"""Called with the first and last seq that cannot be read, and the reason."""
OnLoss = Callable[["Slice", int, int, str], None]
"""Called with the first and last seq that were lost since the slice was made, and the reason."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A segment's files, and which of its records are deleted."""

    directory: str
    log_id: bytes
    facts: SegmentFacts
    dead: bytes | None
    cold: str = ""  # where its data is once it has left this directory


@dataclass(frozen=True, slots=True)
class Slice:
    """Live records of one topic with seqs from `first` to `last`."""

    root: str
    topic: str
    topic_id: int
    first: int
    last: int
    records: int
    bytes: int
    sealed: Sealed | None  # None: among the newest, which are in the WAL


@dataclass(frozen=True, slots=True)
class Cut:
    """A range of a topic: its slices, and the gaps to report."""

    slices: list[Slice]
    gaps: list[Gap]


@dataclass(frozen=True, slots=True)
class SliceOptions:
    """The columns to return, and the size of a page."""

    columns: int  # of codec.columns, added up
    match: TagMatch | None = None
    records_max: int = 262_144
    bytes_max: int = 64 << 20


def cut(view: DirectoryView, topic: Topic, *, after: int, last: int, records_max: int) -> Cut:
    """Records past `after` up to `last`, in slices of about `records_max` each."""
    slices: list[Slice] = []
    gaps: list[Gap] = []
    last = min(last, topic.head)
    at = after
    while at < last:
        plan = read_plan.plan(topic, after=at, epoch=None, records_max=1 << 62)
        if plan.gap is not None:
            gaps.append(msgspec.structs.replace(plan.gap, last=min(plan.gap.last, last)))
        for stretch in plan.stretches:
            first, stop = stretch.first + stretch.start, stretch.first + stretch.stop
            stop = min(stop, last + 1)
            for start in range(first, stop, records_max):
                end = min(stop, start + records_max)
                part = _slice(view, topic, stretch, start, end)
                if part.records:
                    slices.append(part)
        at = plan.last
    return Cut(slices, gaps)


def reach(topic: Topic, *, after: int, last: int, records_max: int, bytes_max: int) -> int:
    """The last seq such that the range past `after` has at most this many live records and bytes.
    At least one seq further. Lost and deleted records do not count."""
    at = after
    while at < last:
        plan = read_plan.plan(topic, after=at, epoch=None, records_max=1 << 62)
        for stretch in plan.stretches:
            stop = min(stretch.stop, last + 1 - stretch.first)
            if stretch.start >= stop:
                continue
            records, size = stretch.run.measure(stretch.start, stop, stretch.dead)
            if records > records_max or size > bytes_max:
                index = _index_within(stretch, stop, records_max, bytes_max)
                return max(after + 1, stretch.first + index - 1)
            records_max -= records
            bytes_max -= size
        at = plan.last
    return max(after, last)


def weigh(topic: Topic, *, after: int, last: int) -> int:
    """The bytes of live records past `after` up to `last`."""
    total = 0
    at = after
    while at < last:
        plan = read_plan.plan(topic, after=at, epoch=None, records_max=1 << 62)
        for stretch in plan.stretches:
            stop = min(stretch.stop, last + 1 - stretch.first)
            if stretch.start < stop:
                total += stretch.run.measure(stretch.start, stop, stretch.dead)[1]
        at = plan.last
    return total


def _index_within(
    stretch: read_plan.IndexRange, stop: int, records_max: int, bytes_max: int
) -> int:
    """The index before which the stretch has at most this many records and bytes."""
    low, high = stretch.start, stop
    while low < high:
        middle = (low + high + 1) // 2
        records, size = stretch.run.measure(stretch.start, middle, stretch.dead)
        if records > records_max or size > bytes_max:
            high = middle - 1
        else:
            low = middle
    return low


def _slice(
    view: DirectoryView, topic: Topic, stretch: read_plan.IndexRange, start: int, stop: int
) -> Slice:
    run, dead = stretch.run, stretch.dead
    records, size = run.measure(start - stretch.first, stop - stretch.first, dead)
    sealed = None
    if isinstance(run, Segment):
        directory = run.stem.rpartition("/")[0]
        bits = None if dead is None else bytes(dead)
        sealed = Sealed(directory, view.layout.log_id, run.facts, bits, view.cold)
    return Slice(view.layout.root, topic.name, topic.id, start, stop - 1, records, size, sealed)


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
        self._view: DirectoryView | None = None
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
            except _Gone:
                break  # a checkpoint wrote it anew, or dropped it
            except ColdUnavailable:
                if part.sealed is not None and part.sealed.cold:
                    raise
                break  # the directory had no cold tier yet when it was cut
            return
        for _ in range(_TRIES):
            try:
                for found, seq in self._look_again(part, at, wanted):
                    at = seq
                    yield found
            except _Gone:
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

    def _look_again(
        self, part: Slice, at: int, wanted: SliceOptions
    ) -> Iterator[tuple[Columns, int]]:
        """The remaining records from seq `at` on: (records, the next seq)."""
        view = self._view
        topic = None if view is None else view.topic(part.topic)
        if topic is None or topic.id != part.topic_id or topic.head < part.last:
            view = self._view = look(part.root, fs=self._fs(part))
            topic = view.topic(part.topic)
        if topic is None or topic.id != part.topic_id:
            self._lose(part, at, part.last, "topic_deleted" if topic is None else "recreated")
            return
        while at <= part.last:
            plan = read_plan.plan(topic, after=at - 1, epoch=None, records_max=1 << 62)
            if plan.last < at:
                raise CorruptFrame(
                    part.root,
                    reason=f"topic {part.topic} ends at seq {topic.head}, before seq {at}",
                    hint="read its data directory, or try again later",
                )
            if plan.gap is not None:
                self._lose(part, at, min(plan.gap.last, part.last), plan.gap.reason)
            for stretch in plan.stretches:
                base, run = stretch.first, stretch.run
                stop = min(stretch.stop, part.last + 1 - base)
                if not isinstance(run, (Block, Segment)):
                    raise AssertionError("neither block nor segment")  # noqa: TRY004 - a bug
                for found, index in self._columns(
                    part, run, base, stretch.start, stop, stretch.dead, wanted
                ):
                    yield found, base + index
            at = plan.last + 1

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
        """Live records in start..stop-1 of a run: (them, next index). _Gone when its file is."""
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
                if isinstance(run, Segment) and not self._fs(part).exists(run.data_path):
                    self._is_gone(part, run)
                if self._on_damage is None or isinstance(run, Block):
                    raise
                bad = bad or run.unreadable(start, stop, dead)
                first, last = _neighbours(bad, start)
                self._on_damage(part, base + first, base + last, error)
                start = last + 1
                continue
            if found.count:
                yield found, start

    def _is_gone(self, part: Slice, run: Segment) -> None:
        """Raise _Gone, unless the file should still exist by the state of the log."""
        self._view = look(part.root, fs=self._fs(part))
        fresh = self._view.topic(part.topic)
        names = [] if fresh is None else [getattr(span.run, "stem", "") for span in fresh.spans]
        if run.stem not in names:
            raise _Gone


class _Gone(Exception):
    """A segment was dropped or rewritten while it was read."""


def _neighbours(bad: list[int], start: int) -> tuple[int, int]:
    """The first run of adjacent damaged records from `start` on."""
    left = [index for index in bad if index >= start]
    last = left[0]
    for index in left[1:]:
        if index != last + 1:
            break
        last = index
    return left[0], last
