"""A slot as an onlooker sees it: nothing is changed, and the right to read is enough.

A sender may be at work in the slot meanwhile. What only such a sender can explain, half a frame or
a file that has just gone, is looked at again before it counts as damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.errors import FormatTooNew, SpoolHole
from penstock.sender.opening import read_segment
from penstock.sender.recovery import Damage, SegmentFacts, judge
from penstock.sender.segment import number_of
from penstock.sender.slot import DEAD_LETTER_NAME, LOCK_NAME, QUARANTINE_NAME, Slot
from penstock.sender.watermark import WATERMARK_NAME, Marks, newest
from penstock.storage.fs import DirectoryLock, Filesystem
from penstock.wire.batch import split_records
from penstock.wire.sending import open_parcel
from penstock.wire.spool_frame import BadFrame, decode_frame

_LOOKS_MAX: Final = 5  # at a slot that changes under the eye
_PID_BYTES_MAX: Final = 32
_SIGNS: Final = {LOCK_NAME, WATERMARK_NAME, DEAD_LETTER_NAME, QUARANTINE_NAME}


class SlotView(msgspec.Struct, frozen=True):
    """What `penstock spool` tells of a slot."""

    sender_id: str
    path: str
    holder_pid: int | None  # of the process that has it open
    segments: int
    bytes: int
    frames: int  # not acknowledged, whole
    frames_lost: int  # not acknowledged, damaged
    published_fsn: int
    acked_fsn: int
    oldest_ms: int  # when the oldest segment with such a frame was begun, ms since 1970; 0: none
    dead_letters: int
    quarantined: int
    failed: str | None  # why drainers leave it alone
    last_error: str | None
    problem: str | None  # why it cannot be opened
    is_later_format: bool = False  # the problem: a later version wrote it


class StoredRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of a frame."""

    fsn: int
    topic: str
    data: msgspec.Raw
    tag: str | None = None
    node: str | None = None
    meta: msgspec.Raw | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """The segments of a slot, read and judged once. `damage` is what would be lost if the slot
    were opened now."""

    path: str
    facts: list[SegmentFacts]
    acked: int
    published: int
    damage: list[Damage]
    error: SpoolHole | FormatTooNew | None = None  # what opening it would raise

    @property
    def problem(self) -> str | None:
        return None if self.error is None else str(self.error)

    @property
    def is_later_format(self) -> bool:
        return isinstance(self.error, FormatTooNew)

    @property
    def frames(self) -> int:
        """Whole ones that wait."""
        return sum(frame.fsn > self.acked for one in self.facts for frame in one.scan.frames)

    @property
    def frames_lost(self) -> int:
        return sum(one.frames_above(self.acked) for one in self.damage)

    @property
    def oldest_ms(self) -> int:
        for one in self.facts:
            if one.head and one.scan.frames and one.scan.frames.last_fsn > self.acked:
                return one.head.created_us // 1000
        return 0

    @property
    def losses(self) -> list[dict[str, Any]]:
        """The damage that frames are lost with, as a report in the quarantine folder has it."""
        return [
            {
                "file": one.path.rpartition("/")[2],
                "offset": one.offset,
                "length": one.length,
                "first_fsn": max(one.first_fsn, self.acked + 1),
                "last_fsn": one.last_fsn,
                "reason": one.reason,
            }
            for one in self.damage
            if one.frames_above(self.acked)
        ]


class _NoLock:
    def release(self) -> None:
        """There is none."""


def is_slot(fs: Filesystem, path: str) -> bool:
    """Whether a sender has been in this folder; a copy may have lost what begins with a dot."""
    names = fs.list(path)
    return not _SIGNS.isdisjoint(names) or any(number_of(name) is not None for name in names)


def look(fs: Filesystem, path: str, found: Survey | None = None) -> SlotView:
    """The slot in this folder."""
    found = found or survey(fs, path)
    slot = onlooker(fs, path)
    return SlotView(
        path.rpartition("/")[2],
        path,
        holder(fs, path),
        len(found.facts),
        sum(one.size for one in found.facts),
        found.frames,
        found.frames_lost,
        found.published,
        found.acked,
        found.oldest_ms,
        slot.count_dead_letters()[0],
        len(slot.quarantined()),
        slot.failed(),
        slot.last_error(),
        found.problem,
        found.is_later_format,
    )


def survey(fs: Filesystem, path: str) -> Survey:
    """Read and judge the segments."""
    found = _judged(fs, path)
    for _ in range(_LOOKS_MAX):
        if not (found.damage or found.problem) or holder(fs, path) is None:
            break
        before, found = found, _judged(fs, path)
        if (found.damage, found.problem) == (before.damage, before.problem):
            break  # it stays, so it is there
    return found


def _judged(fs: Filesystem, path: str) -> Survey:
    # What was published is read before the segments are, what was acknowledged after it: frames
    # that come and go meanwhile are then neither missed nor expected.
    before = newest(_content(fs, f"{path}/{WATERMARK_NAME}"))
    facts = []
    too_new: FormatTooNew | None = None
    for name in fs.list(path):
        number = number_of(name)
        if number is not None:
            try:
                facts.append(read_segment(fs, f"{path}/{name}", number))
            except FileNotFoundError:
                continue  # gone meanwhile: its frames are acknowledged
            except FormatTooNew as error:
                too_new = too_new or error
    facts.sort(key=lambda one: one.number)
    marks = newest(_content(fs, f"{path}/{WATERMARK_NAME}"))
    if marks is not None:
        known = -1 if before is None else before.published
        marks = Marks(marks.generation, marks.acked, max(known, marks.acked))
    try:
        if too_new is not None:
            raise too_new
        verdict = judge(facts, marks, slot=path)
    except (SpoolHole, FormatTooNew) as error:
        fsns = [one.last for one in facts if one.last is not None]
        acked = -1 if marks is None else marks.acked
        return Survey(path, facts, acked, max([acked, *fsns]), [], error)
    return Survey(path, facts, verdict.acked, verdict.next_fsn - 1, verdict.damage)


def frames(
    fs: Filesystem, path: str, found: Survey | None = None
) -> Iterator[tuple[int, bytes | None]]:
    """Numbers and payloads of the frames that are not acknowledged, in their order, one segment
    in memory at a time. The payload is None if the frame has been damaged since the survey."""
    found = found or survey(fs, path)
    for one in found.facts:
        if not one.scan.frames or one.scan.frames.last_fsn <= found.acked:
            continue
        data = _content(fs, one.path)
        if not data:
            continue  # gone meanwhile: its frames are acknowledged
        for frame in one.scan.frames:
            if frame.fsn > found.acked:
                try:
                    yield decode_frame(data[frame.offset : frame.offset + frame.length])
                except BadFrame:
                    yield frame.fsn, None


def rows(fsn: int, payload: bytes) -> Iterator[StoredRow]:
    """What a frame holds. InvalidArgument when that cannot be told."""
    parcel = open_parcel(payload)
    datas, metas, tags, nodes = split_records(payload, parcel.at, parcel.count)
    for at, data in enumerate(datas):
        meta = metas[at] if metas else None
        yield StoredRow(
            fsn,
            parcel.topic,
            msgspec.Raw(data),
            _text(tags[at] if tags else None),
            _text(nodes[at] if nodes else None),
            None if meta is None else msgspec.Raw(meta),
        )


def onlooker(fs: Filesystem, path: str) -> Slot:
    """A slot that is only read, by somebody who does not hold it."""
    lock: DirectoryLock = _NoLock()
    return Slot(fs, path, lock)


def holder(fs: Filesystem, path: str) -> int | None:
    """The process that has the slot open; 0 when it left no name. Looking shares the lock for an
    instant, which keeps no sender from taking it."""
    place = f"{path}/{LOCK_NAME}"
    if not fs.is_locked(place):
        return None
    text = _content(fs, place)[:_PID_BYTES_MAX].decode("ascii", "replace").strip()
    return int(text) if text.isdecimal() else 0


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _content(fs: Filesystem, path: str) -> bytes:
    try:
        file = fs.open(path)
    except FileNotFoundError:
        return b""
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()
