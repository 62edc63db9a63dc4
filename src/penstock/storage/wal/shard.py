"""One shard of the log: a bounded queue, one writer at a time, shared syncs.

The thread that holds the write lock drains the queue with one write. The thread that holds the
sync lock makes a group durable, without the write lock, so that other threads write at the same
time. An idle shard is driven by its caller's own thread, which saves a lone writer two thread
switches; under load the shard's thread takes over and callers only queue.

Lock order: sync turn, sync lock, write lock, then whatever `publish` takes.

An asynchronous exception (Ctrl-C, a raising signal handler) may interrupt a call on a caller's
thread between any two bytecodes. So commits move from queue to queue by `atomic_steps.perform`, and
each intermediate state is one from which the next caller, or the shard's thread, goes on: `_queue`
(submitted), `_pending` (written, waiting for a sync), `_ready` (class met), `_published` (applied,
not resolved yet). A caller's thread publishes only what can be applied in one step; the rest is
left to the shard's own thread, which nothing interrupts.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any

from penstock import limits
from penstock.atomic_steps import Step, perform
from penstock.clock import Clock
from penstock.codec import kernel
from penstock.codec.entry import encode_durable_mark
from penstock.errors import Closed, LogFailed, Overloaded, PenstockError
from penstock.storage.fs import Filesystem
from penstock.storage.wal import files
from penstock.storage.wal.commit_window import CommitWindow
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.rotation import MARK_FRAME_BYTES, RotatingFile
from penstock.storage.wal.stats import ShardStats
from penstock.storage.wal.tick_thread import TickThread

_SLICE_S = limits.COMMIT_WINDOW_MIN_S
_APART_BYTES = 16 * limits.KIB
_ENDLESS = 1 << 62


class Shard:
    """Safe from several threads. With `threaded=False` every call does its own work."""

    def __init__(
        self,
        fs: Filesystem,
        clock: Clock,
        group: str,
        numbers: files.FileNumbers,
        *,
        file_bytes: int,
        sync_tick_ms: int,
        threaded: bool,
        durable_end: tuple[int, int],
        boot_id: str,
        on_failure: Callable[[LogFailed], None],
    ) -> None:
        self.group = group
        self.stats = ShardStats()
        self.failed: LogFailed | None = None
        self._clock = clock
        self._tick_s = sync_tick_ms / 1000
        self._on_failure = on_failure
        self._queue: deque[PendingCommit] = deque()
        self._queued_bytes = 0
        self._write_lock = threading.Lock()
        # Guarded by the write lock:
        self._wal = RotatingFile(
            fs, group, numbers, file_bytes=file_bytes, durable_end=durable_end, boot_id=boot_id
        )
        self._pending: list[PendingCommit] = []  # written, waiting for a sync
        self._syncing = 0  # how many of them, from the first on, a sync covers right now
        self._ready: deque[PendingCommit] = deque()  # written or synced, not applied yet
        self._published: deque[PendingCommit] = deque()  # applied, not resolved yet
        self._ordering_keys: dict[int, int] = {}  # key -> how many in `_pending`
        # Guarded by the sync lock:
        self._sync_lock = threading.Lock()
        self.syncs_begun = 0
        self._syncs_done = 0  # the number of the newest that succeeded
        self._sync_turn = threading.Lock()  # of the callers that wait for the next sync
        self.on_synced: Callable[[], None] | None = None  # quick; called on any thread
        self._window = CommitWindow()
        self._throttle_s = 0.0  # how long this group was held open for others, under pressure
        # The thread:
        # `with` on a lock of C cannot be interrupted between acquiring and entering, on a Condition
        # it can: callers take this lock, not the condition.
        self._wake_lock = threading.RLock()
        self._wake = threading.Condition(self._wake_lock)
        self._is_awake = True
        self._looks_again = False  # it sleeps, but no longer than for a tick
        self._was_written = False  # since it fell asleep
        self._want = 0
        self._is_stopping = False
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._thread_ident = 0
        # Syncs on a tick, while the thread above goes on writing.
        name = group.rsplit("/", 1)[-1]
        self._ticks = TickThread(
            f"penstock-sync {name}", self._sync_on_tick, self._stop_for_bug, self._nudge
        )
        self._bytes_at_sync = 0  # written before the last sync began
        if threaded:
            self._thread = threading.Thread(
                target=self._run, name=f"penstock-wal {name}", daemon=True
            )
            self._thread.start()

    # What callers do.

    def submit(self, commit: PendingCommit, steps: Iterable[Step] = ()) -> None:
        """Queue a commit; the order of these calls is the order on disk. `steps` are performed
        atomically with it. Takes no lock, so a caller may hold its topic's. Follow with `drive`
        once that lock is released."""
        if self.failed is not None:
            raise self.failed
        if self._is_closed:
            raise Closed("the log is closed")
        size = len(commit.frames)
        if (
            len(self._queue) >= limits.SHARD_QUEUE_SUBMISSIONS_MAX
            or self._queued_bytes + size > limits.SHARD_QUEUE_BYTES_MAX
        ):
            self.stats.refused += 1
            raise Overloaded("the write queue is full", retry_after_ms=100)
        self._queued_bytes += size
        perform(((self._queue.append, commit), *steps))

    def drive(self, commit: PendingCommit) -> None:
        """Start a queued commit: on this thread when the shard is idle."""
        if self._thread is None:
            if not self._is_closed:
                self._drive_alone(commit)
            elif not commit.is_done:
                commit.resolve(Closed("the log is closed"))
            return
        if commit.durable and (self._sync_lock.locked() or self._window.wait_s(1, 0.0) > 0):
            self._nudge()  # a group is under way or expected: join the next one
            return
        try:
            # Another thread may come between the look and the lock: then this one waits for a
            # write. A lock that was tried for could be leaked by an exception from outside.
            if not self._write_lock.locked():
                with self._write_lock:
                    self._write_queued(None if commit.durable else commit)
                if commit.is_done:
                    if not self._is_awake and not self._looks_again:
                        self._nudge()  # someone must sync this within a tick
                    return
                if self._pending and not self._sync_lock.locked():
                    with self._sync_lock:
                        self._commit()
        except BaseException:
            self._nudge()  # the thread goes on where this one was interrupted
            raise
        if not commit.is_done or self._is_work_left():
            self._nudge()

    def _is_work_left(self) -> bool:
        return bool(self._queue or self._pending or self._ready or self._published)

    def _is_work_abandoned(self) -> bool:
        """The same without the commits that another thread syncs right now: it goes on with them,
        and nudges when it is interrupted."""
        return bool(self._queue or self._ready or self._published) or self._is_sync_wanted()

    def _is_sync_wanted(self) -> bool:
        """True if a commit waits for a sync that has not begun."""
        return len(self._pending) > (self._syncing if self._sync_lock.locked() else 0)

    def push(self) -> None:
        """Start queued commits without disk I/O on this thread."""
        if self._thread is not None:
            self._nudge()
        elif not self._sync_lock.locked():  # else this is a callback: whoever called it goes on
            self._commit_all()

    def tick(self) -> None:
        """Sync what has waited long enough. The thread does this by itself."""
        try:
            with self._sync_lock:
                self._commit(force=True)
        finally:
            self._leave_rest_to_thread()

    def _leave_rest_to_thread(self) -> None:
        """At the end of a call that held the sync lock, also if it was interrupted."""
        if self._thread is not None and self._is_work_left():
            self._nudge()

    def sync_all(self) -> None:
        """Return when everything written so far is past a sync; raise why it is not. Callers that
        wait at the same time share one."""
        with self._write_lock:
            begun = self.syncs_begun  # a later one covers what is written and queued now
        try:
            # Those whom a sync has covered must not wait for the lock: the next sync holds it.
            with self._sync_turn:
                if self._syncs_done <= begun:
                    with self._sync_lock:
                        if self._syncs_done <= begun:
                            self._sync_turn = threading.Lock()
                            self._commit(force=True)
        finally:
            self._leave_rest_to_thread()
        if self.failed is not None:
            raise self.failed

    def position(self) -> tuple[int, int]:
        """(file index, offset) up to which everything written has been published."""
        with self._write_lock:
            # Commits that waited for a sync become ready after later writes.
            unpublished = [commit.start for commit in (*self._ready, *self._pending[:1])]
            return min(unpublished, default=self._wal.end)

    def rotate(self) -> None:
        """Continue in a new file, so that the old ones can be removed."""
        try:
            with self._sync_lock, self._write_lock:
                if self._wal.offset and self.failed is None:
                    self._guarded(lambda: self._continue_in_new_file(0))
        finally:
            self._leave_rest_to_thread()

    def claim_boot(self) -> None:
        """The losses of the last boot are logged: from now on marks have this boot."""
        try:
            with self._sync_lock, self._write_lock:
                self._guarded(self._wal.claim_boot)
        finally:
            self._leave_rest_to_thread()

    def widen(self, window_ms: float | None) -> None:
        """Set how long a sync waits for more commits, except for a lone writer; None: the shard
        decides."""
        self._window.widened_s = None if window_ms is None else window_ms / 1000

    @property
    def queue_depth(self) -> int:
        """Commits that wait to be written."""
        return len(self._queue)

    def loss_window_ms(self) -> float:
        """Age of the oldest write that no sync covers yet."""
        since = self._wal.dirty_since
        return 0.0 if since is None else (self._clock.monotonic() - since) * 1000

    def has_synced(self, number: int) -> bool:
        """True if all that was published when `syncs_begun` was `number` is past a sync: a later
        sync has covered it, or nothing unsynced is left."""
        if self._syncs_done > number:
            return True
        is_clean = self._wal.dirty_since is None
        return is_clean and self.failed is None  # in this order: a failed shard counts as clean

    def close(self) -> None:
        """Commit what is queued, sync, seal with a clean mark. May be repeated."""
        if self._thread is not None:
            with self._wake_lock:
                self._is_stopping = True
                self._wake.notify_all()  # as in `_nudge`
            self._thread.join()
            self._ticks.stop()
            self._thread = None
        self._is_closed = True
        with self._sync_lock:
            if self.failed is None:
                self._commit(force=True)
            with self._write_lock:
                if self.failed is not None:
                    self._answer_all_with_failure()
                self._wal.close(failed=self.failed is not None)
        # No thread would write a commit that was queued after the last write.
        _resolve_all(list(self._queue), self.failed or Closed("the log is closed"))
        self._queue.clear()

    # The thread.

    def _nudge(self) -> None:
        if self._is_awake and len(self._queue) != self._want:
            return  # it looks at the queue again before it sleeps
        with self._wake_lock:
            # All, though one thread waits: a `notify` that was interrupted leaves a waiter behind
            # that is woken already, and would be the one to be woken again.
            self._wake.notify_all()
            # As good as: one nudge is enough for all who queue meanwhile. Set last, so that an
            # interrupted nudge is not taken for one.
            self._is_awake = True

    def _run(self) -> None:
        self._thread_ident = threading.get_ident()
        while True:
            with self._wake:
                while True:
                    self._is_awake = (
                        False  # before the check: a later `submit` wakes the thread again
                    )
                    self._looks_again = False
                    if self._is_work_abandoned() or self._is_stopping:
                        break
                    pause_s = self._until_tick()
                    if pause_s is None and self._was_written:  # and soon will be again
                        pause_s = self._tick_s
                    self._was_written = False
                    self._looks_again = pause_s is not None
                    if not self._clock.wait(self._wake, pause_s) and self._tick_due():
                        break
                self._is_awake = True
                if self._is_stopping:
                    return
            try:
                self._work()
            except Exception as bug:  # noqa: BLE001 - a silent death would hang every writer
                self._stop_for_bug(bug)

    def _work(self) -> None:
        """One round of the thread."""
        if self.failed is not None:
            self._fail_waiting()
            return
        if self._is_sync_wanted() or any(commit.durable for commit in self._queue.copy()):
            with self._sync_lock:
                self._collect()
                self._commit()
        else:
            if self._ticks.is_under_way and self._is_far_ahead():
                self._ticks.wait()  # else what a power cut may take would grow without bound
            with self._write_lock:
                self._write_queued(is_round=True)
            if self._tick_due():
                self._start_tick()
        if not self._ticks.is_under_way:
            self._prepare_ahead()

    def _is_far_ahead(self) -> bool:
        """True if much was written since the last sync began."""
        return self.stats.bytes_written - self._bytes_at_sync >= limits.AHEAD_OF_SYNC_BYTES_MAX

    def _collect(self) -> None:
        """Wait, within the window, for the writers that the last group released."""
        started = self._clock.monotonic()
        seen = len(self._queue)
        while True:
            waiting = len(self._queue) + len(self._pending)
            left_s = self._window.wait_s(waiting, self._clock.monotonic() - started)
            if left_s <= 0:
                return
            with self._wake:
                self._want = self._window.expected - len(self._pending)
                self._clock.wait(self._wake, min(left_s, _SLICE_S))
                self._want = 0
            if self._window.widened_s is not None:
                self._throttle_s = self._clock.monotonic() - started
            elif len(self._queue) == seen:
                return  # arrivals stalled
            seen = len(self._queue)

    def _start_tick(self) -> None:
        self._bytes_at_sync = self.stats.bytes_written
        if not self._ticks.begin():
            self.tick()  # the system gives no more threads: sync on this one

    def _sync_on_tick(self) -> None:
        """On the thread of the ticks."""
        with self._sync_lock:
            self._commit(force=True)
        self._prepare_ahead()

    def _until_tick(self) -> float | None:
        since = self._wal.dirty_since
        if since is None or self._ticks.is_under_way:
            return None
        return max(0.0, since + self._tick_s - self._clock.monotonic())

    def _is_sync_due(self) -> bool:
        """True if a tick is to be started, or waited for, before more is written."""
        return self._tick_due() or (self._ticks.is_under_way and self._is_far_ahead())

    def _tick_due(self) -> bool:
        since = self._wal.dirty_since
        if since is None or self._ticks.is_under_way:
            return False
        return self._clock.monotonic() - since >= self._tick_s

    # Writing: the write lock is held.

    def _write_queued(self, mine: PendingCommit | None = None, *, is_round: bool = False) -> None:
        """Write what is queued, and publish what is ready. `mine` is the commit of a caller whose
        thread may be interrupted. Commits that arrive meanwhile are left to the next round of the
        thread: writers that never pause must not keep it from its syncs. `is_round`: it looks
        between two writes whether a sync is due."""
        queue = self._queue
        left = len(queue) if self._thread is not None else _ENDLESS
        if self._ready or self._published:
            self._publish_ready()  # left behind by a call that was interrupted
        while queue and left > 0:
            if self.failed is not None:
                self._refuse_queued()
                return
            if is_round and self._is_sync_due():
                return
            try:
                if mine is not None and len(queue) == 1 and self._write_alone(mine):
                    left -= 1
                    continue
                self.stats.drained(len(queue))
                if len(queue) == 1:
                    left -= 1
                    self._write([queue[0]], len(queue[0].frames))
                else:
                    commits, size = self._next_group()
                    left -= len(commits)
                    self._write(commits, size)
            except OSError as error:
                if error.errno is None:  # not of the kernel: a signal handler raised it
                    raise
                self._break("write", error)
                return
            if self._ready:
                self._publish_ready()
        self._queued_bytes = 0

    def _write_alone(self, commit: PendingCommit) -> bool:
        """A lone append that waits for no sync is written and published in one go; false when it
        is not one. Until it is published it stays in the queue, and is written to the same place
        again."""
        publish = commit.publish
        wal = self._wal
        if (
            commit.durable
            or publish is None
            or commit is not self._queue[0]
            or commit.callback is not None
            or commit.gate is not None
            or self._ready  # none may overtake an earlier change of its topic
            or wal.marked != wal.durable
            or commit.ordering_key in self._ordering_keys
            or wal.offset + len(commit.frames) + MARK_FRAME_BYTES > wal.size
            or wal.file is None
        ):
            return False
        offset = wal.offset
        started = self._clock.monotonic()
        wal.file.write_at(commit.frames, offset)
        ended = self._clock.monotonic()
        commit.write_s = ended - started
        commit.start = (wal.index, offset)
        self._was_written = True
        if wal.dirty_since is None:
            wal.dirty_since = ended
        size = len(commit.frames)
        finish: list[Step] = [
            (setattr, wal, "offset", offset + size),
            (self._queue.popleft,),
        ]
        if not publish([commit], finish, False):
            return False
        # Not among the steps: only the thread that drives this commit looks at it.
        commit.is_done = True
        self.stats.alone(commit.count or kernel.count_frames(commit.frames), size)
        return True

    def _next_group(self) -> tuple[list[PendingCommit], int]:
        """The commits for one write. They stay in the queue until they are written."""
        commits: list[PendingCommit] = []
        size = 0
        for commit in self._queue.copy():
            size += len(commit.frames)
            if commits and size > limits.WRITE_BYTES_MAX:
                return commits, size - len(commit.frames)
            commits.append(commit)
        return commits, size

    def _write(self, commits: list[PendingCommit], size: int) -> None:
        wal = self._wal
        if wal.offset + size + MARK_FRAME_BYTES > wal.size:
            self._continue_in_new_file(size)
        head = b""
        durable = wal.durable
        if wal.marked != durable:  # after a rotation it names the end of the old file
            head = encode_durable_mark(*durable, self._clock.now_ms())
        file = wal.file
        if file is None:
            raise AssertionError("no file to write to")
        offset = wal.offset
        started = self._clock.monotonic()
        if len(commits) == 1 and not head:
            file.write_at(commits[0].frames, offset)
        elif len(commits) == 1 and size < _APART_BYTES:
            file.write_at(head + commits[0].frames, offset)
        else:
            parts = [head, *[commit.frames for commit in commits]]
            if size >= len(parts) * _APART_BYTES:
                file.write_parts_at(parts, offset)
            else:  # one copy costs less than the parts do
                file.write_at(b"".join(parts), offset)
        ended = self._clock.monotonic()
        write_s = ended - started
        at = offset + len(head)
        keys = self._ordering_keys
        frames = int(bool(head))
        ready: list[PendingCommit] = []
        pending: list[PendingCommit] = []
        waiting: dict[int, int] = {}
        for commit in commits:
            commit.start = (wal.index, at)
            at += len(commit.frames)
            commit.write_s = write_s
            frames += commit.count or kernel.count_frames(commit.frames)
            key = commit.ordering_key
            if commit.durable or key in keys or key in waiting:
                waiting[key] = waiting.get(key, keys.get(key, 0)) + 1
                pending.append(commit)
            else:
                ready.append(commit)
        since = wal.dirty_since
        in_file = {
            "offset": at,
            "marked": durable,
            "dirty_since": ended if since is None else since,
        }
        changed = {"_was_written": True, "_queued_bytes": self._queued_bytes - size}
        perform(
            (
                (wal.__dict__.update, in_file),
                (self.__dict__.update, changed),
                (self._pending.extend, pending),
                (keys.update, waiting),
                (self._ready.extend, ready),
                *[(self._queue.popleft,)] * len(commits),
            )
        )
        stats = self.stats
        stats.commits += len(commits)
        stats.frames += frames
        stats.writes += 1
        stats.bytes_written += at - offset

    def _continue_in_new_file(self, size: int) -> None:
        if self._wal.rotate(size):
            self.stats.rotations += 1

    def _prepare_ahead(self) -> None:
        """On one of the shard's own threads at a time; the write lock is not held."""
        if self.failed is not None:
            return
        prepared = self._wal.prepare_next()
        if prepared is not None:
            self._wal.keep(prepared, self._write_lock)

    # Syncing: the sync lock is held, the write lock is not.

    def _commit(self, *, force: bool = False) -> None:
        wal = self._wal
        with self._write_lock:
            if self._queue or self._ready or self._published:
                self._write_queued()
            group = self._pending.copy()
            self._syncing = 0  # one that was interrupted covers nothing
            file, end = wal.file, wal.end
            is_due = bool(group) or (force and wal.dirty_since is not None)
            if file is None or self.failed is not None or not is_due:
                if self.failed is not None:
                    self._refuse_pending()
                return
            self._syncing = len(group)
            self.syncs_begun += 1  # before the sync: what is published from now on may miss it
            self._bytes_at_sync = self.stats.bytes_written
        started = self._clock.monotonic()
        try:
            wal.sync(file)
            wal.write_mark(end)
        except OSError as error:
            if error.errno is None:  # as above
                raise
            with self._write_lock:
                self._syncing = 0
                self._break("fdatasync", error)
            return
        sync_s = self._clock.monotonic() - started
        self.stats.synced(sync_s)
        throttle_s, self._throttle_s = self._throttle_s, 0.0
        for commit in group:
            commit.sync_s = sync_s
            commit.throttle_s = throttle_s
        with self._write_lock:
            retired = wal.retired
            # The sync does not cover writes made during it.
            is_clean = wal.end == end
            in_file: dict[str, Any] = {
                "durable": max(end, wal.durable),
                "retired": [],
                "dirty_since": None if is_clean else max(started, wal.dirty_since or started),
            }
            changed = {"_syncing": 0, "_syncs_done": self.syncs_begun}
            perform(
                (
                    (wal.__dict__.update, in_file),
                    (self.__dict__.update, changed),
                    (self._pending.__delitem__, slice(0, len(group))),
                    (self._ready.extend, group),
                    *self._released(group),
                )
            )
            self._mark_failure()  # if there was one meanwhile: its mark was overwritten
            self._publish_ready()
        if self.on_synced is not None:
            self.on_synced()
        for old in retired:
            old.close()
        if group:
            self._window.committed(len(group), len(self._queue), sync_s)

    def _released(self, group: list[PendingCommit]) -> list[Step]:
        """Their ordering keys no longer delay other commits."""
        keys = self._ordering_keys
        if len(group) == 1 == len(keys) and keys.get(group[0].ordering_key) == 1:
            return [(keys.clear,)]
        left: dict[int, int] = {}
        for commit in group:
            key = commit.ordering_key
            left[key] = left.get(key, keys.get(key, 0)) - 1
        return [
            (keys.__setitem__, key, count) if count > 0 else (keys.pop, key, None)
            for key, count in left.items()
        ]

    # Publishing: the write lock is held.

    def _is_own_thread(self) -> bool:
        """True if no asynchronous exception can interrupt this thread."""
        return self._thread is None or threading.get_ident() == self._thread_ident

    def _publish_ready(self) -> None:
        """Apply and resolve ready commits, as far as this thread may."""
        ready, published = self._ready, self._published
        is_own = self._is_own_thread()
        if published:
            self._resolve_published(is_own)
        while ready:
            run = [ready[0]] if len(ready) == 1 else _first_run(ready)
            if not is_own and _have_callbacks(run):
                return
            finish: list[Step] = [(published.extend, run), *[(ready.popleft,)] * len(run)]
            publish = run[0].publish
            if publish is None:
                perform(finish)
            elif not is_own:
                if not publish(run, finish, False):
                    return
            else:
                try:
                    # Without a thread this is the caller's: what can be rolled back, is.
                    if self._thread is not None or not publish(run, finish, False):
                        publish(run, finish, True)
                except Exception as bug:  # noqa: BLE001 - state no longer follows the log
                    self._stop_for_bug(bug)
                    for commit in run:
                        commit.error = self.failed
                    if ready and ready[0] is run[0]:  # the bug came before its last step
                        perform(finish)
            self._resolve_published(is_own)

    def _resolve_published(self, is_own: bool) -> None:
        published = self._published
        while published:
            commit = published[0]
            callback = commit.callback
            if callback is not None and not is_own:
                return
            commit.is_done = True
            gate = commit.gate  # after that: see `PendingCommit.wait`
            if gate is None:
                published.popleft()
            else:
                perform(((gate.release,), (published.popleft,)))
            if callback is not None:
                callback(commit)

    def _drive_alone(self, commit: PendingCommit) -> None:
        with self._write_lock:
            self._write_queued()
        if not commit.is_done:
            self._commit_all()

    def _commit_all(self) -> None:
        """What is queued, and what its callbacks queue."""
        with self._sync_lock:
            self._commit()
            while self._queue and self.failed is None:
                self._commit()

    # Failing: the first one ends it.

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except OSError as error:
            self._break("rotate", error)

    def _break(self, what: str, error: OSError) -> None:
        """Close the shard for writing. The write lock is held. Never retried: after a failed sync
        the kernel forgets what was dirty, and a second sync would succeed with the data gone."""
        if self.failed is None:
            self.failed = LogFailed.of(what, error, self.group)
            self._mark_failure()
        self._on_failure(self.failed)
        self._refuse_pending()
        self._refuse_queued()

    def _mark_failure(self) -> None:
        """Write it to the mark. Only the page cache need keep it: after a reboot nothing stale is
        cached."""
        if self.failed is not None:
            with contextlib.suppress(OSError):
                self._wal.write_mark(self._wal.durable, failed=True)

    def _refuse_pending(self) -> None:
        """Fail all commits except those that a running sync may still make durable. The write lock
        is held."""
        while len(self._pending) > self._syncing:
            commit = self._pending[-1]
            if not commit.is_done:
                commit.resolve(self.failed)
            self._pending.pop()
        if not self._pending:
            self._ordering_keys.clear()

    def _refuse_queued(self) -> None:
        """The write lock is held."""
        while self._queue:
            commit = self._queue[0]
            if not commit.is_done:
                commit.resolve(self.failed)
            self._queue.popleft()
        self._queued_bytes = 0

    def _stop_for_bug(self, bug: BaseException) -> None:
        if self.failed is None:
            what = "an entry could not be applied"
            if self._thread is None:  # the caller's, which a signal handler may have ended
                what += ", or the call was interrupted"
            self.failed = LogFailed(
                self.group,
                reason=f"{what}: {bug!r}",
                hint="the log is closed for writing; reopen it, and please report this",
            )
            self.failed.__cause__ = bug
            self._on_failure(self.failed)

    def _fail_waiting(self) -> None:
        with self._sync_lock, self._write_lock:  # no sync is under way
            self._answer_all_with_failure()

    def _answer_all_with_failure(self) -> None:
        """Both locks are held."""
        self._syncing = 0
        self._refuse_pending()
        self._refuse_queued()
        self._publish_ready()
        self._wal.dirty_since = None  # nothing will be synced any more


def _first_run(ready: deque[PendingCommit]) -> list[PendingCommit]:
    """Neighbours of one ordering key and one publisher, from the front: published as one."""
    first = ready[0]
    key, publish = first.ordering_key, first.publish
    return list(takewhile(lambda one: one.ordering_key == key and one.publish is publish, ready))


def _have_callbacks(run: list[PendingCommit]) -> bool:
    if len(run) == 1:
        return run[0].callback is not None
    return any([commit.callback is not None for commit in run])


def _resolve_all(commits: list[PendingCommit], error: PenstockError | None) -> None:
    for commit in commits:
        if not commit.is_done:
            commit.resolve(error)
