"""The thread that carries frames from a spool to a server, and comes back with its answers."""

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
from penstock.sender import connection as wires
from penstock.sender.connection import Broken, Connection, Refused
from penstock.sender.counters import Counters
from penstock.sender.delivery import Delivery, Poison
from penstock.sender.hosts import Health, Hosts
from penstock.sender.inbox import Inbox
from penstock.sender.profile import Host, Profile
from penstock.sender.seldom import Seldom
from penstock.sender.slot import Rejection
from penstock.sender.spool import Spool, Stored
from penstock.sender.verdicts import Act, Category, SenderError, act_for, category_of
from penstock.wire.sending import Incarnation, Reply, contents_of
from penstock.wire.spool_frame import decode_frame, encode_frame

_WINDOW_BYTES: Final = 8 << 20  # sent and not answered
# Read from the spool in one go. Larger frames go one by one: several at once would be memory that
# the allocator gives back to the system and takes anew each time, page by page.
_CHUNK_BYTES: Final = 64 << 10
_PATIENCE_S: Final = 20.0  # of silence, before the server is asked; and again until it is given up
_CALLING_S: Final = 1.0  # that a stop waits for a call to end
_CALM: Final = (0, 1000, 1001, 1012, 1013)  # ends that are nobody's fault
_log = logging.getLogger("penstock.sender")


class Outage(msgspec.Struct, frozen=True):
    """The server has been away since then (ms since 1970), and was called so often."""

    since_ms: int
    attempts: int
    why: str

    @property
    def since(self) -> str:
        """For people."""
        return time.strftime("%H:%M:%S", time.localtime(self.since_ms / 1000))


class _Stopped(Exception):
    """The sender is closed, or has halted."""


class _TooLarge(Exception):
    """A frame that this server would not even read."""

    def __init__(self, fsn: int, why: str) -> None:
        super().__init__(why)
        self.fsn = fsn


class Courier:
    """Owns the connection. `wake`, `stop` and what it tells are for any thread."""

    def __init__(
        self,
        spool: Spool,
        profile: Profile,
        clock: Clock,
        inbox: Inbox,
        roll: Callable[[], float],
        *,
        name: str = "penstock-sender",
        has_one_round: bool = False,
    ) -> None:
        """With `has_one_round` it gives up when no host of the first round takes it."""
        self.counters = Counters()
        self.outage: Outage | None = Outage(clock.now_ms(), 0, "not tried yet")
        self.halted: SenderError | None = None
        self._spool = spool
        self._profile = profile
        self._clock = clock
        self._inbox = inbox
        self._roll = roll
        self._has_one_round = has_one_round
        self._hosts = Hosts(
            profile.hosts,
            initial_s=profile.reconnect_initial_backoff_millis / 1000,
            cap_s=profile.reconnect_max_backoff_millis / 1000,
        )
        self._poison = Poison(
            most=profile.max_frame_rejections,
            window_s=profile.poison_min_escalation_window_millis / 1000,
        )
        self._connection: Connection | None = None
        self._highest_sent = -1
        self._unanswered = range(0)  # frames that the last connection left without an answer
        self._was_away: Outage | None = None  # before the connection that has brought nothing yet
        self._connected_s = 0.0
        self._absences = Seldom()
        self._ailments = Seldom()
        self._refusals = Seldom()
        self._refused_fsn = -1  # the newest that was counted
        self._keepalive_s = profile.durable_ack_keepalive_interval_millis / 1000
        self._fruitless = 0  # connections in a row that brought nothing
        self._is_stopping = False
        self._changed = threading.Condition()
        self._undurable: set[Host] = set()  # hosts that do not offer durable acknowledgements
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def host(self) -> str:
        """Of the server it is connected to, or empty."""
        connection = self._connection
        return "" if connection is None else str(connection.host)

    @property
    def is_over(self) -> bool:
        return self._is_stopping or self.halted is not None

    def absence(self) -> tuple[int, int, str]:
        """How long no server has been there (ms), how often it was called since then, and what
        came of the last call."""
        outage = self.outage
        if outage is None:
            return 0, 0, ""
        return max(0, self._clock.now_ms() - outage.since_ms), outage.attempts, outage.why

    def leave_to_parent(self) -> None:
        """In a process that was forked off."""
        self._is_stopping = True
        connection = self._connection
        if connection is not None:
            connection.forget()

    def wake(self) -> None:
        """There is something to send."""
        connection = self._connection
        if connection is not None:
            connection.wake()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the thread. What is not answered stays in the spool."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        connection = self._connection
        if connection is not None:
            connection.abort()
        else:  # perhaps in a call to a host that says nothing; when it returns, nothing follows
            timeout_s = min(timeout_s, _CALLING_S)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def wait(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until something holds that answers, connections or a halt may bring about."""
        until_s = None if timeout_s is None else self._clock.monotonic() + timeout_s
        with self._changed:
            while not is_over():
                left_s = None if until_s is None else until_s - self._clock.monotonic()
                if left_s is not None and left_s <= 0:
                    return False
                self._clock.wait(self._changed, left_s)
        return True

    def wait_for_first(self) -> None:
        """As `initial_connect_retry` has it: not at all, for one round, or for a while. Raises
        when there is no connection by then."""
        profile, timeout_s = self._profile, None
        if profile.initial_connect_retry == "async":
            return
        if profile.initial_connect_retry == "sync":
            timeout_s = profile.reconnect_max_duration_millis / 1000
        self.wait(lambda: bool(self.counters.connects) or self.is_over, timeout_s)
        outage, halted = self.outage, self.halted
        if self.counters.connects and halted is None:
            return
        if halted is not None and halted.category is Category.SECURITY_ERROR:
            raise Unauthorized(halted.message)
        if halted is not None:
            raise SenderHalted(halted.message)
        why = "" if outage is None else outage.why
        raise ConnectionFailed(f"no server: {why}", retry_after_ms=1000)

    # The thread.

    def _run(self) -> None:
        _be_modest()
        try:
            while True:
                connection = self._connect()
                try:
                    self._converse(connection)
                except Broken as error:
                    self._broke(connection, error)
                except (StorageError, OSError) as error:
                    self._ail(error)
                finally:
                    self._connection = None
                    connection.close()
        except _Stopped:
            pass
        except Exception as bug:  # noqa: BLE001 - a silent death would look like a slow server
            _log.exception("the sender's thread failed")
            self._halt(Category.INTERNAL_ERROR, f"{type(bug).__name__}: {bug}")
        finally:
            self._tell()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _connect(self) -> Connection:
        while True:
            if self.is_over:
                raise _Stopped
            host = self._hosts.pick()
            if host is None:
                if self._has_one_round and not self.counters.connects:
                    self._is_stopping = True
                    raise _Stopped
                self._tell()
                self._rest(self._hosts.rest_s(self._roll()))
                continue
            self.counters.connect_attempts += 1
            try:
                connection = wires.connect(self._profile, host, self._spool.acked_fsn + 1)
            except Refused as error:
                self._refused(host, error)
                continue
            self._connection = connection
            if self._is_stopping:  # nobody aborted a connection that was not there yet
                connection.close()
                raise _Stopped
            return connection

    def _refused(self, host: Host, error: Refused) -> None:
        self._hosts.failed(host, error.health)
        outage = self.outage
        since_ms = self._clock.now_ms() if outage is None else outage.since_ms
        attempts = 1 if outage is None else outage.attempts + 1
        self.outage = Outage(since_ms, attempts, str(error))
        self._tell()
        # Whoever waits for the first connection of one round is told why there is none.
        is_told = self._has_one_round and not self.counters.connects
        if not is_told and self._absences.is_due(self._clock.monotonic()):
            self._log_absence(self.outage)
        if error.is_final and error.status in (401, 403):
            act = act_for(self._profile, Category.SECURITY_ERROR)
            if act is not Act.RETRY:
                self._halt(Category.SECURITY_ERROR, str(error), status=error.status)
        elif error.is_final:
            self._undurable.add(host)
            if self._undurable >= set(self._profile.hosts):
                self._halt(Category.PROTOCOL_VIOLATION, str(error))

    def _log_absence(self, outage: Outage) -> None:
        spool = self._spool
        _log.warning(
            "slot %r: no server since %s (attempts: %d): %s; frames that wait: %d, %.1f of %.1f "
            "MiB; it tries again",
            self._profile.sender_id,
            outage.since,
            outage.attempts,
            outage.why,
            spool.published_fsn - spool.acked_fsn,
            spool.stored_bytes / MIB,
            spool.cap_bytes / MIB,
        )

    def _log_return(self, host: Host) -> None:
        """Whoever heard of the outage hears of its end."""
        away = self._was_away
        if not self._absences.was_told or away is None:
            return
        self._absences.is_over()
        _log.warning(
            "slot %r: the server at %s is back after %.0f s; frames that wait: %d",
            self._profile.sender_id,
            host,
            max(0, self._clock.now_ms() - away.since_ms) / 1000,
            self._spool.published_fsn - self._spool.acked_fsn,
        )

    def _rest(self, rest_s: float) -> None:
        until_s = self._clock.monotonic() + rest_s
        with self._changed:
            while not self.is_over:
                left_s = until_s - self._clock.monotonic()
                if left_s <= 0:
                    return
                self._clock.wait(self._changed, left_s)
        raise _Stopped

    def _converse(self, connection: Connection) -> None:
        """Send and listen until the connection ends."""
        self._hosts.connected(connection.host)
        self._connected_s = self._clock.monotonic()
        away = self.outage
        is_new = away is None or not (away.attempts or self.counters.connects)
        self._was_away = None if is_new else away
        self.outage = None
        self.counters.connects += 1
        _log.info("slot %r: connected to %s", self._profile.sender_id, connection.host)
        if self._spool.acked_fsn >= self._spool.published_fsn:  # it may stay idle for long
            self._log_return(connection.host)
        self._tell()
        self._spool.ask_for_upkeep()  # slots of others may have waited for a server
        talk = _Talk(connection, self._spool, self._profile, self.counters, self._highest_sent)
        try:
            silence = _Silence(self._clock.monotonic(), self._keepalive_s)
            while True:
                if self.is_over:
                    raise _Stopped
                try:
                    has_more = talk.send()
                except _TooLarge as error:
                    category = Category.SCHEMA_MISMATCH
                    act = act_for(self._profile, category)
                    self._reject(error.fsn, category, act, str(error), -1, str(connection.host))
                pause_s = 0.0 if has_more else silence.pause_s(talk.delivery.waits_for_sync)
                replies = connection.receive(pause_s)
                for reply in replies:
                    self._answered(connection, talk.delivery, reply)
                if replies:
                    talk.let_go()
                    self._tell()
                now_s = self._clock.monotonic()
                silence.heard(connection.bytes_heard, now_s)
                if silence.is_over(now_s):
                    raise Broken(f"nothing came for {_PATIENCE_S:g} s after a ping", is_mute=True)
                if silence.wants_ping(now_s, talk.delivery.waits_for_sync):
                    connection.ping()
        finally:
            delivery = talk.delivery
            self._highest_sent = max(self._highest_sent, delivery.next_fsn - 1)
            self._unanswered = range(delivery.acked_fsn + 1, delivery.next_fsn)

    def _answered(self, connection: Connection, delivery: Delivery, reply: Reply) -> None:
        try:
            fsn = delivery.answered(reply)
        except InvalidArgument as error:
            raise Broken(str(error), 1002) from None
        before = self._spool.acked_fsn
        if delivery.acked_fsn > before:
            lost = self._spool.ack(delivery.acked_fsn)
            self.counters.frames_acked += delivery.acked_fsn - before - lost
            self._was_of_use()
        if fsn is None:
            return
        category = category_of(reply.status)
        act = act_for(self._profile, category)
        if act is Act.DROP and self._spool.acked_fsn != fsn - 1:
            raise Broken("frames before a refused one have no sync yet")
        self._reject(fsn, category, act, reply.text, reply.status, str(connection.host))

    def _reject(
        self, fsn: int, category: Category, act: Act, text: str, status: int, host: str
    ) -> None:
        if act is Act.DROP and not self._spool.dead_letters.has_room():
            act = Act.HALT
            text += (
                "; the slot keeps as many bytes of refused frames as sf_max_total_bytes allows: "
                "`penstock spool redrive` sends them again, or remove its dead-letter folder"
            )
        is_lost = act is Act.DROP and not self._spool.dead_letters.are_kept
        if is_lost:
            text += "; a sender in memory keeps no refused frames, and this one is LOST"
        topic, sender_id = self._topic_of(fsn), self._profile.sender_id
        told = Act.LOSE if is_lost else act
        error = SenderError(category, told, text, fsn, status, host, topic, sender_id)
        if fsn > self._refused_fsn:  # once, however often it is sent again
            self._refused_fsn = fsn
            self.counters.frames_rejected += 1
            self._refusals.is_over()
        if act is Act.HALT:
            self.halted = error
        elif act is Act.DROP:
            try:
                self._spool.reject(fsn, Rejection(str(category), status, text))
            except StorageError as why:  # it stays in its place, and is tried again
                self._complain(f"frame {fsn} was refused, and could not be put aside: {why}")
                raise Broken(f"frame {fsn} was refused, and could not be put aside", -1) from None
            self._fruitless = 0
        if act is not Act.RETRY or self._refusals.is_due(self._clock.monotonic()):
            self._inbox.put(error)
        if act is Act.HALT:
            raise _Stopped
        raise Broken(f"frame {fsn} was refused: {text}", 0 if act is Act.DROP else -1)

    def _topic_of(self, fsn: int) -> str:
        for stored in self._spool.read(fsn, 0)[:1]:
            if stored.data is not None:
                return contents_of(decode_frame(stored.data)[1])[0]
        return ""

    def _broke(self, connection: Connection, error: Broken) -> None:
        """The connection ended: what now?"""
        if self.is_over:
            raise _Stopped
        fsn = self._spool.acked_fsn + 1
        self._lose_server(str(error))
        _log.info("the connection to %s ended: %s", connection.host, error)
        self._fruitless += 1
        if error.is_mute:
            self._hosts.failed(connection.host, Health.UNREACHABLE)
            return
        if error.code in _CALM:
            if self._fruitless > 1:  # a server that takes connections and nothing else
                self._hosts.failed(connection.host, Health.UNREACHABLE)
            elif error.code:
                self._hosts.failed(connection.host, Health.CATCHING_UP)
            return
        is_suspect = fsn in self._unanswered  # an idle connection ends without a frame to blame
        if is_suspect and error.code != -1 and self._poison.strike(fsn, self._clock.monotonic()):
            text = f"{self._poison.strikes} connections ended before frame {fsn}: {error}"
            self._halt(Category.PROTOCOL_VIOLATION, text, fsn=fsn)
            raise _Stopped
        self._hosts.failed(connection.host, Health.UNREACHABLE)

    def _lose_server(self, why: str) -> None:
        """An outage begins; or goes on, when the connection that ended brought nothing."""
        if self._clock.monotonic() - self._connected_s > _PATIENCE_S:  # it was there to be used
            self._was_of_use()
        before = self._was_away
        if before is None:
            self.outage = Outage(self._clock.now_ms(), 0, why)
        else:
            self.outage = Outage(before.since_ms, before.attempts + 1, why)
            if self._absences.is_due(self._clock.monotonic()):
                self._log_absence(self.outage)
        self._tell()

    def _was_of_use(self) -> None:
        connection = self._connection
        if connection is not None:
            self._log_return(connection.host)
        self._fruitless = 0
        self._ailments.is_over()
        self._was_away = None
        self._hosts.progressed()

    def _ail(self, error: Exception) -> None:
        """This machine refuses something: files, memory, the disk. That may pass."""
        if self.is_over:
            raise _Stopped
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._lose_server(str(error))
        self._complain(f"sending stopped for a while: {error}")
        self._rest(self._hosts.rest_s(self._roll()))

    def _complain(self, text: str) -> None:
        """Of this machine, seldom."""
        if self._ailments.is_due(self._clock.monotonic()):
            sender_id = self._profile.sender_id
            _log.error("slot %r: %s", sender_id, text)
            told = SenderError(Category.INTERNAL_ERROR, Act.RETRY, text, sender_id=sender_id)
            self._inbox.put(told)

    def _halt(self, category: Category, text: str, *, fsn: int = -1, status: int = -1) -> None:
        sender_id = self._profile.sender_id
        self.halted = SenderError(category, Act.HALT, text, fsn, status, sender_id=sender_id)
        self._inbox.put(self.halted)
        self._tell()


def _be_modest() -> None:
    """Whoever wakes this thread goes on first: a flush would wait for a switch there and back."""
    with contextlib.suppress(OSError, AttributeError):  # there are systems that know no such thing
        if os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class _Silence:
    """When to ask a peer whether it is there, and when to give it up. Pure."""

    def __init__(self, now_s: float, keepalive_s: float) -> None:
        self._heard_s = now_s
        self._bytes = 0
        self._asked_s: float | None = None
        self._keepalive_s = keepalive_s  # between pings of a server that syncs; 0: none
        self._kept_s = now_s

    def pause_s(self, waits_for_sync: bool) -> float:
        """How long to listen before the next look."""
        return self._keepalive_s if waits_for_sync and self._keepalive_s else _PATIENCE_S

    def heard(self, count: int, now_s: float) -> None:
        """So many bytes came by now."""
        if count != self._bytes:
            self._bytes, self._heard_s, self._asked_s = count, now_s, None

    def is_over(self, now_s: float) -> bool:
        return self._asked_s is not None and now_s - self._asked_s > _PATIENCE_S

    def wants_ping(self, now_s: float, waits_for_sync: bool) -> bool:
        """Asked once: a ping is due."""
        if waits_for_sync and self._keepalive_s and now_s - self._kept_s >= self._keepalive_s:
            self._kept_s = now_s
            return True
        if self._asked_s is None and now_s - self._heard_s > _PATIENCE_S:
            self._asked_s = now_s
            return True
        return False


class _Talk:
    """What one connection has under way."""

    def __init__(
        self,
        connection: Connection,
        spool: Spool,
        profile: Profile,
        counters: Counters,
        highest_sent: int,
    ) -> None:
        self.delivery = Delivery(spool.acked_fsn + 1, is_durable=profile.request_durable_ack)
        self._connection = connection
        self._spool = spool
        self._counters = counters
        self._highest_sent = highest_sent
        self._incarnation = b""
        self._sizes: deque[tuple[int, int]] = deque()  # fsn and bytes of what is not answered
        self._bytes = 0

    def send(self) -> bool:
        """Send some; true when there is more to send right now."""
        if self._bytes >= _WINDOW_BYTES or self.delivery.next_fsn > self._spool.published_fsn:
            return False
        while self.delivery.next_fsn <= self._spool.acked_fsn:  # lost, and passed over meanwhile
            self._send(Stored(self.delivery.next_fsn, b"", None))
        most = self._connection.frame_bytes_max
        for stored in self._spool.read(self.delivery.next_fsn, _CHUNK_BYTES):
            if most and stored.data is not None and len(stored.data) > most:
                self._connection.flush()
                if not self._sizes:  # its turn: everything before it is answered
                    raise _TooLarge(
                        stored.fsn,
                        f"a frame of {len(stored.data)} bytes, and the server takes {most}",
                    )
                return False
            self._send(stored)
        self._connection.flush()
        return self._bytes < _WINDOW_BYTES and self.delivery.next_fsn <= self._spool.published_fsn

    def _send(self, stored: Stored) -> None:
        data = stored.data
        if data is None:
            data = encode_frame(stored.fsn, b"")  # so that those behind it keep their numbers
        incarnation = stored.incarnation or self._incarnation or self._spool.incarnation
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            self._connection.send_text(Incarnation(incarnation.hex()))
        self._connection.send_frame(data)
        self.delivery.sent()
        self._sizes.append((stored.fsn, len(data)))
        self._bytes += len(data)
        self._counters.frames_sent += 1
        self._counters.bytes_sent += len(data)
        if stored.fsn <= self._highest_sent:
            self._counters.frames_replayed += 1

    def let_go(self) -> None:
        acked = self.delivery.acked_fsn
        while self._sizes and self._sizes[0][0] <= acked:
            self._bytes -= self._sizes.popleft()[1]
