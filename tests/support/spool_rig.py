"""A spool on the modelled disk, driven from a seed and stopped at every operation.

The ledger says what the sender was promised at that instant; `check` opens what a crash left and
holds it against the ledger.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from penstock.errors import SpoolFailed, SpoolFull
from penstock.sender.opening import open_spool
from penstock.sender.settings import Durability, SpoolSettings
from penstock.sender.slot import Rejection
from penstock.sender.spool import Spool
from penstock.testing import MemoryFilesystem
from penstock.testing.clock import FakeClock
from penstock.wire.spool_frame import decode_frame

SLOT = "/sf/edge"
SEGMENT_BYTES = 4096
INTERVAL_S = 2.0

Key = tuple[bytes, int]  # incarnation, fsn


@dataclass
class Ledger:
    """What was asked for and what was promised."""

    tried: dict[Key, set[bytes]] = field(default_factory=dict)  # every payload of an append
    published: dict[Key, bytes] = field(default_factory=dict)  # of every append that returned
    stored_at: dict[int, float] = field(default_factory=dict)
    incarnations: set[bytes] = field(default_factory=set)
    acked: int = -1  # asked for, not more
    refused: dict[int, bytes] = field(default_factory=dict)  # reject was called; with payload
    synced: int = -1  # every frame up to here was due before the last upkeep ended

    def copy(self) -> Ledger:
        return replace(
            self,
            tried={key: set(values) for key, values in self.tried.items()},
            published=dict(self.published),
            stored_at=dict(self.stored_at),
            incarnations=set(self.incarnations),
            refused=dict(self.refused),
        )


@dataclass(frozen=True)
class Moment:
    """Just before one operation."""

    fs: MemoryFilesystem
    ledger: Ledger
    what: str


def settings(durability: Durability) -> SpoolSettings:
    return SpoolSettings(
        sf_dir="/sf",
        sender_id="edge",
        segment_bytes=SEGMENT_BYTES,
        total_bytes_max=8 * SEGMENT_BYTES,
        durability=durability,
        sync_interval_s=INTERVAL_S,
    )


class SpoolRig:
    """One run. `moments` are collected while it goes."""

    def __init__(self, seed: int, durability: Durability, *, faults: bool = False) -> None:
        self._random = random.Random(seed)
        self._durability: Durability = durability
        self._faults = faults
        self.fs = MemoryFilesystem()
        self.clock = FakeClock()
        self.ledger = Ledger()
        self.moments: list[Moment] = []
        self.spool = self._open()
        self.fs.on_operation = self._remember

    def run(self, steps: int) -> list[Moment]:
        for _ in range(steps):
            self._step()
        self.moments.append(Moment(self.fs.copy(), self.ledger.copy(), "the end"))
        return self.moments

    def _remember(self, index: int, kind: str, path: str) -> None:
        self.moments.append(Moment(self.fs.copy(), self.ledger.copy(), f"{index} {kind} {path}"))

    def _open(self) -> Spool:
        spool = open_spool(
            settings(self._durability),
            fs=self.fs,
            clock=self.clock,
            random_bytes=self._random.randbytes,
        )
        assert spool.incarnation not in self.ledger.incarnations
        self.ledger.incarnations.add(spool.incarnation)
        return spool

    def _step(self) -> None:
        chance = self._random.random()
        if chance < 0.6:
            self._append()
        elif chance < 0.75:
            self._ack()
        elif chance < 0.8:
            self._reject()
        elif chance < 0.95:
            self._upkeep()
        elif chance < 0.98:
            self.clock.advance(self._random.randrange(3000))
        else:
            self._reopen()

    def _append(self) -> None:
        if self._faults and self._random.random() < 0.1:
            kind = self._random.choice(("write", "sync", "allocate", "rename", "sync_dir"))
            self.fs.fail(kind, path=SLOT, short=100 if kind == "write" else None)
        key = (self.spool.incarnation, self.spool.published_fsn + 1)
        size = self._random.choice((0, 10, 200, 1500, 3000))
        payload = b"%d:" % self._random.getrandbits(60) + self._random.randbytes(size)
        self.ledger.tried.setdefault(key, set()).add(payload)
        try:
            fsn = self.spool.append([payload[:5], payload[5:]])
        except (SpoolFull, SpoolFailed):
            self._drain()
            return
        finally:
            self.fs.heal()
        assert fsn == key[1]
        self.ledger.published[key] = payload
        self.ledger.stored_at[fsn] = self.clock.monotonic()

    def _drain(self) -> None:
        self.ledger.acked = max(self.ledger.acked, self.spool.published_fsn)
        self.spool.ack(self.spool.published_fsn)
        self._upkeep()

    def _ack(self) -> None:
        unacked = self.spool.published_fsn - self.spool.acked_fsn
        if unacked:
            fsn = self.spool.acked_fsn + self._random.randint(1, unacked)
            self.ledger.acked = max(self.ledger.acked, fsn)
            self.spool.ack(fsn)

    def _reject(self) -> None:
        fsn = self.spool.acked_fsn + 1
        if fsn > self.spool.published_fsn:
            return
        (stored,) = self.spool.read(fsn, 0)
        if stored.data is not None:
            self.ledger.refused[fsn] = decode_frame(stored.data)[1]
        with contextlib.suppress(SpoolFailed):
            self.spool.reject(fsn, Rejection("SCHEMA_MISMATCH", 3, "no"))

    def _upkeep(self) -> None:
        now = self.clock.monotonic()
        due = [fsn for fsn, at in self.ledger.stored_at.items() if at + INTERVAL_S <= now]
        failed = self._faults and self._random.random() < 0.2
        if failed:
            self.fs.fail(self._random.choice(("sync", "write", "unlink")), path=SLOT)
        wait = self.spool.maintain()
        self.fs.heal()
        is_retry = wait == 1.0  # it says that something failed
        if not is_retry:
            self.ledger.synced = max([self.ledger.synced, *due])

    def _reopen(self) -> None:
        if self._random.random() < 0.5:
            self.spool.close()
            self.fs.on_operation = None
        else:
            self.fs.on_operation = None
            self.fs = self.fs.kill()
        self.spool = self._open()
        self.fs.on_operation = self._remember


def check(fs: MemoryFilesystem, moment: Moment, promised: set[int], durability: Durability) -> None:
    """Open what is left, hold it against the ledger, and see that it goes on."""
    ledger = moment.ledger
    incarnation = b"fresh one" + bytes(7)
    spool = open_spool(
        replace(settings(durability), total_bytes_max=1 << 20),
        fs=fs,
        clock=FakeClock(),
        random_bytes=lambda _: incarnation,
    )
    found = dict(_walk(spool, ledger))

    missing = {fsn for fsn in promised if fsn > spool.acked_fsn} - found.keys()
    assert not missing, f"frames {sorted(missing)} are lost, {spool.damage}"
    passed = {fsn for fsn in promised if ledger.acked < fsn <= spool.acked_fsn}
    assert passed <= ledger.refused.keys(), f"{sorted(passed)} were passed by"
    for fsn, payload in ledger.refused.items():
        if ledger.acked < fsn <= spool.acked_fsn and fsn in promised:
            letters = {note["fsn"]: note for note in spool.slot.dead_letters()}
            assert fsn in letters, f"refused frame {fsn} is passed and was not kept"
            frame = spool.slot.dead_letter(fsn, bytes.fromhex(letters[fsn]["incarnation"]))
            assert decode_frame(frame) == (fsn, payload)
    fsn = spool.append([b"goes on"])
    assert fsn > max([-1, *found]), "a number is used twice"
    assert (incarnation, fsn) not in ledger.tried


def _walk(spool: Spool, ledger: Ledger) -> Iterator[tuple[int, bytes]]:
    at = spool.acked_fsn + 1
    while batch := spool.read(at, 10_000):
        for stored in batch:
            at = stored.fsn + 1
            if stored.data is None:
                continue
            fsn, payload = decode_frame(stored.data)
            assert fsn == stored.fsn
            key = (stored.incarnation, fsn)
            assert payload in ledger.tried.get(key, ()), f"nobody ever stored this as {fsn}"
            if key in ledger.published:
                assert payload == ledger.published[key], f"frame {fsn} is another one now"
            yield fsn, payload


def promised_after_kill(ledger: Ledger) -> set[int]:
    return {fsn for _, fsn in ledger.published}


def promised_after_power_cut(ledger: Ledger, durability: Durability) -> set[int]:
    if durability == "append":
        return {fsn for _, fsn in ledger.published}
    if durability == "periodic":
        return {fsn for _, fsn in ledger.published if fsn <= ledger.synced}
    return set()


def explore(
    seed: int,
    durability: Durability,
    *,
    steps: int,
    states: int,
    stride: int = 1,
    faults: bool = False,
) -> int:
    """Run, crash at every operation (or every `stride`-th), check everything. Returns how many
    crashes were tried."""
    tried = 0
    for moment in SpoolRig(seed, durability, faults=faults).run(steps)[seed % stride :: stride]:
        ledger = moment.ledger
        note = f"seed {seed}, {durability}, before {moment.what}"
        try:
            promised = promised_after_power_cut(ledger, durability)
            for state in moment.fs.crash_states(states):
                tried += 1
                check(state, moment, promised, durability)
            tried += 1
            if not faults:  # a failed sync loses what a kill would have kept
                promised = promised_after_kill(ledger)
            check(moment.fs.kill(), moment, promised, durability)
        except Exception as error:
            raise AssertionError(f"{note}: {type(error).__name__}: {error}") from error
    return tried
