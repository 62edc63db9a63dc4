"""The spool of a sender: frames in, in order; frames out, as they were stored, until acknowledged.

Three threads use one: a producer appends, an I/O thread reads and acknowledges, an upkeep thread
prepares, syncs and removes. None of them waits for a network. `upkeep` holds the work that the
others should not wait for, and does it whether or not there is a server.

Locks are taken in this order: `_keeping`, `_producing`, that of the spares, `_state`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from penstock.clock import Clock
from penstock.errors import Closed, FrameTooLarge, InvalidArgument, SpoolFailed, SpoolFull
from penstock.sender.dead_letters import DeadLetters
from penstock.sender.files import SegmentFiles, Writer
from penstock.sender.index import Index, Piece, Segment
from penstock.sender.progress import Progress
from penstock.sender.reader import Reader, is_frame
from penstock.sender.recovery import Damage, Verdict
from penstock.sender.segment import FRAME_EXTRA_BYTES, HEAD_BYTES
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Rejection, Slot
from penstock.sender.spares import Spares
from penstock.sender.watermark import Watermark
from penstock.wire.spool_frame import FRAME_HEAD_BYTES

_RETRY_S: Final = 1.0  # after the disk refused something
_READ_FRAMES_MAX: Final = 4096


DamageListener = Callable[[Damage, int], None]


class Stored(NamedTuple):
    """A frame as it lies in the spool, ready for the wire. `data` is None when the frame was lost
    to damage; its incarnation is empty when not even that is known."""

    fsn: int
    incarnation: bytes
    data: bytes | None


class Spool:
    """Frames of one sender, numbered without end. Made by `opening.open_spool`."""

    def __init__(
        self,
        settings: SpoolSettings,
        slot: Slot,
        watermark: Watermark,
        verdict: Verdict,
        *,
        clock: Clock,
        incarnation: bytes,
    ) -> None:
        self.slot = slot
        self.incarnation = incarnation  # of the frames this run adds
        self.damage: list[Damage] = verdict.damage  # frames lost, oldest finding first
        self.frames_lost = sum(one.frames_above(verdict.acked) for one in verdict.damage)
        self.frames_refused = 0  # and kept, since the opening
        self.torn_bytes = verdict.torn_bytes  # no frames, cut off and put aside at the opening
        self.dead_letters = DeadLetters(
            slot, are_kept=settings.sf_dir is not None, bytes_max=settings.cap_bytes
        )
        self.payload_bytes_max = settings.segment_bytes - HEAD_BYTES - FRAME_EXTRA_BYTES
        self._settings = settings
        self._acked_before = verdict.acked
        self._tell_damage: DamageListener | None = None
        self._clock = clock
        self._watermark = watermark
        self._files = SegmentFiles(slot.fs, slot.path, settings.segment_bytes)

        self._keeping = threading.Lock()  # held by upkeep and by close

        self._producing = threading.Lock()  # guards the next four; upkeep only looks at the last
        self._tail: Writer | None = None
        self._rotated_s, self._lasted_s = clock.monotonic(), 0.0  # and how long the last one did
        self._suspects: list[Writer] = []  # files that failed; nothing is taken until renewed

        self._spares = Spares(
            self._files, incarnation, clock, number=verdict.next_number - 1, grow=self._grow
        )

        self._reader = Reader(slot.fs)

        self._state = threading.Lock()  # guards all below, and is the lock of these conditions
        self._room = threading.Condition(self._state)  # segments were removed
        self._work = threading.Condition(self._state)  # upkeep has something to do
        self._index = Index(verdict.segments)
        self._progress = Progress(self._index, acked=verdict.acked, published=verdict.next_fsn - 1)
        self._stored_bytes = sum(segment.size for segment in verdict.segments)
        self._sealed: list[Writer] = []  # upkeep closes them, after a sync if that is due
        needs_sync = settings.durability != "memory"
        self._recovered = list(verdict.segments) if needs_sync else []
        self._dirty_since: float | None = None  # when the tail first got what is not synced
        self._is_work_wanted = True
        self._is_closed = False

    # What is there.

    @property
    def published_fsn(self) -> int:
        """The number of the newest frame; -1 before the first."""
        return self._progress.published

    @property
    def acked_fsn(self) -> int:
        """Every frame up to this one is done with; -1 when none is."""
        return self._progress.acked

    @property
    def stored_bytes(self) -> int:
        """What the segments take, spare included: what the cap is about."""
        return self._stored_bytes

    @property
    def cap_bytes(self) -> int:
        """The most that they may take."""
        return self._settings.cap_bytes

    @property
    def oldest_unacked_ms(self) -> int:
        """How long the oldest frame has been waiting; 0 when none is."""
        with self._state:
            return self._progress.oldest_ms(self._clock.now_ms())

    def watch_damage(self, listener: DamageListener) -> None:
        """Call it with all damage there is, each with the number of frames that are lost with it,
        and with what is found later, on the thread that finds it."""
        with self._state:
            self._tell_damage, found = listener, list(self.damage)
        for damage in found:
            listener(damage, damage.frames_above(self._acked_before))

    # The producer.

    def append(self, parts: Sequence[bytes]) -> int:
        """Store one frame whose payload is `parts`, and return its number. With durability
        `append` it survives a power cut from here on. After an error nothing was taken and the
        number was not used."""
        size = sum(map(len, parts))
        if size > self.payload_bytes_max:
            raise FrameTooLarge(size, size_max=self.payload_bytes_max)
        with self._producing:
            self._check_open()
            if self._suspects:
                self._renew_suspects()
            fsn = self._progress.published + 1
            tail = self._tail
            if tail is not None and len(tail.segment.offsets) > fsn - tail.segment.base:
                tail.segment.cut(fsn)  # what a signal handler's exception left half done
            if tail is None or not tail.fits(FRAME_HEAD_BYTES + size):
                tail = self._rotate()
            try:
                offset, length = tail.write(fsn, parts)
                if self._settings.durability == "append":
                    tail.file.sync()
            except OSError as error:
                # What lies behind the last frame now may come back after a crash: the file is
                # made anew without it before anything else is written.
                self._suspect(tail)
                raise _failed(tail.segment.path, error) from error
            self._publish(tail.segment, fsn, offset, length)
            return fsn

    def wait_for_room(self, timeout_s: float, size: int = 0) -> bool:
        """Whether a frame of this size would not meet SpoolFull; waits until it would not."""
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
        """Whether a frame of this size needs no file to be made first."""
        tail = self._tail
        if self._suspects:
            return False
        return bool(self._spares) or (tail is not None and tail.fits(FRAME_HEAD_BYTES + size))

    # The I/O thread.

    def read(self, fsn: int, max_bytes: int) -> list[Stored]:
        """Frames from `fsn` on that are not done with, at least one if there is one, each
        checked. Those lost to damage are there, without data. [] at the end of the spool."""
        fsn = max(fsn, self.acked_fsn + 1)  # a lost frame may have been passed meanwhile
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
        """Everything up to `fsn` is done with. Written at once, synced before segments go.
        Returns how many of the frames that are passed with it were lost."""
        with self._state:
            self._check_open()
            before = self._progress.acked
            self._progress.ack(fsn)
            passed = range(before + 1, min(fsn, self._progress.acked) + 1)
            lost = sum(map(self._index.is_lost, passed)) if self.damage else 0
            self._ask_for_trim()
        self._note_marks()
        return lost

    def reject(self, fsn: int, rejection: Rejection) -> None:
        """The server refused this frame for good: keep it as a dead letter, durably, and only
        then count it as done with. In memory it is lost. May be repeated."""
        if fsn <= self.acked_fsn:
            return
        if fsn > self.published_fsn:
            raise InvalidArgument(f"there is no frame {fsn} yet")
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
            self._progress.settle(fsn)
            self._ask_for_trim()
        self._note_marks()

    # The upkeep thread.

    def upkeep(self) -> float | None:
        """Sync what is due, remove what was acknowledged, keep a spare ready. Returns when it
        wants to be called again, in seconds; None: when `wait_for_work` says so."""
        with self._keeping:
            with self._state:
                if self._is_closed:
                    return None
                self._is_work_wanted = False
            waits = [self._sync_due(), self._trim(), self._keep_spares()]
            return min((wait for wait in waits if wait is not None), default=None)

    def wait_for_work(self, timeout_s: float | None) -> bool:
        """Wait until `upkeep` has something to do, or until the time is over."""
        deadline = None if timeout_s is None else self._clock.monotonic() + timeout_s
        with self._state:
            while not self._is_work_wanted and not self._is_closed:
                left = None if deadline is None else deadline - self._clock.monotonic()
                if left is not None and left <= 0:
                    return False
                self._clock.wait(self._work, left)
            return True

    def ask_for_upkeep(self) -> None:
        """Somebody wants `wait_for_work` to return."""
        with self._state:
            self._want_work()

    def close(self) -> bool:
        """Let go of the slot; may be repeated. True when every frame was acknowledged: the slot
        then holds no segments. Otherwise they stay for the next opening."""
        with self._keeping, self._producing:
            with self._state:
                is_drained = self.acked_fsn >= self.published_fsn
                if self._is_closed:
                    return is_drained
                self._is_closed = True
                for condition in (self._room, self._work):
                    condition.notify_all()
            try:
                self._leave(is_drained=is_drained)
            except OSError as error:
                raise _failed(self.slot.path, error) from error
            finally:
                self._let_go()
            return is_drained

    # Appending.

    def _publish(self, segment: Segment, fsn: int, offset: int, length: int) -> None:
        now_ms = self._clock.now_ms()
        with self._state:
            segment.add(offset, length)
            self._progress.publish(fsn, now_ms=now_ms)
            if self._settings.durability == "periodic" and self._dirty_since is None:
                self._dirty_since = self._clock.monotonic()
                self._want_work()

    def _rotate(self) -> Writer:
        """Go on in the next segment: the spare, which costs no sync, or one made here."""
        try:
            spare = self._spares.take()
        except OSError as error:
            raise _failed(self.slot.path, error) from error
        try:
            tail = self._files.promote(spare, self.published_fsn + 1)
        except OSError as error:
            self._spares.discard(spare)
            raise _failed(spare.path, error) from error
        now_s = self._clock.monotonic()
        if self._tail is not None:
            self._lasted_s = now_s - self._rotated_s
        self._rotated_s = now_s
        with self._state:
            self._index.segments.append(tail.segment)
            # Without a call in between, at which a signal handler might raise.
            if self._tail is not None:
                self._sealed += [self._tail]
            self._tail = tail
            self._want_work()
        return tail

    def _grow(self, size: int) -> None:
        """So many bytes more on the disk, or fewer. SpoolFull when that is over the cap."""
        cap = self._settings.cap_bytes
        with self._state:
            if size > 0 and self._stored_bytes + size > cap:
                raise SpoolFull(stored_bytes=self._stored_bytes, total_bytes_max=cap)
            self._stored_bytes += size

    def _has_room(self, size: int) -> bool:
        tail = self._tail
        if self._spares.is_one_coming or (tail and tail.fits(FRAME_HEAD_BYTES + size)):
            return True
        return self._stored_bytes + self._settings.segment_bytes <= self._settings.cap_bytes

    # Files that failed.

    def _suspect(self, writer: Writer) -> None:
        """The caller holds `_producing`."""
        writer.is_suspect = True
        if writer not in self._suspects:
            self._suspects.append(writer)
        with self._state:
            self._want_work()

    def _renew_suspects(self) -> None:
        """Copy what was published of a failed file into a new one. The caller holds
        `_producing`; SpoolFailed when the disk still refuses."""
        while self._suspects:
            writer = self._suspects[0]
            segment = writer.segment
            try:
                data = writer.file.read_at(0, segment.end)
                self._files.renew(writer, data)
            except OSError as error:
                raise _failed(segment.path, error) from error
            self._reader.drop()
            self._check_frames(segment, data)
            del self._suspects[0]
            if writer is not self._tail:
                self._forget(writer)

    def _check_frames(self, segment: Segment, data: bytes) -> None:
        """The cache may have let go of what the disk never got."""
        for at, (offset, length) in enumerate(zip(segment.offsets, segment.lengths, strict=True)):
            fsn = segment.base + at
            is_whole = is_frame(fsn, data[offset : offset + length])
            if offset and fsn > self.acked_fsn and not is_whole:
                self._lose(segment, fsn, "it was gone after a failed sync")

    def _forget(self, writer: Writer) -> None:
        with contextlib.suppress(OSError):
            writer.file.close()
        with self._state:
            self._sealed = [other for other in self._sealed if other is not writer]

    # Reading.

    def _read_piece(self, piece: Piece) -> list[Stored]:
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
                self._lose(piece.segment, stored.fsn, "it was damaged while it waited")
        return found

    def _lose(self, segment: Segment, fsn: int, reason: str) -> None:
        with self._state:
            at = fsn - segment.base
            offset, length = segment.offsets[at], segment.lengths[at]
            if not offset:
                return
            segment.lose(fsn)
            segment.is_kept_aside = True
            damage = Damage(segment.path, offset, length, fsn, fsn, reason)
            self.damage.append(damage)
            self.frames_lost += 1
            self._progress.advance()
            self._ask_for_trim()
            listener = self._tell_damage
        if listener is not None:
            listener(damage, 1)

    # Acknowledging.

    def _ask_for_trim(self) -> None:
        """The caller holds `_state`."""
        if self._done_with():
            self._want_work()

    def _done_with(self) -> list[Segment]:
        tail = self._tail.segment if self._tail else None
        return self._index.acked_prefix(self._progress.acked, tail=tail)

    def _note_marks(self) -> None:
        # A mark that could not be written only means that frames are sent again.
        with contextlib.suppress(OSError):
            self._watermark.note(self.acked_fsn, self.published_fsn)

    # Upkeep.

    def _want_work(self) -> None:
        """The caller holds `_state`."""
        self._is_work_wanted = True
        self._work.notify_all()

    def _sync_due(self) -> float | None:
        """Sync and close sealed segments at once, and sync the tail when its interval is over."""
        self._sync_recovered()
        interval_s = self._settings.sync_interval_s
        with self._producing, self._state:
            due, tail = list(self._sealed), self._tail
            since, now = self._dirty_since, self._clock.monotonic()
            if since is not None and now >= since + interval_s:
                # First, so that what is appended meanwhile is due again.
                self._dirty_since = None
                if tail is not None:
                    due.append(tail)
        for writer in due:
            if self._settings.durability == "periodic":
                self._sync(writer, is_sealed=writer is not tail)
            elif not writer.is_suspect:
                self._forget(writer)
        with self._producing:
            try:
                self._renew_suspects()
            except SpoolFailed:
                return _RETRY_S
        with self._state:
            since = self._dirty_since
            if self._recovered:
                return _RETRY_S
        return None if since is None else max(0.0, since + interval_s - now)

    def _sync(self, writer: Writer, *, is_sealed: bool) -> None:
        """A tail may be sealed meanwhile, with more in it: then it is due again."""
        if writer.is_suspect:
            return
        try:
            writer.file.sync()
        except OSError:
            with self._producing:
                self._suspect(writer)
        else:
            if is_sealed:
                self._forget(writer)

    def _sync_recovered(self) -> None:
        """What an earlier run left unsynced is due at once."""
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
        """Remove segments that were acknowledged to their end."""
        with self._state:
            gone = self._done_with()
            acked, published = self.acked_fsn, self.published_fsn
        if not gone:
            return None
        try:
            # First: a mark below what was removed would look like a hole.
            self._settle_marks(acked, published)
            for segment in gone:
                self._remove(segment)
        except OSError:
            return _RETRY_S
        return None

    def _settle_marks(self, acked: int, published: int) -> None:
        try:
            self._watermark.settle(acked, published)
        except OSError:
            # Without any mark the oldest segment tells. And on a full disk there may be no
            # space for the first mark until a segment is gone.
            if not self._watermark.is_silent:
                raise

    def _remove(self, segment: Segment) -> None:
        self._unlink(segment)
        with self._producing, self._state:
            writers = [w for w in (*self._sealed, *self._suspects) if w.segment is segment]
            self._sealed = [w for w in self._sealed if w.segment is not segment]
            self._suspects = [w for w in self._suspects if w.segment is not segment]
            self._recovered = [other for other in self._recovered if other is not segment]
            self._index.segments.remove(segment)
            self._stored_bytes -= segment.size
            self._room.notify_all()
        for writer in writers:
            with contextlib.suppress(OSError):
                writer.file.close()

    def _unlink(self, segment: Segment) -> None:
        if segment.is_kept_aside:
            self.slot.quarantine_file(segment.path)
            return
        with contextlib.suppress(FileNotFoundError):
            self.slot.fs.unlink(segment.path)

    def _keep_spares(self) -> float | None:
        """A spool nobody has written to needs none: it may only be there to be drained."""
        if self._tail is None:
            return None
        try:
            while len(self._spares) < self._settings.spares(self._lasted_s, self._stored_bytes):
                self._spares.add(warms=self._settings.warms_spares(self._lasted_s))
        except SpoolFull:
            return None  # the next removal asks for one
        except OSError:
            return _RETRY_S
        return None

    # Closing.

    def _leave(self, *, is_drained: bool) -> None:
        self._spares.close()
        if is_drained:
            self._watermark.settle(self.acked_fsn, self.published_fsn)
            for segment in self._index.segments:
                self._unlink(segment)
            self.slot.fs.sync_dir(self.slot.path)
            return
        self._note_marks()
        self._renew_suspects()
        tail = self._tail
        if tail is not None:
            tail.file.truncate(tail.segment.end)
        if self._settings.durability != "memory":
            for writer in (*self._sealed, *([tail] if tail else [])):
                writer.file.sync()

    def _let_go(self) -> None:
        writers = [*self._sealed, *self._suspects, *([self._tail] if self._tail else [])]
        with contextlib.suppress(OSError):
            for writer in writers:
                writer.file.close()
            self._reader.drop()
            self._watermark.close()
        self.slot.release()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the spool was closed")


def _failed(path: str, error: OSError) -> SpoolFailed:
    return SpoolFailed(
        path,
        reason=error.strerror or str(error),
        hint="nothing in the spool is lost; make room or mend the disk, and try again",
    )
