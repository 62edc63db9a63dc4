"""The thread that sends the frames of a spool to a server and handles the replies."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.errors import (
    ConnectionFailed,
    InvalidArgument,
    SenderHalted,
    StorageError,
    Unauthorized,
)
from penstock.limits import MIB
from penstock.sender import connection as connections
from penstock.sender.connect_string import ConnectOptions, Endpoint
from penstock.sender.connection import Broken, Refused, SenderConnection
from penstock.sender.counters import Counters
from penstock.sender.delivery import Delivery, Poison
from penstock.sender.error_inbox import ErrorInbox
from penstock.sender.error_policy import Category, ErrorPolicy, SenderError, act_for, category_of
from penstock.sender.hosts import Health, Hosts
from penstock.sender.log_throttle import LogThrottle
from penstock.sender.ping_timer import SILENCE_S, PingTimer
from penstock.sender.slot import Rejection
from penstock.sender.spool import Spool, Stored
from penstock.wire.sender_protocol import Incarnation, Reply, contents_of
from penstock.wire.spool_frame import decode_frame, encode_frame

_WINDOW_BYTES: Final = 8 << 20  # sent and not acknowledged
# Bytes of one read from the spool. Larger frames are read one by one: the allocator would return
# the memory of several to the system and map it again each time.
_CHUNK_BYTES: Final = 64 << 10
_CALLING_S: Final = 1.0  # that `stop` waits for a connection attempt to end
_NORMAL_CLOSES: Final = (0, 1000, 1001, 1012, 1013)  # close codes that do not count as failures
_log = logging.getLogger("penstock.sender")


class Outage(msgspec.Struct, frozen=True):
    """A time without a connection: its start (ms since 1970), the attempts and the last error."""

    since_ms: int
    attempts: int
    why: str

    @property
    def since(self) -> str:
        """The start as local time, for messages."""
        return time.strftime("%H:%M:%S", time.localtime(self.since_ms / 1000))


class _Stopped(Exception):
    """The sender was closed or has halted."""


class _TooLarge(Exception):
    """A frame that is larger than the server's maximum."""

    def __init__(self, fsn: int, why: str) -> None:
        super().__init__(why)
        self.fsn = fsn


class DeliveryLoop:
    """Owns the connection and its thread. Public methods may be called from any thread."""

    def __init__(
        self,
        spool: Spool,
        options: ConnectOptions,
        clock: Clock,
        inbox: ErrorInbox,
        roll: Callable[[], float],
        *,
        name: str = "penstock-sender",
        has_one_round: bool = False,
    ) -> None:
        """With `has_one_round` it stops when the first round of hosts gives no connection."""
        self.counters = Counters()
        self.outage: Outage | None = Outage(clock.now_ms(), 0, "not tried yet")
        self.halted: SenderError | None = None
        self._spool = spool
        self._options = options
        self._clock = clock
        self._inbox = inbox
        self._roll = roll
        self._has_one_round = has_one_round
        self._hosts = Hosts(
            options.hosts,
            initial_s=options.reconnect_initial_backoff_millis / 1000,
            cap_s=options.reconnect_max_backoff_millis / 1000,
        )
        self._poison = Poison(
            most=options.max_frame_rejections,
            window_s=options.poison_min_escalation_window_millis / 1000,
        )
        self._connection: SenderConnection | None = None
        self._highest_sent = -1
        self._unanswered = range(0)  # frames without a reply on the last connection
        self._was_away: Outage | None = (
            None  # the outage before the current connection, until it makes progress
        )
        self._connected_s = 0.0
        self._outage_log = LogThrottle()
        self._local_error_log = LogThrottle()
        self._rejection_log = LogThrottle()
        self._refused_fsn = -1  # the newest frame that was counted as rejected
        self._keepalive_s = options.durable_ack_keepalive_interval_millis / 1000
        self._useless_connections = 0  # connections in a row without progress
        self._is_stopping = False
        self._changed = threading.Condition()
        self._undurable: set[Endpoint] = set()  # hosts without durable acknowledgements
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def host(self) -> str:
        """The connected server; empty without a connection."""
        connection = self._connection
        return "" if connection is None else str(connection.host)

    @property
    def is_over(self) -> bool:
        return self._is_stopping or self.halted is not None

    def outage_status(self) -> tuple[int, int, str]:
        """How long there has been no connection (ms), the attempts since then, and the error of the
        last attempt."""
        outage = self.outage
        if outage is None:
            return 0, 0, ""
        return max(0, self._clock.now_ms() - outage.since_ms), outage.attempts, outage.why

    def leave_to_parent(self) -> None:
        """In a forked child."""
        self._is_stopping = True
        connection = self._connection
        if connection is not None:
            connection.leave_to_parent()

    def wake(self) -> None:
        """A frame was published: send it."""
        connection = self._connection
        if connection is not None:
            connection.wake()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop the thread. Unacknowledged frames stay in the spool."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        connection = self._connection
        if connection is not None:
            connection.abort()
        else:  # perhaps in a connection attempt; the thread ends after it
            timeout_s = min(timeout_s, _CALLING_S)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def wait(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait for a condition that replies, connections or a halt may change."""
        until_s = None if timeout_s is None else self._clock.monotonic() + timeout_s
        with self._changed:
            while not is_over():
                left_s = None if until_s is None else until_s - self._clock.monotonic()
                if left_s is not None and left_s <= 0:
                    return False
                self._clock.wait(self._changed, left_s)
        return True

    def wait_for_first(self) -> None:
        """Wait for the first connection as `initial_connect_retry` says: not at all, for one round
        of hosts, or for `reconnect_max_duration_millis`. Raises without a connection."""
        options, timeout_s = self._options, None
        if options.initial_connect_retry == "async":
            return
        if options.initial_connect_retry == "sync":
            timeout_s = options.reconnect_max_duration_millis / 1000
        self.wait(lambda: bool(self.counters.connects) or self.is_over, timeout_s)
        outage, halted = self.outage, self.halted
        if self.counters.connects and halted is None:
            return
        if halted is not None and halted.category is Category.SECURITY_ERROR:
            raise Unauthorized(halted.message)
        if halted is not None:
            raise SenderHalted(halted.message)
        why = "" if outage is None else outage.why
        raise ConnectionFailed(f"no connection: {why}", retry_after_ms=1000)

    # The thread.

    def _run(self) -> None:
        _lower_priority()
        try:
            while True:
                connection = self._connect()
                try:
                    self._exchange(connection)
                except Broken as error:
                    self._end_connection(connection, error)
                except (StorageError, OSError) as error:
                    self._handle_local_error(error)
                finally:
                    self._connection = None
                    connection.close()
        except _Stopped:
            pass
        except Exception as bug:  # noqa: BLE001 - without a report it would look like a slow server
            _log.exception("the sender's thread failed")
            self._halt(Category.INTERNAL_ERROR, f"{type(bug).__name__}: {bug}")
        finally:
            self._notify()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _connect(self) -> SenderConnection:
        while True:
            if self.is_over:
                raise _Stopped
            host = self._hosts.pick()
            if host is None:
                if self._has_one_round and not self.counters.connects:
                    self._is_stopping = True
                    raise _Stopped
                self._notify()
                self._pause(self._hosts.backoff_s(self._roll()))
                continue
            self.counters.connect_attempts += 1
            try:
                connection = connections.connect(self._options, host, self._spool.acked_fsn + 1)
            except Refused as error:
                self._connect_failed(host, error)
                continue
            self._connection = connection
            if self._is_stopping:  # `stop` could not abort this connection
                connection.close()
                raise _Stopped
            return connection

    def _connect_failed(self, host: Endpoint, error: Refused) -> None:
        self._hosts.record_failure(host, error.health)
        outage = self.outage
        since_ms = self._clock.now_ms() if outage is None else outage.since_ms
        attempts = 1 if outage is None else outage.attempts + 1
        self.outage = Outage(since_ms, attempts, str(error))
        self._notify()
        # `wait_for_first` raises the error of the first round.
        is_raised = self._has_one_round and not self.counters.connects
        if not is_raised and self._outage_log.is_due(self._clock.monotonic()):
            self._log_outage(self.outage)
        if error.is_final and error.status in (401, 403):
            act = act_for(self._options, Category.SECURITY_ERROR)
            if act is not ErrorPolicy.RETRY:
                self._halt(Category.SECURITY_ERROR, str(error), status=error.status)
        elif error.is_final:
            self._undurable.add(host)
            if self._undurable >= set(self._options.hosts):
                self._halt(Category.PROTOCOL_VIOLATION, str(error))

    def _log_outage(self, outage: Outage) -> None:
        spool = self._spool
        _log.warning(
            "slot %r: no connection since %s (attempts: %d): %s; unacknowledged frames: %d, "
            "%.1f of %.1f MiB; retrying",
            self._options.sender_id,
            outage.since,
            outage.attempts,
            outage.why,
            spool.published_fsn - spool.acked_fsn,
            spool.stored_bytes / MIB,
            spool.cap_bytes / MIB,
        )

    def _log_reconnect(self, host: Endpoint) -> None:
        """Log the end of an outage that was logged."""
        away = self._was_away
        if not self._outage_log.has_logged or away is None:
            return
        self._outage_log.reset()
        _log.warning(
            "slot %r: connected to %s again after %.0f s; unacknowledged frames: %d",
            self._options.sender_id,
            host,
            max(0, self._clock.now_ms() - away.since_ms) / 1000,
            self._spool.published_fsn - self._spool.acked_fsn,
        )

    def _pause(self, pause_s: float) -> None:
        until_s = self._clock.monotonic() + pause_s
        with self._changed:
            while not self.is_over:
                left_s = until_s - self._clock.monotonic()
                if left_s <= 0:
                    return
                self._clock.wait(self._changed, left_s)
        raise _Stopped

    def _exchange(self, connection: SenderConnection) -> None:
        """Send frames and handle replies until the connection ends."""
        self._hosts.record_connected(connection.host)
        self._connected_s = self._clock.monotonic()
        away = self.outage
        is_new = away is None or not (away.attempts or self.counters.connects)
        self._was_away = None if is_new else away
        self.outage = None
        self.counters.connects += 1
        _log.info("slot %r: connected to %s", self._options.sender_id, connection.host)
        if (
            self._spool.acked_fsn >= self._spool.published_fsn
        ):  # there may be no acknowledgement for long
            self._log_reconnect(connection.host)
        self._notify()
        self._spool.request_maintenance()  # orphaned slots are drained only with a connection
        transmission = _Transmission(
            connection, self._spool, self._options, self.counters, self._highest_sent
        )
        try:
            ping_timer = PingTimer(self._clock.monotonic(), self._keepalive_s)
            while True:
                if self.is_over:
                    raise _Stopped
                try:
                    has_more = transmission.send()
                except _TooLarge as error:
                    category = Category.SCHEMA_MISMATCH
                    act = act_for(self._options, category)
                    self._reject(error.fsn, category, act, str(error), -1, str(connection.host))
                pause_s = (
                    0.0 if has_more else ping_timer.pause_s(transmission.delivery.waits_for_sync)
                )
                replies = connection.receive(pause_s)
                for reply in replies:
                    self._handle_reply(connection, transmission.delivery, reply)
                if replies:
                    transmission.release_acked()
                    self._notify()
                now_s = self._clock.monotonic()
                ping_timer.record_received(connection.bytes_received, now_s)
                if ping_timer.is_over(now_s):
                    raise Broken(f"no answer to a ping for {SILENCE_S:g} s", is_timeout=True)
                if ping_timer.wants_ping(now_s, transmission.delivery.waits_for_sync):
                    connection.ping()
        finally:
            delivery = transmission.delivery
            self._highest_sent = max(self._highest_sent, delivery.next_fsn - 1)
            self._unanswered = range(delivery.acked_fsn + 1, delivery.next_fsn)

    def _handle_reply(self, connection: SenderConnection, delivery: Delivery, reply: Reply) -> None:
        try:
            fsn = delivery.handle_reply(reply)
        except InvalidArgument as error:
            raise Broken(str(error), 1002) from None
        before = self._spool.acked_fsn
        if delivery.acked_fsn > before:
            lost = self._spool.ack(delivery.acked_fsn)
            self.counters.frames_acked += delivery.acked_fsn - before - lost
            self._record_progress()
        if fsn is None:
            return
        category = category_of(reply.status)
        act = act_for(self._options, category)
        if act is ErrorPolicy.DROP and self._spool.acked_fsn != fsn - 1:
            raise Broken("frames before a rejected one are not synced yet")
        self._reject(fsn, category, act, reply.text, reply.status, str(connection.host))

    def _reject(
        self, fsn: int, category: Category, act: ErrorPolicy, text: str, status: int, host: str
    ) -> None:
        reported = act
        if act is ErrorPolicy.DROP:
            reported, text = self._spool.dead_letters.admit(text)
            if reported is ErrorPolicy.HALT:
                act = ErrorPolicy.HALT
        topic, sender_id = self._topic_of(fsn), self._options.sender_id
        error = SenderError(category, reported, text, fsn, status, host, topic, sender_id)
        if fsn > self._refused_fsn:  # once per frame, also when it is sent again
            self._refused_fsn = fsn
            self.counters.frames_rejected += 1
            self._rejection_log.reset()
        if act is ErrorPolicy.HALT:
            self.halted = error
        elif act is ErrorPolicy.DROP:
            try:
                self._spool.reject(fsn, Rejection(str(category), status, text))
            except StorageError as why:  # the frame stays in the spool and is sent again
                self._report_local_error(
                    f"frame {fsn} was rejected and could not be kept as a dead letter: {why}"
                )
                raise Broken(f"frame {fsn} could not be kept as a dead letter", -1) from None
            self._useless_connections = 0
        if act is not ErrorPolicy.RETRY or self._rejection_log.is_due(self._clock.monotonic()):
            self._inbox.put(error)
        if act is ErrorPolicy.HALT:
            raise _Stopped
        raise Broken(f"frame {fsn} was rejected: {text}", 0 if act is ErrorPolicy.DROP else -1)

    def _topic_of(self, fsn: int) -> str:
        for stored in self._spool.read(fsn, 0)[:1]:
            if stored.data is not None:
                return contents_of(decode_frame(stored.data)[1])[0]
        return ""

    def _end_connection(self, connection: SenderConnection, error: Broken) -> None:
        """The connection ended: record the failure of the host and of the frame."""
        if self.is_over:
            raise _Stopped
        fsn = self._spool.acked_fsn + 1
        self._begin_outage(str(error))
        _log.info("the connection to %s ended: %s", connection.host, error)
        self._useless_connections += 1
        if error.is_timeout:
            self._hosts.record_failure(connection.host, Health.UNREACHABLE)
            return
        if error.code in _NORMAL_CLOSES:
            if self._useless_connections > 1:  # a server that accepts connections but no frames
                self._hosts.record_failure(connection.host, Health.UNREACHABLE)
            elif error.code:
                self._hosts.record_failure(connection.host, Health.CATCHING_UP)
            return
        was_sent = fsn in self._unanswered  # the end of an idle connection is not caused by a frame
        if (
            was_sent
            and error.code != -1
            and self._poison.record_failure(fsn, self._clock.monotonic())
        ):
            text = f"{self._poison.failures} connections ended before frame {fsn}: {error}"
            self._halt(Category.PROTOCOL_VIOLATION, text, fsn=fsn)
            raise _Stopped
        self._hosts.record_failure(connection.host, Health.UNREACHABLE)

    def _begin_outage(self, why: str) -> None:
        """An outage begins; or continues, when the ended connection made no progress."""
        if self._clock.monotonic() - self._connected_s > SILENCE_S:  # it was usable
            self._record_progress()
        before = self._was_away
        if before is None:
            self.outage = Outage(self._clock.now_ms(), 0, why)
        else:
            self.outage = Outage(before.since_ms, before.attempts + 1, why)
            if self._outage_log.is_due(self._clock.monotonic()):
                self._log_outage(self.outage)
        self._notify()

    def _record_progress(self) -> None:
        connection = self._connection
        if connection is not None:
            self._log_reconnect(connection.host)
        self._useless_connections = 0
        self._local_error_log.reset()
        self._was_away = None
        self._hosts.record_progress()

    def _handle_local_error(self, error: Exception) -> None:
        """The disk or another resource of this machine failed: pause, then connect again."""
        if self.is_over:
            raise _Stopped
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._begin_outage(str(error))
        self._report_local_error(f"sending is paused: {error}")
        self._pause(self._hosts.backoff_s(self._roll()))

    def _report_local_error(self, text: str) -> None:
        """Log an error of this machine and queue it for the handler, at growing intervals."""
        if self._local_error_log.is_due(self._clock.monotonic()):
            sender_id = self._options.sender_id
            _log.error("slot %r: %s", sender_id, text)
            error = SenderError(
                Category.INTERNAL_ERROR, ErrorPolicy.RETRY, text, sender_id=sender_id
            )
            self._inbox.put(error)

    def _halt(self, category: Category, text: str, *, fsn: int = -1, status: int = -1) -> None:
        sender_id = self._options.sender_id
        self.halted = SenderError(
            category, ErrorPolicy.HALT, text, fsn, status, sender_id=sender_id
        )
        self._inbox.put(self.halted)
        self._notify()


def _lower_priority() -> None:
    """SCHED_BATCH: a thread that wakes this one keeps its core. A flush would wait otherwise."""
    with contextlib.suppress(OSError, AttributeError):  # not on all systems
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class _Transmission:
    """The frames that one connection has sent and the server has not acknowledged."""

    def __init__(
        self,
        connection: SenderConnection,
        spool: Spool,
        options: ConnectOptions,
        counters: Counters,
        highest_sent: int,
    ) -> None:
        self.delivery = Delivery(spool.acked_fsn + 1, is_durable=options.request_durable_ack)
        self._connection = connection
        self._spool = spool
        self._counters = counters
        self._highest_sent = highest_sent
        self._incarnation = b""
        self._sizes: deque[tuple[int, int]] = deque()  # number and bytes of unacknowledged frames
        self._bytes = 0

    def send(self) -> bool:
        """Send some frames. True when there are more and the window has room."""
        if self._bytes >= _WINDOW_BYTES or self.delivery.next_fsn > self._spool.published_fsn:
            return False
        while (
            self.delivery.next_fsn <= self._spool.acked_fsn
        ):  # lost frames that were skipped meanwhile
            self._send(Stored(self.delivery.next_fsn, b"", None))
        most = self._connection.frame_bytes_max
        for stored in self._spool.read(self.delivery.next_fsn, _CHUNK_BYTES):
            if most and stored.data is not None and len(stored.data) > most:
                self._connection.flush()
                if not self._sizes:  # all frames before it are acknowledged
                    raise _TooLarge(
                        stored.fsn,
                        f"a frame of {len(stored.data)} bytes: the server's maximum is {most}",
                    )
                return False
            self._send(stored)
        self._connection.flush()
        return self._bytes < _WINDOW_BYTES and self.delivery.next_fsn <= self._spool.published_fsn

    def _send(self, stored: Stored) -> None:
        data = stored.data
        if data is None:
            data = encode_frame(
                stored.fsn, b""
            )  # an empty frame, so that the next frames keep their numbers
        incarnation = stored.incarnation or self._incarnation or self._spool.incarnation
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            self._connection.send_text(Incarnation(incarnation.hex()))
        self._connection.send_frame(data)
        self.delivery.record_sent()
        self._sizes.append((stored.fsn, len(data)))
        self._bytes += len(data)
        self._counters.frames_sent += 1
        self._counters.bytes_sent += len(data)
        if stored.fsn <= self._highest_sent:
            self._counters.frames_replayed += 1

    def release_acked(self) -> None:
        acked = self.delivery.acked_fsn
        while self._sizes and self._sizes[0][0] <= acked:
            self._bytes -= self._sizes.popleft()[1]
