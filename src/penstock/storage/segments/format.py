"""The bytes of a segment's files. `docs/format/segment.md` is the normative text.

`.data` holds Append frames exactly as the WAL had them. `.idx` gives entry i for seq first + i.
`.tags` maps each tag to its entries. The last two are derived: they can be rebuilt.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass

import msgspec

from penstock.codec.checksum import xxh3_64
from penstock.storage.fs import Buffer

STRIDE = 24
_INDEX_MAGIC = b"PSIX"
_TAGS_MAGIC = b"PSTG"
_INDEX_HEAD = struct.Struct("<4sHHQQIIQQ16s")
_TAGS_HEAD = struct.Struct("<4sHHIIQQ16s")  # …, tags, bytes of names, topic, first seq, log id
_TAG_ROW = struct.Struct("<IIII")  # tag offset, tag bytes, first posting, postings
_SUM = struct.Struct("<Q")
_TAGS_START = _TAGS_HEAD.size + _SUM.size


class SegmentFacts(msgspec.Struct, frozen=True, array_like=True):
    """The facts about a segment that a snapshot contains."""

    first: int
    count: int  # seqs it spans
    records: int  # of those, how many it holds; the rest were dead when it was written
    generation: int  # 0 as sealed; higher after each rewrite
    data_bytes: int
    index_sum: int
    tags_bytes: int  # 0: no record has a tag, there is no sidecar
    first_ts: int
    last_ts: int

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @property
    def stem(self) -> str:
        suffix = f"-{self.generation}" if self.generation else ""
        return f"seg-{self.first:016d}{suffix}"


class About(msgspec.Struct, frozen=True):
    """The log and the topic of a segment, written into it, so that it can be identified without
    other files."""

    topic: str
    topic_id: int
    config: msgspec.Raw
    evict_floor: int
    expiry_floor: int
    delete_floor: int
    first_ts: int
    last_ts: int


@dataclass(frozen=True, slots=True)
class IndexView:
    """A verified `.idx`."""

    topic_id: int
    first: int
    count: int
    data_bytes: int
    log_id: bytes
    about: About
    entries: memoryview


def encode_index(
    *, topic_id: int, first: int, data_bytes: int, log_id: bytes, about: About, entries: Buffer
) -> tuple[bytes, int]:
    """The head of an `.idx` (its entries follow as they are) and the checksum of the whole."""
    text = msgspec.json.encode(about)
    text += b" " * (-len(text) % 8)
    entries_sum = xxh3_64(entries)
    head = _INDEX_HEAD.pack(
        _INDEX_MAGIC,
        1,
        STRIDE,
        topic_id,
        first,
        len(entries) // STRIDE,
        len(text),
        data_bytes,
        entries_sum,
        log_id,
    )
    head_sum = xxh3_64(head + text)
    return head + _SUM.pack(head_sum) + text, head_sum ^ entries_sum


def decode_index(buffer: memoryview) -> tuple[IndexView, int]:
    """The index and its checksum; ValueError with the reason when it is invalid."""
    start = _INDEX_HEAD.size + _SUM.size
    if len(buffer) < start:
        raise ValueError("index is too short")
    magic, version, stride, topic_id, first, count, text_len, data_bytes, entries_sum, log_id = (
        _INDEX_HEAD.unpack_from(buffer)
    )
    if magic != _INDEX_MAGIC or version != 1 or stride != STRIDE:
        raise ValueError("index has an unknown head")
    text = bytes(buffer[start : start + text_len])
    (head_sum,) = _SUM.unpack_from(buffer, _INDEX_HEAD.size)
    if head_sum != xxh3_64(bytes(buffer[: _INDEX_HEAD.size]) + text):
        raise ValueError("index head's checksum differs")
    entries = buffer[start + text_len :]
    if len(entries) != count * STRIDE:
        raise ValueError("index has the wrong length")
    if entries_sum != xxh3_64(entries):
        raise ValueError("index entries' checksum differs")
    about = msgspec.json.decode(text, type=About)
    view = IndexView(topic_id, first, count, data_bytes, log_id, about, entries)
    return view, head_sum ^ entries_sum


def encode_tags(
    groups: dict[bytes, bytearray], *, topic_id: int, first: int, log_id: bytes
) -> bytes:
    """The sidecar: tags sorted, each with its entry numbers in ascending order."""
    rows, names, postings = bytearray(), bytearray(), bytearray()
    for tag in sorted(groups):
        numbers = groups[tag]
        rows += _TAG_ROW.pack(len(names), len(tag), len(postings) // 4, len(numbers) // 4)
        names += tag
        postings += numbers
    names += b"\0" * (-len(names) % 4)
    body = bytes(rows) + bytes(names) + bytes(postings)
    head = _TAGS_HEAD.pack(_TAGS_MAGIC, 1, 0, len(groups), len(names), topic_id, first, log_id)
    return head + _SUM.pack(xxh3_64(head + body)) + body


class TagView:
    """A verified sidecar: binary search over mapped bytes. Immutable."""

    __slots__ = ("_buffer", "_count", "_names", "_postings", "owner")

    def __init__(self, buffer: memoryview) -> None:
        if len(buffer) < _TAGS_START:
            raise ValueError("tag sidecar is too short")
        head = _TAGS_HEAD.unpack_from(buffer)
        magic, version, _, count, names_bytes, topic_id, first, log_id = head
        if magic != _TAGS_MAGIC or version != 1:
            raise ValueError("tag sidecar has an unknown head")
        (checksum,) = _SUM.unpack_from(buffer, _TAGS_HEAD.size)
        covered = bytes(buffer[: _TAGS_HEAD.size]) + bytes(buffer[_TAGS_START:])
        if checksum != xxh3_64(covered):
            raise ValueError("tag sidecar's checksum differs")
        self.owner = (topic_id, first, log_id)
        self._buffer = buffer
        self._count: int = count
        self._names = _TAGS_START + count * _TAG_ROW.size
        self._postings = self._names + names_bytes

    def find(self, value: bytes, *, is_prefix: bool) -> bytes:
        """Entry numbers (u32 array, ascending) of records with this tag or prefix."""
        rows = range(self._count)
        at = bisect_left(rows, value, key=self._tag)
        found: list[bytes] = []
        while at < self._count:
            tag = self._tag(at)
            if tag != value and not (is_prefix and tag.startswith(value)):
                break
            found.append(self._numbers(at))
            at += 1
        if len(found) <= 1:
            return found[0] if found else b""
        merged = sorted(number for part in found for number in memoryview(part).cast("I"))
        return struct.pack(f"<{len(merged)}I", *merged)

    def _row(self, at: int) -> tuple[int, int, int, int]:
        start = _TAGS_START + at * _TAG_ROW.size
        name, size, first, count = _TAG_ROW.unpack_from(self._buffer, start)
        return name, size, first, count

    def _tag(self, at: int) -> bytes:
        name, size, _, _ = self._row(at)
        return bytes(self._buffer[self._names + name : self._names + name + size])

    def _numbers(self, at: int) -> bytes:
        _, _, first, count = self._row(at)
        start = self._postings + first * 4
        return bytes(self._buffer[start : start + count * 4])
