"""Slots that their senders left behind with frames in them: drained for whoever asks for it.

They are looked for again and again, so that a slot whose owner dies later is found, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.errors import Closed, SlotInUse, SpoolHole, StorageError
from penstock.sender import slot
from penstock.sender.courier import Courier
from penstock.sender.inbox import Inbox
from penstock.sender.opening import open_spool
from penstock.sender.profile import Profile
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Slot
from penstock.sender.spool import Spool
from penstock.storage.fs import Filesystem, OsFilesystem

_LOOK_S: Final = 10.0
_BEAT_S: Final = 0.5  # between two looks of a drainer after its spool
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
    ) -> None:
        self._profile = profile
        self._clock = clock
        self._inbox = inbox
        self._roll = roll
        self._fs = fs or OsFilesystem()
        self._drainers: dict[str, Drainer] = {}
        self._told: dict[str, str] = {}  # what became of slots
        self._retired: set[str] = set()  # not tried again by this sender
        self._looked_s: float | None = None
        wanted = profile.drain_orphans and profile.is_disk
        self._most = profile.max_background_drainers if wanted else 0

    def look(self) -> float | None:
        """Start and end drainers; when to look again, in seconds."""
        if not self._most:
            return None
        for name, drainer in list(self._drainers.items()):
            if drainer.is_over:
                self._told[name] = drainer.outcome
                if not drainer.is_drained:
                    self._retired.add(name)
                del self._drainers[name]
        now_s = self._clock.monotonic()
        if self._looked_s is None or now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self._start_some()
        return _BEAT_S if self._drainers else self._looked_s + _LOOK_S - now_s

    def report(self) -> dict[str, str]:
        """Slots of others, and what became of them or is being done."""
        return {**self._told, **dict.fromkeys(list(self._drainers), "draining")}

    def close(self) -> None:
        """What is not drained stays for the next one."""
        drainers = list(self._drainers.values())
        for drainer in drainers:
            drainer.stop()
        for drainer in drainers:
            drainer.join(3.0)

    def _start_some(self) -> None:
        sf_dir = self._profile.sf_dir or ""
        try:
            names = slot.orphans(self._fs, sf_dir, own_id=self._profile.sender_id)
        except OSError as error:
            _log.error("the slots of others cannot be looked for: %s", error)
            return
        for name in names:
            if len(self._drainers) >= self._most:
                return
            if name not in self._drainers and name not in self._retired:
                self._start(sf_dir, name)

    def _start(self, sf_dir: str, name: str) -> None:
        settings = SpoolSettings(
            sf_dir=sf_dir, sender_id=name, segment_bytes=self._profile.sf_max_segment_bytes
        )
        try:
            spool = open_spool(settings, fs=self._fs, clock=self._clock)
        except SlotInUse:
            return  # it has an owner
        except SpoolHole as error:
            self._give_up(sf_dir, name, str(error))
            return
        except (StorageError, OSError) as error:  # it may pass, or not be ours to open
            _log.error("slot %r cannot be opened: %s", name, error)
            self._told[name] = f"failed: {error}"
            self._retired.add(name)
            return
        profile = msgspec.structs.replace(self._profile, sender_id=name)
        _log.info("draining slot %r, which nobody owns", name)
        self._drainers[name] = Drainer(spool, profile, self._clock, self._inbox, self._roll)

    def _give_up(self, sf_dir: str, name: str, reason: str) -> None:
        _log.error("slot %r cannot be drained: %s", name, reason)
        self._told[name] = f"failed: {reason}"
        self._retired.add(name)
        try:
            held = Slot.open(self._fs, f"{sf_dir}/{name}")
        except (StorageError, OSError):
            return
        try:
            held.mark_failed(reason)
        except OSError as error:
            _log.error("slot %r cannot be marked: %s", name, error)
        finally:
            held.release()


class Drainer:
    """One slot, its own connection and thread."""

    def __init__(
        self, spool: Spool, profile: Profile, clock: Clock, inbox: Inbox, roll: Callable[[], float]
    ) -> None:
        self.outcome = "draining"
        self.is_drained = False
        self.is_over = False
        self._spool = spool
        name = f"penstock-drain {profile.sender_id}"
        self._courier = Courier(spool, profile, clock, inbox, roll, name=name)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._courier.start()
        self._thread.start()

    def stop(self) -> None:
        self._courier.stop(0.0)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        spool, courier = self._spool, self._courier
        noted = ""
        try:
            while not courier.is_over and spool.acked_fsn < spool.published_fsn:
                courier.wait(
                    lambda: courier.is_over or spool.acked_fsn >= spool.published_fsn, _BEAT_S
                )
                spool.upkeep()
                outage = courier.outage
                if outage is not None and outage.attempts and outage.why != noted:
                    noted = outage.why
                    spool.slot.note_error(noted)
            courier.stop()
            self.is_drained = spool.acked_fsn >= spool.published_fsn
            if self.is_drained:
                spool.slot.note_error(None)
                self.outcome = "drained"
            elif courier.halted is not None:
                spool.slot.note_error(courier.halted.message)
                self.outcome = f"halted: {courier.halted.message}"
            else:
                self.outcome = "left for later"
        except (StorageError, Closed, OSError) as error:
            self.outcome = f"failed: {error}"
        finally:
            courier.stop()
            try:
                spool.close()
            except StorageError as error:
                self.outcome = f"failed: {error}"
            self.is_over = True
