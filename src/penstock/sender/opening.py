"""Open a slot: read every segment, have it judged, and put aside what is damaged.

Nothing here needs free space: a slot on a full disk opens, so that draining it can free some.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace

from penstock.clock import Clock, SystemClock
from penstock.errors import FormatTooNew, SpoolFailed, StorageError
from penstock.sender.files import TEMPORARY_NAMES
from penstock.sender.ram import RamFilesystem
from penstock.sender.recovery import Damage, SegmentFacts, Torn, Verdict, judge
from penstock.sender.segment import (
    INCARNATION_BYTES,
    Scan,
    UnknownVersion,
    decode_head,
    number_of,
    scan,
    walk_unplaced,
)
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Slot
from penstock.sender.spool import Spool
from penstock.sender.watermark import Watermark
from penstock.storage.fs import Filesystem, OsFilesystem


def open_spool(
    settings: SpoolSettings,
    *,
    fs: Filesystem | None = None,
    clock: Clock | None = None,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> Spool:
    """Take the slot and read what it holds. Every opening begins a new incarnation: the end of
    the last one may be lost, and no number may mean two frames to a server."""
    if settings.sf_dir is None:
        fs, path = RamFilesystem(), f"/{settings.sender_id}"
    else:
        fs, path = fs or OsFilesystem(), f"{os.path.abspath(settings.sf_dir)}/{settings.sender_id}"
    slot = _slot(fs, path, settings.sf_dir is not None)
    try:
        watermark = Watermark(fs, path)
        verdict = recover(slot, watermark)
        return Spool(
            settings,
            slot,
            watermark,
            verdict,
            clock=clock or SystemClock(),
            incarnation=random_bytes(INCARNATION_BYTES),
        )
    except OSError as error:
        slot.release()
        raise _unusable(path, error) from error
    except BaseException:
        slot.release()
        raise


def _slot(fs: Filesystem, path: str, is_disk: bool) -> Slot:
    """Only `sf_dir` itself is created: a typing error in its path would begin another spool, and
    what waits in the right one would wait for ever."""
    sf_dir = os.path.dirname(path)
    parent = os.path.dirname(sf_dir)
    try:
        if is_disk and not fs.exists(parent):
            raise StorageError(
                sf_dir,
                reason=f"its parent {parent} does not exist",
                hint="create it first",
            )
        return Slot.open(fs, path)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: str, error: OSError) -> SpoolFailed:
    where = error.filename if isinstance(error.filename, str) else path
    return SpoolFailed(
        path,
        reason=f"{where} cannot be used: {error.strerror or error}",
        hint="sf_dir has to be a folder that this user may write to",
    )


def recover(slot: Slot, watermark: Watermark) -> Verdict:
    """What the slot holds. FormatTooNew and SpoolHole leave everything as it was."""
    fs = slot.fs
    names = fs.list(slot.path)
    verdict = judge(read_segments(slot), watermark.read(), slot=slot.path)
    for damage in verdict.damage:
        _put_aside(slot, damage, verdict)
    for torn in verdict.torn:
        _put_torn_aside(slot, torn, verdict)
    for path in verdict.unreadable:
        with contextlib.suppress(OSError):
            slot.quarantine_file(path)
    temporary = [f"{slot.path}/{name}" for name in TEMPORARY_NAMES if name in names]
    _remove(fs, [*verdict.empty, *temporary])
    if verdict.leftovers:
        # The watermark they are judged by may not be durable yet, and has to be before they go.
        with contextlib.suppress(OSError):
            watermark.settle(verdict.acked, verdict.next_fsn - 1)
            _remove(fs, verdict.leftovers)
    _cut_unused(fs, verdict)
    return verdict


def read_segments(slot: Slot) -> list[SegmentFacts]:
    """Every segment file of a slot, in the order of their numbers."""
    found = []
    for name in slot.fs.list(slot.path):
        number = number_of(name)
        if number is None:
            continue
        path = f"{slot.path}/{name}"
        try:
            found.append(read_segment(slot.fs, path, number))
        except OSError as error:
            raise SpoolFailed(path, reason=f"cannot be read: {error.strerror}") from error
    return found


def _remove(fs: Filesystem, paths: list[str]) -> None:
    """What stays is judged the same by the next opening."""
    for path in paths:
        with contextlib.suppress(OSError):
            fs.unlink(path)


def read_segment(fs: Filesystem, path: str, number: int) -> SegmentFacts:
    file = fs.open(path)
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    try:
        head = decode_head(data)
    except UnknownVersion as error:
        raise FormatTooNew(path, reason=str(error), hint="open it with a later version") from None
    if head is None or head.number != number:
        has_frames = next(walk_unplaced(data), None) is not None
        return SegmentFacts(path, number, len(data), None, Scan(), has_frames)
    found = scan(data, head)
    return SegmentFacts(path, number, len(data), head, found, bool(found.frames))


def _put_aside(slot: Slot, damage: Damage, verdict: Verdict) -> None:
    """Copy damaged bytes and say what is lost with them. When that fails, as on a full disk, the
    whole segment is moved aside once it is no longer needed."""
    name = damage.path.rpartition("/")[2]
    report = {
        "file": name,
        "offset": damage.offset,
        "length": damage.length,
        "first_fsn": damage.first_fsn,
        "last_fsn": damage.last_fsn,
        "reason": damage.reason,
    }
    try:
        data = b""
        if damage.length:
            data = _read(slot.fs, damage.path, damage.offset, damage.length)
        slot.quarantine(f"{name}-{damage.offset:010d}-{damage.first_fsn}", data, report)
    except OSError:
        for segment in verdict.segments:
            segment.is_kept_aside |= segment.path == damage.path and damage.length > 0


def _put_torn_aside(slot: Slot, torn: Torn, verdict: Verdict) -> None:
    """Copy what lies behind the last frame before it is cut off: it may have been one. When that
    fails the whole file is kept."""
    name = torn.path.rpartition("/")[2]
    report = {
        "file": name,
        "offset": torn.offset,
        "length": torn.length,
        "reason": "these bytes are no frame, and nothing follows",
    }
    try:
        data = _read(slot.fs, torn.path, torn.offset, torn.length)
        slot.quarantine(f"{name}-{torn.offset:010d}-{torn.incarnation.hex()}", data, report)
    except OSError:
        for going in (verdict.empty, verdict.leftovers):
            if torn.path in going:
                going.remove(torn.path)
                verdict.unreadable.append(torn.path)
        for segment in verdict.segments:
            segment.is_kept_aside |= segment.path == torn.path


def _read(fs: Filesystem, path: str, offset: int, length: int) -> bytes:
    file = fs.open(path)
    try:
        return file.read_at(offset, length)
    finally:
        file.close()


def _cut_unused(fs: Filesystem, verdict: Verdict) -> None:
    """Give back the rest of the newest segment: nothing is ever added to it, and many short
    runs would fill the spool with zeros. Not when damaged bytes lie there."""
    if not verdict.segments:
        return
    segment = verdict.segments[-1]
    if segment.is_kept_aside or segment.size == segment.end:
        return
    with contextlib.suppress(OSError):
        file = fs.open(segment.path, writable=True)
        try:
            file.truncate(segment.end)
        finally:
            file.close()
        verdict.segments[-1] = replace(segment, size=segment.end)
