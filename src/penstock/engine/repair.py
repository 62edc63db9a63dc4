"""Repairs damage, on explicit request only. Every changed file is copied first.

Readable records stay; unreadable ones become a reported loss, so that readers get a tombstone and
no lost seq is ever assigned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from penstock.clock import Clock
from penstock.codec import kernel
from penstock.codec.entry import scar
from penstock.codec.frame import FRAME_BYTES_MIN
from penstock.config import Settings
from penstock.directory import log_identity
from penstock.directory.block import place
from penstock.directory.log_identity import DataLayout
from penstock.directory.replay import recover
from penstock.directory.segments import shelf_of
from penstock.engine.open_log import open_log
from penstock.engine.opening import check_local, take_lock
from penstock.errors import CorruptFrame
from penstock.storage import snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.segments.reader import Segment
from penstock.storage.wal import durable_mark, files
from penstock.storage.wal.recovery import Flaw
from penstock.topics.registry import Registry
from penstock.topics.spans import Span
from penstock.types import Cause

Progress = Callable[[int, int], None]
_ROUNDS_MAX = 10_000


class Action(msgspec.Struct, frozen=True):
    path: str
    what: str
    records_lost: int
    saved_as: str


class RepairReport(msgspec.Struct, frozen=True):
    actions: list[Action]
    records_lost: int


def repair(
    fs: Filesystem,
    root: str,
    clock: Clock,
    progress: Progress = lambda done, total: None,
    *,
    dry_run: bool = False,
    allow_network_fs: bool = False,
) -> RepairReport:
    """Make a damaged directory writable again. A second run finds nothing to do."""
    log_identity.require(fs, root)
    settings = Settings(background=False, allow_network_fs=allow_network_fs)
    if not dry_run:
        check_local(fs, root, settings)
    lock = take_lock(fs, root)
    try:
        work = _Repair(fs, root, clock, dry_run=dry_run)
        work.wal(progress)
    finally:
        lock.release()
    work.segments(progress, settings)
    return RepairReport(work.actions, work.records_lost)


class _Repair:
    def __init__(self, fs: Filesystem, root: str, clock: Clock, *, dry_run: bool) -> None:
        self._fs = fs
        self._clock = clock
        self._dry_run = dry_run
        found = log_identity.read(fs, root)
        if found is None:
            found = DataLayout(root, bytes(16), True) if dry_run else log_identity.create(fs, root)
        self._layout = found
        self._aside = f"{found.aside}/repair-{clock.now_ms()}"
        self._saved: dict[str, str] = {}
        self.actions: list[Action] = []
        self.records_lost = 0  # seqs that readers are told of; an upper bound for the WAL

    # The WAL: a scar takes the place of what cannot be read, so that no offset moves.

    def wal(self, progress: Progress) -> None:
        for group in files.groups(self._fs, self._layout.wal):
            for path in durable_mark.damaged(self._fs, group):
                saved = self._save(path)
                if not self._dry_run:
                    self._fs.unlink(path)
                    self._fs.sync_dir(group)
                self.actions.append(Action(path, "removed: it cannot be read", 0, saved))
        known = 0
        for number in range(_ROUNDS_MAX):
            progress(number, number + 1)
            registry = Registry(place)
            shelf = shelf_of(self._fs, self._layout)
            damage = recover(self._fs, self._layout, registry, shelf).verdict.damage
            lost = _lost_by_damage(registry)
            known = lost if number == 0 else known
            self.records_lost = lost - known
            if not damage:
                return
            self._scar(damage[0])
            if self._dry_run:  # what lies behind it shows only after it is mended
                return

    def _scar(self, flaw: Flaw) -> None:
        if not self._fs.exists(flaw.path):
            size = max(flaw.durable_end, FRAME_BYTES_MIN)
            self._write_new(flaw.path, scar(size, self._clock.now_ms()))
            what = f"the file is missing with its {flaw.durable_end} bytes; later files are kept"
            self.actions.append(Action(flaw.path, what, 0, ""))
            return
        buffer = self._fs.map(flaw.path)
        end = kernel.resync(buffer, flaw.offset + 1, len(buffer))
        if end < 0:
            end = max(flaw.durable_end, len(bytes(buffer).rstrip(b"\0")))
        size = max(end - flaw.offset, FRAME_BYTES_MIN)
        del buffer
        saved = self._save(flaw.path)
        if not self._dry_run:
            file = self._fs.open(flaw.path, writable=True)
            try:
                file.write_at(scar(size, self._clock.now_ms()), flaw.offset)
                file.sync()
            finally:
                file.close()
        what = f"{size} bytes at {flaw.offset} removed ({flaw.reason})"
        self.actions.append(Action(flaw.path, what, 0, saved))

    # Segments: unreadable records are reported as lost, the rest is rewritten.

    def segments(self, progress: Progress, settings: Settings) -> None:
        if self._dry_run:
            self._look_at_segments(progress)
            return
        log = open_log(self._layout.root, settings=settings, fs=self._fs, clock=self._clock)
        with log:
            if log.core.parts.mover is not None:
                log.core.parts.mover.mend()
            handles = list(log.core.parts.handles.values())
            for done, handle in enumerate(handles):
                progress(done, len(handles))
                for span in list(handle.topic.spans):
                    for first, last in self._segment(handle.topic.name, span):
                        log.core.catalogue.report_unreadable(handle, first, last)
            self._snapshots()
            if self.actions or log.damage:
                log.checkpoint()
                log.checkpoint()  # the spare snapshot too

    def _look_at_segments(self, progress: Progress) -> None:
        """Without opening the log: that would cut torn tails and renew marks."""
        registry = Registry(place)
        shelf = shelf_of(self._fs, self._layout)
        recover(self._fs, self._layout, registry, shelf)
        topics = registry.all()
        for done, topic in enumerate(topics):
            progress(done, len(topics))
            for span in topic.spans:
                self._segment(topic.name, span)
        self._snapshots()

    def _snapshots(self) -> None:
        """Remove damaged snapshots; the two checkpoints that follow replace them."""
        for number in snapshots.numbers(self._fs, self._layout.meta):
            path = snapshots.path_of(self._layout.meta, number)
            try:
                snapshots.read(self._fs, self._layout.meta, number)
            except ValueError as error:
                self.actions.append(Action(path, f"replaced: {error}", 0, self._save(path)))

    def _segment(self, topic: str, span: Span) -> list[tuple[int, int]]:
        """Check one segment; returns the seqs (first, last) that cannot be read."""
        segment = span.run
        if not isinstance(segment, Segment):
            return []
        self._derived(segment)
        bad = segment.unreadable(span.start, span.count, span.bits)
        if not bad:
            return []
        saved = self._save_data(segment)
        segment.needs_rewrite = segment.must_rewrite = True
        self.records_lost += len(bad)
        what = f"{len(bad)} unreadable records of topic {topic!r} reported as lost"
        self.actions.append(Action(segment.place(), what, len(bad), saved))
        return [(span.first + first, span.first + last) for first, last in _ranges(bad)]

    def _derived(self, segment: Segment) -> None:
        for name, look in (("idx", segment.check_index), ("tags", segment.check_tags)):
            try:
                look()
            except ValueError as error:
                segment.needs_rewrite = True
                path = f"{segment.stem}.{name}"
                saved = self._save(path) if self._fs.exists(path) else ""
                self.actions.append(Action(path, f"rebuilt: {error}", 0, saved))

    # Copies.

    def _save(self, path: str) -> str:
        if path in self._saved or self._dry_run or not self._fs.exists(path):
            return self._saved.get(path, "")
        target = f"{self._aside}/{path[len(self._layout.root) :].strip('/').replace('/', '__')}"
        self._write_new(target, bytes(self._fs.map(path)))
        self._saved[path] = target
        return target

    def _save_data(self, segment: Segment) -> str:
        """The same for a segment that may be in the cold tier."""
        path = segment.data_path
        if self._fs.exists(path) or not segment.is_cold or self._dry_run:
            return self._save(path)
        try:
            data = bytes(segment.data())
        except CorruptFrame:
            return ""  # there is nothing to keep
        target = f"{self._aside}/{segment.key.replace('/', '__')}"
        self._write_new(target, data)
        return target

    def _write_new(self, path: str, data: bytes) -> None:
        if self._dry_run:
            return
        directory = path.rsplit("/", 1)[0]
        self._fs.make_dirs(directory)
        file = self._fs.create(path)
        try:
            file.write_at(data, 0)
            file.sync()
        finally:
            file.close()
        self._fs.sync_dir(directory)


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending numbers as (first, last) of each unbroken run."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _lost_by_damage(registry: Registry) -> int:
    losses = (loss for topic in registry.all() for loss in topic.losses)
    return sum(loss.last - loss.first + 1 for loss in losses if loss.cause == Cause.DAMAGE)
