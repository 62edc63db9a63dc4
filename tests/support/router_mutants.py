"""Routers with one rule broken at a time, to see that the rig notices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from penstock.codec import kernel
from penstock.codec.entry import encode_entry
from penstock.engine import derive
from penstock.engine.derive import Deriver
from penstock.engine.forward import Forward, _Draft
from penstock.engine.replay import _Replay
from penstock.engine.trail import References
from penstock.storage.wal import recovery
from penstock.storage.wal.files import WalFile
from penstock.storage.wal.recovery import Item, Positions, Scan
from penstock.types import BatchStarted, CopiesLogged, Place

Patch = tuple[object, str, Callable[..., Any]]  # where, name, what instead


def _no_barrier() -> list[Patch]:
    """References reach back as far as they like."""

    def admit(self: References, needs: tuple[Place, ...]) -> object:
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

    return [(Forward, "_is_too_weak", lambda self, route: False)]


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

    def never(self: Forward, draft: _Draft) -> None:
        return None  # all copies are logged with their bytes

    return [(_Draft, "frames", apart), (Forward, "_known", never)]


def _past_the_end() -> list[Patch]:
    """Copies are derived from whatever can be read, also past a bad place."""

    def scan_file(fs: Any, file: WalFile, start: int = 0) -> Scan:
        buffer = fs.map(file.path)
        found: list[Item] = []
        at = start
        while 0 <= at < len(buffer):
            items, stop, _ = kernel.scan(buffer, at, len(buffer))
            found += items
            if stop >= len(buffer):
                break
            at = kernel.resync(buffer, stop + 1, len(buffer))
        return Scan(file, buffer, found, len(buffer))

    class _Recovery:
        read_control = staticmethod(recovery.read_control)
        forget_cached = staticmethod(recovery.forget_cached)

    _Recovery.scan_file = staticmethod(scan_file)  # type: ignore[attr-defined]
    return [(derive, "recovery", _Recovery)]


def _derived_without_routes() -> list[Patch]:
    """What the second of two routers copied is not derived from what the first one did."""
    derived = Deriver._derive

    def shallow(self: Deriver, entry: CopiesLogged, depth: int) -> list[Any]:
        return [] if depth else derived(self, entry, depth)

    return [(Deriver, "_derive", shallow)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "no barrier": _no_barrier,
    "no bound": _no_bound,
    "weak reference": _weak_reference,
    "applied twice": _applied_twice,
    "cursor apart": _cursor_apart,
    "past the end": _past_the_end,
    "one hop": _derived_without_routes,
}
