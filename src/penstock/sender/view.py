"""A slot as an onlooker sees it: nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from penstock.errors import SpoolHole, StorageError
from penstock.sender.opening import read_segment
from penstock.sender.recovery import SegmentFacts, Verdict, judge
from penstock.sender.segment import number_of
from penstock.sender.slot import LOCK_NAME, Slot
from penstock.sender.watermark import WATERMARK_NAME, newest
from penstock.storage.fs import DirectoryLock, Filesystem
from penstock.wire.batch import split_records
from penstock.wire.sending import open_parcel
from penstock.wire.spool_frame import BadFrame, decode_frame


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


class StoredRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of a frame."""

    fsn: int
    topic: str
    data: msgspec.Raw
    tag: str | None = None
    node: str | None = None
    meta: msgspec.Raw | None = None


class _NoLock:
    def release(self) -> None:
        """There is none."""


def look(fs: Filesystem, path: str) -> SlotView:
    """The slot in this folder."""
    facts, published, acked, verdict, problem = _judged(fs, path)
    unacked = [(one, frame.fsn) for one in facts for frame in one.scan.frames if frame.fsn > acked]
    first = [one.head.created_us // 1000 for one, _ in unacked[:1] if one.head is not None]
    lost = 0
    if verdict is not None:
        for one in verdict.damage:
            lost += one.frames_above(acked)
    slot = onlooker(fs, path)
    return SlotView(
        path.rpartition("/")[2],
        path,
        holder(fs, path),
        len(facts),
        sum(one.size for one in facts),
        len(unacked),
        lost,
        published,
        acked,
        first[0] if first else 0,
        len(slot.dead_letters()),
        len(slot.quarantined()),
        slot.failed(),
        slot.last_error(),
        problem,
    )


def _judged(
    fs: Filesystem, path: str
) -> tuple[list[SegmentFacts], int, int, Verdict | None, str | None]:
    facts = []
    problem = None
    for name in fs.list(path):
        number = number_of(name)
        if number is not None:
            try:
                facts.append(read_segment(fs, f"{path}/{name}", number))
            except FileNotFoundError:
                continue  # gone meanwhile: its frames are acknowledged
            except StorageError as error:
                problem = str(error)
    marks = newest(_content(fs, f"{path}/{WATERMARK_NAME}"))
    try:
        verdict = judge(facts, marks, slot=path)
    except SpoolHole as error:
        fsns = [one.last for one in facts if one.last is not None]
        acked = -1 if marks is None else marks.acked
        return facts, max([acked, *fsns]), acked, None, str(error)
    return facts, verdict.next_fsn - 1, verdict.acked, verdict, problem


def frames(fs: Filesystem, path: str) -> Iterator[tuple[int, bytes]]:
    """Numbers and payloads of the whole frames that are not acknowledged, in their order."""
    facts, _, acked, _, _ = _judged(fs, path)
    for one in sorted(facts, key=lambda each: each.number):
        data = _content(fs, one.path)
        for frame in one.scan.frames:
            if frame.fsn > acked:
                try:
                    yield decode_frame(data[frame.offset : frame.offset + frame.length])
                except BadFrame:
                    continue


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
    """The process that has the slot open; 0 when it left no name. Whether there is one shows only
    when the lock is tried, for an instant."""
    place = f"{path}/{LOCK_NAME}"
    if not fs.exists(place):
        return None
    try:
        fs.lock(place).release()
    except BlockingIOError as error:
        text = str(error.strerror or "")
        return int(text) if text.isdecimal() else 0
    return None


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
