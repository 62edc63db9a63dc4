"""The file system as the engine sees it: a small protocol and the real one.

Every read and write of a disk passes through here, so that tests can make each fail, tear it, lose
it or count it. Calls raise OSError; nothing here retries a sync.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from penstock import forks
from penstock.storage import mounts
from penstock.storage.nonblocking_write import BRIEF

Buffer = bytes | bytearray | memoryview
_HAS_PWRITEV = hasattr(os, "pwritev")
# macOS: fsync alone leaves data in the drive's cache.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
# A mapping keeps a descriptor of its own open for as long as it lives, and those are few.
_COPY_BYTES_MAX = 64 * 1024
_LOOKERS_MAX = 50  # one after the other
_LOOK_S = 0.002


class File(Protocol):
    """One open file. It has no current offset: every call passes one."""

    def write_at(self, data: Buffer, offset: int) -> None:
        """Write all of `data`; a short write is continued. Not durable until `sync`."""

    def write_parts_at(
        self, parts: Sequence[Buffer], offset: int, *, is_brief: bool = False
    ) -> None:
        """Write several buffers as one write. With `is_brief`, for some KiB into allocated space,
        other threads do not interrupt it."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""

    def size(self) -> int:
        """Length in bytes."""

    def allocate(self, size: int) -> None:
        """Reserve real blocks up to `size`; new bytes read as zero."""

    def truncate(self, size: int) -> None:
        """Cut or extend with zeros."""

    def sync(self) -> None:
        """Return once the data, and the size needed to read it, survive a power cut.

        After an OSError the data may be gone although a second call would succeed: the caller
        must stop writing to this file.
        """

    def drop_cache(self) -> None:
        """Drop the cached pages, so that the next read comes from the disk. A hint."""

    def close(self) -> None:
        """Close; may be repeated."""


class DirectoryLock(Protocol):
    """Held until released or the process dies."""

    def release(self) -> None:
        """Release the lock; may be called again."""


class Filesystem(Protocol):
    """The file system operations that the engine needs. Paths are absolute strings."""

    def create(self, path: str) -> File:
        """Create an empty file for reading and writing; FileExistsError if it exists.

        Its name survives a power cut only after `sync_dir` of its directory.
        """

    def open(self, path: str, *, writable: bool = False) -> File:
        """Open an existing file."""

    def map(self, path: str) -> memoryview:
        """The whole file, read-only; mapped, unless it is so small that a copy is cheaper."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; [] when there is no such directory."""

    def make_dirs(self, path: str) -> None:
        """Create a directory and its parents, durably; fine when it exists."""

    def rename(self, source: str, target: str) -> None:
        """Replace `target` atomically. Durable only after `sync_dir`."""

    def unlink(self, path: str) -> None: ...

    def remove_dir(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Return once creations, renames and removals in this directory are durable."""

    def lock(self, path: str) -> DirectoryLock:
        """Take the exclusive lock file or raise BlockingIOError with the holder's pid as text."""

    def is_locked(self, path: str) -> bool:
        """True if a process holds the lock now. The check may delay another process that takes it,
        but only for an instant."""

    def network_kind(self, path: str) -> str:
        """The type of the network file system that holds `path`, or will; empty if it is local, or
        unknown."""

    def boot_id(self) -> str:
        """Changes whenever unsynced data could have been lost by a restart of the machine."""


class OsFile:
    """A file descriptor. One that can be written belongs to the process that opened it: in a forked
    child it is closed, and every call fails."""

    __slots__ = ("__weakref__", "_fd", "path")

    def __init__(self, fd: int, path: str, *, writable: bool) -> None:
        self._fd = fd
        self.path = path
        if writable:
            forks.add(self)

    def write_at(self, data: Buffer, offset: int) -> None:
        written = os.pwrite(self._fd, data, offset)
        if written == len(data):
            return
        view = memoryview(data)
        while written < len(view):
            step = os.pwrite(self._fd, view[written:], offset + written)
            if step <= 0:
                raise OSError(errno.EIO, "the disk accepted no more bytes", self.path)
            written += step

    def write_parts_at(
        self, parts: Sequence[Buffer], offset: int, *, is_brief: bool = False
    ) -> None:
        if is_brief:
            data = b"".join(parts)
            written = BRIEF.write(self._fd, data, offset)
            if written < len(data):
                self.write_at(data[written:], offset + written)
        elif _HAS_PWRITEV:
            written = os.pwritev(self._fd, parts, offset)
            if written < sum(map(len, parts)):
                self.write_at(b"".join(parts)[written:], offset + written)
        else:
            self.write_at(b"".join(parts), offset)

    def read_at(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            if size > self.size():
                os.ftruncate(self._fd, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        if _FULL_SYNC is None:
            os.fdatasync(self._fd)
        else:
            fcntl.fcntl(self._fd, _FULL_SYNC)

    def drop_cache(self) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def leave_to_parent(self) -> None:
        self.close()


class OsLock:
    """An flock on a file that also contains the pid of its holder."""

    __slots__ = ("__weakref__", "_fd", "_pid")

    def __init__(self, path: str) -> None:
        self._pid = os.getpid()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        forks.add(self)
        try:
            self._take()
        except BlockingIOError as error:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            self._fd = -1
            raise BlockingIOError(error.errno, holder, path) from None
        with contextlib.suppress(OSError):  # the name is for people; a full disk has no room for it
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def _take(self) -> None:
        """Take the lock without waiting, except for an instant while another process checks it: the
        check takes a shared lock, which a holder never does."""
        for _ in range(_LOOKERS_MAX):
            with contextlib.suppress(BlockingIOError):
                return fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            threading.Event().wait(_LOOK_S)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        if self._pid == os.getpid():
            # A child that has just been forked has the file open until it runs its program, and
            # would hold the lock for so long. A child that goes on must not take ours away.
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)

    def leave_to_parent(self) -> None:
        """Otherwise a child that outlives its parent would keep the lock."""
        self.release()


class OsFilesystem:
    """The real file system of a POSIX machine. In a forked child it changes nothing."""

    def __init__(self) -> None:
        self._owner_pid = forks.pid()

    def __reduce__(self) -> tuple[type[OsFilesystem], tuple[()]]:
        return OsFilesystem, ()  # Spark takes it to other processes, whose own it is there

    def create(self, path: str) -> OsFile:
        self._check_owner()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return OsFile(os.open(path, flags, 0o600), path, writable=True)

    def open(self, path: str, *, writable: bool = False) -> OsFile:
        if writable:
            self._check_owner()
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        return OsFile(os.open(path, flags), path, writable=writable)

    def map(self, path: str) -> memoryview:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size <= _COPY_BYTES_MAX:
                return memoryview(os.pread(fd, size, 0))
            return memoryview(mmap.mmap(fd, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_dirs(self, path: str) -> None:
        if os.path.isdir(path):
            return
        self._check_owner()
        if os.path.exists(path):
            raise FileExistsError(errno.EEXIST, "a file has the name of this directory", path)
        parent = os.path.dirname(path)
        self.make_dirs(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        self.sync_dir(parent)

    def rename(self, source: str, target: str) -> None:
        self._check_owner()
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        self._check_owner()
        os.unlink(path)

    def remove_dir(self, path: str) -> None:
        self._check_owner()
        os.rmdir(path)

    def sync_dir(self, path: str) -> None:
        with self._directory(path) as fd:
            os.fsync(fd)

    def lock(self, path: str) -> OsLock:
        self._check_owner()
        return OsLock(path)

    def is_locked(self, path: str) -> bool:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def network_kind(self, path: str) -> str:
        return mounts.network_kind(path)

    def boot_id(self) -> str:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def _check_owner(self) -> None:
        if self._owner_pid != forks.pid():
            raise forks.not_ours("data directory", self._owner_pid)

    @contextlib.contextmanager
    def _directory(self, path: str) -> Iterator[int]:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)
