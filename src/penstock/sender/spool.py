"""The spool of a sender: it stores frames in order until a server has acknowledged them.

Three threads use a spool: a producer appends, the delivery loop reads and acknowledges, and the
maintenance thread preallocates, syncs and removes segments. No call waits for the network.

Lock order: `_maintaining`, `_producing`, the lock of the preallocated segments, `_state`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock.clock import Clock
from penstock.errors import Closed, FrameTooLarge, InvalidArgument, SpoolFailed, SpoolFull
from penstock.sender.ack_watermark import AckWatermark
from penstock.sender.dead_letters import DeadLetters
from penstock.sender.frame_index import FrameIndex, FrameRun, SpoolSegment
from penstock.sender.frame_reader import FrameReader, is_frame
from penstock.sender.preallocation import PreallocatedSegments
from penstock.sender.progress import Progress
from penstock.sender.recovery import Damage, SlotFindings
from penstock.sender.segment import FRAME_EXTRA_BYTES, HEAD_BYTES
from penstock.sender.segment_files import SegmentFiles, Writer
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Rejection, Slot
from penstock.wire.spool_frame import FRAME_HEAD_BYTES

_RETRY_S: Final = 1.0  # after an error of the disk
_READ_FRAMES_MAX: Final = 4096


DamageListener = Callable[[Damage, int], None]


class Stored(NamedTuple):
    """A stored frame, ready for the wire. `data` is None for a lost frame; its incarnation is empty
    when it is unknown."""

    fsn: int
    incarnation: bytes
    data: bytes | None


class Spool:
    """The frames of one sender. Created by `opening.open_spool`."""

    def __init__(
        self,
        settings: SpoolSettings,
        slot: Slot,
        watermark: AckWatermark,
        findings: SlotFindings,
        *,
        clock: Clock,
        incarnation: bytes,
    ) -> None:
        self.slot = slot
        self.incarnation = incarnation  # of the frames of this run
        self.damage: list[Damage] = findings.damage  # lost frames, oldest report first
        self.frames_lost = sum(one.frames_above(findings.acked) for one in findings.damage)
        self.frames_refused = 0  # kept as dead letters since the opening
        self.torn_bytes = findings.torn_bytes  # cut off and quarantined at the opening
        self.dead_letters = DeadLetters(
            slot, are_kept=settings.sf_dir is not None, bytes_max=settings.cap_bytes
        )
        self.payload_bytes_max = settings.segment_bytes - HEAD_BYTES - FRAME_EXTRA_BYTES
        self._settings = settings
        self._acked_before = findings.acked
        self._damage_listener: DamageListener | None = None
        self._clock = clock
        self._watermark = watermark
        self._files = SegmentFiles(slot.fs, slot.path, settings.segment_bytes)

        self._maintaining = threading.Lock()  # held by `maintain` and by `close`

        self._producing = threading.Lock()  # guards the next five; `maintain` only reads the last
        self._tail: Writer | None = None
        self._rotated_s = clock.monotonic()
        self._lasted_s = 0.0  # how long the last segment was the tail
        self._failed_writers: list[Writer] = []  # a failed file is replaced before the next append

        self._preallocated = PreallocatedSegments(
            self._files, incarnation, clock, number=findings.next_number - 1, grow=self._grow
        )

        self._reader = FrameReader(slot.fs)

        self._state = threading.Lock()  # guards all below, and is the lock of these conditions
        self._room = threading.Condition(self._state)  # segments were removed
        self._work = threading.Condition(self._state)  # `maintain` has work
        self._index = FrameIndex(findings.segments)
        self._progress = Progress(
            self._index, acked=findings.acked, published=findings.next_fsn - 1
        )
        self._stored_bytes = sum(segment.size for segment in findings.segments)
        self._sealed: list[Writer] = []  # `maintain` closes them, after a sync if one is due
        needs_sync = settings.durability != "memory"
        self._recovered = list(findings.segments) if needs_sync else []
        self._dirty_since: float | None = None  # when the tail got its first unsynced frame
        self._is_work_wanted = True
        self._is_closed = False

    # State.

    @property
    def published_fsn(self) -> int:
        """The number of the newest frame; -1 before the first."""
        return self._progress.published

    @property
    def acked_fsn(self) -> int:
        """Every frame up to this number is acknowledged, rejected or lost; -1: none."""
        return self._progress.acked

    @property
    def stored_bytes(self) -> int:
        """The bytes of the segments, including preallocated ones; the cap limits them."""
        return self._stored_bytes

    @property
    def cap_bytes(self) -> int:
        """The maximum of `stored_bytes`."""
        return self._settings.cap_bytes

    @property
    def oldest_unacked_ms(self) -> int:
        """The age of the oldest unacknowledged frame; 0 without one."""
        with self._state:
            return self._progress.oldest_ms(self._clock.now_ms())

    def watch_damage(self, listener: DamageListener) -> None:
        """Call the listener for all known damage, with the number of lost frames, and for later
        damage on the thread that finds it."""
        with self._state:
            self._damage_listener, found = listener, list(self.damage)
        for damage in found:
            listener(damage, damage.frames_above(self._acked_before))

    # The producer.

    def append(self, parts: Sequence[bytes]) -> int:
        """Store one frame with the payload `parts` and return its number. With durability `append`
        it is synced on return. After an error the frame was not stored and its number was not
        used."""
        size = sum(map(len, parts))
        if size > self.payload_bytes_max:
            raise FrameTooLarge(size, size_max=self.payload_bytes_max)
        with self._producing:
            self._check_open()
            if self._failed_writers:
                self._renew_failed()
            fsn = self._progress.published + 1
            tail = self._tail
            if tail is not None and len(tail.segment.offsets) > fsn - tail.segment.base:
                tail.segment.cut(fsn)  # left by an exception of a signal handler
            if tail is None or not tail.fits(FRAME_HEAD_BYTES + size):
                tail = self._rotate()
            try:
                offset, length = tail.write(fsn, parts)
                if self._settings.durability == "append":
                    tail.file.sync()
            except OSError as error:
                # The bytes after the last frame could reappear after a crash: the file is replaced
                # by one without them before anything else is written.
                self._mark_failed(tail)
                raise _failed(tail.segment.path, error) from error
            self._publish(tail.segment, fsn, offset, length)
            return fsn

    def wait_for_room(self, timeout_s: float, size: int = 0) -> bool:
        """Wait for room for a frame of this size. False when there was none within `timeout_s`."""
        deadline = self._clock.monotonic() + timeout_s
        with self._state:
            while not self._has_room(size):
                if self._is_closed:
                    raise Closed("the spool was closed")
                left = deadline - self._clock.monotonic()
                if left <= 0:
                    return False
                self._clock.wait(self._room, left)
            return True

    def has_place(self, size: int) -> bool:
        """True when a frame of this size can be stored without creating a file."""
        tail = self._tail
        if self._failed_writers:
            return False
        return bool(self._preallocated) or (tail is not None and tail.fits(FRAME_HEAD_BYTES + size))

    # The delivery loop.

    def read(self, fsn: int, max_bytes: int) -> list[Stored]:
        """Unacknowledged frames from `fsn` on, each checked; at least one if there is one. Lost
        frames are included without data. [] at the end of the spool."""
        fsn = max(fsn, self.acked_fsn + 1)  # a lost frame may have been skipped meanwhile
        found: list[Stored] = []
        left = max_bytes
        while fsn <= self.published_fsn and (left > 0 or not found):
            if len(found) >= _READ_FRAMES_MAX:
                break
            with self._state:
                self._check_open()
                piece = self._index.piece(fsn, left, self.published_fsn)
                segment = piece.segment if piece else self._index.find(fsn)
            if piece is None:
                found.append(Stored(fsn, segment.incarnation if segment else b"", None))
                fsn += 1
                continue
            if found and piece.frames[0][1] > left:
                break
            frames = self._read_piece(piece)
            found += frames
            left -= sum(len(frame.data) for frame in frames if frame.data is not None)
            fsn += len(frames)
        return found

    def ack(self, fsn: int) -> int:
        """Acknowledge all frames up to `fsn`. The watermark is written at once and synced before
        segments are removed. Returns the number of lost frames among the acknowledged ones."""
        with self._state:
            self._check_open()
            before = self._progress.acked
            self._progress.ack(fsn)
            passed = range(before + 1, min(fsn, self._progress.acked) + 1)
            lost = sum(map(self._index.is_lost, passed)) if self.damage else 0
            self._request_trim()
        self._record_watermark()
        return lost

    def reject(self, fsn: int, rejection: Rejection) -> None:
        """The server rejected this frame: write it as a durable dead letter, then advance over it.
        In memory the frame is lost. May be called again."""
        if fsn <= self.acked_fsn:
            return
        if fsn > self.published_fsn:
            raise InvalidArgument(f"no frame {fsn}: the newest frame is {self.published_fsn}")
        stored = self.read(fsn, 0)[0]
        if stored.fsn == fsn and stored.data is not None and self.dead_letters.are_kept:
            now_ms = self._clock.now_ms()
            try:
                self.dead_letters.keep(
                    fsn, stored.incarnation, stored.data, rejection, now_ms=now_ms
                )
            except OSError as error:
                raise _failed(self.slot.path, error) from error
            self.frames_refused += fsn > self.acked_fsn
        with self._state:
            self._progress.resolve(fsn)
            self._request_trim()
        self._record_watermark()

    # The maintenance thread.

    def maintain(self) -> float | None:
        """Sync segments that are due, remove acknowledged ones, and preallocate. Returns the
        seconds until the next call; None: when `wait_for_work` returns."""
        with self._maintaining:
            with self._state:
                if self._is_closed:
                    return None
                self._is_work_wanted = False
            waits = [self._sync_due(), self._trim(), self._preallocate()]
            return min((wait for wait in waits if wait is not None), default=None)

    def wait_for_work(self, timeout_s: float | None) -> bool:
        """Wait until `maintain` has work; false when there was none within `timeout_s`."""
        deadline = None if timeout_s is None else self._clock.monotonic() + timeout_s
        with self._state:
            while not self._is_work_wanted and not self._is_closed:
                left = None if deadline is None else deadline - self._clock.monotonic()
                if left is not None and left <= 0:
                    return False
                self._clock.wait(self._work, left)
            return True

    def request_maintenance(self) -> None:
        """Make `wait_for_work` return."""
        with self._state:
            self._request_work()

    def close(self) -> bool:
        """Close the files and release the slot; may be called again. True when every frame was
        acknowledged: then the segments are removed. Otherwise they stay for the next opening."""
        with self._maintaining, self._producing:
            with self._state:
                is_drained = self.acked_fsn >= self.published_fsn
                if self._is_closed:
                    return is_drained
                self._is_closed = True
                for condition in (self._room, self._work):
                    condition.notify_all()
            try:
                self._finish_files(is_drained=is_drained)
            except OSError as error:
                raise _failed(self.slot.path, error) from error
            finally:
                self._release()
            return is_drained

    # Appending.

    def _publish(self, segment: SpoolSegment, fsn: int, offset: int, length: int) -> None:
        now_ms = self._clock.now_ms()
        with self._state:
            segment.add(offset, length)
            self._progress.publish(fsn, now_ms=now_ms)
            if self._settings.durability == "periodic" and self._dirty_since is None:
                self._dirty_since = self._clock.monotonic()
                self._request_work()

    def _rotate(self) -> Writer:
        """Continue in the next segment: a preallocated one, which costs no sync, or a new one."""
        try:
            preallocated = self._preallocated.pop()
        except OSError as error:
            raise _failed(self.slot.path, error) from error
        try:
            tail = self._files.promote(preallocated, self.published_fsn + 1)
        except OSError as error:
            self._preallocated.discard(preallocated)
            raise _failed(preallocated.path, error) from error
        now_s = self._clock.monotonic()
        if self._tail is not None:
            self._lasted_s = now_s - self._rotated_s
        self._rotated_s = now_s
        with self._state:
            self._index.segments.append(tail.segment)
            # Without a call in between: a signal handler could raise an exception there.
            if self._tail is not None:
                self._sealed += [self._tail]
            self._tail = tail
            self._request_work()
        return tail

    def _grow(self, size: int) -> None:
        """Add to the stored bytes; `size` may be negative. Raises SpoolFull above the cap."""
        cap = self._settings.cap_bytes
        with self._state:
            if size > 0 and self._stored_bytes + size > cap:
                raise SpoolFull(stored_bytes=self._stored_bytes, total_bytes_max=cap)
            self._stored_bytes += size

    def _has_room(self, size: int) -> bool:
        tail = self._tail
        if self._preallocated.is_one_coming or (tail and tail.fits(FRAME_HEAD_BYTES + size)):
            return True
        return self._stored_bytes + self._settings.segment_bytes <= self._settings.cap_bytes

    # Files that failed.

    def _mark_failed(self, writer: Writer) -> None:
        """The caller holds `_producing`."""
        writer.has_failed = True
        if writer not in self._failed_writers:
            self._failed_writers.append(writer)
        with self._state:
            self._request_work()

    def _renew_failed(self) -> None:
        """Copy the published frames of each failed file to a new one. The caller holds
        `_producing`. Raises SpoolFailed while the disk fails."""
        while self._failed_writers:
            writer = self._failed_writers[0]
            segment = writer.segment
            try:
                data = writer.file.read_at(0, segment.end)
                self._files.renew(writer, data)
            except OSError as error:
                raise _failed(segment.path, error) from error
            self._reader.close()
            self._check_frames(segment, data)
            del self._failed_writers[0]
            if writer is not self._tail:
                self._close_writer(writer)

    def _check_frames(self, segment: SpoolSegment, data: bytes) -> None:
        """After a failed sync the page cache may have lost frames that are not on disk."""
        for at, (offset, length) in enumerate(zip(segment.offsets, segment.lengths, strict=True)):
            fsn = segment.base + at
            is_whole = is_frame(fsn, data[offset : offset + length])
            if offset and fsn > self.acked_fsn and not is_whole:
                self._record_loss(segment, fsn, "it was lost after a failed sync")

    def _close_writer(self, writer: Writer) -> None:
        with contextlib.suppress(OSError):
            writer.file.close()
        with self._state:
            self._sealed = [other for other in self._sealed if other is not writer]

    # Reading.

    def _read_piece(self, piece: FrameRun) -> list[Stored]:
        try:
            frames = self._reader.read(piece)
        except OSError as error:
            raise _failed(piece.segment.path, error) from error
        found = [
            Stored(fsn, piece.segment.incarnation, frame)
            for fsn, frame in enumerate(frames, piece.first_fsn)
        ]
        for stored in found:
            if stored.data is None:
                self._record_loss(piece.segment, stored.fsn, "it was damaged in the spool")
        return found

    def _record_loss(self, segment: SpoolSegment, fsn: int, reason: str) -> None:
        with self._state:
            at = fsn - segment.base
            offset, length = segment.offsets[at], segment.lengths[at]
            if not offset:
                return
            segment.mark_lost(fsn)
            segment.must_quarantine = True
            damage = Damage(segment.path, offset, length, fsn, fsn, reason)
            self.damage.append(damage)
            self.frames_lost += 1
            self._progress.advance()
            self._request_trim()
            listener = self._damage_listener
        if listener is not None:
            listener(damage, 1)

    # Acknowledging.

    def _request_trim(self) -> None:
        """The caller holds `_state`."""
        if self._acked_segments():
            self._request_work()

    def _acked_segments(self) -> list[SpoolSegment]:
        tail = self._tail.segment if self._tail else None
        return self._index.acked_prefix(self._progress.acked, tail=tail)

    def _record_watermark(self) -> None:
        # Without this record frames are only sent again after a restart.
        with contextlib.suppress(OSError):
            self._watermark.record(self.acked_fsn, self.published_fsn)

    # Maintenance.

    def _request_work(self) -> None:
        """The caller holds `_state`."""
        self._is_work_wanted = True
        self._work.notify_all()

    def _sync_due(self) -> float | None:
        """Sync and close sealed segments, and sync the tail after each sync interval."""
        self._sync_recovered()
        interval_s = self._settings.sync_interval_s
        with self._producing, self._state:
            due, tail = list(self._sealed), self._tail
            since, now = self._dirty_since, self._clock.monotonic()
            if since is not None and now >= since + interval_s:
                # Before the sync, so that a frame appended meanwhile sets it again.
                self._dirty_since = None
                if tail is not None:
                    due.append(tail)
        for writer in due:
            if self._settings.durability == "periodic":
                self._sync(writer, is_sealed=writer is not tail)
            elif not writer.has_failed:
                self._close_writer(writer)
        with self._producing:
            try:
                self._renew_failed()
            except SpoolFailed:
                return _RETRY_S
        with self._state:
            since = self._dirty_since
            if self._recovered:
                return _RETRY_S
        return None if since is None else max(0.0, since + interval_s - now)

    def _sync(self, writer: Writer, *, is_sealed: bool) -> None:
        """A tail that is sealed meanwhile is synced again."""
        if writer.has_failed:
            return
        try:
            writer.file.sync()
        except OSError:
            with self._producing:
                self._mark_failed(writer)
        else:
            if is_sealed:
                self._close_writer(writer)

    def _sync_recovered(self) -> None:
        """Sync the segments of an earlier run."""
        with self._state:
            segments, self._recovered = self._recovered, []
        for segment in segments:
            try:
                writer = self._files.reopen(segment)
            except OSError:
                with self._state:
                    self._recovered.append(segment)
            else:
                self._sync(writer, is_sealed=True)

    def _trim(self) -> float | None:
        """Remove segments whose frames are all acknowledged."""
        with self._state:
            gone = self._acked_segments()
            acked, published = self.acked_fsn, self.published_fsn
        if not gone:
            return None
        try:
            # First: a watermark below the removed frames would look like missing segments.
            self._sync_watermark(acked, published)
            for segment in gone:
                self._remove(segment)
        except OSError:
            return _RETRY_S
        return None

    def _sync_watermark(self, acked: int, published: int) -> None:
        try:
            self._watermark.record_durably(acked, published)
        except OSError:
            # Without a watermark the oldest segment tells the acknowledged frames. On a full disk
            # there may be no space for the first record until a segment is removed.
            if not self._watermark.is_empty:
                raise

    def _remove(self, segment: SpoolSegment) -> None:
        self._unlink(segment)
        with self._producing, self._state:
            writers = [w for w in (*self._sealed, *self._failed_writers) if w.segment is segment]
            self._sealed = [w for w in self._sealed if w.segment is not segment]
            self._failed_writers = [w for w in self._failed_writers if w.segment is not segment]
            self._recovered = [other for other in self._recovered if other is not segment]
            self._index.segments.remove(segment)
            self._stored_bytes -= segment.size
            self._room.notify_all()
        for writer in writers:
            with contextlib.suppress(OSError):
                writer.file.close()

    def _unlink(self, segment: SpoolSegment) -> None:
        if segment.must_quarantine:
            self.slot.quarantine_file(segment.path)
            return
        with contextlib.suppress(FileNotFoundError):
            self.slot.fs.unlink(segment.path)

    def _preallocate(self) -> float | None:
        """A spool without appends needs none: it may only be drained."""
        if self._tail is None:
            return None
        try:
            while len(self._preallocated) < self._settings.preallocated_segments(
                self._lasted_s, self._stored_bytes
            ):
                self._preallocated.add(prefaults=self._settings.prefaults_segments(self._lasted_s))
        except SpoolFull:
            return None  # the next removal requests maintenance
        except OSError:
            return _RETRY_S
        return None

    # Closing.

    def _finish_files(self, *, is_drained: bool) -> None:
        self._preallocated.close()
        if is_drained:
            self._watermark.record_durably(self.acked_fsn, self.published_fsn)
            for segment in self._index.segments:
                self._unlink(segment)
            self.slot.fs.sync_dir(self.slot.path)
            return
        self._record_watermark()
        self._renew_failed()
        tail = self._tail
        if tail is not None:
            tail.file.truncate(tail.segment.end)
        if self._settings.durability != "memory":
            for writer in (*self._sealed, *([tail] if tail else [])):
                writer.file.sync()

    def _release(self) -> None:
        writers = [*self._sealed, *self._failed_writers, *([self._tail] if self._tail else [])]
        with contextlib.suppress(OSError):
            for writer in writers:
                writer.file.close()
            self._reader.close()
            self._watermark.close()
        self.slot.release()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the spool was closed")


def _failed(path: str, error: OSError) -> SpoolFailed:
    return SpoolFailed(
        path,
        reason=error.strerror or str(error),
        hint="the stored frames are not lost; free some space or repair the disk, then retry",
    )
