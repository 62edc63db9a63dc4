"""A data directory as of one moment, read while another process may write it. Nothing is locked or
changed.

While a process has the log open, only bytes that it has marked as synced are read: later bytes may
be lost in a power cut. Otherwise the writes of a killed process are synced here before they are
read, as opening the log would do.

A checkpoint may remove files during the read: then the read begins again.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import Any, Final, cast

from penstock.clock import Clock, SystemClock
from penstock.directory import log_identity
from penstock.directory.block import place
from penstock.directory.log_identity import DataLayout
from penstock.directory.replay import recover
from penstock.directory.segments import shelf_of
from penstock.entries import FloorMoved
from penstock.errors import CorruptFrame, InvalidArgument
from penstock.storage import snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.tiers.cold import filesystem_at
from penstock.storage.wal import durable_mark, files
from penstock.topics import validation
from penstock.topics.registry import Registry
from penstock.topics.topic import Topic

_TRIES: Final = 20
_REST_S: Final = 0.02
_HINT = "run `penstock fsck` to see it, then `penstock repair`"


@dataclass(frozen=True, slots=True)
class DirectoryView:
    """The topics as of that moment. Their records are read from the files, which may be removed
    later."""

    layout: DataLayout
    registry: Registry
    is_live: bool  # somebody had the log open
    cold: str = ""  # where its cold tier is, if it has one

    def topics(self) -> list[Topic]:
        """Sorted by name, without internal topics."""
        return [topic for topic in self.registry.all() if not validation.is_internal(topic.name)]

    def topic(self, name: str) -> Topic | None:
        return self.registry.get(name)


class _Moved(Exception):
    """A checkpoint removed a file meanwhile."""


def look(root: str, *, fs: Filesystem | None = None, clock: Clock | None = None) -> DirectoryView:
    """The present state of the directory. InvalidArgument when it is not a data directory,
    CorruptFrame when its WAL cannot be read."""
    root = root.rstrip("/") or "/"
    fs = fs or filesystem_at(root)
    clock = clock or SystemClock()
    woken = threading.Condition()  # never notified: only a pause
    for _ in range(_TRIES):
        with contextlib.suppress(_Moved):
            return _look(fs, root, clock)
        with woken:
            clock.wait(woken, _REST_S)
    raise CorruptFrame(
        root,
        reason="files were moved during each attempt to read them",
        hint="retry, or read from a server",
    )


def pulse(root: str, *, fs: Filesystem | None = None) -> object:
    """A cheap value that is unchanged while nothing is added to the directory."""
    root = root.rstrip("/") or "/"
    fs = fs or filesystem_at(root)
    layout = log_identity.read(fs, root) if fs.exists(root) else None
    if layout is None:
        return None
    is_live = fs.is_locked(layout.lock)
    ends = []
    for group in files.groups(fs, layout.wal):
        sizes = []
        if not is_live:
            with contextlib.suppress(FileNotFoundError):
                sizes = [(name, fs.size(f"{group}/{name}")) for name in fs.list(group)]
        ends.append((group, durable_mark.read(fs, group), sizes))
    return is_live, snapshots.numbers(fs, layout.meta), ends


def _look(fs: Filesystem, root: str, clock: Clock) -> DirectoryView:
    layout = log_identity.read(fs, root) if fs.exists(root) else None
    if layout is None:
        raise InvalidArgument(
            f"{root} is not a Penstock data directory ({log_identity.FORMAT_NAME} is not in it)"
        )
    is_live = fs.is_locked(layout.lock)
    seen: Filesystem = fs
    newest = max(snapshots.numbers(fs, layout.meta), default=0)
    if is_live:
        seen = cast("Filesystem", _Still(fs, layout))
    registry = Registry(place)
    try:
        shelf = shelf_of(fs, layout)
        now_ms = clock.now_ms()
        found = recover(seen, layout, registry, shelf, now_ms=now_ms, is_live=is_live)
        if not is_live and not found.verdict.was_closed:
            for path in found.verdict.unsynced:
                _sync_files(fs, path)
    except FileNotFoundError:
        raise _Moved from None
    if is_live and max(snapshots.numbers(fs, layout.meta), default=0) != newest:
        raise _Moved
    if not is_live and fs.is_locked(layout.lock):
        raise _Moved  # another process has opened it, and may write past the assumed end
    for flaw in found.verdict.damage:
        raise CorruptFrame(flaw.path, offset=flaw.offset, reason=flaw.reason, hint=_HINT)
    for topic in registry.all():
        if topic.config.ttl_ms:
            expired = topic.expired_to(now_ms)
            if expired > topic.expiry_floor:
                registry.apply(FloorMoved(topic.id, topic.evict_floor, topic.earliest, expired))
    where = "" if shelf.cold is None else shelf.cold.tier.where
    return DirectoryView(layout, registry, is_live, where)


def _sync_files(fs: Filesystem, path: str) -> None:
    file = fs.open(path)
    try:
        file.sync()
    finally:
        file.close()


class _Still:
    """The file system up to the synced positions at the start of the read: marks do not change, and
    later bytes do not exist."""

    def __init__(self, fs: Filesystem, layout: DataLayout) -> None:
        self._fs = fs
        self._marks: dict[str, bytes] = {}
        self._ends: dict[str, tuple[int, int]] = {}
        for group in files.groups(fs, layout.wal):
            noted = durable_mark.read(fs, group)
            self._ends[group] = (0, 0) if noted is None else (noted.index, noted.offset)
            self._marks[f"{group}/{durable_mark.MARK_NAME}"] = (
                b"" if noted is None else noted.encode()
            )

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
        """The bytes of a WAL file that count; None for all of it, and for every other file."""
        group, _, name = path.rpartition("/")
        if group not in self._ends or not name.startswith("wal-"):
            return None
        index, offset = self._ends[group]
        number = files.index_of(name)
        if number is None or number < index:
            return None
        return offset if number == index else 0


class _Fixed:
    """A file that does not grow."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data

    def read_at(self, offset: int, size: int) -> bytes:
        return bytes(self._data[offset : offset + size])

    def size(self) -> int:
        return len(self._data)

    def drop_cache(self) -> None:
        """There is no cache to drop."""

    def close(self) -> None:
        """There is nothing to close."""
