"""Keeps one projection up to date with its topic, and saves it.

The runner has no thread: `pool` calls it, and so may any reader.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from penstock import forks, limits
from penstock.clock import Clock
from penstock.codec.columns import ColumnsPage
from penstock.errors import (
    CorruptFrame,
    InvalidArgument,
    NotReady,
    ProjectionFailed,
)
from penstock.projection_types import (
    GapPolicy,
    ProjectionCounts,
    ProjectionState,
    ProjectionStatus,
)
from penstock.projections import checkpoint
from penstock.projections.checkpoint import CheckpointIdentity, StoredProjection
from penstock.projections.projection import Projection, StateLost, Tail
from penstock.projections.save_pace import SavePace
from penstock.projections.staged_state import StagedState
from penstock.storage.fs import Buffer, Filesystem
from penstock.types import Gap, Offset

FILE_NAME: Final = "state.bin"
INTERVAL_MS: Final = 30_000
OWN_READS_MAX: Final = 100_000
_RETRY_MS = 500


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """`on_gap`: when records were lost that the projection had not seen. `accept`: mark the loss
    and go on. `rebuild`: fold again what the log still has. `fail`: stop. `own_reads_max`: the
    records that a reader folds itself before it is told to come back. `bytes_max`: of memory;
    the projection stops when it needs more."""

    on_gap: GapPolicy = "accept"
    interval_ms: int = INTERVAL_MS
    page_records: int = limits.READ_RECORDS_MAX
    own_reads_max: int = OWN_READS_MAX
    bytes_max: int = limits.PROJECTION_BYTES_MAX


class _Abandoned(Exception):
    """The state was replaced, or its records cannot be synced, while it was written."""


class ProjectionRunner:
    """Safe from several threads. `lock` guards the projection and everything that belongs to its
    state; it is held for one batch of records, or one part of a snapshot, at a time. `_turn` is
    held across reading and applying a page. Locks in this order: `_saving` or `_turn`, `lock`."""

    def __init__(
        self,
        fs: Filesystem,
        directory: str,
        tail: Tail,
        make: Callable[[], Projection],
        clock: Clock,
        options: RunnerOptions = RunnerOptions(),
    ) -> None:
        self.lock = threading.RLock()
        self.projection = make()
        self.options = options
        self.counts = ProjectionCounts()
        self._fs = fs
        self._directory = directory
        self._path = f"{directory}/{FILE_NAME}"
        self._tail = tail
        self._make = make
        self._clock = clock
        self._turn = threading.RLock()
        self._saving = threading.Lock()
        self._pace = SavePace(clock)
        self._applied: Offset | None = None
        self._saved: Offset | None = None
        self._accepted_to = 0  # gaps up to here were there when the state was begun
        self._state: ProjectionState = "replaying"
        self._reason = ""
        self._is_restored = False
        self._is_before_gap = False  # it has failed for a loss that its state has not passed
        self._generation = 0  # counts the states that were begun
        self._is_dirty = False  # something was applied since the last save
        # While a page is applied, or a state is loaded: an exception from outside may end that.
        self._is_torn = False
        self._save_due_s = 0.0
        self._began_s = clock.monotonic()
        self._is_closed = False
        self._owner_pid = forks.pid()
        forks.add(self)

    # Beginning.

    def restore(self) -> None:
        """Take the saved state, if it fits. Otherwise it is removed, and the state is folded from
        the beginning of the topic. The first that needs the state calls it; repeated calls do
        nothing."""
        if not self._is_restored:
            with self._turn:
                self._restore_once()

    def _restore_once(self) -> None:
        if not self._is_restored:
            head = self._tail.head
            with self.lock:
                if self._is_torn:  # an exception ended an earlier attempt, or the state was lost
                    self.projection, self._applied = self._make(), None
                self._is_torn = True
                self._save_due_s = self._clock.monotonic() + self.options.interval_ms / 1000
                why = self._take(head)
                if why:
                    self._discard(why)
                if self._applied is None:
                    self._accepted_to = self._old_losses(head)
                self._is_restored = True
                self._is_torn = False

    def _take(self, head: Offset | None) -> str:
        """Load the file; the reason why it cannot be used, or an empty text."""
        try:
            stored = checkpoint.load(self._fs, self._path)
        except FileNotFoundError:
            return ""
        except (ValueError, OSError) as error:
            return str(error)
        why = stored.differs(self._identity()) or _misplaced(stored, head)
        if why:
            return why
        try:
            self.projection.restore(stored.parts)
        except MemoryError as error:  # the file is good
            self.projection = self._make()
            raise self.fail(f"there is no memory for the saved state: {error}") from error
        except Exception as error:  # noqa: BLE001 - whatever it is, the log has the records
            self.projection = self._make()
            return f"its content cannot be used: {error}"
        self._applied = self._saved = stored.offset
        self.counts.snapshot_bytes, self.counts.snapshot_ts = stored.size, stored.created_ms
        return ""

    def _discard(self, why: str) -> None:
        self.counts.discarded += 1
        self.counts.discard_reason = why
        with contextlib.suppress(OSError):
            self._fs.unlink(self._path)

    # Applying.

    def catch_up(self, records_max: int | None = None) -> bool:
        """Fold what is pending, at most about `records_max` records. True if everything is folded
        that was in the topic when this was called. Raises ProjectionFailed."""
        target, folded = self._tail.head, 0
        self.restore()
        while True:
            with self._turn:
                if self._is_at(target):
                    self._note_ready()
                    return True
                if records_max is not None and folded >= records_max:
                    return False
                room = records_max - folded if records_max is not None else limits.READ_RECORDS_MAX
                count, is_end = self._step(min(room, self.options.page_records))
                folded += count
                if is_end:
                    self._note_ready()
                    return True

    def read_own(self) -> None:
        """Make everything visible that was committed before this call. Folds a small backlog
        itself; raises NotReady when it is large."""
        if self._is_at(self._tail.head) and self._state == "ready":
            return
        self.check_usable()
        self.restore()
        most = self.options.own_reads_max
        if self.lag > most or not self.catch_up(most):
            raise self._not_ready()

    def check_ready(self) -> None:
        """For a reader that takes what is there: raises NotReady before the first time that the
        head was reached, and ProjectionFailed."""
        self.check_usable()
        if self._state != "ready":
            self.read_own()

    def check_usable(self) -> None:
        self._tail.head  # noqa: B018 - in a forked child this raises Closed
        if self._state == "failed":
            hint = "rebuild it when the cause is removed"
            raise ProjectionFailed(self._directory, reason=self._reason, hint=hint)

    def _is_at(self, target: Offset | None) -> bool:
        applied = self._applied
        if self._is_torn:
            return False
        if target is None or applied is None:
            return target is None and applied is None
        return applied.epoch == target.epoch and applied.seq >= target.seq

    def _step(self, limit: int) -> tuple[int, bool]:
        """Fold one page: (its records, whether there is no more)."""
        self.check_usable()
        self._restore_once()
        if self._is_torn:
            self._begin_again("a record was applied in part", self._old_losses(self._tail.head))
        applied = self._applied
        try:
            page = self._tail.read_columns(
                0 if applied is None else applied.seq, limit, self.projection.wanted
            )
        except CorruptFrame as error:
            raise self.fail(f"the topic cannot be read: {error}") from error
        if page is None:
            if applied is not None:
                self._begin_again("the topic was dropped", 0)
            return 0, True
        why = self._outdated(page)
        with self.lock:
            if not why and page.gap is not None:
                why = self._pass(page.gap)
            if why:
                self._begin_again(why, self._old_losses(Offset(page.epoch, page.head_seq)))
                return 0, False
            try:
                self._apply(page)
            except StateLost as error:
                self.lose_state(str(error))
                return 0, False
        return page.columns.count, page.caught_up

    def _outdated(self, page: ColumnsPage) -> str:
        """Why the state does not belong to the topic of this page; else an empty text."""
        applied = self._applied
        if applied is not None and page.epoch != applied.epoch:
            return "the topic was created again"
        if applied is not None and page.head_seq < applied.seq:
            return "the state is newer than the log"
        return ""

    def _pass(self, gap: Gap) -> str:
        """Go on past lost records, if the policy allows it. A text: begin again for this reason."""
        lost = f"records {gap.first} to {gap.last} were lost ({gap.reason})"
        if gap.last > self._accepted_to:
            if self.options.on_gap == "rebuild":
                return lost
            if self.options.on_gap == "fail":
                self._is_before_gap = True
                raise self.fail(f"{lost}, and the gap policy is fail")
        self._changed(lambda: self.projection.lose(gap))
        self.counts.gaps += 1
        self.counts.lost_seqs += gap.last - gap.first + 1
        return ""

    def _old_losses(self, head: Offset | None) -> int:
        """The seq up to which a loss is no reason to begin again: it would still be lost."""
        return head.seq if head is not None and self.options.on_gap != "fail" else 0

    def _apply(self, page: ColumnsPage) -> None:
        if page.columns.count:
            self._changed(lambda: self.projection.apply(page.columns))
            self.counts.records += page.columns.count
        if self._applied != page.offset:
            self._applied = page.offset
            self._is_dirty = True
        self._is_torn = False
        size, most = self.projection.bytes, self.options.bytes_max
        if size > most:
            raise self.fail(f"it needs {size} bytes of memory, and may have {most}")

    def _changed(self, change: Callable[[], None]) -> None:
        self._is_torn = True  # until the offset has followed
        try:
            change()
        except StateLost:
            raise
        except Exception as error:
            raise self.fail(f"{type(error).__name__}: {error}") from error

    def lose_state(self, why: str) -> NotReady:
        """The state cannot be used any more: the next turn goes on from the saved one. The answer
        to whoever reads it now."""
        with self.lock:
            self._leave_state()
            if self._state == "ready":
                self._state = "replaying"
            self.counts.rebuilds += 1
            self.counts.rebuild_reason = why
        return self._not_ready()

    def _leave_state(self) -> None:
        self._generation += 1
        self._is_torn, self._is_restored, self._is_dirty = True, False, False
        self._began_s = self._clock.monotonic()

    def change(self, on_gap: GapPolicy, bytes_max: int) -> None:
        """Go on with another policy and bound. What had failed goes on from its state if that is
        whole, else from the saved one, and may fail again for the same reason."""
        with self._turn, self.lock:
            self.options = replace(self.options, on_gap=on_gap, bytes_max=bytes_max)
            if self._state == "failed":
                if self._is_torn:
                    self._leave_state()
                self._state, self._reason, self._accepted_to = "replaying", "", 0
                self._is_before_gap = False
            elif on_gap == "fail":
                self._accepted_to = 0

    def fail(self, reason: str) -> ProjectionFailed:
        """Stop until it is rebuilt. The error for whoever needs it now."""
        with self.lock:
            self._state, self._reason = "failed", reason
        return ProjectionFailed(self._directory, reason=reason)

    def _note_ready(self) -> None:
        with self.lock:
            if self._state == "replaying":
                self._state = "ready"
                self.counts.ready_ms = (self._clock.monotonic() - self._began_s) * 1000

    def rebuild(self, why: str = "requested") -> None:
        """Begin again, also after a failure. What was lost until now is accepted."""
        self.restore()
        with self._turn:
            head = self._tail.head
            self._begin_again(why, 0 if head is None else head.seq)

    def _begin_again(self, why: str, accepted_to: int) -> None:
        with self.lock:
            self._is_torn = True  # until state and offset belong together again
            self._generation += 1
            self.projection = self._make()
            self._applied = self._saved = None
            self._accepted_to = accepted_to
            self._state, self._reason = "replaying", ""
            self._is_dirty = self._is_before_gap = False
            self._began_s = self._clock.monotonic()
            self.counts.rebuilds += 1
            self.counts.rebuild_reason = why
            with contextlib.suppress(OSError):
                self._fs.unlink(self._path)
            self._is_torn = False

    def load(self, restore: Callable[[Projection], None], offset: Offset) -> bool:
        """Take over a state as of `offset` that was made elsewhere; true when it is saved, too.
        What came after it is folded first: readers see the state before it until then.
        InvalidArgument: it cannot be used, and nothing was changed."""
        self.restore()
        fresh = self._make()
        staged = StagedState(fresh, offset, self._tail, self.options.bytes_max)
        try:
            restore(fresh)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise InvalidArgument(f"the snapshot cannot be used: {error}") from error
        staged.catch_up()
        with self._turn:  # the last records, while nobody else folds any
            staged.catch_up()
            with self.lock:
                if self._is_closed:
                    raise InvalidArgument("the projection was removed meanwhile")
                self._generation += 1
                self.projection = fresh
                self._applied = staged.applied
                self._is_dirty, self._is_torn = True, False
                self._is_before_gap = False
                self._state, self._reason = "ready", ""
                self.counts.ready_ms = (self._clock.monotonic() - self._began_s) * 1000
        return self.save() or not self._is_dirty

    # Saving.

    @property
    def save_due_s(self) -> float | None:
        """When to call `save`, by the monotonic clock; None: nothing is to be saved."""
        return self._save_due_s if self._may_save else None

    @property
    def _may_save(self) -> bool:
        is_whole = not self._is_torn and (self._state != "failed" or self._is_before_gap)
        return self._is_dirty and is_whole and not self._is_closed

    def save(self, spread: float = 0.0) -> bool:
        """Write the state as of now; false when there is nothing new, or when it could not be
        written: `counts` has the reason, and the next interval tries again. While records come in,
        the parts are spread over this share of the interval."""
        with self._saving:
            began_s = self._clock.monotonic()
            self._save_due_s = began_s + self.options.interval_ms / 1000
            generation = self._generation
            try:
                size = self._write(spread)
            except Exception as error:  # noqa: BLE001 - the log has the records: a later one may do
                if isinstance(error, StateLost) and self._generation == generation:
                    self.lose_state(str(error))
                self.counts.snapshot_errors += 1
                self.counts.snapshot_error = str(error)
                with self.lock:
                    self._is_dirty = self._is_dirty or self._generation == generation
                return False
            if size:
                self.counts.snapshots += 1
                self.counts.snapshot_bytes, self.counts.snapshot_ts = size, self._clock.now_ms()
                self.counts.snapshot_ms = (self._clock.monotonic() - began_s) * 1000
            return size > 0

    def _write(self, spread: float) -> int:
        with self.lock:  # the offset and the first part are of one moment
            offset, generation = self._applied, self._generation
            if offset is None or not self._may_save:
                return 0
            identity = self._identity()
            parts = self.projection.snapshot()
            first = next(parts, None)
            self._is_dirty = False
        self._fs.make_dirs(self._directory)
        size = checkpoint.write(
            self._fs,
            self._path,
            identity,
            offset,
            self._clock.now_ms(),
            self._pulled(first, parts, generation, spread),
            lambda: self._before_rename(offset, generation),
        )
        self._saved = offset
        return size

    def _pulled(
        self, first: Buffer | None, parts: Iterator[Buffer], generation: int, spread: float
    ) -> Iterator[Buffer]:
        """The parts, each taken under the lock; records may be applied in between."""
        part = first
        spread_s = spread * self.options.interval_ms / 1000
        size = self.counts.snapshot_bytes  # what is on disk is in the parts too
        while part is not None:
            yield part
            if self._is_dirty:
                share = memoryview(part).nbytes / max(1, self.projection.bytes, size)
                self._pace.rest(spread_s * share)
            with self.lock:
                self._check_generation(generation)
                part = next(parts, None)

    def _before_rename(self, offset: Offset, generation: int) -> None:
        self._check_generation(generation)
        if not self._is_synced(offset):
            self._tail.sync()
            if not self._is_synced(offset):
                raise _Abandoned(
                    "the topic was dropped, or holds records that do not survive a power cut"
                )

    def _is_synced(self, offset: Offset) -> bool:
        synced = self._tail.synced
        return synced is not None and synced.epoch == offset.epoch and synced.seq >= offset.seq

    def _check_generation(self, generation: int) -> None:
        if generation != self._generation:
            raise _Abandoned("the state was begun again")

    def _identity(self) -> CheckpointIdentity:
        projection, tail = self.projection, self._tail
        return CheckpointIdentity(
            tail.log_id, tail.topic, projection.kind, projection.version, projection.definition
        )

    # Seeing.

    @property
    def is_ready(self) -> bool:
        """True once the state has reached the head, and has not begun again since."""
        return self._state == "ready"

    @property
    def applied(self) -> Offset | None:
        return self._applied

    @property
    def lag(self) -> int:
        """The seqs between the state and the head."""
        head, applied = self._tail.head, self._applied
        if head is None:
            return 0
        if applied is None or applied.epoch != head.epoch:
            return head.seq
        return max(0, head.seq - applied.seq)

    @property
    def status(self) -> ProjectionStatus:
        with self.lock:
            return ProjectionStatus(
                state=self._state,
                reason=self._reason,
                applied=self._applied,
                snapshot=self._saved,
                head=self._tail.head,
                lag=self.lag,
                bytes=self.projection.bytes,
                counts=self.counts.copy(),
            )

    def _not_ready(self) -> NotReady:
        return NotReady(
            f"the state is {self.lag} records behind topic {self._tail.topic!r}",
            retry_after_ms=_RETRY_MS,
        )

    # Ending.

    def hurry(self) -> None:
        """Let a save under way end soon, and later ones too."""
        self._pace.hurry()

    def close(self, *, may_save: bool = True) -> None:
        """Save what is new. The log is still open."""
        self.hurry()
        if may_save:
            self.save()
        with self.lock:
            self._is_closed = True
            self._generation += 1  # ends a save in progress
        with self._saving:
            pass
        forks.discard(self)

    def leave_to_parent(self) -> None:
        """In a forked child: another thread may have held the locks."""
        left = forks.LeftToParent("projection", self._owner_pid)
        self.__dict__.update(dict.fromkeys(self.__dict__, left))


def _misplaced(stored: StoredProjection, head: Offset | None) -> str | None:
    """Why the state does not belong to the topic as it is now, or None."""
    if head is None:
        return "its topic does not exist"
    if stored.offset.epoch != head.epoch:
        return "its topic was created again"
    if stored.offset.seq > head.seq:
        return f"it is newer than the log: seq {stored.offset.seq}, and the head is {head.seq}"
    return None
