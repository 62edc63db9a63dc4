"""Entries ↔ the bodies of control frames. `docs/format/frame.md` is the normative text."""

from __future__ import annotations

import dataclasses
import struct
from typing import assert_never

import msgspec

from penstock.codec import kernel
from penstock.codec.frame import FRAME_BYTES_MIN, Flags, Frame, FrameType
from penstock.entries import (
    BatchStarted,
    ControlEntry,
    CopiesLogged,
    DurableMarked,
    FloorMoved,
    LeaseEvent,
    LeasesChanged,
    PositionMoved,
    RecordsDeleted,
    RouterCreated,
    RouterDropped,
    Scarred,
    SeqsLost,
    SeqsReserved,
    TopicConfigured,
    TopicCreated,
    TopicDropped,
    WalRange,
)
from penstock.types import Cause, TagMatch, TopicConfig

_U64 = struct.Struct("<Q")
_U32 = struct.Struct("<I")
_FLOORS = struct.Struct("<QQQ")
_DURABLE = struct.Struct("<QQ")
_LOSS = struct.Struct("<QQB")
_COPIES = struct.Struct("<BQQQ")
_PLACE = struct.Struct("<QQQ")
_RUNS = msgspec.msgpack.Decoder(tuple[int, ...])
_LEASES = struct.Struct("<BQQQ")
_CONFIG = msgspec.json.Decoder(TopicConfig)


def encode_entry(entry: ControlEntry, ts: int) -> bytes:
    """One control frame, ready for the log."""
    match entry:
        case TopicCreated():
            body = _named(entry.name, entry.config)
            return _frame(FrameType.TOPIC_CREATE, entry.topic_id, 0, entry.ts, body)
        case TopicConfigured():
            body = _named(entry.name, entry.config)
            return _frame(FrameType.CONFIG_UPDATE, entry.topic_id, 0, ts, body)
        case TopicDropped():
            return _frame(FrameType.TOPIC_DELETE, entry.topic_id, 0, ts, _named(entry.name, None))
        case RecordsDeleted():
            return _frame(FrameType.DELETE, entry.topic_id, 0, ts, _deleted(entry))
        case FloorMoved():
            body = _FLOORS.pack(entry.evict, entry.earliest, entry.expiry)
            return _frame(FrameType.EVICT_WATERMARK, entry.topic_id, 0, ts, body)
        case SeqsReserved():
            body = _U64.pack(entry.ceiling)
            return _frame(FrameType.HEAD_WATERMARK, entry.topic_id, 0, ts, body)
        case SeqsLost():
            body = _LOSS.pack(entry.first, entry.last, int(entry.cause))
            return _frame(FrameType.LOSS, entry.topic_id, 0, ts, body)
        case PositionMoved():
            body = _sized(entry.name.encode()) + _U64.pack(entry.seq) + bytes([entry.is_removed])
            return _frame(FrameType.POSITION, entry.topic_id, 0, entry.ts, body)
        case BatchStarted():
            body = _U32.pack(entry.count)
            if entry.router:
                body += _sized(entry.router.encode()) + _U64.pack(entry.cursor)
            flags = Flags.HAS_TAG if entry.key else 0
            return kernel.encode_control(
                FrameType.BATCH,
                flags,
                entry.topic_id,
                entry.first_seq,
                entry.ts,
                b"",
                entry.key,
                body,
            )
        case DurableMarked():
            return encode_durable_mark(entry.file_index, entry.offset, ts)
        case Scarred():
            return scar(entry.bytes_lost, ts)
        case RouterCreated():
            return _frame(FrameType.ROUTER_CREATE, entry.topic_id, 0, ts, _router(entry))
        case RouterDropped():
            body = _sized(entry.name.encode())
            return _frame(FrameType.ROUTER_DELETE, entry.topic_id, 0, ts, body)
        case CopiesLogged():
            return _frame(
                FrameType.COPIES, entry.topic_id, entry.first_seq, entry.ts, _copies(entry)
            )
        case LeasesChanged():
            return _frame(FrameType.LEASES, entry.topic_id, 0, ts, _leases(entry))
        case _:
            assert_never(entry)


def encode_durable_mark(file_index: int, offset: int, ts: int) -> bytes:
    """The frame of a `DurableMarked`: one is written for nearly every sync."""
    return _frame(FrameType.DURABLE_MARK, 0, 0, ts, _DURABLE.pack(file_index, offset))


def scar(size: int, ts: int) -> bytes:
    """A frame of exactly `size` bytes (at least an empty frame's) to fill a damaged place."""
    return _frame(FrameType.SCAR, 0, 0, ts, bytes(max(0, size - FRAME_BYTES_MIN)))


def decode_entry(frame: Frame) -> ControlEntry | None:
    """The meaning of a control frame; None for a type this version does not know.

    Raises ValueError when the body does not fit its type.
    """
    try:
        return _decode(frame)
    except (struct.error, msgspec.DecodeError, UnicodeDecodeError, IndexError) as error:
        raise ValueError(f"frame of type {frame.type} has an unreadable body: {error}") from None


def _decode(frame: Frame) -> ControlEntry | None:
    body = _Body(frame.data)
    topic_id = frame.topic_id
    match frame.type:
        case FrameType.TOPIC_CREATE:
            name = body.text()
            return TopicCreated(topic_id, name, _CONFIG.decode(body.sized()), frame.ts)
        case FrameType.CONFIG_UPDATE:
            return TopicConfigured(topic_id, body.text(), _CONFIG.decode(body.sized()))
        case FrameType.TOPIC_DELETE:
            return TopicDropped(topic_id, body.text())
        case FrameType.DELETE:
            before = body.optional_u64()
            match_ = body.match()
            seqs = tuple(body.u64() for _ in range(body.u32()))
            bound = body.optional_u64()
            return RecordsDeleted(topic_id, before, match_, seqs, bound or 0)
        case FrameType.EVICT_WATERMARK:
            return FloorMoved(topic_id, body.u64(), body.u64(), body.u64())
        case FrameType.HEAD_WATERMARK:
            return SeqsReserved(topic_id, body.u64())
        case FrameType.LOSS:
            return SeqsLost(topic_id, body.u64(), body.u64(), Cause(body.u8()))
        case FrameType.POSITION:
            return PositionMoved(
                topic_id, body.text(), body.u64(), frame.ts, is_removed=bool(body.u8() & 1)
            )
        case FrameType.BATCH:
            batch = BatchStarted(topic_id, frame.seq, body.u32(), frame.tag, frame.ts)
            if body.is_at_end:
                return batch
            return dataclasses.replace(batch, router=body.text(), cursor=body.u64())
        case FrameType.DURABLE_MARK:
            return DurableMarked(body.u64(), body.u64())
        case FrameType.SCAR:
            return Scarred(len(frame.data) + FRAME_BYTES_MIN)
        case FrameType.ROUTER_CREATE:
            name, source, dest = body.text(), body.text(), body.text()
            return RouterCreated(
                name,
                source,
                dest,
                body.u8(),
                body.match(),
                body.u64(),
                body.u64(),
                topic_id,
                0 if body.is_at_end else body.u64(),
            )
        case FrameType.ROUTER_DELETE:
            return RouterDropped(body.text(), topic_id)
        case FrameType.COPIES:
            return _copies_of(frame, body)
        case FrameType.LEASES:
            return _leases_of(topic_id, body)
        case _:
            return None


class _Body:
    """A cursor over a frame's data."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return values

    def u64(self) -> int:
        return self.take(_U64)[0]

    def u32(self) -> int:
        return self.take(_U32)[0]

    def u8(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def optional_u64(self) -> int | None:
        present = self.u8()
        value = self.u64()
        return value if present else None

    def sized(self) -> bytes:
        size = self.u32()
        if self._at + size > len(self._data):
            raise IndexError("a length overruns the body")
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        return self.sized().decode()

    def match(self) -> TagMatch | None:
        present, is_prefix, value = self.u8(), self.u8(), self.sized()
        return TagMatch(value, bool(is_prefix)) if present else None


def _frame(kind: FrameType, topic_id: int, seq: int, ts: int, body: bytes) -> bytes:
    return kernel.encode_control(kind, Flags.DURABLE, topic_id, seq, ts, b"", b"", body)


def _sized(value: bytes) -> bytes:
    return _U32.pack(len(value)) + value


def _named(name: str, config: TopicConfig | None) -> bytes:
    return _sized(name.encode()) + _sized(msgspec.json.encode(config) if config else b"")


def _optional(value: int | None) -> bytes:
    return bytes([value is not None]) + _U64.pack(value or 0)


def _match(match: TagMatch | None) -> bytes:
    if match is None:
        return bytes(2) + _sized(b"")
    return bytes([1, match.is_prefix]) + _sized(match.value)


def _deleted(entry: RecordsDeleted) -> bytes:
    seqs = struct.pack(f"<{len(entry.seqs)}Q", *entry.seqs)
    return (
        _optional(entry.before_seq)
        + _match(entry.match)
        + _U32.pack(len(entry.seqs))
        + seqs
        + _optional(entry.bound_seq)
    )


def _leases(entry: LeasesChanged) -> bytes:
    """Seqs, and after them as many deliveries, or none."""
    head = _LEASES.pack(entry.event, entry.lease_id, entry.until_ms, entry.lease_ms)
    counts = _U32.pack(len(entry.seqs)) + _U32.pack(len(entry.deliveries))
    seqs = struct.pack(f"<{len(entry.seqs)}Q", *entry.seqs)
    deliveries = struct.pack(f"<{len(entry.deliveries)}Q", *entry.deliveries)
    return head + _sized(entry.node.encode()) + counts + seqs + deliveries


def _leases_of(topic_id: int, body: _Body) -> LeasesChanged:
    event, lease_id, until_ms, lease_ms = body.take(_LEASES)
    node = body.text()
    seqs, deliveries = body.u32(), body.u32()
    return LeasesChanged(
        topic_id,
        LeaseEvent(event),
        body.take(struct.Struct(f"<{seqs}Q")),
        body.take(struct.Struct(f"<{deliveries}Q")),
        node,
        lease_id,
        until_ms,
        lease_ms,
    )


def _router(entry: RouterCreated) -> bytes:
    names = b"".join(_sized(part.encode()) for part in (entry.name, entry.source, entry.dest))
    tail = _U64.pack(entry.cursor) + _U64.pack(entry.dest_base)
    if entry.source_id:
        tail += _U64.pack(entry.source_id)
    return names + bytes([entry.options]) + _match(entry.match) + tail


def _copies(entry: CopiesLogged) -> bytes:
    head = _COPIES.pack(entry.options, entry.cursor, entry.lost, entry.source_id)
    head += _sized(entry.router.encode())
    place = entry.place
    if place is None:
        return head
    return (
        head
        + _sized(entry.source.encode())
        + _sized(place.group.encode())
        + _PLACE.pack(place.file_index, place.start, place.end)
        + _sized(msgspec.msgpack.encode(entry.runs))
    )


def _copies_of(frame: Frame, body: _Body) -> CopiesLogged:
    options, cursor, lost, source_id = body.take(_COPIES)
    entry = CopiesLogged(
        frame.topic_id, frame.seq, frame.ts, body.text(), options, cursor, lost, source_id
    )
    if body.is_at_end:
        return entry
    source, group = body.text(), body.text()
    place = WalRange(group, *body.take(_PLACE))
    runs = _RUNS.decode(body.sized())
    if len(runs) % 2 or min(runs, default=0) < 0:
        raise IndexError("runs are pairs of numbers")
    return dataclasses.replace(entry, source=source, place=place, runs=runs)
