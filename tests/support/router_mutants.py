"""Routers with one rule broken at a time, to see that the rig notices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from unittest import mock

from penstock.codec import kernel
from penstock.codec.entry import encode_entry
from penstock.directory import router_replay
from penstock.directory.replay import _Replay
from penstock.directory.router_replay import RouterReplay
from penstock.engine.copy_references import CopyReferences
from penstock.engine.core import LogCore
from penstock.engine.opening import LogContext
from penstock.engine.router_step import RouterSteps, _Draft
from penstock.engine.wal_positions import References, WalStep
from penstock.entries import BatchStarted, CopiesLogged, WalRange
from penstock.storage.wal import recovery
from penstock.storage.wal.files import WalFile
from penstock.storage.wal.recovery import Item, Positions, WalFileScan
from penstock.storage.wal.shard import Shard
from penstock.topics import gaps

Patch = tuple[object, str, Callable[..., Any]]  # where, name, what instead


def _no_barrier() -> list[Patch]:
    """References reach back as far as they like."""

    def admit(self: References, needs: tuple[WalRange, ...]) -> object:
        token = object()
        self._under_way[token] = needs
        return token

    return [(References, "admit", admit)]


def _no_bound() -> list[Patch]:
    """A checkpoint does not look at the references under way."""

    def bound(self: References, take_positions: Callable[[], Positions]) -> Positions:
        positions = take_positions()
        self._barrier = dict(positions)
        return positions

    return [(References, "bound", bound)]


def _weak_reference() -> list[Patch]:
    """An fsync topic refers to what nobody has synced."""

    return [(CopyReferences, "is_too_weak", lambda self, route: False)]


def _applied_twice() -> list[Patch]:
    """Replay forgets that the snapshot has some of the steps already."""
    copies, routed = _Replay._copies, _Replay._routed

    def forgetful(of: Callable[..., None]) -> Callable[..., None]:
        def apply(self: _Replay, entry: Any, position: tuple[int, int]) -> None:
            topic = self._registry.by_id(entry.topic_id)
            known = None if topic is None else topic.position
            if topic is not None:
                topic.position = (0, 0)
            of(self, entry, position)
            if topic is not None and known is not None:
                topic.position = max(known, topic.position)

        return apply

    return [(_Replay, "_copies", forgetful(copies)), (_Replay, "_routed", forgetful(routed))]


def _cursor_apart() -> list[Patch]:
    """Where the router stands is an entry of its own, before the copies."""

    frames = _Draft.frames

    def apart(self: _Draft) -> bytes:
        copies = self.copies
        if copies is None or self.step is not None:
            return frames(self)
        moved = dataclasses.replace(self.logged(), lost=0)
        started = BatchStarted(copies.topic_id, copies.first_seq, copies.count, b"", self.ts, "", 0)
        return encode_entry(moved, self.ts) + encode_entry(started, self.ts) + copies.frames

    def never(self: CopyReferences, *given: Any) -> None:
        return None  # all copies are logged with their bytes

    return [(_Draft, "frames", apart), (CopyReferences, "_positions", never)]


def _past_the_end() -> list[Patch]:
    """Copies are derived from whatever can be read, also past a bad place."""

    def scan_file(fs: Any, file: WalFile, start: int = 0) -> WalFileScan:
        buffer = fs.map(file.path)
        found: list[Item] = []
        at = start
        while 0 <= at < len(buffer):
            items, stop, _ = kernel.scan(buffer, at, len(buffer))
            found += items
            if stop >= len(buffer):
                break
            at = kernel.resync(buffer, stop + 1, len(buffer))
        return WalFileScan(file, buffer, found, len(buffer))

    class _Recovery:
        read_control = staticmethod(recovery.read_control)
        forget_cached = staticmethod(recovery.forget_cached)

    _Recovery.scan_file = staticmethod(scan_file)  # type: ignore[attr-defined]
    return [(router_replay, "recovery", _Recovery)]


def _derived_without_routes() -> list[Patch]:
    """What the second of two routers copied is not derived from what the first one did."""
    derived = RouterReplay._derive

    def shallow(self: RouterReplay, entry: CopiesLogged, depth: int) -> list[Any]:
        return [] if depth else derived(self, entry, depth)

    return [(RouterReplay, "_derive", shallow)]


def _hops_forgotten() -> list[Patch]:
    """Each loss is news to everyone."""

    return [(gaps, "loss_hops", lambda topic, seq: 0)]


def _soft_source() -> list[Patch]:
    """Copies with bytes of their own, of what the source has not synced."""
    find = CopyReferences.find

    def soft(self: CopyReferences, *given: Any) -> tuple[WalStep | None, object]:
        with mock.patch.object(Shard, "sync_all"):
            return find(self, *given)

    return [(CopyReferences, "find", soft)]


def _position_in_memory() -> list[Patch]:
    """A RAM-only destination forgets how far its router came."""

    def keep(self: RouterSteps, draft: _Draft, *, has_records: bool) -> None:
        dest = draft.route.dest
        self._reserve(dest, max(draft.loss.lost, draft.page.count))
        with dest.lock:
            self._begin(draft, has_records=has_records)
            self._journal.apply_unlogged(dest, (draft.entry,))
            dest.next_seq += draft.count
            dest.last_ts = draft.ts
        draft.route.staged = draft.cursor

    return [(RouterSteps, "_keep", keep)]


def _routers_first() -> list[Patch]:
    """The routers of a topic go before it does."""

    def drop(self: LogCore, topic: str) -> bool:
        handle = self.catalogue.get(topic)
        self.routing.end_routers_of(handle, self.routing.stop_routers_of(handle))
        self.catalogue.drop(handle)
        return True

    return [(LogCore, "drop", drop)]


def _no_boot_claimed() -> list[Patch]:
    """As long as losses are not logged, marks claim no boot."""
    start = LogContext._start_shards

    def claimless(self: LogContext) -> list[Shard]:
        if self.recovered.lost:
            self.recovered.verdict.boot_ids = {}
            self.recovered.verdict.last_boot_id = ""
        return start(self)

    return [(LogContext, "_start_shards", claimless)]


def _class_on_credit() -> list[Patch]:
    """A topic becomes fsync, and what its copies count on is not synced."""

    return [(LogCore, "sync_all", lambda self, handle: None)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "no barrier": _no_barrier,
    "no bound": _no_bound,
    "weak reference": _weak_reference,
    "applied twice": _applied_twice,
    "cursor apart": _cursor_apart,
    "past the end": _past_the_end,
    "one hop": _derived_without_routes,
    "hops forgotten": _hops_forgotten,
    "soft source": _soft_source,
    "position in memory": _position_in_memory,
    "routers first": _routers_first,
    "no boot claimed": _no_boot_claimed,
    "class on credit": _class_on_credit,
}
