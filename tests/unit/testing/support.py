"""Fates and files for the tests of the memory file system."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.storage.fs import File
from penstock.testing import Fate, MemoryFilesystem, Pending
from penstock.testing.crash import LAND, VANISH, Choose


def landing(change: Pending) -> Fate:
    return LAND


def vanishing(change: Pending) -> Fate:
    return VANISH


def only(kind: str, fate: Fate) -> Choose:
    """This fate for one kind of change; the others land."""
    return lambda change: fate if change.kind == kind else LAND


def settled(fs: MemoryFilesystem, path: str, data: bytes) -> File:
    """A file whose name and bytes are durable."""
    file = fs.create(path)
    file.write_at(data, 0)
    file.sync()
    fs.sync_dir("/")
    return file


def contents(states: Iterable[MemoryFilesystem], path: str) -> set[bytes | None]:
    return {state.read(path) if state.exists(path) else None for state in states}
