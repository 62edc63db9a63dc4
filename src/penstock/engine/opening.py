"""Opens a log: lock, recover, cut torn tails, start the shards. Only this module selects the
parts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from penstock import limits
from penstock.clock import Clock
from penstock.config import Settings
from penstock.directory import log_identity
from penstock.directory.block import place
from penstock.directory.log_identity import DataLayout
from penstock.directory.replay import Recovered, recover
from penstock.directory.segments import SegmentShelf
from penstock.engine.append import Appender
from penstock.engine.batch_intents import BatchIntents
from penstock.engine.checkpoint import Checkpointer, Named
from penstock.engine.cold_mover import Mover
from penstock.engine.handle import Handle
from penstock.engine.journal import Journal
from penstock.engine.log_failure import LogFailure
from penstock.engine.wal_backlog import WalBacklog
from penstock.engine.wal_positions import References
from penstock.entries import SeqsLost, WalRange
from penstock.errors import (
    ColdUnavailable,
    CorruptFrame,
    DirectoryInUse,
    InvalidArgument,
    LogFailed,
    NetworkFilesystem,
)
from penstock.storage import snapshots
from penstock.storage.fs import DirectoryLock, Filesystem
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers import cold as colds
from penstock.storage.tiers.cache import Cache
from penstock.storage.tiers.cold import Cold, TierLocation
from penstock.storage.tiers.objects import ObjectTier, is_url
from penstock.storage.wal import durable_mark, files, recovery
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.recovery import Positions, group_name
from penstock.storage.wal.shard import Shard
from penstock.topics.registry import Registry
from penstock.topics.sealing import SealLimits

_HINT = "run `penstock fsck` to see it, then `penstock repair`"


class LogContext:
    """The parts of an open log. Built once."""

    def __init__(
        self,
        fs: Filesystem,
        clock: Clock,
        settings: Settings,
        layout: DataLayout,
        lock: DirectoryLock,
        registry: Registry,
        shelf: SegmentShelf,
        recovered: Recovered,
    ) -> None:
        self.fs = fs
        self.clock = clock
        self.settings = settings
        self.layout = layout
        self.registry = registry
        self.shelf = shelf
        self.recovered = recovered
        self.failure = LogFailure(layout.root)
        self.random_bytes: Callable[[int], bytes] = os.urandom
        self._lock = lock
        self.wal_backlog = WalBacklog(
            clock,
            written_bytes=self.written_bytes,
            failure=lambda: self.failure.error,
            timeout_s=settings.append_timeout_s,
        )
        self.shards = self._start_shards()
        self.failure.shards = self.shards
        self._note_wal_damage()
        self.handles = {
            topic.name: Handle(topic, self.shard_of(topic.id)) for topic in registry.all()
        }
        self.journal = Journal(
            registry,
            clock,
            self.handles,
            wal_range=self.wal_range,
            check_writable=self.failure.check_writable,
            timeout_s=settings.append_timeout_s,
        )
        self.appender = Appender(self.journal, clock)
        self.batch_intents = BatchIntents(
            self.journal, self.appender, self.handles, settings.append_timeout_s
        )
        self._replayed_bytes = sum(
            fs.size(file.path)
            for file in files.discover(fs, layout.wal)
            if file.index >= self._absorbed_at_open(file.group)
        )
        self.mover = self._start_mover()
        self.references = References()
        self.derived_bytes: Callable[[], int] = lambda: 0  # set by the routers
        self.checkpointer = Checkpointer(
            fs,
            layout,
            shelf,
            self.shards,
            SealLimits(
                settings.segment_max_events,
                settings.segment_max_bytes,
                settings.segment_max_age_ms,
            ),
            handles=lambda: list(self.handles.values()),
            next_topic_id=lambda: registry.next_id,
            on_damage=self.failure.note_damage,
            snapshot_number=self._highest_snapshot(),
            older_positions=recovered.positions if recovered.is_healthy else {},
            settled=self._settled(),
            references=self.references,
            on_named=self.mover.named if self.mover is not None else lambda newest, both: None,
        )

    def log_losses(self) -> None:
        """Log the losses of the last boot, then renew every mark for this boot. In this order: if a
        mark were renewed first, a kill in between would make the lost seqs free again."""
        if self.failure.is_damaged:
            return
        lost: dict[Shard, list[SeqsLost]] = {}
        for entry in self.recovered.lost:
            lost.setdefault(self.shard_of(entry.topic_id), []).append(entry)
        for shard, entries in lost.items():
            self.journal.log_recovered(shard, entries)
        verdict = self.recovered.verdict
        for group in files.groups(self.fs, self.layout.wal):
            # Also where nothing was replayed: the next file there must not be judged by a mark of
            # an earlier boot.
            if group in verdict.groups_used or durable_mark.read(self.fs, group) is not None:
                durable_mark.renew(self.fs, group, verdict.ends.get(group))
        for shard in self.shards:
            shard.claim_boot()

    # Shards.

    def shard_of(self, topic_id: int) -> Shard:
        return self.shards[files.shard_number(topic_id, self.settings.wal_shards)]

    def wal_range(self, handle: Handle, commit: PendingCommit) -> WalRange:
        """The position of the frames of a written commit."""
        index, start = commit.start
        group = group_name(self.layout.wal, handle.shard.group)
        return WalRange(group, index, start, start + len(commit.frames))

    def _start_shards(self) -> list[Shard]:
        verdict = self.recovered.verdict
        numbers = files.FileNumbers(verdict.next_index)
        count = self.settings.wal_shards
        started = []
        for number in range(count):
            group = files.shard_dir(self.layout.wal, number, count)
            started.append(
                Shard(
                    self.fs,
                    self.clock,
                    group,
                    numbers,
                    file_bytes=self.settings.wal_file_bytes,
                    sync_tick_ms=self.settings.sync_tick_ms,
                    threaded=self.settings.background,
                    durable_end=verdict.ends.get(group, (0, 0)),
                    boot_id=self.fs.boot_id()
                    if not self.recovered.lost
                    else verdict.boot_ids.get(group, verdict.last_boot_id),
                    on_failure=self.failure.fail,
                )
            )
        return started

    def _start_mover(self) -> Mover | None:
        """For a log with a cold tier."""
        if self.shelf.cold is None:
            return None
        mover = Mover(
            self.fs,
            self.layout,
            self.shelf,
            self.shelf.cold,
            handles=lambda: list(self.handles.values()),
            next_topic_id=lambda: self.registry.next_id,
            segments_kept=self.settings.hot_retain_segments,
            bytes_kept=self.settings.hot_retain_bytes,
            on_damage=self.failure.note_damage,
        )
        mover.named(self._named(), None)
        return mover

    def _named(self) -> Named:
        """The segments at the opening: the snapshot that was used names all of them."""
        return {
            topic.id: {span.run.facts.stem for span in topic.spans if isinstance(span.run, Segment)}
            for topic in self.registry.all()
        }

    def _note_wal_damage(self) -> None:
        """A damaged group makes its shard read-only. If the shard count has changed, the topics in
        it are unknown, and all shards are read-only."""
        verdict = self.recovered.verdict
        for flaw in verdict.damage:
            error = CorruptFrame(flaw.path, offset=flaw.offset, reason=flaw.reason, hint=_HINT)
            self.failure.damage.append(error)
            same_layout = verdict.groups_used <= {shard.group for shard in self.shards}
            for shard in self.shards:
                if shard.group == flaw.group or not same_layout:
                    self.failure.close_shard(shard, error)
        for text in self.recovered.bad_snapshots:
            path, _, reason = text.partition(": ")
            self.failure.damage.append(
                CorruptFrame(path, reason=reason, hint="an older copy was used")
            )
        if self.recovered.rebuilt:
            self.failure.damage.append(
                CorruptFrame(
                    self.layout.meta,
                    reason="no snapshot is readable: topics came from their segments",
                    hint="deletes since they were sealed may be undone; see docs/operations",
                )
            )

    # How much WAL there is.

    def written_bytes(self) -> int:
        """Copies count with their bytes, although the log has only references: they are in memory
        until a checkpoint, as all other records."""
        written = sum(shard.stats.bytes_written for shard in self.shards)
        return self._replayed_bytes + self.derived_bytes() + written

    def is_checkpoint_due(self) -> bool:
        if self.wal_backlog.unabsorbed_bytes() >= self.settings.checkpoint_wal_bytes:
            return True
        if self.recovered.verdict.files_replayed > limits.CHECKPOINT_WAL_FILES:
            self.recovered.verdict.files_replayed = 0
            return True
        return False

    def _absorbed_at_open(self, group: str) -> int:
        return self.recovered.positions.get(group_name(self.layout.wal, group), (0, 0))[0]

    def _highest_snapshot(self) -> int:
        """Damaged files count, too: a number is never used twice."""
        return max(snapshots.numbers(self.fs, self.layout.meta), default=0)

    def _settled(self) -> Positions:
        """The end of every group at the opening: replay has reached it."""
        next_index = self.recovered.verdict.next_index
        return {
            group_name(self.layout.wal, group): (next_index, 0)
            for group in files.groups(self.fs, self.layout.wal)
        }

    def close(self) -> None:
        """Close the shards and release the directory, also after errors."""
        failed: OSError | None = None
        for shard in self.shards:
            try:
                shard.close()
            except OSError as error:
                failed = error
        self.shelf.maps.forget("")
        self._lock.release()
        if failed is not None:
            raise LogFailed(
                failed.filename or self.layout.root,
                reason=f"closing failed: {failed.strerror or failed}",
                hint="reopen the log to see what reached the disk",
            )


def open_parts(
    fs: Filesystem,
    clock: Clock,
    root: str,
    settings: Settings,
    random_bytes: Callable[[int], bytes],
    progress: Callable[[int, int], None],
) -> LogContext:
    """Lock the directory, recover its state, cut torn tails, start the writer threads."""
    check_local(fs, root, settings)
    try:
        fs.make_dirs(root)
        lock = take_lock(fs, root)
    except OSError as error:
        raise _unusable(root, error) from error
    try:
        _check_hot(fs, root)
        layout = log_identity.read(fs, root)
        if layout is None:
            layout = log_identity.create(fs, root, random_bytes)
        elif log_identity.read_identity(fs, root) is None:
            log_identity.write(fs, layout)
        for directory in (layout.wal, layout.meta, layout.topics):
            fs.make_dirs(directory)
        registry = Registry(place)
        shelf = SegmentShelf(fs, layout.topics, layout.log_id, _cold_of(fs, layout, settings))
        recovered = recover(fs, layout, registry, shelf, now_ms=clock.now_ms(), progress=progress)
        _mend(fs, layout, recovered)
        parts = LogContext(fs, clock, settings, layout, lock, registry, shelf, recovered)
        parts.random_bytes = random_bytes
        _complete(parts)
        shelf.forget_listing()
    except OSError as error:
        lock.release()
        raise _unusable(root, error) from error
    except BaseException:
        lock.release()
        raise
    return parts


def check_local(fs: Filesystem, root: str, settings: Settings) -> None:
    """Of those who write. Nothing was created yet."""
    kind = fs.network_kind(root)
    if kind and not settings.allow_network_fs:
        raise NetworkFilesystem(
            root, kind=kind, allowed_by="the setting allow_network_fs (PENSTOCK_ALLOW_NETWORK_FS=1)"
        )


def _check_hot(fs: Filesystem, root: str) -> None:
    if fs.exists(f"{root}/{colds.CLAIM_KEY}"):
        raise InvalidArgument(
            f"{root} is the cold tier of a log, not a data directory: open the log that writes it, "
            "or read the tier with Spark"
        )


def _cold_of(fs: Filesystem, layout: DataLayout, settings: Settings) -> Cold | None:
    """The tier of the settings, which the directory then stores; or the stored one."""
    root, where = layout.root, settings.cold_dir
    try:
        known = colds.remembered(fs, root)
    except ColdUnavailable:  # told by `fsck`, and by whoever needs it
        known = TierLocation()
    if not where:
        where = known.cold
    elif is_url(where):
        ObjectTier(where).connect()
    else:
        where = os.path.abspath(where)
        _check_apart(os.path.realpath(where), os.path.realpath(root))
    if not where:
        return None
    if where != known.cold:
        colds.remember(fs, root, TierLocation(where))
    cache = Cache(fs, layout.cache, settings.cold_cache_bytes) if is_url(where) else None
    return Cold(colds.tier_at(where, fs), layout.log_id, cache)


def _check_apart(cold: str, root: str) -> None:
    if f"{cold}/".startswith(f"{root}/"):
        raise InvalidArgument(f"cold_dir={cold!r} is inside the data directory")
    if f"{root}/".startswith(f"{cold}/"):
        raise InvalidArgument(f"the data directory is inside cold_dir={cold!r}")


def _mend(fs: Filesystem, layout: DataLayout, recovered: Recovered) -> None:
    """Cut torn tails and sync the writes that a killed process left in the page cache."""
    verdict = recovered.verdict
    recovery.mend(fs, verdict, layout.aside)
    if not verdict.was_closed:
        for path in verdict.unsynced:
            recovery.sync_all(fs, path)


def _complete(parts: LogContext) -> None:
    """Log the losses that recovery found, and finish interrupted operations."""
    try:
        parts.log_losses()
        durable_mark.note_boot(parts.fs, parts.layout.wal)
        if not parts.failure.is_troubled:
            parts.batch_intents.finish_interrupted()
    except BaseException:
        with contextlib.suppress(LogFailed):
            parts.close()
        raise


def _unusable(root: str, error: OSError) -> LogFailed:
    return LogFailed(
        error.filename or root,
        reason=f"the log cannot be opened: {error.strerror or error}",
        hint="check the disk and the permissions; nothing was removed",
    )


def take_lock(fs: Filesystem, root: str) -> DirectoryLock:
    """Lock the directory, or raise DirectoryInUse with the holder."""
    try:
        return fs.lock(f"{root}/{log_identity.LOCK_NAME}")
    except BlockingIOError as error:
        text = str(error.strerror or "")
        raise DirectoryInUse(root, pid=int(text) if text.isdigit() else None) from None
