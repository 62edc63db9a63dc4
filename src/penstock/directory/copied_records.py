"""Records of one topic as records of another: the same when copied and when derived again."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from penstock.codec import kernel
from penstock.directory.copy_origin import Origin, marked_meta
from penstock.entries import RecordsAppended
from penstock.types import RouterRules

_ANY_HOPS = 16


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one step: an entry of the destination, and the seqs in the source."""

    entry: RecordsAppended
    seqs: tuple[int, ...]


def make(
    frames: bytes,
    topic_id: int,
    first_seq: int,
    ts: int,
    rules: RouterRules,
    origin: Origin,
    *,
    durable: bool,
    hops_max: int = _ANY_HOPS,
) -> Copies | None:
    """Copies of the records in consecutive frames; None when none may be copied."""
    copied, offsets, payload, packed = kernel.readdress(
        frames,
        topic_id,
        first_seq,
        ts,
        4 if durable else 0,
        rules.preserve_node,
        rules.preserve_tag,
        hops_max,
    )
    seqs = struct.unpack(f"<{len(packed) // 8}Q", packed)
    if not seqs:
        return None
    if rules.exactly_once:
        copied, offsets, payload = _stamped(copied, offsets, seqs, topic_id, origin)
    entry = RecordsAppended(topic_id, first_seq, len(seqs), ts, ts, payload, copied, offsets)
    return Copies(entry, seqs)


def _stamped(
    frames: bytes, offsets: bytes, seqs: tuple[int, ...], topic_id: int, origin: Origin
) -> tuple[bytes, bytes, int]:
    """The same records, each with its origin in the meta."""
    starts = memoryview(offsets).cast("I")
    stamped: list[bytes] = []
    places: list[int] = []
    at = payload = 0
    for index, source_seq in enumerate(seqs):
        seq, ts, node, tag, data, meta = kernel.frame_at(frames, offsets, 4, index)
        marked = marked_meta(meta, origin, source_seq)
        body = b'{"m":%b,"d":%b}' % (marked, data)
        flags = frames[starts[index] + 5]
        stamped.append(kernel.encode_control(1, flags, topic_id, seq, ts, node, tag, body))
        places.append(at)
        at += len(stamped[-1])
        payload += len(marked) + len(data)
    return b"".join(stamped), struct.pack(f"<{len(places)}I", *places), payload
