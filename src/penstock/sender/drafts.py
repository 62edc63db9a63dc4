"""Rows that wait to become a frame: one draft for each topic. Pure.

Rows are laid out as they travel when they are appended, so that a flush has only to put a head
before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument, RecordTooLarge
from penstock.wire.sending import pack_record, parcel_head

ROW_HEAD_BYTES: Final = len(pack_record(0, 0, 0, 0))
_encode = msgspec.json.Encoder().encode
_RAW = msgspec.json.Decoder(msgspec.Raw)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])


class Draft:
    """The rows of one topic."""

    __slots__ = ("body", "count", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.body = bytearray()
        self.count = 0

    def parts(self) -> list[bytes]:
        """The payload of a frame with all of them."""
        return [parcel_head(self.topic, self.count), bytes(self.body)]

    def clear(self) -> None:
        self.body = bytearray()
        self.count = 0


def text_of(data: Any) -> bytes:
    """A payload as JSON text. `bytes` are such a text already."""
    if type(data) is bytes:
        try:
            _RAW.decode(data)
            if not data.isascii():
                data.decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgument(f"payload is not valid JSON: {error}") from None
        return data
    try:
        return _encode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"payload is not JSON-able: {error}") from None


def row(text: bytes, tag: str | None, node: str | None, meta: Any) -> bytes:
    """One row that has more than a payload."""
    label = _label("tag", tag, limits.TAG_BYTES_MAX)
    by = _label("node", node, limits.NODE_BYTES_MAX)
    about = b"" if meta is None else text_of(meta)
    if len(about) > limits.META_BYTES_MAX:
        raise InvalidArgument(f"meta has {len(about)} bytes, at most {limits.META_BYTES_MAX}")
    if about.lstrip()[:1] == b"{" and len(_OBJECT.decode(about)) > limits.META_KEYS_MAX:
        raise InvalidArgument(f"meta has more than {limits.META_KEYS_MAX} keys")
    check_size(len(text) + len(about))
    return b"".join(
        [pack_record(len(text), len(about), len(label), len(by)), label, by, about, text]
    )


def rows(
    records: Sequence[Any], tag: str | None, node: str | None, bytes_max: int
) -> list[tuple[bytes, int]]:
    """Many rows at once: pieces of at most a frame each, and how many rows each has. A row that
    is larger than `bytes_max` is a piece of its own."""
    if isinstance(records, (str, bytes, dict)) or not isinstance(records, Sequence):
        raise InvalidArgument("records must be a list of payloads")
    texts = _texts(records)
    if texts:
        check_size(max(map(len, texts)))
    label = _label("tag", tag, limits.TAG_BYTES_MAX)
    by = _label("node", node, limits.NODE_BYTES_MAX)
    sizes = len(label), len(by)
    between = label + by
    pieces = []
    for some in _cut(texts, ROW_HEAD_BYTES + len(between), bytes_max):
        if between:
            laid = [x for text in some for x in (pack_record(len(text), 0, *sizes), between, text)]
        else:
            laid = [x for text in some for x in (pack_record(len(text), 0, 0, 0), text)]
        pieces.append((b"".join(laid), len(some)))
    return pieces


def _cut(texts: list[bytes], extra: int, bytes_max: int) -> Iterator[list[bytes]]:
    """As few runs as possible of at most so many records and bytes."""
    start = size = 0
    for at, text in enumerate(texts):
        more = len(text) + extra
        if at > start and (size + more > bytes_max or at - start >= limits.BATCH_RECORDS_MAX):
            yield texts[start:at]
            start, size = at, 0
        size += more
    if start < len(texts):
        yield texts[start:]


def _texts(records: Sequence[Any]) -> list[bytes]:
    """All as JSON texts. Those that are texts are checked with one call, as one array: that each
    element is as long as its text shows that they begin and end at the same places."""
    if all(type(one) is bytes for one in records):
        joined = b"[" + b",".join(records) + b"]"
        try:
            found = _RAWS.decode(joined) if records else []
            if joined.isascii() and list(map(len, found)) == list(map(len, records)):
                return list(records)
        except (msgspec.DecodeError, RecursionError):
            pass  # one of them is wrong, or has blanks around it: look at each
    return [text_of(one) for one in records]


def check_size(size: int) -> None:
    if size > limits.RECORD_BYTES_MAX:
        raise RecordTooLarge(
            f"a record has {size} bytes, at most {limits.RECORD_BYTES_MAX} are allowed"
        )


def _label(what: str, value: str | None, most: int) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} must be text, not {type(value).__name__}")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} is not valid Unicode: {error.reason}") from None
    if not encoded or len(encoded) > most:
        raise InvalidArgument(f"{what} must have 1 to {most} bytes, and has {len(encoded)}")
    return encoded
