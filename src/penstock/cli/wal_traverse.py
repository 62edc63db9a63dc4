"""Scans the WAL files: their frames, and the byte ranges that are not frames.

Recovery stops at the first invalid range of a shard. A scan continues after it, so that its reader
sees the frames behind; it changes nothing. Files are read and not mapped: their writer may be
running, and truncates a file when it closes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.codec import kernel
from penstock.codec.entry import decode_entry
from penstock.codec.frame import Frame, FrameType, decode_frame
from penstock.entries import BatchStarted, DurableMarked
from penstock.storage.fs import Filesystem
from penstock.storage.wal import durable_mark, files
from penstock.storage.wal.files import WalFile
from penstock.storage.wal.recovery import ENDS_EARLY, INCOMPLETE_BATCH, REASONS, Item, group_name

_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Bytes that are not a frame. `end` is the start of the next frame or the end of the file."""

    offset: int
    end: int
    reason: str
    is_damage: bool  # below the known-durable end; else a torn tail


@dataclass(slots=True)
class FileScan:
    """The frames and invalid ranges of one file."""

    file: WalFile
    group: str  # its directory below the WAL's
    buffer: bytes
    items: list[Item] = field(default_factory=list)
    bad: list[BadPlace] = field(default_factory=list)
    used: int = 0  # where the last frame ends

    @property
    def frames_by_type(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for item in self.items:
            counts[type_name(item[0])] += item[6]
        return counts

    def frames(self) -> Iterator[tuple[int, Frame, int]]:
        """(offset, frame, end) of each."""
        for item in self.items:
            for start in memoryview(item[8]).cast("I") if item[8] else (0,):
                frame, end = decode_frame(self.buffer, item[4] + start)
                yield item[4] + start, frame, end


def type_name(number: int) -> str:
    """The name of a frame type. A newer version may write types that have no name here."""
    try:
        return FrameType(number).name.lower()
    except ValueError:
        return f"type_{number}"


def scan_files(fs: Filesystem, wal_dir: str) -> Iterator[FileScan]:
    """Scan every file in replay order. A file that is removed meanwhile is left out."""
    found = files.discover(fs, wal_dir)
    for file in found:
        later = [one for one in found if one.group == file.group and one.index > file.index]
        scan = _scan_file(fs, wal_dir, file, later)
        if scan is not None and scan.bad:
            # A running writer can make a valid range scan invalid, because its bytes appear while
            # we read. A range that is invalid twice is invalid.
            doubted = {(place.offset, place.reason) for place in scan.bad}
            scan = _scan_file(fs, wal_dir, file, later)
            if scan is not None:
                scan.bad = [one for one in scan.bad if (one.offset, one.reason) in doubted]
        if scan is not None:
            yield scan


def _scan_file(
    fs: Filesystem, wal_dir: str, file: WalFile, later: list[WalFile]
) -> FileScan | None:
    # The durable end is read before the file: read later, it could include bytes that were written
    # after the file was read.
    synced, has_successor = _durable_by_others(fs, file, later)
    buffer = _load(fs, file)
    if buffer is None:
        return None
    scan = FileScan(file, group_name(wal_dir, file.group), buffer)
    gaps = _find_frames(scan)
    durable = max(synced, _durable_by_own_marks(scan))
    for offset, end, reason in gaps:
        scan.bad.append(BadPlace(offset, end, reason, has_successor or offset < durable))
    if not gaps and scan.used < durable:
        scan.bad.append(BadPlace(scan.used, len(buffer), ENDS_EARLY, True))
    return scan


def _load(fs: Filesystem, file: WalFile) -> bytes | None:
    try:
        handle = fs.open(file.path)
    except FileNotFoundError:
        return None
    try:
        return handle.read_at(0, handle.size())
    finally:
        handle.close()


def _find_frames(scan: FileScan) -> list[tuple[int, int, str]]:
    """Find the frames. Return the ranges between them, each with the reason why it is not one."""
    buffer, at = scan.buffer, 0
    gaps: list[tuple[int, int, str]] = []
    while True:
        items, stop, code = kernel.scan(buffer, at, len(buffer))
        scan.items += items
        scan.used = stop if items else scan.used
        if code == 0 and _is_zero(buffer, stop):
            batch = _incomplete_batch(buffer, items)
            if batch is not None:
                gaps.append((batch, stop, INCOMPLETE_BATCH))
            return gaps
        following = kernel.resync(buffer, stop, len(buffer))
        end = len(buffer) if following < 0 else following
        gaps.append((stop, end, REASONS.get(code, "zeros where a frame should be")))
        if following < 0:
            return gaps
        at = following


def _is_zero(buffer: bytes, start: int) -> bool:
    step = len(_ZEROS)
    return all(
        buffer[at : at + step] == _ZEROS[: min(step, len(buffer) - at)]
        for at in range(start, len(buffer), step)
    )


def _incomplete_batch(buffer: bytes, items: list[Item]) -> int | None:
    """The offset of the last batch, if frames of it are missing."""
    for at in range(len(items) - 1, max(-1, len(items) - 3), -1):
        if items[at][0] == FrameType.BATCH:
            entry = _entry(buffer, items[at][4])
            held = items[at + 1][6] if at + 1 < len(items) else 0
            is_short = isinstance(entry, BatchStarted) and held < entry.count
            return items[at][4] if is_short else None
    return None


def _durable_by_others(fs: Filesystem, file: WalFile, later: list[WalFile]) -> tuple[int, bool]:
    """The offset up to which this file was synced, by the shard's mark and by the next file; and
    whether a later file was written, in which case all of this file was synced."""
    noted = durable_mark.read(fs, file.group)
    known = noted.offset if noted is not None and noted.index == file.index else 0
    heads = (_head(fs, one) for one in later)
    written = [head for head in heads if any(head[:4])]
    named = [_named_end(_entry(head, 0), file.index) for head in written]
    return max([known, *named]), bool(written)


def _durable_by_own_marks(scan: FileScan) -> int:
    """The offset up to which this file was synced, by the marks in the file itself."""
    marks = (item[4] for item in scan.items if item[0] == FrameType.DURABLE_MARK)
    ends = (_named_end(_entry(scan.buffer, at), scan.file.index) for at in marks)
    return max(ends, default=0)


def _named_end(entry: object, index: int) -> int:
    if isinstance(entry, DurableMarked) and entry.file_index == index:
        return entry.offset
    return 0


def _head(fs: Filesystem, file: WalFile) -> bytes:
    try:
        handle = fs.open(file.path)
    except FileNotFoundError:
        return b""
    try:
        return handle.read_at(0, 256)
    finally:
        handle.close()


def _entry(buffer: bytes, offset: int) -> object:
    try:
        frame, _ = decode_frame(buffer, offset)
        return decode_entry(frame)
    except ValueError:
        return None
