"""Background maintenance of a log: expire, seal, checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock import limits
from penstock.engine.catalogue import Catalogue
from penstock.engine.checkpoint import CheckpointReport
from penstock.engine.cold_mover import ColdReport
from penstock.engine.maintenance_thread import MaintenanceThread
from penstock.engine.opening import LogContext
from penstock.errors import InvalidArgument, LogFailed, StorageError
from penstock.storage import snapshots

Progress = Callable[[int, int], None]
T = TypeVar("T")
_MOVE_WAIT_S = 5.0


class Maintenance:
    """Owns the maintenance thread, when there is one."""

    def __init__(self, parts: LogContext, catalogue: Catalogue) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._clock = parts.clock
        self.also: tuple[Callable[[], None], ...] = ()  # the work of threads that the log lacks
        # Last: its first beat may come before it is assigned.
        self._thread: MaintenanceThread | None = None
        self._moving: MaintenanceThread | None = (
            None  # a thread of its own: a cold tier may be slow
        )
        if parts.settings.background and not parts.failure.is_damaged:
            self._thread = MaintenanceThread(
                parts.clock, parts.settings.upkeep_interval_ms, self.beat
            )
            if parts.mover is not None:
                self._moving = MaintenanceThread(parts.clock, limits.COLD_INTERVAL_MS, self._move)
        parts.wal_backlog.request_checkpoint = self._request_checkpoint

    def stop(self) -> None:
        if self._moving is not None and self._parts.mover is not None:
            self._parts.mover.is_stopping = True
            self._moving.stop(_MOVE_WAIT_S)  # one that hangs finds out later, and changes nothing
        if self._thread is not None:
            self._thread.stop()

    def relocate(self, *, progress: Progress) -> ColdReport:
        """Seal and absorb what is due, then move old segments. InvalidArgument without a tier."""
        mover = self._parts.mover
        if mover is None:
            raise InvalidArgument("the log has no cold tier: open it with cold_dir")
        for _ in range(snapshots.KEEP):  # what both of them no longer name can go
            self.checkpoint(everything=False, progress=lambda done, total: None)
        return mover.run(progress)

    def beat(self) -> None:
        """Never raises: an error closes the log or is recorded as damage."""
        if self._parts.failure.is_troubled or self._catalogue.is_closed:
            return
        try:
            self._guarded(self._beat)
            if self._thread is None:
                for work in self.also:
                    work()
        except LogFailed:
            return  # noted by the guard
        except StorageError as error:
            self._parts.failure.note_damage(error)
        except Exception as bug:  # noqa: BLE001 - a silent death would let the WAL grow for ever
            failed = LogFailed(
                self._parts.layout.root,
                reason=f"unexpected error in maintenance: {bug!r}",
                hint="the log is closed for writing; reopen it, and please report this",
            )
            failed.__cause__ = bug
            self._parts.failure.fail(failed)

    def checkpoint(self, *, everything: bool, progress: Progress) -> CheckpointReport:
        self._parts.failure.check_undamaged()
        return self._guarded(lambda: self._checkpoint(everything, progress))

    def _request_checkpoint(self) -> bool:
        """Wake the thread; without one, make the checkpoint here and return false."""
        if self._thread is None:
            self.beat()
            return False
        self._thread.nudge()
        return True

    def _move(self) -> None:
        if self._parts.mover is not None and not self._parts.failure.is_troubled:
            self._parts.mover.beat()

    def _beat(self) -> None:
        self._parts.wal_backlog.weigh()
        now_ms = self._clock.now_ms()
        for handle in self._catalogue.each():
            self._catalogue.expire(handle)
            if handle.topic.keys:
                with handle.lock:
                    handle.topic.forget_keys(now_ms, limits.IDEMPOTENCY_KEYS_MAX)
        sealed = self._parts.checkpointer.seal_due(now_ms)
        if sealed or self._parts.is_checkpoint_due():
            self._checkpoint(False, lambda done, total: None)

    def _checkpoint(self, everything: bool, progress: Progress) -> CheckpointReport:
        if everything:
            for shard in self._parts.shards:
                shard.rotate()
                if shard.failed is not None:
                    raise shard.failed
        written = self._parts.written_bytes()
        report = self._parts.checkpointer.run(everything=everything, progress=progress)
        self._parts.wal_backlog.absorbed(written)
        if self._moving is not None:
            self._moving.nudge()
        return report

    def _guarded(self, work: Callable[[], T]) -> T:
        """Close the log after the first failed write, sync or rename."""
        try:
            return work()
        except OSError as error:
            failed = LogFailed.of("maintenance", error, self._parts.layout.root)
            self._parts.failure.fail(failed)
            raise failed from error
