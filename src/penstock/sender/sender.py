"""What a producer holds: rows go in and it goes on; they reach the server whatever happens to it.

`flush` returns once the rows are in the spool on this machine. One thread carries frames to the
server, another keeps the spool and flushes rows that have waited long enough.
"""

from __future__ import annotations

import functools
import logging
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final

import msgspec

from penstock import forks, limits
from penstock.clock import Clock, SystemClock
from penstock.errors import (
    Backpressure,
    Closed,
    PenstockError,
    RecordTooLarge,
    SenderBusy,
    SenderHalted,
    SpoolFull,
    StorageError,
)
from penstock.sender import drafts, metrics
from penstock.sender.counters import SenderStatus
from penstock.sender.courier import Courier
from penstock.sender.drafts import Draft
from penstock.sender.inbox import Handler, Inbox
from penstock.sender.keeper import Keeper
from penstock.sender.losses import tell_losses
from penstock.sender.opening import open_spool
from penstock.sender.orphans import Orphans
from penstock.sender.profile import parse, settings_of
from penstock.sender.reentrance import is_amid
from penstock.sender.seldom import Seldom
from penstock.sender.tls import tls_context
from penstock.sender.verdicts import SenderError
from penstock.storage.fs import Filesystem
from penstock.wire.batch import is_plain
from penstock.wire.sending import check_topic, parcel_head

_FRAME_BYTES: Final = 1 << 20  # rows of one flush are cut into frames of about this size
_DRAFTS_MAX: Final = 256  # kept, empty ones included
_WAITING_BYTES_MAX: Final = 8 << 20  # of all drafts: beyond the spool's cap no more than this
_LAY_MASK: Final = 63  # rows are laid out in runs of 64, so that a flush finds few that are not
_BUSY_S: Final = 0.05  # until the timer looks again for rows that another thread is at
_REST_S: Final = 0.1  # until a close tries again on a disk that is full
_ENDING_S: Final = 30.0  # beyond its timeout, that a close may take
_log = logging.getLogger("penstock.sender")


class Sender:
    """Safe from several threads. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        conf: str,
        *,
        error_handler: Handler | None = None,
        clock: Clock | None = None,
        fs: Filesystem | None = None,
        roll: Callable[[], float] = random.random,
    ) -> None:
        """`conf` is a connect string, such as `ws::addr=host:4000;sf_dir=/var/spool/app;`."""
        self.profile = parse(conf)
        tls_context(self.profile)  # what is wrong with it is better known now
        self._clock = clock or SystemClock()
        self._spool = open_spool(settings_of(self.profile), fs=fs, clock=self._clock)
        self._published_before = self._spool.published_fsn  # by earlier runs
        self._inbox = Inbox(self.profile.error_inbox_capacity, error_handler)
        self._courier = Courier(
            self._spool,
            self.profile,
            self._clock,
            self._inbox,
            roll,
            has_one_round=self.profile.initial_connect_retry == "off",
        )
        self._orphans = Orphans(
            self.profile, self._clock, self._inbox, roll, fs, lambda: bool(self._courier.host)
        )
        self._lock = threading.Lock()  # guards the next seven
        self._drafts: dict[str, Draft] = {}
        self._waiting_bytes = 0  # of all drafts
        self._rows = 0
        self._draft_since_s: float | None = None
        self._shipping: tuple[Draft, int] | None = None  # what becomes this frame just now
        self._needed = 0  # bytes of the frame that found no room last
        self._drafts_kept = _DRAFTS_MAX
        self._stalls = 0
        most = self._spool.payload_bytes_max - len(
            parcel_head("t" * limits.TOPIC_NAME_CHARS_MAX, 0)
        )
        self._row_bytes_max = most  # a row that fits no frame would never leave
        self._row_bytes_sure = min(most, limits.RECORD_BYTES_MAX)  # up to here nothing is wrong
        self._frame_bytes = min(_FRAME_BYTES, most)
        self._complaint = ""  # for the log, and said without the lock: a handler may send rows
        self._trouble = Seldom()  # with putting rows into the spool
        self._is_closing = False  # no more rows are taken
        self._closer = 0  # the thread that closes it
        self._is_shut = threading.Event()
        self._owner_pid = os.getpid()
        wanted = self.profile.auto_flush
        most = limits.BATCH_RECORDS_MAX  # of a frame
        self._rows_max = min(most, (wanted and self.profile.auto_flush_rows) or most)
        self._bytes_max = (wanted and self.profile.auto_flush_bytes) or sys.maxsize
        interval_ms = self.profile.auto_flush_interval if self.profile.auto_flush else 0
        self._interval_s = interval_ms / 1000
        self._keeper = Keeper(self._spool, self._orphans, self._flush_due)
        forks.add(self)
        try:
            tell_losses(self._spool, self.profile.sender_id, self._inbox)
            self._courier.start()
            self._keeper.start()
            self._wait_for_first()
        except BaseException:
            self._shut()
            raise

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What a producer does.

    def append(
        self,
        topic: str,
        data: Any,
        tag: str | None = None,
        *,
        node: str | None = None,
        meta: Any = None,
    ) -> None:
        """Add one row. `bytes` are JSON texts and kept as they are. It is on its way when enough
        rows are there, when the oldest has waited `auto_flush_interval`, or with `flush`. After
        an error the row was not taken."""
        text = data if is_plain(data) else drafts.text_of(data)
        if meta is None:
            with self._lock:
                draft = self._drafts.get(topic) or self._draft(topic)
                if draft.tag != tag or draft.node != node:
                    draft.turn(tag, node)
                size = len(text) + draft.extra
                if (
                    draft.count < self._rows_max
                    and draft.size < self._bytes_max
                    and draft.size + size <= self._frame_bytes
                    and size <= self._row_bytes_sure
                    and self._waiting_bytes < _WAITING_BYTES_MAX
                    and self._shipping is None
                    and self._courier.halted is None
                    and not self._is_closing
                ):
                    draft.size += size
                    draft.count += 1
                    self._waiting_bytes += size
                    self._rows += 1
                    draft.texts += [text]
                    if draft.count >= self._rows_max or draft.size >= self._bytes_max:
                        self._ship_if_it_fits(draft)
                    elif self._draft_since_s is None:
                        self._set_timer()
                    elif not draft.count & _LAY_MASK:
                        draft.lay()
                    return
        laid = drafts.row(text, tag, node, meta)
        self._check_row(len(laid))
        self._patiently(lambda: self._add(topic, laid, 1))

    def append_batch(
        self,
        topic: str,
        records: Sequence[Any],
        tag: str | None = None,
        *,
        node: str | None = None,
    ) -> None:
        """Add many rows, which is much cheaper than one by one. All or none of those that fit a
        frame together are taken; `rows_taken` of an error says how many were."""
        pieces = drafts.rows(records, tag, node, self._frame_bytes)
        self._check_row(max((len(laid) for laid, _ in pieces), default=0))
        until_s = self._clock.monotonic() + self.profile.sf_append_deadline_millis / 1000
        taken = 0
        try:
            for laid, count in pieces:  # others may have their turn in between
                self._patiently(functools.partial(self._add, topic, laid, count), until_s)
                taken += count
        except PenstockError as error:
            error.rows_taken = taken
            raise

    def flush(self) -> int:
        """Put all rows into the spool, and return the number of the last frame there. With
        `sf_durability=append` they are past a sync. Rows that found no room are kept."""
        self._patiently(self._ship_all)
        return self._spool.published_fsn

    def drain(self, timeout_s: float | None = None) -> bool:
        """Flush, then wait until the server has acknowledged everything; false when the time was
        over before."""
        until_s = None if timeout_s is None else self._clock.monotonic() + timeout_s
        try:
            self._patiently(self._ship_all, until_s)
        except Backpressure:
            if until_s is None or self._clock.monotonic() < until_s:
                raise
            return False
        return self._wait_for_answers(until_s)

    def close(self) -> None:
        """Flush, give the server `close_flush_timeout_millis` to acknowledge, and let go of the
        slot. On disk, what is not acknowledged stays for the next sender; in memory it is lost,
        and that is said. Rows that found no room in the spool are lost, and an error says so. May
        be repeated: whoever does waits until the slot is free."""
        timeout_s = max(0, self.profile.close_flush_timeout_millis) / 1000
        if not self._begin_close(timeout_s):
            return
        until_s = self._clock.monotonic() + timeout_s
        steps = [self._save_by, self._wait_for_answers]
        if self._courier.halted is not None:  # no room will come, and no answer
            until_s -= timeout_s
            steps.pop()
        errors: list[PenstockError] = []
        try:
            for step in steps:
                try:
                    step(until_s)
                except (SpoolFull, StorageError, SenderHalted) as error:
                    errors.append(error)
        finally:
            self._end(errors)
        if errors:
            raise errors[0]

    def _begin_close(self, timeout_s: float) -> bool:
        """False when it is closed already."""
        if self._lock.locked() and is_amid(self, _HOLDERS):
            raise SenderBusy(
                "a call of this sender is under way on this thread and cannot end; let a signal "
                "handler raise an exception, and close the sender behind it"
            )
        with self._lock:
            if not self._is_closing:
                self._is_closing, self._closer = True, threading.get_ident()
                return True
        if self._closer != threading.get_ident():
            self._is_shut.wait(timeout_s + _ENDING_S)
        return False

    def _save_by(self, until_s: float) -> None:
        """Rows into the spool; a disk that is full may have room again when frames are gone."""
        while any(draft.count for draft in self._drafts.values()):
            try:
                self._patiently(self._save_rows, until_s)
            except (SpoolFull, StorageError):
                left_s = until_s - self._clock.monotonic()
                if left_s <= 0 or self._courier.is_over:
                    raise
                self._courier.wait(lambda: self._courier.is_over, min(_REST_S, left_s))

    def _end(self, errors: list[PenstockError]) -> None:
        """Say what is left, and let go of everything."""
        rows = sum(draft.count for draft in self._drafts.values())
        if rows:
            _log.error("closed with %d rows that found no room: they are LOST", rows)
            for error in errors[:1]:
                error.args = (f"{error}; {rows} rows found no room and are LOST",)
        frames = self._spool.published_fsn - self._spool.acked_fsn
        if frames:
            level, kept = logging.ERROR, "are LOST"
            if self.profile.is_disk:
                level, kept = logging.WARNING, "stay in the spool"
            _log.log(level, "closed with %d frames unacknowledged: they %s", frames, kept)
        try:
            self._shut()
        except StorageError as error:
            errors.append(error)

    # What it tells.

    @property
    def published_fsn(self) -> int:
        """The number of the newest frame in the spool; -1 before the first."""
        return self._spool.published_fsn

    @property
    def acked_fsn(self) -> int:
        """Frames up to this number are the server's; -1 when none is."""
        return self._spool.acked_fsn

    @property
    def damage(self) -> list[str]:
        """What the spool lost to damage, when it was opened and since, in words."""
        return [str(one) for one in self._spool.damage]

    def status(self) -> SenderStatus:
        self._check_owner()
        courier, spool = self._courier, self._spool
        counters = msgspec.structs.replace(
            courier.counters,
            rows_appended=self._rows,
            frames_flushed=spool.published_fsn - self._published_before,
            frames_lost=spool.frames_lost,
            backpressure_stalls=self._stalls,
        )
        return SenderStatus(
            counters,
            spool.published_fsn,
            spool.acked_fsn,
            spool.stored_bytes,
            spool.oldest_unacked_ms,
            bool(courier.host),
            courier.host,
            self._inbox.dropped,
            "" if courier.halted is None else courier.halted.message,
            self._orphans.report(),
            spool.dead_letters.count,
            spool.torn_bytes,
            self._orphans.counters(),
            spool.cap_bytes,
            *courier.absence(),
        )

    def metrics(self) -> str:
        """The same as a page for Prometheus."""
        return metrics.page(self.profile.sender_id, self.status())

    @property
    def may_wait(self) -> bool:
        """Could the next row have to wait: for room, for a sync, for another thread that does?"""
        self._check_owner()
        return (
            self.profile.sf_durability == "append"
            or self._lock.locked()
            or not self._spool.has_place(self._frame_bytes)
        )

    @property
    def halted(self) -> SenderError | None:
        """Why sending has stopped for good, if it has."""
        return self._courier.halted

    def _check_row(self, size: int) -> None:
        if size > self._row_bytes_max:
            raise RecordTooLarge(
                f"a row of {size} bytes, and with this sf_max_segment_bytes a frame has room for "
                f"{self._row_bytes_max}"
            )

    # Inside. The lock is held.

    def _draft(self, topic: str) -> Draft:
        check_topic(topic)
        if len(self._drafts) >= self._drafts_kept:  # of topics that nobody may ever name again
            self._drafts = {name: one for name, one in self._drafts.items() if one.count}
            self._drafts_kept = max(_DRAFTS_MAX, 2 * len(self._drafts))
        draft = self._drafts[topic] = Draft(topic)
        return draft

    def _patiently(self, act: Callable[[], None], until_s: float | None = None) -> None:
        """Do it under the lock, again and again until there is room for it: for as long as a
        caller may be kept, or until then. While one waits, others go on."""
        deadline_s = self.profile.sf_append_deadline_millis / 1000
        started_s: float | None = None
        while True:
            try:
                with self._lock:
                    act()
                    return
            except SpoolFull as error:
                now_s = self._clock.monotonic()
                if started_s is None:
                    started_s = now_s
                    self._stalls += 1
                end_s = started_s + deadline_s
                end_s = end_s if until_s is None else min(end_s, until_s)
                if now_s >= end_s or not self._spool.wait_for_room(end_s - now_s, self._needed):
                    raise self._backpressure(error, end_s - started_s) from None

    def _add(self, topic: str, laid: bytes, count: int) -> None:
        """If there is no room for the rows that are waiting, none are taken."""
        draft = self._drafts.get(topic) or self._draft(topic)
        self._check()
        self._settle()
        if draft.count and (
            draft.count >= self._rows_max
            or draft.size >= self._bytes_max
            or draft.size + len(laid) > self._frame_bytes
            or draft.count + count > limits.BATCH_RECORDS_MAX
        ):
            self._ship(draft)
        if self._waiting_bytes + len(laid) > _WAITING_BYTES_MAX:
            self._save_rows()
        size = len(laid)
        self._waiting_bytes += size
        self._rows += count
        draft.add(laid, count)
        if draft.count >= self._rows_max or draft.size >= self._bytes_max:
            self._ship_if_it_fits(draft)
        elif self._draft_since_s is None:
            self._set_timer()

    def _ship_if_it_fits(self, draft: Draft) -> None:
        """Rows that were taken are not refused any more: if they do not fit they are kept, and the
        next call meets whatever is wrong before it takes any."""
        try:
            self._ship(draft)
        except SpoolFull:
            pass
        except StorageError as error:
            self._complain(str(error))
        if draft.count and self._draft_since_s is None:
            self._set_timer()

    def _complain(self, why: str) -> None:
        """Rows that were taken do not get into the spool: the keeper tells."""
        self._complaint = why
        self._spool.ask_for_upkeep()

    def _ship_all(self) -> None:
        self._check()
        self._save_rows()

    def _set_timer(self) -> None:
        self._draft_since_s = self._clock.monotonic()
        if self._interval_s:
            self._spool.ask_for_upkeep()

    def _ship(self, draft: Draft) -> None:
        """Into the spool. After an error the rows are still in the draft."""
        if self._shipping is not None:
            self._settle()
        parts = draft.parts()
        self._needed = sum(map(len, parts))
        self._shipping = draft, self._spool.published_fsn + 1
        try:
            self._spool.append(parts)
        except PenstockError:
            self._shipping = None
            raise
        size = draft.size
        draft.clear()
        self._waiting_bytes -= size
        if not self._waiting_bytes:
            self._draft_since_s = None
        if self._trouble.was_told:
            self._trouble.is_over()
        self._courier.wake()
        self._shipping = None

    def _settle(self) -> None:
        """Bring to its end what a signal handler's exception has interrupted: rows that became a
        frame nevertheless are not rows any more."""
        if self._shipping is None:
            return
        draft, fsn = self._shipping
        if self._spool.published_fsn >= fsn:
            draft.clear()
            self._courier.wake()
        self._waiting_bytes = sum(one.size for one in self._drafts.values())
        self._shipping = None

    def _save_rows(self) -> None:
        """Also when sending has stopped: what is flushed can be sent another time."""
        self._settle()
        for draft in list(self._drafts.values()):
            if draft.count:
                self._ship(draft)

    def _wait_for_answers(self, until_s: float | None) -> bool:
        """Until everything in the spool is acknowledged; false when the time was over before."""
        courier, fsn = self._courier, self._spool.published_fsn
        left_s = None if until_s is None else max(0.0, until_s - self._clock.monotonic())
        courier.wait(lambda: self._spool.acked_fsn >= fsn or courier.is_over, left_s)
        if self._spool.acked_fsn >= fsn:
            return True
        self._check_courier()
        return False

    def _backpressure(self, full: SpoolFull, deadline_s: float) -> Backpressure:
        outage, halted = self._courier.outage, self._courier.halted
        if halted is not None:
            why = f"sending has stopped: {halted.message}"
        elif outage is None:
            host = self._courier.host
            why = f"the server at {host} is there but slower (waited {deadline_s:g} s)"
        else:
            why = f"server absent since {outage.since}, {outage.attempts} attempts ({outage.why})"
        return Backpressure(
            f"slot {self.profile.sender_id!r}: {why}",
            stored_bytes=full.stored_bytes,
            total_bytes_max=full.total_bytes_max,
            is_server_away=outage is not None,
        )

    def _check_owner(self) -> None:
        if self._owner_pid != forks.pid():
            raise forks.not_ours("sender", self._owner_pid)

    def _check(self) -> None:
        self._check_owner()
        if self._is_closing:
            raise Closed("the sender is closed")
        self._check_courier()

    def _check_courier(self) -> None:
        halted = self._courier.halted
        if halted is not None:
            hint = (
                "fix the cause and start anew"
                if halted.fsn < 0
                else (f"frame {halted.fsn} stays in the spool: `penstock spool skip` puts it aside")
            )
            raise SenderHalted(f"sending has stopped: {halted.category}: {halted.message}; {hint}")

    def _flush_due(self) -> float | None:
        """The keeper: flush rows that have waited long enough; when to look again."""
        self._tell_complaint()
        since_s = self._draft_since_s
        if since_s is None or not self._interval_s:
            return None
        left_s = since_s + self._interval_s - self._clock.monotonic()
        if left_s > 0:
            return left_s
        # Whoever holds the lock may be waiting for room, which this thread makes.
        if not self._lock.acquire(blocking=False):
            return _BUSY_S
        try:
            self._draft_since_s = None
            try:
                self._ship_all()
            except (Closed, SenderHalted):
                return None
            except SpoolFull as error:
                self._complaint = str(self._backpressure(error, 0.0))
                self._draft_since_s = self._clock.monotonic()  # and try again
            except Exception as error:  # noqa: BLE001 - told to whoever flushes next, too
                self._complaint = str(error)
                self._draft_since_s = self._clock.monotonic()
        finally:
            self._lock.release()
        if self._draft_since_s is None:
            return None
        self._tell_complaint()
        return self._interval_s

    def _tell_complaint(self) -> None:
        why, self._complaint = self._complaint, ""
        if why and self._trouble.is_due(self._clock.monotonic()):
            _log.error(
                "slot %r: rows wait in memory for a place in the spool, and are tried again: %s",
                self.profile.sender_id,
                why,
            )

    def _wait_for_first(self) -> None:
        self._courier.wait_for_first()

    def _shut(self) -> None:
        self._is_closing = True
        self._keeper.end()
        try:
            self._courier.stop()
            self._orphans.close()
            self._inbox.close(5.0)
            self._spool.close()
            self._keeper.join(10.0)
        finally:
            forks.discard(self)
            self._is_shut.set()

    def leave_to_parent(self) -> None:
        """In a process that was forked off: the slot, its files and the threads are not its own."""
        self._lock = threading.Lock()
        self._is_closing = True
        self._is_shut.set()
        self._keeper.end()
        self._courier.leave_to_parent()
        self._orphans.leave_to_parent()


_HOLDERS: Final = {Sender.append.__code__, Sender._patiently.__code__}  # of the lock
