"""Scans the WAL after a restart and classifies bad bytes. Reads only; `mend` writes.

A bad place past the known-durable end is a torn tail: a write that was never acknowledged as
durable. A bad place below it is damage, and is never cut. Three facts tell the two apart: the mark
file, DurableMark frames, and the rule that a file is synced before its successor is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from penstock.codec import kernel
from penstock.codec.entry import decode_entry
from penstock.codec.frame import FrameType, decode_frame
from penstock.entries import BatchStarted, DurableMarked
from penstock.storage.fs import Filesystem
from penstock.storage.wal import durable_mark, files
from penstock.storage.wal.files import WalFile

REASONS = {1: "frame overruns the file", 2: "checksum differs", 3: "malformed frame"}
ENDS_EARLY = "the log ends before its known-durable end"
INCOMPLETE_BATCH = "a batch is incomplete"
MISSING = "the file is missing"

Item = tuple[int, int, int, int, int, int, int, int, bytes, int]
"""One step of kernel.scan: type, topic, seq, ts, start, end, count, payload, offsets, last ts."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """The position of the first invalid bytes."""

    path: str
    group: str
    index: int
    offset: int
    reason: str
    durable_end: int = 0  # how far this file is known to have been synced


@dataclass(slots=True)
class WalFileScan:
    """One scanned file."""

    file: WalFile
    buffer: memoryview
    items: list[Item]
    good_end: int  # the last byte that belongs to complete frames and batches
    reason: str = ""  # why it ends there; empty when only zeros follow

    @property
    def frames(self) -> int:
        return sum(item[6] for item in self.items)


@dataclass(slots=True)
class WalFindings:
    """The result of recovery; `fsck` and `repair` print it."""

    scans: list[WalFileScan] = field(default_factory=list)
    torn: list[Flaw] = field(default_factory=list)
    damage: list[Flaw] = field(default_factory=list)
    may_have_lost_tail: bool = False  # unsynced acknowledged records may be gone
    was_closed: bool = False  # every shard ended with a clean mark
    next_index: int = 1
    files_replayed: int = 0
    groups_used: set[str] = field(default_factory=set)
    unsynced: list[str] = field(default_factory=list)  # files that may hold unsynced frames
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)  # per group: index, offset
    last_boot_id: str = ""  # under which the log was last opened
    boot_ids: dict[str, str] = field(default_factory=dict)  # per group: that its mark claims


Positions = dict[str, tuple[int, int]]
"""Per group directory name, the (file index, offset) up to which a snapshot absorbed it."""


def group_name(wal_dir: str, group: str) -> str:
    """A group's key in `Positions`: stable when the data directory moves."""
    return group[len(wal_dir) :].strip("/")


def examine(
    fs: Filesystem,
    wal_dir: str,
    absorbed: Positions,
    *,
    may_start_late: bool = False,
    on_file: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[WalFileScan | WalFindings]:
    """Yield each unabsorbed file's scan in replay order, classified, then the verdict.

    A generator, so that replay can release each file before the next is read. With `may_start_late`
    the absorbed position is unknown, so the first file of a group may name a removed one.
    """
    every = files.discover(fs, wal_dir)
    starts = {
        group: absorbed.get(group_name(wal_dir, group), (0, 0))
        for group in files.groups(fs, wal_dir)
    }
    found = [file for file in every if file.index >= starts[file.group][0]]
    marks = {group: durable_mark.read(fs, group) for group in files.groups(fs, wal_dir)}
    # Also above what a snapshot absorbed: the highest files may be gone, and a file with a
    # number below a snapshot's position would never be replayed.
    verdict = WalFindings(
        next_index=max([0, *(f.index for f in every), *(at[0] for at in absorbed.values())]) + 1
    )
    last_boot_id = durable_mark.read_boot(fs, wal_dir)
    verdict.last_boot_id = last_boot_id
    verdict.boot_ids = {group: one.boot_id for group, one in marks.items() if one is not None}
    verdict.may_have_lost_tail = _tail_at_risk(fs, found, marks, last_boot_id)
    used = {file.group for file in found}
    verdict.groups_used = used
    verdict.files_replayed = len(found)
    verdict.was_closed = all((noted := marks[group]) and noted.is_clean for group in used)
    last_written = _last_written(fs, found)
    stopped: set[str] = set()
    ends: dict[int, int] = {}
    for number, file in enumerate(found):
        on_file(number, len(found))
        noted = marks.get(file.group)
        if noted is not None and noted.is_failed:
            forget_cached(fs, file)
        from_index, from_offset = starts[file.group]
        scan = scan_file(fs, file, from_offset if file.index == from_index else 0)
        missing = _short_before(scan, every, ends, from_index)
        is_first = file.group not in verdict.ends and may_start_late
        if missing is not None and is_first and missing.reason == MISSING:
            missing = None
        if missing is not None and all(missing.path != known.path for known in verdict.damage):
            verdict.damage.append(missing)
            stopped.add(file.group)
        ends[file.index] = scan.good_end
        if scan.good_end:
            verdict.ends[file.group] = (file.index, scan.good_end)
        if noted is None or file.index >= noted.index:
            verdict.unsynced.append(file.path)
        successor = max(last_written.get(file.group, 0), noted.index if noted else 0)
        flaw = _judge(scan, noted, has_successor=file.index < successor)
        if flaw is not None:
            (verdict.damage if flaw[1] else verdict.torn).append(flaw[0])
        if file.group in stopped:
            continue  # past damage: only an explicit repair goes there
        if flaw is not None and flaw[1]:
            stopped.add(file.group)
        yield scan
    on_file(len(found), len(found))
    yield verdict


def scan_file(fs: Filesystem, file: WalFile, start: int = 0) -> WalFileScan:
    """Scan one file up to the first bad frame or incomplete batch."""
    buffer = fs.map(file.path)
    items, stop, code = kernel.scan(buffer, min(start, len(buffer)), len(buffer))
    scan = WalFileScan(file, buffer, items, stop, REASONS.get(code, ""))
    _hold_back_incomplete_batch(scan)
    return scan


def _hold_back_incomplete_batch(scan: WalFileScan) -> None:
    """A batch is all or nothing: if its last frames are missing, the first are dropped."""
    items = scan.items
    for at in range(len(items) - 1, max(-1, len(items) - 3), -1):
        if items[at][0] != FrameType.BATCH:
            continue
        batch = read_control(scan, items[at])
        held = items[at + 1][6] if at + 1 < len(items) else 0
        if isinstance(batch, BatchStarted) and held < batch.count:
            scan.good_end = items[at][4]
            scan.reason = scan.reason or INCOMPLETE_BATCH
            del items[at:]
        return


def read_control(scan: WalFileScan, item: Item) -> object:
    """The entry of a control item, or None when its type is unknown or it is unreadable."""
    try:
        frame, _ = decode_frame(scan.buffer, item[4])
        return decode_entry(frame)
    except ValueError:
        return None


def _judge(
    scan: WalFileScan, noted: durable_mark.DurableMark | None, *, has_successor: bool
) -> tuple[Flaw, bool] | None:
    """(flaw, is_damage), or None for a file without a flaw."""
    file, end = scan.file, scan.good_end
    durable = 0
    if noted is not None and noted.index == file.index:
        durable = noted.offset
    if not scan.reason:
        if durable > end:
            return Flaw(file.path, file.group, file.index, end, ENDS_EARLY, durable), True
        return None
    is_damage = has_successor or durable > end or _marked_later(scan)
    return Flaw(file.path, file.group, file.index, end, scan.reason, durable), is_damage


def _short_before(
    scan: WalFileScan, every: list[WalFile], ends: dict[int, int], from_index: int
) -> Flaw | None:
    """A file begins with the end of the previous one: check that the previous one exists and is
    whole."""
    if not scan.items or scan.items[0][0] != FrameType.DURABLE_MARK or scan.items[0][4] != 0:
        return None
    entry = read_control(scan, scan.items[0])
    if not isinstance(entry, DurableMarked) or entry.file_index < max(from_index, 1):
        return None
    named = next((file for file in every if file.index == entry.file_index), None)
    group = scan.file.group
    if named is None:
        path = f"{group}/{files.file_name(entry.file_index)}"
        return Flaw(path, group, entry.file_index, 0, MISSING, entry.offset)
    end = ends.get(named.index)
    if end is not None and entry.offset > end and named.group == group:
        return Flaw(named.path, group, named.index, end, ENDS_EARLY, entry.offset)
    return None


def _marked_later(scan: WalFileScan) -> bool:
    """True if a DurableMark after the bad bytes says that they were synced."""
    buffer, at = scan.buffer, scan.good_end + 1
    while True:
        at = kernel.resync(buffer, at, len(buffer))
        if at < 0:
            return False
        items, stop, _ = kernel.scan(buffer, at, len(buffer))
        for item in items:
            if item[0] == FrameType.DURABLE_MARK:
                entry = read_control(scan, item)
                if (
                    isinstance(entry, DurableMarked)
                    and entry.file_index == scan.file.index
                    and entry.offset > scan.good_end
                ):
                    return True
        at = max(stop, at + 1)


def _last_written(fs: Filesystem, found: list[WalFile]) -> dict[str, int]:
    """Per group, the highest file that holds any frame: all files before it were synced."""
    last: dict[str, int] = {}
    for file in found:
        handle = fs.open(file.path)
        try:
            if any(handle.read_at(0, 4)):
                last[file.group] = file.index
        finally:
            handle.close()
    return last


def _tail_at_risk(
    fs: Filesystem,
    found: list[WalFile],
    marks: dict[str, durable_mark.DurableMark | None],
    last_boot_id: str,
) -> bool:
    """True if unsynced writes may be lost: they survive a killed process, but not a power cut or a
    failed sync."""
    used = {file.group for file in found}
    boot_id = fs.boot_id()
    for group in used:
        noted = marks.get(group)
        if noted is not None and noted.is_failed:
            return True
        if noted is not None and noted.is_clean:
            continue
        if not boot_id or boot_id != (last_boot_id if noted is None else noted.boot_id):
            return True
    return False


def forget_cached(fs: Filesystem, file: WalFile) -> None:
    """After a failed sync the cache has pages that never reached the disk."""
    handle = fs.open(file.path)
    try:
        handle.drop_cache()
    finally:
        handle.close()


def sync_all(fs: Filesystem, path: str) -> None:
    """Sync the writes that a killed process left in the page cache, before they can be read."""
    file = fs.open(path, writable=True)
    try:
        file.sync()
    finally:
        file.close()


def mend(fs: Filesystem, verdict: WalFindings, aside_dir: str) -> None:
    """Cut the torn tails, after their bytes were copied.

    May be repeated: a crash in between leaves either the old file or the cut one.
    """
    for flaw in verdict.torn:
        if flaw.group in {damage.group for damage in verdict.damage}:
            continue
        file = fs.open(flaw.path, writable=True)
        try:
            tail = file.read_at(flaw.offset, file.size() - flaw.offset).rstrip(b"\0")
            if tail:
                _keep_aside(fs, aside_dir, flaw, tail)
            file.truncate(flaw.offset)
            file.sync()
        finally:
            file.close()


def _keep_aside(fs: Filesystem, aside_dir: str, flaw: Flaw, tail: bytes) -> None:
    fs.make_dirs(aside_dir)
    path = f"{aside_dir}/torn-{flaw.index:016d}-{flaw.offset}.bin"
    if fs.exists(path):
        return
    copy = fs.create(path)
    try:
        copy.write_at(tail, 0)
        copy.sync()
    finally:
        copy.close()
    fs.sync_dir(aside_dir)
