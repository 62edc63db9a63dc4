"""Rows that wait for a flush, by topic. Pure.

Rows are encoded for the wire when they are appended, so that a flush only adds a header.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument, RecordTooLarge
from penstock.wire.binary_batch import (
    SHALLOW_BYTES_MAX,
    are_json,
    check_depth,
    pack_records,
    sizes,
    too_deep,
)
from penstock.wire.sender_protocol import ROW_BYTES, pack_record, parcel_head

_encode = msgspec.json.Encoder().encode
_RAW = msgspec.json.Decoder(msgspec.Raw)
_PIECES = 4  # joined into one
_GATHER_MASK = 255  # after every 256 rows
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TopicRows:
    """The rows of one topic. `texts` are the payloads of the newest rows, which have `tag` and
    `node` and no meta, and are not encoded yet.

    A signal handler may raise an exception whenever a call returns: fields that must change
    together change without a call in between."""

    __slots__ = (
        "_by",
        "_encoded",
        "_label",
        "count",
        "extra",
        "node",
        "size",
        "tag",
        "texts",
        "topic",
    )

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.texts: list[bytes] = []
        self.tag: str | None = None
        self.node: str | None = None
        self.extra = ROW_BYTES  # bytes of a row besides its payload
        self.size = 0
        self.count = 0
        self._encoded: list[bytes] = []  # encoded rows, one or several in each piece
        self._label = self._by = b""

    def set_labels(self, tag: str | None, node: str | None) -> None:
        """The next rows have this tag and node. An error changes nothing."""
        label = _label("tag", tag, limits.TAG_BYTES_MAX)
        by = _label("node", node, limits.NODE_BYTES_MAX)
        self.encode()
        self.tag, self.node, self._label, self._by = tag, node, label, by
        self.extra = ROW_BYTES + len(label) + len(by)

    def add(self, encoded: bytes, count: int) -> None:
        """Add encoded rows."""
        self.encode()
        size = len(encoded)
        self._encoded += [encoded]
        self.size += size
        self.count += count

    def encode(self) -> None:
        """Encode `texts`. Frequent calls leave less work for the flush."""
        if self.texts:
            encoded = pack_records(self.texts, self._label, self._by)
            self._encoded += [encoded]
            self.texts = []
            if not self.count & _GATHER_MASK:  # a flush handles each piece
                joined = b"".join(self._encoded[-_PIECES:])
                self._encoded[-_PIECES:] = [joined]

    def parts(self) -> list[bytes]:
        """The payload of a frame with all rows."""
        self.encode()
        return [parcel_head(self.topic, self.count), *self._encoded]

    def clear(self) -> None:
        self.texts = []
        self._encoded = []
        self.size = 0
        self.count = 0


def text_of(data: Any, what: str = "payload") -> bytes:
    """A value as JSON text. `bytes` must be JSON text. It is checked here, because the server would
    reject the whole frame."""
    if type(data) is bytes:
        if len(data) > SHALLOW_BYTES_MAX:
            check_depth([data], what)
        try:
            _RAW.decode(data)
            if not data.isascii():
                data.decode()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{what} is not valid JSON: {error}") from None
        return data
    try:
        text = _encode(data)
    except RecursionError:
        raise too_deep(what) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{what} cannot be encoded as JSON: {error}") from None
    if len(text) > SHALLOW_BYTES_MAX:
        check_depth([text], what)
    return text


def row(text: bytes, tag: str | None, node: str | None, meta: Any) -> bytes:
    """Encode one row."""
    label = _label("tag", tag, limits.TAG_BYTES_MAX)
    by = _label("node", node, limits.NODE_BYTES_MAX)
    about = b"" if meta is None else text_of(meta, "meta")
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
    """Encode many rows, as pieces of at most one frame with their numbers of rows. A row larger
    than `bytes_max` is a piece of its own."""
    if isinstance(records, (str, bytes, dict)) or not isinstance(records, Sequence):
        raise InvalidArgument("records must be a list of payloads")
    texts, total = _texts(records if type(records) is list else list(records))
    label = _label("tag", tag, limits.TAG_BYTES_MAX)
    by = _label("node", node, limits.NODE_BYTES_MAX)
    if not texts:
        return []
    extra = ROW_BYTES + len(label) + len(by)
    if len(texts) <= limits.BATCH_RECORDS_MAX and total + extra * len(texts) <= bytes_max:
        return [(pack_records(texts, label, by), len(texts))]
    return [(pack_records(some, label, by), len(some)) for some in _cut(texts, extra, bytes_max)]


def _cut(texts: list[bytes], extra: int, bytes_max: int) -> Iterator[list[bytes]]:
    """Split the texts into runs within the limits of a frame."""
    start = size = 0
    for at, text in enumerate(texts):
        more = len(text) + extra
        if at > start and (size + more > bytes_max or at - start >= limits.BATCH_RECORDS_MAX):
            yield texts[start:at]
            start, size = at, 0
        size += more
    if start < len(texts):
        yield texts[start:]


def _texts(records: list[Any]) -> tuple[list[bytes], int]:
    """The records as checked JSON texts, and their total bytes."""
    total, largest = sizes(records)
    texts: list[bytes] = records
    if total < 0 or not are_json(texts):  # not all are bytes, or one may be invalid: check each
        texts = [text_of(one) for one in records]
        total, largest = sizes(texts)
    check_size(largest)
    return texts, total


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
