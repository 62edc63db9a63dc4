"""Read-only inspection of a slot: it changes nothing and needs only the permission to read.

A sender may use the slot meanwhile. Half a frame or a file that was just removed is read again
before it counts as damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.errors import FormatTooNew, SpoolHole
from penstock.sender.ack_watermark import WATERMARK_NAME, Marks, newest
from penstock.sender.opening import read_segment
from penstock.sender.recovery import Damage, SpoolSegmentFacts, analyze
from penstock.sender.segment import number_of
from penstock.sender.slot import DEAD_LETTER_NAME, LOCK_NAME, QUARANTINE_NAME, Slot
from penstock.storage.fs import DirectoryLock, Filesystem
from penstock.wire.binary_batch import split_records
from penstock.wire.sender_protocol import open_parcel
from penstock.wire.spool_frame import BadFrame, decode_frame

_READS_MAX: Final = 5  # of a slot that changes meanwhile
_PID_BYTES_MAX: Final = 32
_SIGNS: Final = {LOCK_NAME, WATERMARK_NAME, DEAD_LETTER_NAME, QUARANTINE_NAME}


class SlotView(msgspec.Struct, frozen=True):
    """The output of `penstock spool` for a slot."""

    sender_id: str
    path: str
    holder_pid: int | None  # of the process that has opened it
    segments: int
    bytes: int
    frames: int  # not acknowledged, whole
    frames_lost: int  # not acknowledged, damaged
    published_fsn: int
    acked_fsn: int
    oldest_ms: int  # creation of the oldest segment with such a frame, ms since 1970; 0: none
    dead_letters: int
    quarantined: int
    failed: str | None  # why drainers ignore it
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
    """The segments of a slot, read and analyzed once. `damage` is what an opening would report as
    lost now."""

    path: str
    facts: list[SpoolSegmentFacts]
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
        """The number of intact unacknowledged frames."""
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
        """The damage with lost frames, in the form of a quarantine report."""
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
        """Nothing was locked."""


def is_slot(fs: Filesystem, path: str) -> bool:
    """True when a sender has used this directory. A copy of it may lack the hidden files."""
    names = fs.list(path)
    return not _SIGNS.isdisjoint(names) or any(number_of(name) is not None for name in names)


def inspect(fs: Filesystem, path: str, found: Survey | None = None) -> SlotView:
    """The state of the slot in this directory."""
    found = found or survey(fs, path)
    slot = read_only_slot(fs, path)
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
    """Read and analyze the segments."""
    found = _survey_once(fs, path)
    for _ in range(_READS_MAX):
        if not (found.damage or found.problem) or holder(fs, path) is None:
            break
        before, found = found, _survey_once(fs, path)
        if (found.damage, found.problem) == (before.damage, before.problem):
            break  # the same result twice: it is damage
    return found


def _survey_once(fs: Filesystem, path: str) -> Survey:
    # `published` is read before the segments and `acked` after them: so frames that are written or
    # removed meanwhile are neither reported as missing nor expected.
    before = newest(_content(fs, f"{path}/{WATERMARK_NAME}"))
    facts = []
    too_new: FormatTooNew | None = None
    for name in fs.list(path):
        number = number_of(name)
        if number is not None:
            try:
                facts.append(read_segment(fs, f"{path}/{name}", number))
            except FileNotFoundError:
                continue  # removed meanwhile: its frames are acknowledged
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
        findings = analyze(facts, marks, slot=path)
    except (SpoolHole, FormatTooNew) as error:
        fsns = [one.last for one in facts if one.last is not None]
        acked = -1 if marks is None else marks.acked
        return Survey(path, facts, acked, max([acked, *fsns]), [], error)
    return Survey(path, facts, findings.acked, findings.next_fsn - 1, findings.damage)


def frames(
    fs: Filesystem, path: str, found: Survey | None = None
) -> Iterator[tuple[int, bytes | None]]:
    """Numbers and payloads of the unacknowledged frames, in order, with one segment in memory at a
    time. The payload is None if the frame was damaged after the survey."""
    found = found or survey(fs, path)
    for one in found.facts:
        if not one.scan.frames or one.scan.frames.last_fsn <= found.acked:
            continue
        data = _content(fs, one.path)
        if not data:
            continue  # removed meanwhile: its frames are acknowledged
        for frame in one.scan.frames:
            if frame.fsn > found.acked:
                try:
                    yield decode_frame(data[frame.offset : frame.offset + frame.length])
                except BadFrame:
                    yield frame.fsn, None


def rows(fsn: int, payload: bytes) -> Iterator[StoredRow]:
    """The rows of a frame. Raises InvalidArgument for an invalid payload."""
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


def read_only_slot(fs: Filesystem, path: str) -> Slot:
    """A slot for reading, without its lock."""
    lock: DirectoryLock = _NoLock()
    return Slot(fs, path, lock)


def holder(fs: Filesystem, path: str) -> int | None:
    """The process that has opened the slot; 0 when its pid is unknown. The check takes a shared
    lock for an instant; a sender can still lock the slot."""
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
