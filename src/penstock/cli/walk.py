"""A look at the WAL's files as they lie there: frames, and the places that are none.

Recovery stops at the first bad place of a shard. A look goes past it, so that people see what
is behind; it changes nothing and decides nothing. Files are read and not mapped: their writer
may be at work, and cuts a file to its length when it closes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.codec import kernel
from penstock.codec.entry import decode_entry
from penstock.codec.frame import Frame, FrameType, decode_frame
from penstock.storage.fs import Filesystem
from penstock.storage.wal import files, mark
from penstock.storage.wal.files import WalFile
from penstock.storage.wal.recovery import ENDS_EARLY, INCOMPLETE_BATCH, REASONS, Item, group_name
from penstock.types import BatchStarted, DurableMarked

_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class BadPlace:
    """Bytes that are no frame. `end` is where the next frame begins, or the end of the file."""

    offset: int
    end: int
    reason: str
    is_damage: bool  # below the known-durable end; else a torn tail


@dataclass(slots=True)
class Look:
    """One file, looked at."""

    file: WalFile
    group: str  # its directory below the WAL's, for people
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
    """The frame type in words; a newer version may write one we have no word for."""
    try:
        return FrameType(number).name.lower()
    except ValueError:
        return f"type_{number}"


def looks(fs: Filesystem, wal_dir: str) -> Iterator[Look]:
    """Every file in replay order. One that is removed meanwhile is left out."""
    found = files.discover(fs, wal_dir)
    for file in found:
        later = [one for one in found if one.group == file.group and one.index > file.index]
        look = _look(fs, wal_dir, file, later)
        if look is not None and look.bad:
            # A writer at work can make a sound place look bad, as its bytes appear while we
            # read. What is bad twice is bad.
            doubted = {(place.offset, place.reason) for place in look.bad}
            look = _look(fs, wal_dir, file, later)
            if look is not None:
                look.bad = [one for one in look.bad if (one.offset, one.reason) in doubted]
        if look is not None:
            yield look


def _look(fs: Filesystem, wal_dir: str, file: WalFile, later: list[WalFile]) -> Look | None:
    # Who tells the durable end comes first: asked later, they would speak of bytes written
    # after ours were read.
    told, has_successor = _told_durable(fs, file, later)
    buffer = _load(fs, file)
    if buffer is None:
        return None
    look = Look(file, group_name(wal_dir, file.group), buffer)
    gaps = _scan(look)
    durable = max(told, _marked_durable(look))
    for offset, end, reason in gaps:
        look.bad.append(BadPlace(offset, end, reason, has_successor or offset < durable))
    if not gaps and look.used < durable:
        look.bad.append(BadPlace(look.used, len(buffer), ENDS_EARLY, True))
    return look


def _load(fs: Filesystem, file: WalFile) -> bytes | None:
    try:
        handle = fs.open(file.path)
    except FileNotFoundError:
        return None
    try:
        return handle.read_at(0, handle.size())
    finally:
        handle.close()


def _scan(look: Look) -> list[tuple[int, int, str]]:
    """Fill in the frames; the places between them, with why each is no frame."""
    buffer, at = look.buffer, 0
    gaps: list[tuple[int, int, str]] = []
    while True:
        items, stop, code = kernel.scan(buffer, at, len(buffer))
        look.items += items
        look.used = stop if items else look.used
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
    """Where the last batch begins, if frames of it are missing."""
    for at in range(len(items) - 1, max(-1, len(items) - 3), -1):
        if items[at][0] == FrameType.BATCH:
            entry = _entry(buffer, items[at][4])
            held = items[at + 1][6] if at + 1 < len(items) else 0
            is_short = isinstance(entry, BatchStarted) and held < entry.count
            return items[at][4] if is_short else None
    return None


def _told_durable(fs: Filesystem, file: WalFile, later: list[WalFile]) -> tuple[int, bool]:
    """The offset up to which this file was synced, by the shard's mark and by the file after it;
    and whether a later file was written to, in which case the whole of this one was."""
    noted = mark.read(fs, file.group)
    known = noted.offset if noted is not None and noted.index == file.index else 0
    heads = (_head(fs, one) for one in later)
    written = [head for head in heads if any(head[:4])]
    named = [_named_end(_entry(head, 0), file.index) for head in written]
    return max([known, *named]), bool(written)


def _marked_durable(look: Look) -> int:
    """The same, by the marks in the file itself."""
    marks = (item[4] for item in look.items if item[0] == FrameType.DURABLE_MARK)
    ends = (_named_end(_entry(look.buffer, at), look.file.index) for at in marks)
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
