"""The sender of a producer: it stores rows in a local spool and delivers them to a server.

`flush` returns when the rows are in the spool. One thread sends the frames to the server; another
maintains the spool and flushes rows after the flush interval.
"""

from __future__ import annotations

import functools
import logging
import os
import random
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
from penstock.sender import auto_flush, metrics, row_buffer
from penstock.sender.backpressure import backpressure
from penstock.sender.connect_string import parse, settings_of
from penstock.sender.counters import SenderStatus
from penstock.sender.delivery_loop import DeliveryLoop
from penstock.sender.error_inbox import ErrorInbox, Handler
from penstock.sender.error_policy import SenderError
from penstock.sender.log_throttle import LogThrottle
from penstock.sender.loss_reports import report_losses
from penstock.sender.maintenance import SenderMaintenance
from penstock.sender.opening import open_spool
from penstock.sender.orphans import Orphans
from penstock.sender.row_buffer import TopicRows
from penstock.sender.signal_reentrance import is_interrupted
from penstock.sender.tls import tls_context
from penstock.storage.fs import Filesystem
from penstock.wire.binary_batch import is_plain
from penstock.wire.sender_protocol import check_topic, parcel_head

_FRAME_BYTES: Final = 1 << 20  # rows of one flush are cut into frames of about this size
_TOPICS_MAX: Final = 256  # with a buffer, including empty ones
_WAITING_BYTES_MAX: Final = 8 << 20  # of all buffered rows, besides the spool
_ENCODE_MASK: Final = 63  # rows are encoded in runs of 64, so that a flush encodes few
_BUSY_S: Final = 0.05  # until the flush timer tries the lock again
_RETRY_S: Final = 0.1  # until a close retries on a full disk
_ENDING_S: Final = 30.0  # that a close may take beyond its timeout
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
        self.options = parse(conf)
        tls_context(self.options)  # raises if the TLS options are invalid
        self._clock = clock or SystemClock()
        self._spool = open_spool(settings_of(self.options), fs=fs, clock=self._clock)
        self._published_before = self._spool.published_fsn  # by earlier runs
        self._inbox = ErrorInbox(self.options.error_inbox_capacity, error_handler)
        self._delivery_loop = DeliveryLoop(
            self._spool,
            self.options,
            self._clock,
            self._inbox,
            roll,
            has_one_round=self.options.initial_connect_retry == "off",
        )
        self._orphans = Orphans(
            self.options, self._clock, self._inbox, roll, fs, lambda: bool(self._delivery_loop.host)
        )
        self._lock = threading.Lock()  # guards the next seven
        self._pending: dict[str, TopicRows] = {}
        self._waiting_bytes = 0  # of all buffered rows
        self._rows = 0
        self._waiting_since_s: float | None = None
        self._flushing: tuple[TopicRows, int] | None = (
            None  # the rows and the number of the frame that is being stored
        )
        self._needed = 0  # bytes of the last frame that did not fit
        self._topics_max = _TOPICS_MAX
        self._stalls = 0
        most = self._spool.payload_bytes_max - len(
            parcel_head("t" * limits.TOPIC_NAME_CHARS_MAX, 0)
        )
        self._row_bytes_max = most  # a larger row fits no frame
        self._row_bytes_sure = min(most, limits.RECORD_BYTES_MAX)  # up to here no check is needed
        self._frame_bytes = min(_FRAME_BYTES, most)
        self._flush_error = ""  # logged without the lock: a log handler may append rows
        self._flush_log = LogThrottle()  # of failed flushes
        self._is_closing = False  # no more rows are accepted
        self._closer = 0  # the thread that closes the sender
        self._is_closed = threading.Event()
        self._owner_pid = os.getpid()
        limit = auto_flush.limits_of(self.options)
        self._rows_max, self._bytes_max, self._interval_s = limit
        self._maintenance = SenderMaintenance(self._spool, self._orphans, self._flush_due)
        forks.add(self)
        try:
            report_losses(self._spool, self.options.sender_id, self._inbox)
            self._delivery_loop.start()
            self._maintenance.start()
            self._wait_for_first()
        except BaseException:
            self._close_parts()
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

    def append(
        self,
        topic: str,
        data: Any,
        tag: str | None = None,
        *,
        node: str | None = None,
        meta: Any = None,
    ) -> None:
        """Add one row. `bytes` must be JSON text and are stored unchanged. Rows are flushed when
        there are enough of them, after `auto_flush_interval`, or by `flush`. After an error the row
        was not added."""
        text = data if is_plain(data) else row_buffer.text_of(data)
        if meta is None:
            with self._lock:
                pending = self._pending.get(topic) or self._begin_rows(topic)
                if pending.tag != tag or pending.node != node:
                    pending.set_labels(tag, node)
                size = len(text) + pending.extra
                if (
                    pending.count < self._rows_max
                    and pending.size < self._bytes_max
                    and pending.size + size <= self._frame_bytes
                    and size <= self._row_bytes_sure
                    and self._waiting_bytes < _WAITING_BYTES_MAX
                    and self._flushing is None
                    and self._delivery_loop.halted is None
                    and not self._is_closing
                ):
                    pending.size += size
                    pending.count += 1
                    self._waiting_bytes += size
                    self._rows += 1
                    pending.texts += [text]
                    if pending.count >= self._rows_max or pending.size >= self._bytes_max:
                        self._flush_if_it_fits(pending)
                    elif self._waiting_since_s is None:
                        self._set_timer()
                    elif not pending.count & _ENCODE_MASK:
                        pending.encode()
                    return
        encoded = row_buffer.row(text, tag, node, meta)
        self._check_row(len(encoded))
        self._retry_while_full(lambda: self._add(topic, encoded, 1))

    def append_batch(
        self,
        topic: str,
        records: Sequence[Any],
        tag: str | None = None,
        *,
        node: str | None = None,
    ) -> None:
        """Add many rows, which is much faster than one by one. Rows that fit one frame are added
        together or not at all; `rows_taken` of an error is the number of added rows."""
        pieces = row_buffer.rows(records, tag, node, self._frame_bytes)
        self._check_row(max((len(encoded) for encoded, _ in pieces), default=0))
        until_s = self._clock.monotonic() + self.options.sf_append_deadline_millis / 1000
        taken = 0
        try:
            for encoded, count in pieces:  # other threads may append in between
                self._retry_while_full(functools.partial(self._add, topic, encoded, count), until_s)
                taken += count
        except PenstockError as error:
            error.rows_taken = taken
            raise

    def flush(self) -> int:
        """Write all rows to the spool and return the number of its last frame. With
        `sf_durability=append` they are synced. Rows that do not fit stay in memory."""
        self._retry_while_full(self._flush_all)
        return self._spool.published_fsn

    def drain(self, timeout_s: float | None = None) -> bool:
        """Flush, then wait until the server has acknowledged all frames; false after
        `timeout_s`."""
        until_s = None if timeout_s is None else self._clock.monotonic() + timeout_s
        try:
            self._retry_while_full(self._flush_all, until_s)
        except Backpressure:
            if until_s is None or self._clock.monotonic() < until_s:
                raise
            return False
        return self._wait_for_answers(until_s)

    def close(self) -> None:
        """Flush, wait up to `close_flush_timeout_millis` for acknowledgements, and release the
        slot. Unacknowledged frames stay on disk for the next sender; in memory they are lost, which
        is logged. Rows that do not fit the spool are lost, and an error is raised. May be called
        again: other threads wait until the slot is released."""
        timeout_s = max(0, self.options.close_flush_timeout_millis) / 1000
        if not self._begin_close(timeout_s):
            return
        until_s = self._clock.monotonic() + timeout_s
        steps = [self._save_by, self._wait_for_answers]
        if self._delivery_loop.halted is not None:  # no acknowledgement will follow
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
            self._finish_close(errors)
        if errors:
            raise errors[0]

    def _begin_close(self, timeout_s: float) -> bool:
        """False when another call closes or has closed the sender."""
        if self._lock.locked() and is_interrupted(self, _HOLDERS):
            raise SenderBusy(
                "close() was called in a signal handler that interrupted a call of this sender; "
                "raise an exception in the handler and close the sender after it"
            )
        with self._lock:
            if not self._is_closing:
                self._is_closing, self._closer = True, threading.get_ident()
                return True
        if self._closer != threading.get_ident():
            self._is_closed.wait(timeout_s + _ENDING_S)
        return False

    def _save_by(self, until_s: float) -> None:
        """Flush with retries: a full disk may have room again when segments are removed."""
        while any(pending.count for pending in self._pending.values()):
            try:
                self._retry_while_full(self._save_rows, until_s)
            except (SpoolFull, StorageError):
                left_s = until_s - self._clock.monotonic()
                if left_s <= 0 or self._delivery_loop.is_over:
                    raise
                self._delivery_loop.wait(lambda: self._delivery_loop.is_over, min(_RETRY_S, left_s))

    def _finish_close(self, errors: list[PenstockError]) -> None:
        """Log what is not delivered, and close all parts."""
        rows = sum(pending.count for pending in self._pending.values())
        if rows:
            _log.error("closed with %d rows that did not fit the spool: they are LOST", rows)
            for error in errors[:1]:
                error.args = (f"{error}; {rows} rows did not fit the spool and are LOST",)
        frames = self._spool.published_fsn - self._spool.acked_fsn
        if frames:
            level, kept = logging.ERROR, "are LOST"
            if self.options.is_disk:
                level, kept = logging.WARNING, "stay in the spool"
            _log.log(level, "closed with %d frames unacknowledged: they %s", frames, kept)
        try:
            self._close_parts()
        except StorageError as error:
            errors.append(error)

    @property
    def published_fsn(self) -> int:
        """The number of the newest frame in the spool; -1 before the first."""
        return self._spool.published_fsn

    @property
    def acked_fsn(self) -> int:
        """Frames up to this number are acknowledged; -1 when none is."""
        return self._spool.acked_fsn

    @property
    def damage(self) -> list[str]:
        """Descriptions of the damage of the spool, at the opening and since."""
        return [str(one) for one in self._spool.damage]

    def status(self) -> SenderStatus:
        self._check_owner()
        delivery_loop, spool = self._delivery_loop, self._spool
        counters = msgspec.structs.replace(
            delivery_loop.counters,
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
            bool(delivery_loop.host),
            delivery_loop.host,
            self._inbox.dropped,
            "" if delivery_loop.halted is None else delivery_loop.halted.message,
            self._orphans.report(),
            spool.dead_letters.count,
            spool.torn_bytes,
            self._orphans.counters(),
            spool.cap_bytes,
            *delivery_loop.outage_status(),
        )

    def metrics(self) -> str:
        """The status as a page for Prometheus."""
        return metrics.page(self.options.sender_id, self.status())

    @property
    def may_wait(self) -> bool:
        """True when the next row may wait for room, for a sync or for another thread."""
        self._check_owner()
        return (
            self.options.sf_durability == "append"
            or self._lock.locked()
            or not self._spool.has_place(self._frame_bytes)
        )

    @property
    def halted(self) -> SenderError | None:
        """The error that stopped sending; None while sending goes on."""
        return self._delivery_loop.halted

    def _check_row(self, size: int) -> None:
        if size > self._row_bytes_max:
            raise RecordTooLarge(
                f"a row of {size} bytes: the maximum is {self._row_bytes_max} with this "
                f"sf_max_segment_bytes"
            )

    # The caller of these holds the lock.

    def _begin_rows(self, topic: str) -> TopicRows:
        check_topic(topic)
        if len(self._pending) >= self._topics_max:  # topics may not be used again
            self._pending = {name: one for name, one in self._pending.items() if one.count}
            self._topics_max = max(_TOPICS_MAX, 2 * len(self._pending))
        pending = self._pending[topic] = TopicRows(topic)
        return pending

    def _retry_while_full(self, act: Callable[[], None], until_s: float | None = None) -> None:
        """Run `act` under the lock, with retries while the spool is full: until the append deadline
        or `until_s`. The lock is free during the waits."""
        deadline_s = self.options.sf_append_deadline_millis / 1000
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
                    raise self._full(error, end_s - started_s) from None

    def _add(self, topic: str, encoded: bytes, count: int) -> None:
        """Add encoded rows. None is added when older rows have no room in the spool."""
        pending = self._pending.get(topic) or self._begin_rows(topic)
        self._check()
        self._finish_interrupted()
        if pending.count and (
            pending.count >= self._rows_max
            or pending.size >= self._bytes_max
            or pending.size + len(encoded) > self._frame_bytes
            or pending.count + count > limits.BATCH_RECORDS_MAX
        ):
            self._flush_rows(pending)
        if self._waiting_bytes + len(encoded) > _WAITING_BYTES_MAX:
            self._save_rows()
        size = len(encoded)
        self._waiting_bytes += size
        self._rows += count
        pending.add(encoded, count)
        if pending.count >= self._rows_max or pending.size >= self._bytes_max:
            self._flush_if_it_fits(pending)
        elif self._waiting_since_s is None:
            self._set_timer()

    def _flush_if_it_fits(self, pending: TopicRows) -> None:
        """Flush rows that were already added. If they do not fit, they stay in memory, and the next
        call raises the error before it adds rows."""
        try:
            self._flush_rows(pending)
        except SpoolFull:
            pass
        except StorageError as error:
            self._defer_error(str(error))
        if pending.count and self._waiting_since_s is None:
            self._set_timer()

    def _defer_error(self, why: str) -> None:
        """Added rows cannot be flushed: the maintenance thread logs it."""
        self._flush_error = why
        self._spool.request_maintenance()

    def _flush_all(self) -> None:
        self._check()
        self._save_rows()

    def _set_timer(self) -> None:
        self._waiting_since_s = self._clock.monotonic()
        if self._interval_s:
            self._spool.request_maintenance()

    def _flush_rows(self, pending: TopicRows) -> None:
        """Store the rows as a frame. After an error they stay in memory."""
        if self._flushing is not None:
            self._finish_interrupted()
        parts = pending.parts()
        self._needed = sum(map(len, parts))
        self._flushing = pending, self._spool.published_fsn + 1
        try:
            self._spool.append(parts)
        except PenstockError:
            self._flushing = None
            raise
        size = pending.size
        pending.clear()
        self._waiting_bytes -= size
        if not self._waiting_bytes:
            self._waiting_since_s = None
        if self._flush_log.has_logged:
            self._flush_log.reset()
        self._delivery_loop.wake()
        self._flushing = None

    def _finish_interrupted(self) -> None:
        """Finish a flush that an exception of a signal handler has interrupted: if the frame was
        stored, remove its rows from memory."""
        if self._flushing is None:
            return
        pending, fsn = self._flushing
        if self._spool.published_fsn >= fsn:
            pending.clear()
            self._delivery_loop.wake()
        self._waiting_bytes = sum(one.size for one in self._pending.values())
        self._flushing = None

    def _save_rows(self) -> None:
        """Flush all rows, also when sending has stopped: the frames can be sent later."""
        self._finish_interrupted()
        for pending in list(self._pending.values()):
            if pending.count:
                self._flush_rows(pending)

    def _wait_for_answers(self, until_s: float | None) -> bool:
        """Wait until all frames are acknowledged; false at `until_s`."""
        delivery_loop, fsn = self._delivery_loop, self._spool.published_fsn
        left_s = None if until_s is None else max(0.0, until_s - self._clock.monotonic())
        delivery_loop.wait(lambda: self._spool.acked_fsn >= fsn or delivery_loop.is_over, left_s)
        if self._spool.acked_fsn >= fsn:
            return True
        self._check_halted()
        return False

    def _full(self, full: SpoolFull, waited_s: float) -> Backpressure:
        return backpressure(self.options.sender_id, full, waited_s, self._delivery_loop)

    def _check_owner(self) -> None:
        if self._owner_pid != forks.pid():
            raise forks.not_ours("sender", self._owner_pid)

    def _check(self) -> None:
        self._check_owner()
        if self._is_closing:
            raise Closed("the sender is closed")
        self._check_halted()

    def _check_halted(self) -> None:
        halted = self._delivery_loop.halted
        if halted is not None:
            hint = (
                "fix the cause and open a new sender"
                if halted.fsn < 0
                else (
                    f"frame {halted.fsn} stays in the spool: `penstock spool skip` moves it to the "
                    "dead letters"
                )
            )
            raise SenderHalted(f"sending has stopped: {halted.category}: {halted.message}; {hint}")

    def _flush_due(self) -> float | None:
        """The flush timer, on the maintenance thread. Returns the seconds until its next call."""
        self._log_flush_error()
        since_s = self._waiting_since_s
        if since_s is None or not self._interval_s:
            return None
        left_s = since_s + self._interval_s - self._clock.monotonic()
        if left_s > 0:
            return left_s
        # The thread with the lock may wait for room, which this thread makes.
        if not self._lock.acquire(blocking=False):
            return _BUSY_S
        try:
            self._waiting_since_s = None
            try:
                self._flush_all()
            except (Closed, SenderHalted):
                return None
            except SpoolFull as error:
                self._flush_error = str(self._full(error, 0.0))
                self._waiting_since_s = self._clock.monotonic()  # retry after the interval
            except Exception as error:  # noqa: BLE001 - the next flush raises it, too
                self._flush_error = str(error)
                self._waiting_since_s = self._clock.monotonic()
        finally:
            self._lock.release()
        if self._waiting_since_s is None:
            return None
        self._log_flush_error()
        return self._interval_s

    def _log_flush_error(self) -> None:
        why, self._flush_error = self._flush_error, ""
        if why and self._flush_log.is_due(self._clock.monotonic()):
            _log.error(
                "slot %r: rows stay in memory and are flushed again later: %s",
                self.options.sender_id,
                why,
            )

    def _wait_for_first(self) -> None:
        self._delivery_loop.wait_for_first()

    def _close_parts(self) -> None:
        self._is_closing = True
        self._maintenance.stop()
        try:
            self._delivery_loop.stop()
            self._orphans.close()
            self._inbox.close(5.0)
            self._spool.close()
            self._maintenance.join(10.0)
        finally:
            forks.discard(self)
            self._is_closed.set()

    def leave_to_parent(self) -> None:
        """In a forked child: the slot, its files and the threads belong to the parent."""
        self._lock = threading.Lock()
        self._is_closing = True
        self._is_closed.set()
        self._maintenance.stop()
        self._delivery_loop.leave_to_parent()
        self._orphans.leave_to_parent()


_HOLDERS: Final = {
    Sender.append.__code__,
    Sender._retry_while_full.__code__,
}  # the methods that hold the lock
