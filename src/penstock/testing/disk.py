"""The disk that suffers a crash: bytes, names, and what was not yet durable of both.

`testing.crash` decides the fates, `testing.fs` makes a file system of this.
"""

from __future__ import annotations

import errno
import functools
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from penstock.storage.fs import Buffer
from penstock.testing.crash import LAND, SECTOR_BYTES, Cut, Fate, Pending

# --- bytes -------------------------------------------------------------------------------------


class Content:
    """A run of bytes: those stored, then zeros up to `size`. Sharers copy before they write."""

    __slots__ = ("_data", "_digest", "_is_shared", "size")

    def __init__(self, data: bytearray | None = None, size: int = 0) -> None:
        self._data = bytearray() if data is None else data
        self._is_shared = False
        self._digest: list[bytes] = []  # one or none; common to all that share the bytes
        self.size = size

    def share(self) -> Content:
        """An equal content at no cost. From now on neither may change the bytes in place."""
        self._is_shared = True
        twin = Content(self._data, self.size)
        twin._is_shared = True
        twin._digest = self._digest
        return twin

    def write(self, offset: int, data: Buffer) -> None:
        stored = self._own()
        if offset > len(stored):
            stored.extend(bytes(offset - len(stored)))
        stored[offset : offset + len(data)] = data
        self.size = max(self.size, offset + len(data))

    def read(self, offset: int, size: int) -> bytes:
        stop = max(offset, min(offset + size, self.size))
        return bytes(self._data[offset:stop]).ljust(stop - offset, b"\0")

    def view(self) -> memoryview:
        """All of it, read-only, unmoved by anything that happens to the content later."""
        if len(self._data) == self.size:
            self._is_shared = True
            return memoryview(self._data).toreadonly()
        return memoryview(self.read(0, self.size))

    def resize(self, size: int) -> None:
        if size < len(self._data):
            del self._own()[size:]
        self._digest = []
        self.size = size

    def digest(self) -> bytes:
        if not self._digest:
            stored = bytes(self._data).rstrip(b"\0")
            text = b"%d:%b" % (self.size, stored)
            self._digest.append(blake2b(text, digest_size=16).digest())
        return self._digest[0]

    def _own(self) -> bytearray:
        self._digest = []
        if self._is_shared:
            self._data = bytearray(self._data)
            self._is_shared = False
        return self._data


@dataclass(frozen=True, slots=True)
class FileChange:
    """A write, truncate or allocate that was not synced yet."""

    pending: Pending
    data: bytes = b""

    def apply(self, content: Content) -> None:
        if self.pending.kind == "write":
            content.write(self.pending.offset, self.data)
        elif self.pending.kind == "truncate" or self.pending.size > content.size:
            content.resize(self.pending.size)

    def suffer(self, content: Content, fate: Fate, unsynced: Sequence[tuple[int, int]]) -> None:
        """Leave on the disk what `fate` says; `unsynced` is where garbage may fall."""
        start, stop = self.pending.offset, self.pending.offset + len(self.data)
        boundary = (start // SECTOR_BYTES + fate.sectors) * SECTOR_BYTES
        if fate.kind == "land":
            self.apply(content)
        elif fate.kind == "vanish" or self.pending.kind != "write":
            pass
        elif fate.kind == "torn" and boundary > start:
            content.write(start, self.data[: boundary - start])
        elif fate.kind == "holed" and boundary < stop:
            content.write(boundary, self.data[boundary - start :])
        elif fate.kind == "zero":
            content.write(start, bytes(len(self.data)))
        elif fate.kind == "garbage":
            self._litter(content, fate.seed, unsynced)

    def _litter(self, content: Content, seed: int, unsynced: Sequence[tuple[int, int]]) -> None:
        end = self.pending.offset + len(self.data)
        start = self.pending.offset // SECTOR_BYTES * SECTOR_BYTES
        stop = min(-(-end // SECTOR_BYTES) * SECTOR_BYTES, max(content.size, end))
        noise = random.Random(seed).randbytes(stop - start)
        for low, high in unsynced:
            low, high = max(low, start), min(high, stop)
            if low < high:
                content.write(low, noise[low - start : high - start])


class Inode:
    """A file without its name. `live` = `disk` + `changes`, but for writes a failed sync lost."""

    __slots__ = ("changes", "disk", "is_stale", "live")

    def __init__(self, disk: Content) -> None:
        self.disk = disk
        self.live = disk.share()
        self.changes: list[FileChange] = []
        self.is_stale = False  # a failed sync left bytes in `live` that no disk will ever see

    def change(self, change: FileChange) -> None:
        change.apply(self.live)
        self.changes.append(change)

    def sync(self) -> None:
        for change in self.changes:
            change.apply(self.disk)
        self.changes.clear()

    def fail_sync(self) -> None:
        """As Linux does it: the pages are called clean though they never reached the disk."""
        kept = [change for change in self.changes if change.pending.kind != "write"]
        self.is_stale |= len(kept) < len(self.changes)
        self.changes = kept  # sizes are in the inode, which stays dirty

    def drop_cache(self) -> None:
        if not self.is_stale:
            return
        self.live = self.disk.share()
        for change in self.changes:
            change.apply(self.live)
        self.is_stale = False

    def settle(self) -> None:
        """Make what is seen now durable, as if long ago."""
        self.disk = self.live.share()
        self.changes.clear()
        self.is_stale = False

    def after_cut(self, fates: dict[int, Fate]) -> Content:
        content = self.disk.share()
        if self.changes:
            unsynced = self._unsynced()
            for change in self.changes:
                change.suffer(content, fates[change.pending.operation], unsynced)
        return content

    def copy(self) -> Inode:
        twin = Inode(self.disk.share())
        twin.live = self.live.share()
        twin.changes = self.changes.copy()
        twin.is_stale = self.is_stale
        return twin

    def _unsynced(self) -> list[tuple[int, int]]:
        """Ranges no sync has covered since they were last written, cut off or added."""
        sizes = [c.pending.size for c in self.changes if c.pending.kind == "truncate"]
        writes = [c.pending for c in self.changes if c.pending.kind == "write"]
        ranges = [(write.offset, write.offset + write.size) for write in writes]
        return [*ranges, (min([self.disk.size, *sizes]), 1 << 62)]


# --- names -------------------------------------------------------------------------------------


class Directory:
    """Names now, and the names a power cut would leave."""

    __slots__ = ("disk", "live")

    def __init__(self) -> None:
        self.live: dict[str, Node] = {}
        self.disk: dict[str, Node] = {}


Node = Inode | Directory
Slot = tuple[Directory, str]


@dataclass(frozen=True, slots=True, eq=False)
class NameChange:
    """A name given, taken or moved, and the directory whose sync makes it durable."""

    pending: Pending
    node: Node
    home: Directory
    removed: Slot | None = None
    added: Slot | None = None
    replaced: Node | None = None

    def touches(self) -> Iterator[object]:
        """What this change is about: files, names, and the insides of directories."""
        yield self.node
        for slot in (self.removed, self.added):
            if slot is not None:
                yield slot
                yield ("inside", slot[0])

    def needs(self) -> Iterator[object]:
        """What no earlier change may be pending about once this one is durable."""
        yield self.node
        yield from (slot for slot in (self.removed, self.added) if slot is not None)
        if self.added is None or self.replaced is not None:
            yield ("inside", self.node if self.added is None else self.replaced)

    def settle(self) -> None:
        if self.removed is not None:
            directory, name = self.removed
            if directory.disk.get(name) is self.node:
                del directory.disk[name]
        if self.added is not None:
            directory, name = self.added
            directory.disk[name] = self.node


class _Names:
    """The names left by a power cut, while it is being worked out."""

    def __init__(self, directories: Sequence[Directory]) -> None:
        self.left = {directory: dict(directory.disk) for directory in directories}
        self._slots: dict[Node, Slot] = {
            node: (directory, name)
            for directory, names in self.left.items()
            for name, node in names.items()
        }

    def land(self, change: NameChange) -> None:
        """Apply a change that reached the disk, unless what was lost before makes it absurd."""
        if change.added is None:
            self._remove(change)
            return
        directory, name = change.added
        occupant = self.left[directory].get(name)
        if occupant is not None and occupant is not change.replaced:
            return  # the name was freed by a change that was lost
        # A file has one name, so a landed rename carries an earlier, lost one with it.
        old = self._slots.pop(change.node, None)
        if old is not None:
            del self.left[old[0]][old[1]]
        if occupant is not None:
            self._slots.pop(occupant, None)
        self.left[directory][name] = change.node
        self._slots[change.node] = change.added

    def _remove(self, change: NameChange) -> None:
        if change.removed is None or self._slots.get(change.node) != change.removed:
            return
        if isinstance(change.node, Directory) and self.left[change.node]:
            return  # a removal inside was lost, so the directory was not empty
        directory, name = self._slots.pop(change.node)
        del self.left[directory][name]


class Disk:
    """A tree of names and what is pending in it. Its owner guards it with a lock."""

    def __init__(self) -> None:
        self.root = Directory()
        self._name_changes: list[NameChange] = []  # oldest first

    # Looking. A path that leads nowhere raises the OSError the system would.

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for part in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.live.get(part)
        return node

    def node(self, path: str) -> Node:
        node = self.find(path)
        if node is None:
            raise os_error(errno.ENOENT, path)
        return node

    def inode(self, path: str) -> Inode:
        node = self.node(path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        return node

    def directory(self, path: str) -> Directory:
        node = self.node(path)
        if isinstance(node, Inode):
            raise os_error(errno.ENOTDIR, path)
        return node

    def slot(self, path: str) -> Slot:
        """The directory a path is in, and its name there."""
        parts = _parts(path)
        if not parts:
            raise os_error(errno.EBUSY, path)
        return self.directory("/" + "/".join(parts[:-1])), parts[-1]

    def walk(self) -> Iterator[tuple[str, Node]]:
        """Everything below the root as seen now, in one order for equal trees."""
        waiting: list[tuple[str, Node]] = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            if path:
                yield path, node
            if isinstance(node, Directory):
                names = sorted(node.live, reverse=True)
                waiting += [(f"{path}/{name}", node.live[name]) for name in names]

    def inodes(self) -> list[Inode]:
        return [node for _, node in self.walk() if isinstance(node, Inode)]

    def fingerprint(self) -> str:
        """Equal for two disks exactly when the names and bytes seen now are."""
        digest = blake2b(digest_size=16)
        for path, node in self.walk():
            digest.update(path.encode() + b"\0")
            digest.update(node.live.digest() if isinstance(node, Inode) else b"directory")
        return digest.hexdigest()

    # Changing.

    def change_names(
        self,
        pending: Pending,
        node: Node,
        *,
        removed: Slot | None = None,
        added: Slot | None = None,
    ) -> None:
        """Give, take or move a name now; it is durable once its directory is synced.

        A rename between directories is at home in the one it moves to.
        """
        replaced = None
        if removed is not None:
            home, name = removed
            del home.live[name]
        if added is not None:
            home, name = added
            replaced = home.live.get(name)
            home.live[name] = node
        self._name_changes.append(NameChange(pending, node, home, removed, added, replaced))

    def sync_names(self, directory: Directory) -> None:
        """Make the changes at home in a directory durable, and the earlier ones they rest on."""
        kept: list[NameChange] = []
        settled: list[NameChange] = []
        needed: set[object] = set()
        for change in reversed(self._name_changes):
            if change.home is directory or not needed.isdisjoint(change.touches()):
                settled.append(change)
                needed.update(change.needs())
            else:
                kept.append(change)
        for change in reversed(settled):
            change.settle()
        self._name_changes = kept[::-1]

    def place(self, path: str, inode: Inode) -> None:
        """Give a file this name durably, whatever had it."""
        slot = directory, name = self.slot(path)
        self._name_changes = [
            change for change in self._name_changes if slot not in (change.added, change.removed)
        ]
        directory.live[name] = directory.disk[name] = inode

    # Crashing.

    def pending(self) -> list[Pending]:
        """Every change a power cut could take back, in the order they were made."""
        changes = [change.pending for change in self._name_changes]
        for node in self._durable_nodes():
            if isinstance(node, Inode):
                changes += [change.pending for change in node.changes]
        return sorted(changes)

    def after_cut(self, cut: Cut) -> Disk:
        """The disk that is left when every pending change meets its fate."""
        fates = {change.operation: fate for change, fate in cut}
        names = _Names([node for node in self._durable_nodes() if isinstance(node, Directory)])
        for change in self._name_changes:
            if fates[change.pending.operation] == LAND:
                names.land(change)
        survivor = Disk()
        survivor.root = _rebuilt(self.root, names.left, fates)
        return survivor

    def copy(self) -> Disk:
        copier = _Copier()
        twin = Disk()
        twin.root = copier.directory(self.root)
        twin._name_changes = [copier.change(change) for change in self._name_changes]
        return twin

    def _durable_nodes(self) -> list[Node]:
        """Everything that could still have a name after a power cut."""
        found: dict[Node, None] = {}
        waiting: list[Node] = [self.root, *(change.node for change in self._name_changes)]
        while waiting:
            node = waiting.pop()
            if node not in found:
                found[node] = None
                if isinstance(node, Directory):
                    waiting += node.disk.values()
        return list(found)


def _rebuilt(
    directory: Directory,
    left: dict[Directory, dict[str, Node]],
    fates: dict[int, Fate],
) -> Directory:
    """A directory as a power cut left it, with all that is in it."""
    fresh = Directory()
    for name, node in left[directory].items():
        if isinstance(node, Inode):
            fresh.live[name] = Inode(node.after_cut(fates))
        else:
            fresh.live[name] = _rebuilt(node, left, fates)
    fresh.disk = fresh.live.copy()
    return fresh


class _Copier:
    """Copies nodes, each once, however many names and changes lead to it."""

    def __init__(self) -> None:
        self._inodes: dict[Inode, Inode] = {}
        self._directories: dict[Directory, Directory] = {}

    def node(self, node: Node) -> Node:
        return self.directory(node) if isinstance(node, Directory) else self._inode(node)

    def directory(self, original: Directory) -> Directory:
        copy = self._directories.get(original)
        if copy is None:
            copy = self._directories[original] = Directory()
            copy.live = {name: self.node(node) for name, node in original.live.items()}
            copy.disk = {name: self.node(node) for name, node in original.disk.items()}
        return copy

    def change(self, change: NameChange) -> NameChange:
        return NameChange(
            change.pending,
            self.node(change.node),
            self.directory(change.home),
            self._slot(change.removed),
            self._slot(change.added),
            None if change.replaced is None else self.node(change.replaced),
        )

    def _inode(self, original: Inode) -> Inode:
        copy = self._inodes.get(original)
        if copy is None:
            copy = self._inodes[original] = original.copy()
        return copy

    def _slot(self, slot: Slot | None) -> Slot | None:
        return None if slot is None else (self.directory(slot[0]), slot[1])


@functools.lru_cache(maxsize=4096)
def _parts(path: str) -> tuple[str, ...]:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not an absolute path")
    return tuple(part for part in path.split("/") if part)


def os_error(number: int, path: str, reason: str = "") -> OSError:
    return OSError(number, reason or os.strerror(number), path)
