"""Records and their frames, built the slow and obvious way."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import xxhash
from hypothesis import strategies as st

TAG, META, DATA, DOLLAR, VERIFY, ARRAY, FRAMES = 1, 2, 4, 8, 16, 32, 64
ALL = TAG | META | DATA | DOLLAR | VERIFY
TOPIC, FIRST, TS = 7, 100, 1_700_000_000_000
NO_LIMIT = 1 << 40


@dataclass(frozen=True, slots=True)
class Record:
    data: bytes
    meta: bytes | None = None
    tag: bytes | None = None
    node: bytes | None = None

    @property
    def payload_bytes(self) -> int:
        return len(self.data) + len(self.meta or b"")

    @property
    def body(self) -> bytes:
        if self.meta:
            return b'{"m":' + self.meta + b',"d":' + self.data + b"}"
        return b'{"d":' + self.data + b"}"


def frame_of(
    kind: int,
    flags: int,
    topic_id: int,
    seq: int,
    ts: int,
    node: bytes,
    tag: bytes,
    data: bytes,
) -> bytes:
    """A frame as docs/format/frame.md has it, without help from the package."""
    flags = flags & ~3 | (tag != b"") | (node != b"") << 1
    covered = struct.pack(
        "<BBQQQHHI", kind, flags, topic_id, seq, ts, len(node), len(tag), len(data)
    )
    covered += node + tag + data
    checksum = struct.pack("<Q", xxhash.xxh3_64_intdigest(covered))
    return struct.pack("<I", len(covered) + 8) + covered + checksum


def append_frame(record: Record, seq: int, topic_id: int = TOPIC, ts: int = TS) -> bytes:
    return frame_of(1, 4, topic_id, seq, ts, record.node or b"", record.tag or b"", record.body)


def frames_of(records: Sequence[Record], first_seq: int = FIRST) -> list[bytes]:
    return [append_frame(record, first_seq + i) for i, record in enumerate(records)]


def u32s(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def numbers_in(array: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(array) // 4}I", array))


def starts_of(frames: Sequence[bytes]) -> list[int]:
    return [sum(map(len, frames[:i])) for i in range(len(frames))]


def bitmap_of(dead: set[int]) -> bytes | None:
    """LSB first; no longer than it has to be."""
    bits = sum(1 << i for i in dead)
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little") if dead else None


def encode(kernel: ModuleType, records: Sequence[Record]) -> tuple[bytes, bytes, int]:
    frames, offsets, payload = kernel.encode_appends(
        TOPIC,
        FIRST,
        TS,
        4,
        [record.data for record in records],
        [record.meta for record in records],
        [record.tag for record in records],
        [record.node for record in records],
        None,
        None,
    )
    return frames, offsets, payload


def json_text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def object_of(record: Record, seq: int, options: int) -> bytes:
    """What `project` should say of a record, made with the json module."""
    sign = "$" if options & DOLLAR else ""
    fields = {f"{sign}seq": seq, f"{sign}ts": TS}
    if record.node:
        fields[f"{sign}node"] = record.node.decode()
    if record.tag and options & TAG:
        fields[f"{sign}tag"] = record.tag.decode()
    text = json_text(fields)[:-1]
    if record.meta and options & META:
        text += b',"meta":' + record.meta
    if options & DATA:
        text += b',"data":' + record.data
    return text + b"}"


def outcome(call: Callable[[], object]) -> object:
    """The answer, or which kind of refusal."""
    try:
        return call()
    except (ValueError, IndexError, OverflowError, TypeError) as error:
        return type(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)
json_texts = json_values.map(json_text) | json_values.map(
    lambda v: json.dumps(v, indent=1).encode()
)
labels = st.none() | st.text(max_size=10).map(str.encode) | st.sampled_from([b"a", b"ab", b"b"])
records = st.builds(Record, json_texts, st.none() | json_texts, labels, labels)
record_lists = st.lists(records, max_size=8)
