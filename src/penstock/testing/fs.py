"""A file system in memory that can be cut, killed, filled up and made to fail.

It keeps two truths apart: what a program sees now (the page cache) and what a power cut would
leave (the disk). `sync` carries a file's bytes from one to the other, `sync_dir` a directory's
names; everything in between is pending, and `testing.crash` decides what becomes of it. Copies
and crash states share unchanged bytes, so thousands of them a second are cheap.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.storage.fs import Buffer
from penstock.testing.crash import FATES, Choose, Cut, FateKind, Pending, PowerLost, plans
from penstock.testing.disk import Content, Directory, Disk, FileChange, Inode, os_error

FREE_BYTES_UNLIMITED: Final = 1 << 40
CRASH_STATES_MAX: Final = 4096

FILE_CHANGES: Final = frozenset(("write", "truncate", "allocate", "sync"))
NAME_CHANGES: Final = frozenset(("create", "rename", "unlink", "mkdir", "rmdir", "sync_dir"))
CHANGING: Final = FILE_CHANGES | NAME_CHANGES
FAILABLE: Final = CHANGING | {"open", "read", "any"}

OnOperation = Callable[[int, str, str], None]  # index, kind, path
# Inside MemoryFilesystem `list` is a method, so the types it returns are named here.
Names = list[str]
Pendings = list[Pending]


@dataclass(slots=True)
class Fault:
    """An operation that will fail. `fired` tells a test whether it ever did."""

    kind: str
    nth: int
    error: int
    persistent: bool
    short: int | None
    path: str
    seen: int = 0
    fired: int = 0

    def meets(self, kind: str, path: str) -> bool:
        if self.kind not in (kind, "any") or self.path not in path:
            return False
        self.seen += 1
        is_due = self.seen == self.nth or (self.persistent and self.seen > self.nth)
        self.fired += is_due
        return is_due


class MemoryFile:
    """An open file of a MemoryFilesystem, whose lock guards it."""

    __slots__ = ("_fs", "_has_failed", "_inode", "_is_open", "_is_writable", "path")

    def __init__(self, fs: MemoryFilesystem, inode: Inode, path: str, *, writable: bool) -> None:
        self._fs = fs
        self._inode = inode
        self._is_open = True
        self._is_writable = writable
        self._has_failed = False
        self.path = path

    def write_at(self, data: Buffer, offset: int) -> None:
        fs = self._fs
        with fs._lock:
            self._check(writing=True)
            fault = fs._begin("write", self.path)
            chunk = bytes(data)
            wanted = len(chunk)
            if fault is not None:
                chunk = chunk[: fault.short or 0]
            chunk = chunk[: fs._room(self._inode, offset, len(chunk))]
            if chunk:
                pending = fs._pending("write", self.path, offset, len(chunk))
                self._inode.change(FileChange(pending, chunk))
            if fault is not None:
                raise os_error(fault.error, self.path)
            if len(chunk) < wanted:
                raise os_error(errno.ENOSPC, self.path)

    def write_parts_at(
        self, parts: Sequence[Buffer], offset: int, *, is_brief: bool = False
    ) -> None:
        self.write_at(b"".join(parts), offset)

    def read_at(self, offset: int, size: int) -> bytes:
        with self._fs._lock:
            self._check()
            self._fs._refuse("read", self.path)
            return self._inode.live.read(offset, size)

    def size(self) -> int:
        with self._fs._lock:
            self._check()
            return self._inode.live.size

    def allocate(self, size: int) -> None:
        fs = self._fs
        with fs._lock:
            self._check(writing=True)
            fs._refuse("allocate", self.path)
            grown = size - self._inode.live.size
            if fs._room(self._inode, self._inode.live.size, grown) < grown:
                raise os_error(errno.ENOSPC, self.path)
            if grown > 0:
                self._inode.change(FileChange(fs._pending("allocate", self.path, size=size)))

    def truncate(self, size: int) -> None:
        fs = self._fs
        with fs._lock:
            self._check()
            if not self._is_writable:
                raise os_error(errno.EINVAL, self.path)
            fs._refuse("truncate", self.path)
            self._inode.change(FileChange(fs._pending("truncate", self.path, size=size)))

    def sync(self) -> None:
        fs = self._fs
        with fs._lock:
            self._check()
            fs.synced_after_failure += self._has_failed
            fault = fs._begin("sync", self.path)
            if fault is not None:
                self._has_failed = True
                self._inode.fail_sync()
                raise os_error(fault.error, self.path)
            self._inode.sync()

    def drop_cache(self) -> None:
        with self._fs._lock:
            self._check()
            self._inode.drop_cache()

    def close(self) -> None:
        self._is_open = False

    def _check(self, *, writing: bool = False) -> None:
        self._fs._check_alive(self.path)
        if not self._is_open or (writing and not self._is_writable):
            raise os_error(errno.EBADF, self.path)


class MemoryLock:
    """Held until released, or until its file system is killed or cut."""

    __slots__ = ("_fs", "_inode")

    def __init__(self, fs: MemoryFilesystem, inode: Inode) -> None:
        self._fs = fs
        self._inode: Inode | None = inode

    def release(self) -> None:
        with self._fs._lock:
            if self._inode is not None:
                self._fs._locks.pop(self._inode, None)
                self._inode = None


class MemoryFilesystem:
    """A `storage.fs.Filesystem` for tests. Safe from several threads.

    The first part below is that protocol; the second belongs to the test: it looks at the disk,
    harms it, makes calls fail, and derives other file systems from this one. `on_operation` is
    called before each changing operation, with its index, kind and path and with the lock held;
    it may copy the file system, raise an OSError to refuse the operation, or raise PowerLost,
    after which every call raises PowerLost.
    """

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.on_operation: OnOperation | None = None
        self.operations = 0  # changing operations begun; the index of the next one
        self.counts: Counter[str] = Counter()  # calls begun, failed ones too, by kind
        self.synced_after_failure = 0  # syncs on a handle that had already failed to sync
        self.last_cut: Cut = ()  # the choices that led here
        self._lock = threading.RLock()  # guards everything, including the files
        self._disk = Disk()
        self._locks: dict[Inode, int] = {}  # to the holder's pid
        self._faults: list[Fault] = []
        self._boot = 1
        self._is_killed = False
        self._is_lost = False

    # The protocol.

    def create(self, path: str) -> MemoryFile:
        with self._lock:
            self._refuse("create", path)
            directory, name = self._disk.slot(path)
            if name in directory.live:
                raise os_error(errno.EEXIST, path)
            inode = Inode(Content())
            self._disk.change_names(self._pending("create", path), inode, added=(directory, name))
            return MemoryFile(self, inode, path, writable=True)

    def open(self, path: str, *, writable: bool = False) -> MemoryFile:
        with self._lock:
            self._refuse("open", path)
            return MemoryFile(self, self._disk.inode(path), path, writable=writable)

    def map(self, path: str) -> memoryview:
        with self._lock:
            self._refuse("open", path)
            inode = self._disk.inode(path)
            self._refuse("read", path)
            return inode.live.view()

    def exists(self, path: str) -> bool:
        with self._lock:
            self._check_alive(path)
            return self._disk.find(path) is not None

    def size(self, path: str) -> int:
        with self._lock:
            self._check_alive(path)
            return self._disk.inode(path).live.size

    def list(self, path: str) -> Names:
        with self._lock:
            self._check_alive(path)
            if self._disk.find(path) is None:
                return []
            return sorted(self._disk.directory(path).live)

    def make_dirs(self, path: str) -> None:
        with self._lock:
            self._check_alive(path)
            if isinstance(self._disk.find(path), Directory):
                return
            parent = os.path.dirname(path.rstrip("/"))
            self.make_dirs(parent)
            self._refuse("mkdir", path)
            directory, name = self._disk.slot(path)
            if name in directory.live:
                raise os_error(errno.EEXIST, path)
            self._disk.change_names(
                self._pending("mkdir", path), Directory(), added=(directory, name)
            )
            self.sync_dir(parent)

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            self._refuse("rename", target)
            node = self._disk.node(source)
            before, after = self._disk.slot(source), self._disk.slot(target)
            replaced = after[0].live.get(after[1])
            if replaced is node:
                return
            if isinstance(node, Directory) and f"{target}/".startswith(f"{source}/"):
                raise os_error(errno.EINVAL, target)
            if isinstance(replaced, Directory):
                if isinstance(node, Inode):
                    raise os_error(errno.EISDIR, target)
                if replaced.live:
                    raise os_error(errno.ENOTEMPTY, target)
            elif replaced is not None and isinstance(node, Directory):
                raise os_error(errno.ENOTDIR, target)
            pending = self._pending("rename", target)
            self._disk.change_names(pending, node, removed=before, added=after)

    def unlink(self, path: str) -> None:
        with self._lock:
            self._refuse("unlink", path)
            inode = self._disk.inode(path)
            self._disk.change_names(
                self._pending("unlink", path), inode, removed=self._disk.slot(path)
            )

    def remove_dir(self, path: str) -> None:
        with self._lock:
            self._refuse("rmdir", path)
            directory = self._disk.directory(path)
            if directory.live:
                raise os_error(errno.ENOTEMPTY, path)
            self._disk.change_names(
                self._pending("rmdir", path), directory, removed=self._disk.slot(path)
            )

    def sync_dir(self, path: str) -> None:
        with self._lock:
            self._refuse("sync_dir", path)
            self._disk.sync_names(self._disk.directory(path))

    def free_bytes(self, path: str) -> int:
        with self._lock:
            self._check_alive(path)
            self._disk.node(path)
            return FREE_BYTES_UNLIMITED if self.capacity_bytes is None else self._free_bytes()

    def lock(self, path: str) -> MemoryLock:
        """The lock file stays empty and is durable at once: no crash state depends on it."""
        with self._lock:
            self._check_alive(path)
            if self._disk.find(path) is None:
                self._disk.place(path, Inode(Content()))
            inode = self._disk.inode(path)
            if inode in self._locks:
                raise BlockingIOError(errno.EWOULDBLOCK, str(self._locks[inode]), path)
            self._locks[inode] = os.getpid()
            return MemoryLock(self, inode)

    def is_locked(self, path: str) -> bool:
        with self._lock:
            self._check_alive(path)
            return self._disk.find(path) is not None and self._disk.inode(path) in self._locks

    def network_kind(self, path: str) -> str:
        return ""

    def boot_id(self) -> str:
        """Names the boot: another after a power cut, the same after a kill."""
        return f"boot-{self._boot}"

    # Faults.

    def fail(
        self,
        kind: str,
        *,
        nth: int = 1,
        error: int | None = None,
        persistent: bool = False,
        short: int | None = None,
        path: str = "",
    ) -> Fault:
        """Make the nth operation of a kind from now on fail, and the later ones if persistent.

        `kind` is one of FAILABLE; only paths that contain `path` count. A failed write leaves
        `short` bytes behind (else none) and raises `error`: EIO, or ENOSPC when it was short.
        A failed sync loses the file's pending writes for good, although they can be read until
        the cache is dropped or the process dies, and although the next sync succeeds.
        """
        if kind not in FAILABLE or nth < 1:
            raise ValueError(f"cannot fail {kind!r} number {nth}")
        if error is None:
            error = errno.EIO if short is None else errno.ENOSPC
        fault = Fault(kind, nth, error, persistent, short, path)
        with self._lock:
            self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Forget every fault."""
        with self._lock:
            self._faults.clear()

    # Crashes.

    def kill(self) -> MemoryFilesystem:
        """What the next process finds after this one died; this one's calls raise EBADF.

        Everything written is there, synced or not, but for writes that a failed sync lost.
        """
        with self._lock:
            survivor = self.copy()
            self._is_killed = True
        for inode in survivor._disk.inodes():
            inode.drop_cache()
        return survivor

    def pending(self) -> Pendings:
        """Every change a power cut could take back, in the order they were made."""
        with self._lock:
            return self._disk.pending()

    def power_cut(self, choose: Choose) -> MemoryFilesystem:
        """The disk after a power cut in which `choose` decided each pending change's fate.

        This file system stays as it is, so that many cuts can be tried at one point. The
        choices are kept in the new one's `last_cut`.
        """
        with self._lock:
            return self._after_cut([(change, choose(change)) for change in self.pending()])

    def crash_states(
        self, limit: int = CRASH_STATES_MAX, *, fates: Sequence[FateKind] = FATES
    ) -> Iterator[MemoryFilesystem]:
        """Different disks a power cut at this instant could leave, the most telling first.

        See `testing.crash.plans` for which are tried. Later changes to this file system do not
        disturb the iteration.
        """
        return self.copy()._distinct_states(limit, fates)

    def stop_before(self, index: int) -> None:
        """Lose power just before the changing operation with this index."""

        def stop(current: int, kind: str, path: str) -> None:
            if current >= index:
                raise PowerLost(f"before operation {current}, {kind} {path}")

        self.on_operation = stop

    # Looking and harming.

    def paths(self) -> Names:
        """Every file, sorted."""
        with self._lock:
            return [path for path, node in self._disk.walk() if isinstance(node, Inode)]

    def read(self, path: str) -> bytes:
        """A file's bytes as seen now; no fault, no count."""
        with self._lock:
            live = self._disk.inode(path).live
            return live.read(0, live.size)

    def fingerprint(self) -> str:
        """Equal for two file systems exactly when their names and bytes are, as seen now."""
        with self._lock:
            return self._disk.fingerprint()

    def copy(self) -> MemoryFilesystem:
        """A twin with the same pending changes, but no open files, locks, faults or counts."""
        with self._lock:
            twin = self._derive(self._disk.copy())
            twin.operations = self.operations
            twin.last_cut = self.last_cut
            return twin

    def corrupt(self, path: str, offset: int, xor: int = 0xFF) -> None:
        """Flip bits of one byte, and make durable all that the file shows."""
        with self._lock:
            inode = self._disk.inode(path)
            if not 0 <= offset < inode.live.size:
                raise ValueError(f"{path} has {inode.live.size} bytes, none at {offset}")
            (byte,) = inode.live.read(offset, 1)
            inode.live.write(offset, bytes([byte ^ xor]))
            inode.settle()

    def truncate_at(self, path: str, size: int) -> None:
        """Cut a file or extend it with zeros, and make durable all that it shows."""
        with self._lock:
            inode = self._disk.inode(path)
            inode.live.resize(size)
            inode.settle()

    def replace(self, path: str, data: bytes) -> None:
        """Put a durable file in place, whatever was there; its directory must exist."""
        with self._lock:
            self._disk.place(path, Inode(Content(bytearray(data), len(data))))

    # For ourselves and our files. The caller holds `_lock`.

    def _check_alive(self, path: str) -> None:
        if self._is_lost:
            raise PowerLost("the power is gone")
        if self._is_killed:
            raise os_error(errno.EBADF, path, "the process was killed")

    def _begin(self, kind: str, path: str) -> Fault | None:
        """Announce and count one operation; return the fault that meets it."""
        self._check_alive(path)
        if kind in CHANGING:
            self.operations += 1
            if self.on_operation is not None:
                try:
                    self.on_operation(self.operations - 1, kind, path)
                except PowerLost:
                    self._is_lost = True
                    raise
        self.counts[kind] += 1
        if not self._faults:
            return None
        met = [fault for fault in self._faults if fault.meets(kind, path)]
        return met[0] if met else None

    def _refuse(self, kind: str, path: str) -> None:
        """Begin an operation that has no effect when it fails."""
        fault = self._begin(kind, path)
        if fault is not None:
            raise os_error(fault.error, path)

    def _room(self, inode: Inode, offset: int, size: int) -> int:
        """How many of `size` bytes at `offset` the disk still takes."""
        grown = offset + size - inode.live.size
        if self.capacity_bytes is None or grown <= 0:
            return size
        return max(0, size - max(0, grown - self._free_bytes()))

    def _free_bytes(self) -> int:
        used = sum(inode.live.size for inode in self._disk.inodes())
        return max(0, (self.capacity_bytes or 0) - used)

    def _derive(self, disk: Disk) -> MemoryFilesystem:
        child = MemoryFilesystem(capacity_bytes=self.capacity_bytes)
        child._disk = disk
        child._boot = self._boot
        return child

    def _after_cut(self, cut: Cut) -> MemoryFilesystem:
        survivor = self._derive(self._disk.after_cut(cut))
        survivor._boot += 1
        survivor.last_cut = cut
        return survivor

    def _distinct_states(self, limit: int, fates: Sequence[FateKind]) -> Iterator[MemoryFilesystem]:
        changes = self._disk.pending()
        seen: set[str] = set()
        for plan in plans(changes, fates=fates):
            if len(seen) >= limit:
                return
            state = self._after_cut(tuple(zip(changes, plan, strict=True)))
            fingerprint = state.fingerprint()
            if fingerprint not in seen:
                seen.add(fingerprint)
                yield state

    def _pending(self, kind: str, path: str, offset: int = 0, size: int = 0) -> Pending:
        """Describe the operation just begun."""
        return Pending(self.operations - 1, kind, path, offset, size)
