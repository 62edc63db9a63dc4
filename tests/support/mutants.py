"""The log with one promise broken at a time, to see that the rigs notice.

A rig that finds nothing proves something only if it would have found it. Each mutant replaces a
function or two of the real code, in this process.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from penstock.atomic_steps import Step
from penstock.codec import kernel, projection_options
from penstock.storage import atomic
from penstock.storage.fs import Buffer, Filesystem, OsFilesystem
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.shard import Shard
from penstock.testing.fs import MemoryFile, MemoryFilesystem

Patch = tuple[object, str, Callable[..., Any]]  # where, name, what instead

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


def _ack_before_fsync() -> list[Patch]:
    """An fsync record is acknowledged when it was written; the sync comes with the next tick."""
    submit = Shard.submit

    def hasty(self: Shard, commit: PendingCommit, steps: Iterable[Step] = ()) -> None:
        commit.durable = False
        submit(self, commit, steps)

    return [(Shard, "submit", hasty)]


def _visible_before_durable() -> list[Patch]:
    """Readers see a record when it was written; its writer still waits for the sync."""
    write = Shard._write

    def shows(self: Shard, commits: list[PendingCommit], size: int) -> None:
        write(self, commits, size)
        for commit in commits:
            if not commit.is_done and commit.publish is not None:
                commit.publish([commit], [], True)
                commit.publish = None

    return [(Shard, "_write", shows)]


def _no_directory_sync() -> list[Patch]:
    """Names are never made durable."""

    def forgets(self: object, path: str) -> None:
        pass

    return [(OsFilesystem, "sync_dir", forgets), (MemoryFilesystem, "sync_dir", forgets)]


def _rename_before_sync() -> list[Patch]:
    """A file gets its name before its content is durable."""

    def hurries(fs: Filesystem, path: str, parts: list[Buffer]) -> None:
        temporary = path + ".tmp"
        with contextlib.suppress(FileNotFoundError):
            fs.unlink(temporary)
        file = fs.create(temporary)
        offset = 0
        for part in parts:
            file.write_at(part, offset)
            offset += len(part)
        file.close()
        fs.rename(temporary, path)

    return [(atomic, "write_whole", hurries)]


def _sync_retried() -> list[Patch]:
    """A failed sync is tried again on the same descriptor, and believed."""
    sync = MemoryFile.sync

    def stubborn(self: MemoryFile) -> None:
        try:
            sync(self)
        except OSError:
            sync(self)

    return [(MemoryFile, "sync", stubborn)]


def _checksum_unchecked() -> list[Patch]:
    """Frames are taken as they come, if only their lengths make sense."""
    scan, project = kernel.scan, kernel.project

    def trusting(buffer: Buffer, start: int, end: int) -> object:
        data = bytearray(buffer)
        at = start
        while at + 46 <= end:
            (length,) = _U32.unpack_from(data, at)
            stop = at + 4 + length
            if length < 42 or stop > end:
                break
            _U64.pack_into(data, stop - 8, kernel.xxh3_64(bytes(data[at + 4 : stop - 8])))
            at = stop
        return scan(bytes(data), start, end)

    def careless(*given: Any) -> object:
        arguments = list(given)
        arguments[9] &= ~projection_options.VERIFY
        return project(*arguments)

    return [(kernel, "scan", trusting), (kernel, "project", careless)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "ack-before-fsync": _ack_before_fsync,
    "visible-before-durable": _visible_before_durable,
    "no-directory-sync": _no_directory_sync,
    "rename-before-sync": _rename_before_sync,
    "sync-retried": _sync_retried,
    "checksum-unchecked": _checksum_unchecked,
}


def apply(name: str | None) -> None:
    """Break this process for good; None leaves it as it is."""
    for where, attribute, instead in MUTANTS[name]() if name else ():
        setattr(where, attribute, instead)


@contextlib.contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Break this process for a while."""
    with contextlib.ExitStack() as stack:
        for where, attribute, instead in MUTANTS[name]() if name else ():
            stack.enter_context(mock.patch.object(where, attribute, instead))
        yield
