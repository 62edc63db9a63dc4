"""A data directory as of one moment, read beside whoever writes it. Nothing is locked or changed.

While somebody has the log open, only what that process has noted as synced is looked at: what is
behind it may still vanish with the power. Without one, what a killed process left behind is synced
here before anybody is shown it, as opening the log would do.

Files may go while they are looked for, since a checkpoint moves records from one to another: then
the look begins anew.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import Any, Final, cast

from penstock.clock import Clock, SystemClock
from penstock.engine import layout as layouts
from penstock.engine.block import place
from penstock.engine.layout import Layout
from penstock.engine.replay import recover
from penstock.engine.segments import shelf_of
from penstock.errors import CorruptFrame, InvalidArgument
from penstock.storage import snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.tiers.cold import filesystem_at
from penstock.storage.wal import files, mark
from penstock.topics.index import Topic
from penstock.topics.registry import Registry
from penstock.types import FloorMoved

_TRIES: Final = 20
_REST_S: Final = 0.02
_HINT = "run `penstock fsck` to see it, then `penstock repair`"


@dataclass(frozen=True, slots=True)
class View:
    """Topics as they were. Their records are read from the files, which may go later."""

    layout: Layout
    registry: Registry
    is_live: bool  # somebody had the log open
    cold: str = ""  # where its cold tier is, if it has one

    def topics(self) -> list[Topic]:
        """Sorted by name, without those that Penstock keeps for itself."""
        return [topic for topic in self.registry.all() if not topic.name.startswith("_")]

    def topic(self, name: str) -> Topic | None:
        return self.registry.get(name)


class _Moved(Exception):
    """A checkpoint went on meanwhile."""


def look(root: str, *, fs: Filesystem | None = None, clock: Clock | None = None) -> View:
    """The directory as of now. InvalidArgument when it is none, CorruptFrame when its WAL cannot
    be read."""
    root = root.rstrip("/") or "/"
    fs = fs or filesystem_at(root)
    clock = clock or SystemClock()
    woken = threading.Condition()  # by nobody: a rest
    for _ in range(_TRIES):
        with contextlib.suppress(_Moved):
            return _look(fs, root, clock)
        with woken:
            clock.wait(woken, _REST_S)
    raise CorruptFrame(
        root, reason="files keep moving while they are looked at", hint="try again, or ask a server"
    )


def pulse(root: str, *, fs: Filesystem | None = None) -> object:
    """Equal to an earlier one when nothing has come to the directory since. Cheap."""
    root = root.rstrip("/") or "/"
    fs = fs or filesystem_at(root)
    layout = layouts.read(fs, root) if fs.exists(root) else None
    if layout is None:
        return None
    is_live = fs.is_locked(layout.lock)
    ends = []
    for group in files.groups(fs, layout.wal):
        sizes = []
        if not is_live:
            with contextlib.suppress(FileNotFoundError):
                sizes = [(name, fs.size(f"{group}/{name}")) for name in fs.list(group)]
        ends.append((group, mark.read(fs, group), sizes))
    return is_live, snapshots.numbers(fs, layout.meta), ends


def _look(fs: Filesystem, root: str, clock: Clock) -> View:
    layout = layouts.read(fs, root) if fs.exists(root) else None
    if layout is None:
        raise InvalidArgument(
            f"{root} is not a Penstock data directory ({layouts.FORMAT_NAME} is not in it)"
        )
    is_live = fs.is_locked(layout.lock)
    seen: Filesystem = fs
    newest = max(snapshots.numbers(fs, layout.meta), default=0)
    if is_live:
        seen = cast("Filesystem", _Still(fs, layout))
    registry = Registry(place)
    try:
        shelf = shelf_of(fs, layout)
        found = recover(seen, layout, registry, shelf, is_live=is_live)
        if not is_live and not found.verdict.was_closed:
            for path in found.verdict.unsynced:
                _harden(fs, path)
    except FileNotFoundError:
        raise _Moved from None
    if is_live and max(snapshots.numbers(fs, layout.meta), default=0) != newest:
        raise _Moved
    if not is_live and fs.is_locked(layout.lock):
        raise _Moved  # somebody came, and may write behind what was taken for the end
    for flaw in found.verdict.damage:
        raise CorruptFrame(flaw.path, offset=flaw.offset, reason=flaw.reason, hint=_HINT)
    now_ms = clock.now_ms()
    for topic in registry.all():
        if topic.config.ttl_ms:
            expired = topic.expired_to(now_ms)
            if expired > topic.expiry_floor:
                registry.apply(FloorMoved(topic.id, topic.evict_floor, topic.earliest, expired))
    where = "" if shelf.cold is None else shelf.cold.tier.where
    return View(layout, registry, is_live, where)


def _harden(fs: Filesystem, path: str) -> None:
    file = fs.open(path)
    try:
        file.sync()
    finally:
        file.close()


class _Still:
    """The file system as far as it was synced when the look began: marks do not move, and what
    lies behind them is not there."""

    def __init__(self, fs: Filesystem, layout: Layout) -> None:
        self._fs = fs
        self._marks: dict[str, bytes] = {}
        self._ends: dict[str, tuple[int, int]] = {}
        for group in files.groups(fs, layout.wal):
            noted = mark.read(fs, group)
            self._ends[group] = (0, 0) if noted is None else (noted.index, noted.offset)
            self._marks[f"{group}/{mark.MARK_NAME}"] = b"" if noted is None else noted.encode()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open(self, path: str, *, writable: bool = False) -> Any:
        if path in self._marks:
            return _Fixed(self._marks[path])
        end = self._end(path)
        return self._fs.open(path, writable=writable) if end is None else _Fixed(self.map(path))

    def map(self, path: str) -> memoryview:
        whole = self._fs.map(path)
        end = self._end(path)
        return whole if end is None else whole[:end]

    def size(self, path: str) -> int:
        whole = self._fs.size(path)
        end = self._end(path)
        return whole if end is None else min(whole, end)

    def _end(self, path: str) -> int | None:
        """How much of a WAL file counts; None for all of it, and for every other file."""
        group, _, name = path.rpartition("/")
        if group not in self._ends or not name.startswith("wal-"):
            return None
        index, offset = self._ends[group]
        number = files.index_of(name)
        if number is None or number < index:
            return None
        return offset if number == index else 0


class _Fixed:
    """A file that is what it was."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self._data[offset : offset + size])

    def size(self) -> int:
        return len(self._data)

    def drop_cache(self) -> None:
        """There is nothing behind it."""

    def close(self) -> None:
        """Nor to let go of."""
