"""Slots that their senders left behind with frames in them: drained for whoever asks for it.

They are looked for again and again, so that a slot whose owner dies later is found, too.
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
from penstock.sender.counters import Counters, total
from penstock.sender.courier import Courier
from penstock.sender.inbox import Inbox
from penstock.sender.losses import tell_losses
from penstock.sender.opening import open_spool
from penstock.sender.profile import Profile
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Slot
from penstock.sender.spool import Spool
from penstock.sender.view import holder
from penstock.storage.fs import Filesystem, OsFilesystem

_LOOK_S: Final = 10.0
_BEAT_S: Final = 0.5  # between two looks of a drainer after its spool
_AWAY_MS: Final = 5000  # that a server may be away before the slot is given back
_REST_S: Final = 60.0  # until a slot is tried again whose trouble may pass
_log = logging.getLogger("penstock.sender")


class Orphans:
    """`look` from one thread; the rest from any."""

    def __init__(
        self,
        profile: Profile,
        clock: Clock,
        inbox: Inbox,
        roll: Callable[[], float],
        fs: Filesystem | None,
        is_connected: Callable[[], bool],
    ) -> None:
        """Slots are taken only while the sender itself has a server: their owners may want to
        open them, and would be kept out for as long as it is away."""
        self._is_connected = is_connected
        self._profile = profile
        self._clock = clock
        self._inbox = inbox
        self._roll = roll
        self._fs = fs or OsFilesystem()
        self._sf_dir = os.path.abspath(profile.sf_dir or "")  # also after a chdir
        self._looked_s: float | None = None
        wanted = profile.drain_orphans and profile.is_disk
        self._most = profile.max_background_drainers if wanted else 0
        self._lock = threading.Lock()  # guards all below
        self._drainers: dict[str, Drainer] = {}
        self._told: dict[str, str] = {}  # what became of slots
        self._retired: dict[str, float] = {}  # when they may be tried again
        self._counters = Counters()  # of drainers that are over
        self._is_closing = False

    def look(self) -> float | None:
        """Start and end drainers; when to look again, in seconds."""
        if not self._most:
            return None
        now_s = self._clock.monotonic()
        self._reap(now_s)
        if not self._is_connected():  # a connection asks for a look
            return _BEAT_S if self._drainers else None
        if self._looked_s is None or now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self._start_some(now_s)
        return _BEAT_S if self._drainers else self._looked_s + _LOOK_S - now_s

    def report(self) -> dict[str, str]:
        """Slots of others, and what became of them or is being done."""
        with self._lock:
            busy = [name for name, drainer in self._drainers.items() if drainer.is_open]
            return {**self._told, **dict.fromkeys(busy, "draining")}

    def counters(self) -> Counters:
        """Of all slots that were drained or are."""
        with self._lock:
            return total([self._counters, *(one.counters() for one in self._drainers.values())])

    def close(self) -> None:
        """What is not drained stays for the next one. From here on nothing is started."""
        with self._lock:
            self._is_closing = True
            drainers = list(self._drainers.values())
        for drainer in drainers:
            drainer.stop()
        for drainer in drainers:
            drainer.join(3.0)

    def leave_to_parent(self) -> None:
        """In a process that was forked off."""
        for drainer in list(self._drainers.values()):
            drainer.leave_to_parent()

    def _reap(self, now_s: float) -> None:
        with self._lock:
            over = [(name, one) for name, one in self._drainers.items() if one.is_over]
            for name, drainer in over:
                del self._drainers[name]
                self._counters = total([self._counters, drainer.counters()])
                if drainer.rest_s:
                    self._retired[name] = now_s + drainer.rest_s
        for name, drainer in over:
            if drainer.outcome:
                self._tell(name, drainer.outcome)

    def _tell(self, name: str, outcome: str) -> None:
        """A failure that stays the same is logged once."""
        with self._lock:
            is_new = self._told.get(name) != outcome
            self._told[name] = outcome
        if is_new and outcome.startswith("failed: "):
            _log.error("slot %r cannot be drained: %s", name, outcome.removeprefix("failed: "))

    def _start_some(self, now_s: float) -> None:
        def cannot_be_listed(name: str, error: OSError) -> None:
            self._tell(name, f"failed: {error}")

        try:
            names = slot.orphans(
                self._fs, self._sf_dir, own_id=self._profile.sender_id, on_error=cannot_be_listed
            )
        except OSError as error:
            _log.error("the slots of others cannot be looked for: %s", error)
            return
        for name in names:
            if len(self._drainers) >= self._most:
                return
            if name not in self._drainers and now_s >= self._retired.get(name, 0.0):
                self._start(name)

    def _start(self, name: str) -> None:
        with contextlib.suppress(OSError):  # the drainer meets it, too, and says so
            if holder(self._fs, f"{self._sf_dir}/{name}") is not None:
                return  # it has an owner
        settings = SpoolSettings(
            sf_dir=self._sf_dir,
            sender_id=name,
            segment_bytes=self._profile.sf_max_segment_bytes,
            total_bytes_max=self._profile.sf_max_total_bytes,
        )
        profile = msgspec.structs.replace(self._profile, sender_id=name)
        drainer = Drainer(settings, profile, self._fs, self._clock, self._inbox, self._roll)
        with self._lock:
            if self._is_closing:
                return
            self._drainers[name] = drainer
            drainer.start()


class Drainer:
    """One slot, its own connection and thread, on which the slot is also opened: that may mean
    reading gigabytes."""

    def __init__(
        self,
        settings: SpoolSettings,
        profile: Profile,
        fs: Filesystem,
        clock: Clock,
        inbox: Inbox,
        roll: Callable[[], float],
    ) -> None:
        self.outcome = ""  # nothing to tell: the slot has an owner
        self.rest_s = 0.0  # how long to leave the slot alone afterwards
        self.is_over = False
        self._settings = settings
        self._profile = profile
        self._fs = fs
        self._clock = clock
        self._inbox = inbox
        self._roll = roll
        self._name = f"penstock-drain {profile.sender_id}"
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._lock = threading.Lock()  # guards the next three
        self._spool: Spool | None = None
        self._courier: Courier | None = None
        self._is_stopping = False

    def start(self) -> None:
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return self._courier is not None

    def counters(self) -> Counters:
        with self._lock:
            if self._courier is None or self._spool is None:
                return Counters()
            lost = self._spool.frames_lost
            return msgspec.structs.replace(self._courier.counters, frames_lost=lost)

    def stop(self) -> None:
        with self._lock:
            self._is_stopping = True
            courier = self._courier
        if courier is not None:
            courier.stop(0.0)

    def leave_to_parent(self) -> None:
        courier = self._courier
        if courier is not None:
            courier.leave_to_parent()

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
            pass  # somebody took it meanwhile
        except (SpoolHole, FormatTooNew) as error:
            self._fail(error, math.inf)
            if isinstance(error, SpoolHole):
                self._mark_failed(str(error))
        except (StorageError, Closed, OSError) as error:  # it may pass
            self._fail(error, _REST_S)
        except Exception as bug:  # noqa: BLE001 - a silent death would look like work
            _log.exception("the drainer of slot %r failed", self._settings.sender_id)
            self._fail(bug, math.inf)
        finally:
            self.is_over = True

    def _drain(self, spool: Spool) -> None:
        courier = Courier(
            spool, self._profile, self._clock, self._inbox, self._roll, name=self._name
        )
        with self._lock:
            if self._is_stopping:
                return
            self._spool, self._courier = spool, courier
            courier.start()
        sender_id = self._settings.sender_id
        _log.info("draining slot %r, which nobody owns", sender_id)
        try:
            tell_losses(spool, sender_id, self._inbox)
            self._wait(spool, courier)
        finally:
            courier.stop()
        if spool.acked_fsn >= spool.published_fsn:
            spool.slot.note_error(None)
            lost = spool.frames_lost
            self.outcome = f"drained, frames lost to damage: {lost}" if lost else "drained"
        elif courier.halted is not None:
            spool.slot.note_error(courier.halted.message)
            self.outcome = f"halted: {courier.halted.message}"
            self.rest_s = math.inf
        else:
            self.outcome = "left for later"
            self.rest_s = _LOOK_S

    def _wait(self, spool: Spool, courier: Courier) -> None:
        """Until everything is acknowledged, or nothing more will be; or the server is away, and
        the slot is free for its owner."""
        noted = ""
        while not courier.is_over and spool.acked_fsn < spool.published_fsn:
            courier.wait(lambda: courier.is_over or spool.acked_fsn >= spool.published_fsn, _BEAT_S)
            spool.upkeep()
            outage = courier.outage
            if outage is not None and outage.attempts and outage.why != noted:
                noted = outage.why
                spool.slot.note_error(noted)
            away_ms, attempts, _ = courier.absence()
            if away_ms > _AWAY_MS and attempts >= len(self._profile.hosts):  # none was left out
                return

    def _fail(self, error: Exception, rest_s: float) -> None:
        self.outcome = f"failed: {error}"
        self.rest_s = rest_s

    def _mark_failed(self, reason: str) -> None:
        """So that nobody tries it again before somebody has looked."""
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
