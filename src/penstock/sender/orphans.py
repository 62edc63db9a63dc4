"""Drains orphaned slots: slots with frames whose sender does not run any more (`drain_orphans`).

It checks for them periodically, so that a slot whose sender dies later is found, too.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.errors import Closed, FormatTooNew, SlotInUse, SpoolHole, StorageError
from penstock.sender import slot
from penstock.sender.connect_string import ConnectOptions
from penstock.sender.counters import Counters, total
from penstock.sender.delivery_loop import DeliveryLoop
from penstock.sender.error_inbox import ErrorInbox
from penstock.sender.loss_reports import report_losses
from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Slot
from penstock.sender.slot_inspection import holder
from penstock.sender.spool import Spool
from penstock.storage.fs import Filesystem, OsFilesystem

_CHECK_S: Final = 10.0
_POLL_S: Final = 0.5  # between two checks of a drainer
_AWAY_MS: Final = 5000  # without a connection before the slot is released
_RETRY_S: Final = 60.0  # until a slot is retried after an error that may pass
_log = logging.getLogger("penstock.sender")


class Orphans:
    """`check` is for one thread, the rest for any."""

    def __init__(
        self,
        options: ConnectOptions,
        clock: Clock,
        inbox: ErrorInbox,
        roll: Callable[[], float],
        fs: Filesystem | None,
        is_connected: Callable[[], bool],
    ) -> None:
        """Slots are opened only while the sender itself is connected: otherwise their owners could
        not open them during an outage."""
        self._is_connected = is_connected
        self._options = options
        self._clock = clock
        self._inbox = inbox
        self._roll = roll
        self._fs = fs or OsFilesystem()
        self._sf_dir = os.path.abspath(options.sf_dir or "")  # also after a chdir
        self._looked_s: float | None = None
        wanted = options.drain_orphans and options.is_disk
        self._most = options.max_background_drainers if wanted else 0
        self._lock = threading.Lock()  # guards all below
        self._drainers: dict[str, Drainer] = {}
        self._outcomes: dict[str, str] = {}  # by slot
        self._retired: dict[str, float] = {}  # when a slot may be retried
        self._counters = Counters()  # of drainers that have ended
        self._is_closing = False

    def check(self) -> float | None:
        """Start and remove drainers. Returns the seconds until the next check."""
        if not self._most:
            return None
        now_s = self._clock.monotonic()
        self._reap(now_s)
        if not self._is_connected():  # a new connection requests a check
            return _POLL_S if self._drainers else None
        if self._looked_s is None or now_s - self._looked_s >= _CHECK_S:
            self._looked_s = now_s
            self._start_drainers(now_s)
        return _POLL_S if self._drainers else self._looked_s + _CHECK_S - now_s

    def report(self) -> dict[str, str]:
        """The orphaned slots and their outcomes."""
        with self._lock:
            busy = [name for name, drainer in self._drainers.items() if drainer.is_open]
            return {**self._outcomes, **dict.fromkeys(busy, "draining")}

    def counters(self) -> Counters:
        """The sums over all drained slots."""
        with self._lock:
            return total([self._counters, *(one.counters() for one in self._drainers.values())])

    def close(self) -> None:
        """Stop all drainers and start no more. Unacknowledged frames stay in their slots."""
        with self._lock:
            self._is_closing = True
            drainers = list(self._drainers.values())
        for drainer in drainers:
            drainer.stop()
        for drainer in drainers:
            drainer.join(3.0)

    def leave_to_parent(self) -> None:
        """In a forked child."""
        for drainer in list(self._drainers.values()):
            drainer.leave_to_parent()

    def _reap(self, now_s: float) -> None:
        with self._lock:
            over = [(name, one) for name, one in self._drainers.items() if one.is_over]
            for name, drainer in over:
                del self._drainers[name]
                self._counters = total([self._counters, drainer.counters()])
                if drainer.retry_s:
                    self._retired[name] = now_s + drainer.retry_s
        for name, drainer in over:
            if drainer.outcome:
                self._record_outcome(name, drainer.outcome)

    def _record_outcome(self, name: str, outcome: str) -> None:
        """Record the outcome of a slot. A repeated failure is logged once."""
        with self._lock:
            is_new = self._outcomes.get(name) != outcome
            self._outcomes[name] = outcome
        if is_new and outcome.startswith("failed: "):
            _log.error("slot %r cannot be drained: %s", name, outcome.removeprefix("failed: "))

    def _start_drainers(self, now_s: float) -> None:
        def cannot_be_listed(name: str, error: OSError) -> None:
            self._record_outcome(name, f"failed: {error}")

        try:
            names = slot.orphans(
                self._fs, self._sf_dir, own_id=self._options.sender_id, on_error=cannot_be_listed
            )
        except OSError as error:
            _log.error("orphaned slots cannot be listed: %s", error)
            return
        for name in names:
            if len(self._drainers) >= self._most:
                return
            if name not in self._drainers and now_s >= self._retired.get(name, 0.0):
                self._start(name)

    def _start(self, name: str) -> None:
        with contextlib.suppress(OSError):  # the drainer reports the same error
            if holder(self._fs, f"{self._sf_dir}/{name}") is not None:
                return  # it has an owner
        settings = SpoolSettings(
            sf_dir=self._sf_dir,
            sender_id=name,
            segment_bytes=self._options.sf_max_segment_bytes,
            total_bytes_max=self._options.sf_max_total_bytes,
            allow_network_fs=self._options.sf_allow_network_fs,
        )
        options = msgspec.structs.replace(self._options, sender_id=name)
        drainer = Drainer(settings, options, self._fs, self._clock, self._inbox, self._roll)
        with self._lock:
            if self._is_closing:
                return
            self._drainers[name] = drainer
            drainer.start()


class Drainer:
    """Drains one slot with its own connection. Its thread also opens the slot, which may read
    gigabytes."""

    def __init__(
        self,
        settings: SpoolSettings,
        options: ConnectOptions,
        fs: Filesystem,
        clock: Clock,
        inbox: ErrorInbox,
        roll: Callable[[], float],
    ) -> None:
        self.outcome = ""  # empty: the slot has an owner
        self.retry_s = 0.0  # how long the slot is not retried
        self.is_over = False
        self._settings = settings
        self._options = options
        self._fs = fs
        self._clock = clock
        self._inbox = inbox
        self._roll = roll
        self._name = f"penstock-sender-drain {options.sender_id}"
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._lock = threading.Lock()  # guards the next three
        self._spool: Spool | None = None
        self._delivery_loop: DeliveryLoop | None = None
        self._is_stopping = False

    def start(self) -> None:
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return self._delivery_loop is not None

    def counters(self) -> Counters:
        with self._lock:
            if self._delivery_loop is None or self._spool is None:
                return Counters()
            lost = self._spool.frames_lost
            return msgspec.structs.replace(self._delivery_loop.counters, frames_lost=lost)

    def stop(self) -> None:
        with self._lock:
            self._is_stopping = True
            delivery_loop = self._delivery_loop
        if delivery_loop is not None:
            delivery_loop.stop(0.0)

    def leave_to_parent(self) -> None:
        delivery_loop = self._delivery_loop
        if delivery_loop is not None:
            delivery_loop.leave_to_parent()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            spool = open_spool(self._settings, fs=self._fs, clock=self._clock)
            try:
                self._drain(spool)
            finally:
                spool.close()
        except SlotInUse:
            pass  # another process opened it meanwhile
        except (SpoolHole, FormatTooNew) as error:
            self._fail(error, math.inf)
            if isinstance(error, SpoolHole):
                self._mark_failed(str(error))
        except (StorageError, Closed, OSError) as error:  # it may pass
            self._fail(error, _RETRY_S)
        except Exception as bug:  # noqa: BLE001 - without a report it would look like work
            _log.exception("the drainer of slot %r failed", self._settings.sender_id)
            self._fail(bug, math.inf)
        finally:
            self.is_over = True

    def _drain(self, spool: Spool) -> None:
        delivery_loop = DeliveryLoop(
            spool, self._options, self._clock, self._inbox, self._roll, name=self._name
        )
        with self._lock:
            if self._is_stopping:
                return
            self._spool, self._delivery_loop = spool, delivery_loop
            delivery_loop.start()
        sender_id = self._settings.sender_id
        _log.info("draining the orphaned slot %r", sender_id)
        try:
            report_losses(spool, sender_id, self._inbox)
            self._wait(spool, delivery_loop)
        finally:
            delivery_loop.stop()
        if spool.acked_fsn >= spool.published_fsn:
            spool.slot.record_error(None)
            lost = spool.frames_lost
            self.outcome = f"drained, frames lost to damage: {lost}" if lost else "drained"
        elif delivery_loop.halted is not None:
            spool.slot.record_error(delivery_loop.halted.message)
            self.outcome = f"halted: {delivery_loop.halted.message}"
            self.retry_s = math.inf
        else:
            self.outcome = "left for later"
            self.retry_s = _CHECK_S

    def _wait(self, spool: Spool, delivery_loop: DeliveryLoop) -> None:
        """Wait until all frames are acknowledged or sending has stopped; or until the server is
        away and the slot should be free for its owner."""
        recorded = ""
        while not delivery_loop.is_over and spool.acked_fsn < spool.published_fsn:
            delivery_loop.wait(
                lambda: delivery_loop.is_over or spool.acked_fsn >= spool.published_fsn, _POLL_S
            )
            spool.maintain()
            outage = delivery_loop.outage
            if outage is not None and outage.attempts and outage.why != recorded:
                recorded = outage.why
                spool.slot.record_error(recorded)
            away_ms, attempts, _ = delivery_loop.outage_status()
            if away_ms > _AWAY_MS and attempts >= len(self._options.hosts):  # every host was tried
                return

    def _fail(self, error: Exception, retry_s: float) -> None:
        self.outcome = f"failed: {error}"
        self.retry_s = retry_s

    def _mark_failed(self, reason: str) -> None:
        """Exclude the slot from drainers until an operator has checked it."""
        name = self._settings.sender_id
        try:
            held = Slot.open(self._fs, f"{self._settings.sf_dir}/{name}")
        except (StorageError, OSError):
            return
        try:
            held.mark_failed(reason)
        except OSError as error:
            _log.error("slot %r cannot be marked: %s", name, error)
        finally:
            held.release()
