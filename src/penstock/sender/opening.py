"""Opens a slot: reads every segment, analyzes them and quarantines damaged bytes.

It needs no free space: a slot on a full disk opens, so that draining it can free some.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace

from penstock.clock import Clock, SystemClock
from penstock.errors import FormatTooNew, NetworkFilesystem, SpoolFailed, StorageError
from penstock.sender.ack_watermark import AckWatermark
from penstock.sender.memory_filesystem import RamFilesystem
from penstock.sender.recovery import Damage, SlotFindings, SpoolSegmentFacts, Torn, analyze
from penstock.sender.segment import (
    INCARNATION_BYTES,
    SegmentScan,
    UnknownVersion,
    decode_head,
    number_of,
    scan,
    walk_unplaced,
)
from penstock.sender.segment_files import TEMPORARY_NAMES
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Slot
from penstock.sender.spool import Spool
from penstock.storage.fs import Filesystem, OsFilesystem


def open_spool(
    settings: SpoolSettings,
    *,
    fs: Filesystem | None = None,
    clock: Clock | None = None,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> Spool:
    """Lock the slot and recover its frames. Every opening begins a new incarnation: the end of the
    last run may be lost, and a server must never see two frames with the same number in one."""
    if settings.sf_dir is None:
        fs, path = RamFilesystem(), f"/{settings.sender_id}"
    else:
        fs, path = fs or OsFilesystem(), f"{os.path.abspath(settings.sf_dir)}/{settings.sender_id}"
    if not settings.allow_network_fs:
        _check_local(fs, path)
    slot = _slot(fs, path, settings.sf_dir is not None)
    try:
        watermark = AckWatermark(fs, path)
        findings = recover(slot, watermark)
        return Spool(
            settings,
            slot,
            watermark,
            findings,
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
    """Creates only `sf_dir` itself: with a typing error in its path a new spool would begin, and
    the frames of the right one would never be sent."""
    sf_dir = os.path.dirname(path)
    parent = os.path.dirname(sf_dir)
    try:
        if is_disk and not fs.exists(parent):
            raise StorageError(
                sf_dir,
                reason=f"its parent {parent} does not exist",
                hint="create it",
            )
        return Slot.open(fs, path)
    except OSError as error:
        raise _unusable(path, error) from error


def _check_local(fs: Filesystem, path: str) -> None:
    sf_dir = os.path.dirname(path)
    kind = fs.network_kind(sf_dir)
    if kind:
        raise NetworkFilesystem(
            sf_dir, kind=kind, allowed_by="sf_allow_network_fs=on in the connect string"
        )


def _unusable(path: str, error: OSError) -> SpoolFailed:
    where = error.filename if isinstance(error.filename, str) else path
    return SpoolFailed(
        path,
        reason=f"{where} cannot be used: {error.strerror or error}",
        hint="sf_dir must be a directory that this user can write to",
    )


def recover(slot: Slot, watermark: AckWatermark) -> SlotFindings:
    """Recover the state of the slot. FormatTooNew and SpoolHole change nothing on disk."""
    fs = slot.fs
    names = fs.list(slot.path)
    findings = analyze(read_segments(slot), watermark.read(), slot=slot.path)
    for damage in findings.damage:
        _quarantine_damage(slot, damage, findings)
    for torn in findings.torn:
        _quarantine_torn(slot, torn, findings)
    for path in findings.unreadable:
        with contextlib.suppress(OSError):
            slot.quarantine_file(path)
    temporary = [f"{slot.path}/{name}" for name in TEMPORARY_NAMES if name in names]
    _remove(fs, [*findings.empty, *temporary])
    if findings.leftovers:
        # The watermark must be durable before the segments are removed.
        with contextlib.suppress(OSError):
            watermark.record_durably(findings.acked, findings.next_fsn - 1)
            _remove(fs, findings.leftovers)
    _cut_unused(fs, findings)
    return findings


def read_segments(slot: Slot) -> list[SpoolSegmentFacts]:
    """Read every segment file of a slot, in the order of their numbers."""
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
    """Remove files. The next opening removes those that stay."""
    for path in paths:
        with contextlib.suppress(OSError):
            fs.unlink(path)


def read_segment(fs: Filesystem, path: str, number: int) -> SpoolSegmentFacts:
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
        return SpoolSegmentFacts(path, number, len(data), None, SegmentScan(), has_frames)
    found = scan(data, head)
    return SpoolSegmentFacts(path, number, len(data), head, found, bool(found.frames))


def _quarantine_damage(slot: Slot, damage: Damage, findings: SlotFindings) -> None:
    """Copy damaged bytes to the quarantine with a report. If that fails, as on a full disk, the
    whole segment is moved there when it is no longer needed."""
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
        for segment in findings.segments:
            segment.must_quarantine |= segment.path == damage.path and damage.length > 0


def _quarantine_torn(slot: Slot, torn: Torn, findings: SlotFindings) -> None:
    """Copy the bytes after the last frame before they are cut off: they may have been a frame. If
    that fails, the whole file is kept."""
    name = torn.path.rpartition("/")[2]
    report = {
        "file": name,
        "offset": torn.offset,
        "length": torn.length,
        "reason": "these bytes are not a frame, and no frame follows",
    }
    try:
        data = _read(slot.fs, torn.path, torn.offset, torn.length)
        slot.quarantine(f"{name}-{torn.offset:010d}-{torn.incarnation.hex()}", data, report)
    except OSError:
        for going in (findings.empty, findings.leftovers):
            if torn.path in going:
                going.remove(torn.path)
                findings.unreadable.append(torn.path)
        for segment in findings.segments:
            segment.must_quarantine |= segment.path == torn.path


def _read(fs: Filesystem, path: str, offset: int, length: int) -> bytes:
    file = fs.open(path)
    try:
        return file.read_at(offset, length)
    finally:
        file.close()


def _cut_unused(fs: Filesystem, findings: SlotFindings) -> None:
    """Truncate the newest segment after its last frame: no frame is added to it, and many short
    runs would fill the spool with zeros. Not when damaged bytes are there."""
    if not findings.segments:
        return
    segment = findings.segments[-1]
    if segment.must_quarantine or segment.size == segment.end:
        return
    with contextlib.suppress(OSError):
        file = fs.open(segment.path, writable=True)
        try:
            file.truncate(segment.end)
        finally:
            file.close()
        findings.segments[-1] = replace(segment, size=segment.end)
