"""One shard of the log: a bounded queue, one writer at a time, shared syncs.

Whoever holds the *turn* is the writer: it drains the queue with one write. Whoever holds the
*sync* makes a group durable, outside the turn, so that others go on writing meanwhile. An idle
shard is driven by its caller's own thread, which saves a lone writer two hand-overs; under
load the shard's thread takes over and callers only queue.

Lock order: sync, then turn, then whatever `publish` takes.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable

from penstock import limits
from penstock.clock import Clock
from penstock.codec import kernel
from penstock.codec.entry import encode_entry
from penstock.errors import Closed, LogFailed, Overloaded, PenstockError
from penstock.storage.fs import File, Filesystem
from penstock.storage.wal import files, mark
from penstock.storage.wal.batching import CommitWindow
from penstock.storage.wal.stats import ShardStats
from penstock.storage.wal.ticket import Ticket
from penstock.types import DurableMarked

_SLICE_S = limits.COMMIT_WINDOW_MIN_S
_MARK_FRAME_BYTES = len(encode_entry(DurableMarked(0, 0), 0))
_APART_BYTES = 16 * limits.KIB


class Shard:
    """Safe from several threads. `threaded=False` makes every call finish its own work."""

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
        self._fs = fs
        self._clock = clock
        self._numbers = numbers
        self._file_bytes = file_bytes
        self._tick_s = sync_tick_ms / 1000
        self._on_failure = on_failure
        # Marks claim this boot only once the losses of the last one are logged (`settle`). Until
        # then they go on to claim the last one: whether that was this very boot still counts.
        self._boot_id = boot_id
        self._queue: deque[Ticket] = deque()
        self._queued_bytes = 0
        self._turn = threading.Lock()
        # Guarded by the turn:
        self._file: File | None = None
        self._index = 0
        self._offset = 0
        self._size = 0
        self._prepared: tuple[files.WalFile, File, int] | None = None
        self._retired: list[File] = []
        self._pending: list[Ticket] = []  # written, waiting for a sync
        self._group: list[Ticket] = []  # being synced right now
        self._lanes: dict[int, int] = {}  # lanes with unpublished tickets in the two above
        self._dirty_since: float | None = None
        self._durable = durable_end  # of the last run, so that the first file names it
        self._marked = (0, 0)
        # Guarded by the sync:
        self._sync = threading.Lock()
        self._window = CommitWindow()
        self._throttle_s = 0.0  # how long this group was held open for others, under pressure
        self._mark_file: File | None = None
        # The thread:
        self._wake = threading.Condition()
        self._is_awake = True
        self._looks_again = False  # it sleeps, but no longer than for a tick
        self._was_written = False  # since it fell asleep
        self._want = 0
        self._is_stopping = False
        self._is_closed = False
        self._thread: threading.Thread | None = None
        if threaded:
            self._thread = threading.Thread(
                target=self._run, name=f"penstock-wal {group.rsplit('/', 1)[-1]}", daemon=True
            )
            self._thread.start()

    # What callers do.

    def submit(self, ticket: Ticket) -> None:
        """Queue a ticket; the order of these calls is the order on disk. Takes no lock, so a
        caller may hold its topic's. Follow with `drive` once that lock is released."""
        if self.failed is not None:
            raise self.failed
        if self._is_closed:
            raise Closed("the log is closed")
        size = len(ticket.frames)
        if (
            len(self._queue) >= limits.SHARD_QUEUE_SUBMISSIONS_MAX
            or self._queued_bytes + size > limits.SHARD_QUEUE_BYTES_MAX
        ):
            self.stats.refused += 1
            raise Overloaded("the write queue is full", retry_after_ms=100)
        self._queued_bytes += size
        self._queue.append(ticket)

    def drive(self, ticket: Ticket) -> None:
        """Get a queued ticket going: on this thread when the shard is idle."""
        if self._thread is None:
            if not self._is_closed:
                self._drive_alone(ticket)
            elif not ticket.is_done:
                ticket.resolve(Closed("the log is closed"))
            return
        if ticket.durable and (self._sync.locked() or self._window.wait_s(1, 0.0) > 0):
            self._nudge()  # a group is under way or expected: join the next one
            return
        if self._turn.acquire(blocking=False):
            was_clean = self._dirty_since is None
            try:
                self._write_queued()
            finally:
                self._turn.release()
            if ticket.is_done:
                if was_clean and not self._is_awake and not self._looks_again:
                    self._nudge()  # someone must sync this within a tick
                return
            if self._sync.acquire(blocking=False):
                try:
                    self._commit()
                finally:
                    self._sync.release()
        if not ticket.is_done or self._queue or self._pending:
            self._nudge()

    def push(self) -> None:
        """Get queued tickets going without lending this thread to a disk."""
        if self._thread is None:
            with self._sync:
                self._commit()
        else:
            self._nudge()

    def tick(self) -> None:
        """Sync what has waited long enough. The thread does this by itself."""
        with self._sync:
            self._commit(force=True)

    def harden(self) -> None:
        """Return when everything written so far is past a sync; raise why it is not."""
        self.tick()
        if self.failed is not None:
            raise self.failed

    def position(self) -> tuple[int, int]:
        """(file index, offset) up to which everything written has been published."""
        with self._turn:
            for tickets in (self._group, self._pending):
                if tickets:
                    return tickets[0].start
            return self._index, self._offset

    def rotate(self) -> None:
        """Continue in a new file, so that the old ones can be let go."""
        with self._sync, self._turn:
            if self._offset and self.failed is None:
                self._guarded(lambda: self._next_file(0))

    def settle(self) -> None:
        """What the last boot lost is logged: from now on marks claim this boot."""
        with self._sync, self._turn:
            self._boot_id = self._fs.boot_id()
            if self._file is not None:
                self._guarded(lambda: self._write_mark(self._durable))

    def widen(self, window_ms: float | None) -> None:
        """Wait so long for others before a sync, whoever is alone excepted; None: as the shard
        finds it best."""
        self._window.widened_s = None if window_ms is None else window_ms / 1000

    @property
    def queue_depth(self) -> int:
        """Tickets that wait to be written."""
        return len(self._queue)

    def loss_window_ms(self) -> float:
        """Age of the oldest write that no sync covers yet."""
        since = self._dirty_since
        return 0.0 if since is None else (self._clock.monotonic() - since) * 1000

    def close(self) -> None:
        """Commit what is queued, sync, seal with a clean mark. May be repeated."""
        if self._thread is not None:
            with self._wake:
                self._is_stopping = True
                self._wake.notify()
            self._thread.join()
            self._thread = None
        self._is_closed = True
        with self._sync:
            if self.failed is None:
                self._commit(force=True)
            with self._turn:
                self._close_files()
        # A ticket that slipped in between the last commit and here finds nobody to write it.
        _resolve_all(list(self._queue), self.failed or Closed("the log is closed"))
        self._queue.clear()

    # The thread.

    def _nudge(self) -> None:
        if self._is_awake and len(self._queue) != self._want:
            return  # it looks at the queue again before it sleeps
        with self._wake:
            self._is_awake = True  # as good as: one nudge is enough for all who queue meanwhile
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while True:
                    self._is_awake = False  # before the look: whoever queues later will nudge
                    self._looks_again = False
                    if self._queue or self._pending or self._is_stopping:
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
        if self._pending or any(ticket.durable for ticket in self._queue.copy()):
            with self._sync:
                self._collect()
                self._commit()
        else:
            with self._turn:
                self._write_queued()
            if self._tick_due():
                self.tick()
        self._prepare_ahead()

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

    def _until_tick(self) -> float | None:
        since = self._dirty_since
        if since is None:
            return None
        return max(0.0, since + self._tick_s - self._clock.monotonic())

    def _tick_due(self) -> bool:
        since = self._dirty_since
        return since is not None and self._clock.monotonic() - since >= self._tick_s

    # Writing: the turn is held.

    def _write_queued(self) -> None:
        queue = self._queue
        while queue:
            self.stats.drained(len(queue))
            tickets = [queue.popleft()]
            size = len(tickets[0].frames)
            while queue and size + len(queue[0].frames) <= limits.WRITE_BYTES_MAX:
                tickets.append(queue.popleft())
                size += len(tickets[-1].frames)
            self._queued_bytes -= size
            if self.failed is not None:
                _resolve_all(tickets, self.failed)
                continue
            try:
                self._write(tickets, size)
            except OSError as error:
                self._break("write", error, tickets)

    def _write(self, tickets: list[Ticket], size: int) -> None:
        if self._offset + size + _MARK_FRAME_BYTES > self._size:
            self._next_file(size + _MARK_FRAME_BYTES)
        head = b""
        if self._marked != self._durable:  # after a rotation it names the end of the old file
            self._marked = self._durable
            head = encode_entry(DurableMarked(*self._durable), self._clock.now_ms())
        file = self._file
        if file is None:
            raise AssertionError("no file to write to")
        parts = [head, *(ticket.frames for ticket in tickets)]
        is_apart = size >= len(parts) * _APART_BYTES  # else one copy costs less than the parts do
        started = self._clock.monotonic()
        if is_apart:
            file.write_parts_at(parts, self._offset)
        else:
            file.write_at(b"".join(parts), self._offset)
        ended = self._clock.monotonic()
        at = self._offset + len(head)
        size += len(head)
        self._offset += size
        self._was_written = True
        if self._dirty_since is None:
            self._dirty_since = ended
        stats = self.stats
        stats.tickets += len(tickets)
        stats.frames += bool(head)
        stats.writes += 1
        stats.bytes_written += size
        lanes = self._lanes
        write_s = ended - started
        ready: list[Ticket] = []
        for ticket in tickets:
            ticket.start = (self._index, at)
            at += len(ticket.frames)
            ticket.write_s = write_s
            stats.frames += ticket.count or kernel.count_frames(ticket.frames)
            lane = ticket.lane
            if ticket.durable or lane in lanes:
                lanes[lane] = lanes.get(lane, 0) + 1
                self._pending.append(ticket)
            else:
                ready.append(ticket)
        for run in _runs(ready):
            self._publish(run)

    def _next_file(self, need: int) -> None:
        """Rotate. The old file is synced first, so a file with a successor holds no torn tail."""
        old = self._file
        if old is not None:
            old.sync()
        prepared = self._prepared
        if prepared is None or prepared[2] < need:
            prepared = self._prepare(max(self._file_bytes, need))
        wal_file, file, size = prepared
        if old is None:
            # The mark of the last run may say that it was closed. That must not survive a power
            # cut in this one.
            self._write_mark((wal_file.index, 0)).sync()
        unused = self._prepared if self._prepared is not prepared else None
        # All at once: an exception from outside (Ctrl-C) comes before this call or after it.
        self.__dict__.update(
            _file=file,
            _size=size,
            _index=wal_file.index,
            _offset=0,
            _prepared=None,
            _retired=self._retired if old is None else [*self._retired, old],
            _durable=self._durable if old is None else (self._index, self._offset),
            _dirty_since=self._dirty_since if old is None else None,
        )
        if old is not None:
            self.stats.rotations += 1
            self._write_mark((self._index, 0))
        if unused is not None:
            self._discard(unused)

    def _prepare(self, size: int) -> tuple[files.WalFile, File, int]:
        self._fs.make_dirs(self.group)
        wal_file, file = files.prepare(self._fs, self.group, self._numbers.take(), size)
        return wal_file, file, size

    def _prepare_ahead(self) -> None:
        """Make the next file before it is needed. Thread only; outside the turn."""
        if self._prepared is not None or self._offset * 2 < self._size or self.failed is not None:
            return
        try:
            prepared = self._prepare(self._file_bytes)
        except OSError:
            return  # a full disk: rotation will meet it again, and that one counts
        with self._turn:
            # Someone may have rotated meanwhile: a file with a lower number than the one in
            # use must never be written to, replay goes by number.
            if self._prepared is None and prepared[0].index > self._index and not self.failed:
                self._prepared = prepared
                return
        self._discard(prepared)

    def _discard(self, prepared: tuple[files.WalFile, File, int]) -> None:
        prepared[1].close()
        with contextlib.suppress(FileNotFoundError):
            self._fs.unlink(prepared[0].path)

    # Syncing: the sync is held, the turn is not.

    def _commit(self, *, force: bool = False) -> None:
        with self._turn:
            self._write_queued()
            group, self._pending = self._pending, []
            self._group = group
            file, end = self._file, (self._index, self._offset)
            dirty = self._dirty_since
            is_due = bool(group) or (force and dirty is not None)
            if file is None or self.failed is not None or not is_due:
                self._group = []
                _resolve_all(group, self.failed)
                return
            self._dirty_since = None
        started = self._clock.monotonic()
        try:
            file.sync()
            self._write_mark(end)
        except OSError as error:
            with self._turn:
                self._break("fdatasync", error, group)
            return
        sync_s = self._clock.monotonic() - started
        self.stats.synced(sync_s)
        throttle_s, self._throttle_s = self._throttle_s, 0.0
        with self._turn:
            if end > self._durable:
                self._durable = end
            retired, self._retired = self._retired, []
        runs = _runs(group)
        for run in runs:
            for ticket in run:
                ticket.sync_s = sync_s
                ticket.throttle_s = throttle_s
            self._publish(run)
        with self._turn:
            self._group = []
            lanes = self._lanes
            for run in runs:
                lane = run[0].lane
                left = lanes.get(lane, 0) - len(run)  # a failure meanwhile clears them
                if left > 0:
                    lanes[lane] = left
                else:
                    lanes.pop(lane, None)
        for old in retired:
            old.close()
        if group:
            self._window.committed(len(group), len(self._queue), sync_s)

    def _write_mark(self, end: tuple[int, int], *, failed: bool = False) -> File:
        """Note the durable end. Not synced: a stale mark only claims less."""
        if self._mark_file is None:
            self._mark_file = mark.open_file(self._fs, self.group)
        note = mark.Mark(*end, self._boot_id, is_failed=failed)
        self._mark_file.write_at(note.encode(), 0)
        return self._mark_file

    def _publish(self, run: list[Ticket]) -> None:
        """Publish tickets of one lane and one publisher together, then resolve them."""
        publish = run[0].publish
        if publish is not None:
            try:
                publish(run)
            except Exception as bug:  # noqa: BLE001 - state no longer follows the log: stop here
                self._stop_for_bug(bug)
                _resolve_all(run, self.failed)
                return
        for ticket in run:
            ticket.resolve()

    def _drive_alone(self, ticket: Ticket) -> None:
        with self._turn:
            self._write_queued()
        if not ticket.is_done:
            with self._sync:
                self._commit()

    # Failing: the first one ends it.

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except OSError as error:
            self._break("rotate", error, [])

    def _break(self, what: str, error: OSError, tickets: list[Ticket]) -> None:
        """Close the shard for writing. The turn is held. Never retried: after a failed sync
        the kernel forgets what was dirty, and a second sync would succeed with the data gone."""
        if self.failed is None:
            self.failed = LogFailed(
                error.filename or self.group,
                reason=f"{what} failed: {error.strerror or error}",
                hint="the log is closed for writing; free space or replace the disk, then reopen",
            )
            with contextlib.suppress(OSError):
                # Only the page cache need keep this: after a reboot nothing stale is cached.
                self._write_mark(self._durable, failed=True)
        victims = [*tickets, *self._pending, *self._queue]
        self._pending = []
        self._queue.clear()
        self._queued_bytes = 0
        self._lanes.clear()
        self._group = []
        self._on_failure(self.failed)
        _resolve_all(victims, self.failed)

    def _stop_for_bug(self, bug: Exception) -> None:
        if self.failed is None:
            self.failed = LogFailed(
                self.group,
                reason=f"an entry could not be applied: {bug!r}",
                hint="the log is closed for writing; reopen it, and please report this",
            )
            self.failed.__cause__ = bug
            self._on_failure(self.failed)

    def _fail_waiting(self) -> None:
        with self._turn:
            victims = [*self._pending, *self._queue]
            self._pending = []
            self._queue.clear()
            self._dirty_since = None  # nothing will be synced any more
        _resolve_all(victims, self.failed)

    def _close_files(self) -> None:
        file, self._file = self._file, None
        if file is not None and self.failed is None:
            file.truncate(self._offset)  # give the unused blocks back
            file.sync()
            if self._mark_file is None:
                self._mark_file = mark.open_file(self._fs, self.group)
            clean = mark.Mark(self._index, self._offset, self._boot_id, is_clean=True)
            self._mark_file.write_at(clean.encode(), 0)
            self._mark_file.sync()
        prepared, self._prepared = self._prepared, None
        leftovers = [file, self._mark_file, *self._retired]
        self._mark_file = None
        self._retired = []
        for left in leftovers:
            if left is not None:
                left.close()
        if prepared is not None:
            self._discard(prepared)


def _runs(tickets: list[Ticket]) -> list[list[Ticket]]:
    """Neighbours of one lane and one publisher, in order: they can be published as one."""
    runs: list[list[Ticket]] = []
    run: list[Ticket] = []
    for ticket in tickets:
        if run and ticket.lane == run[0].lane and ticket.publish is run[0].publish:
            run.append(ticket)
        else:
            run = [ticket]
            runs.append(run)
    return runs


def _resolve_all(tickets: list[Ticket], error: PenstockError | None) -> None:
    for ticket in tickets:
        if not ticket.is_done:
            ticket.resolve(error)
