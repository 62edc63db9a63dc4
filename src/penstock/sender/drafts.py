"""Rows that wait to become a frame: one draft for each topic. Pure.

Rows are laid out as they travel when they are appended, so that a flush has only to put a head
before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from penstock import limits
from penstock.errors import InvalidArgument, RecordTooLarge
from penstock.wire.batch import (
    SHALLOW_BYTES_MAX,
    are_json,
    check_depth,
    lay_records,
    sizes,
    too_deep,
)
from penstock.wire.sending import ROW_BYTES, pack_record, parcel_head

_encode = msgspec.json.Encoder().encode
_RAW = msgspec.json.Decoder(msgspec.Raw)
_PIECES = 4  # that become one
_GATHER_MASK = 255  # whenever there are so many rows more
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Draft:
    """The rows of one topic. `texts` are those behind all others: rows with `tag` and `node`, and
    with nothing else but a payload.

    A signal handler may raise its exception whenever a call returns: what has to change together
    changes without a call in between."""

    __slots__ = (
        "_by",
        "_label",
        "_laid",
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
        self.extra = ROW_BYTES  # what each text takes besides itself
        self.size = 0
        self.count = 0
        self._laid: list[bytes] = []  # rows, one or several in each piece
        self._label = self._by = b""

    def turn(self, tag: str | None, node: str | None) -> None:
        """Rows with these come next. After an error nothing has changed."""
        label = _label("tag", tag, limits.TAG_BYTES_MAX)
        by = _label("node", node, limits.NODE_BYTES_MAX)
        self.lay()
        self.tag, self.node, self._label, self._by = tag, node, label, by
        self.extra = ROW_BYTES + len(label) + len(by)

    def add(self, laid: bytes, count: int) -> None:
        """Rows that are laid out."""
        self.lay()
        size = len(laid)
        self._laid += [laid]
        self.size += size
        self.count += count

    def lay(self) -> None:
        """Lay out the texts: the more often, the less is left to do when the frame is due."""
        if self.texts:
            laid = lay_records(self.texts, self._label, self._by)
            self._laid += [laid]
            self.texts = []
            if not self.count & _GATHER_MASK:  # a flush looks at each piece
                joined = b"".join(self._laid[-_PIECES:])
                self._laid[-_PIECES:] = [joined]

    def parts(self) -> list[bytes]:
        """The payload of a frame with all of them."""
        self.lay()
        return [parcel_head(self.topic, self.count), *self._laid]

    def clear(self) -> None:
        self.texts = []
        self._laid = []
        self.size = 0
        self.count = 0


def text_of(data: Any, what: str = "payload") -> bytes:
    """A value as JSON text. `bytes` are such a text already. What a server would refuse is refused
    here: there it would cost a whole frame."""
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
        raise InvalidArgument(f"{what} is not JSON-able: {error}") from None
    if len(text) > SHALLOW_BYTES_MAX:
        check_depth([text], what)
    return text


def row(text: bytes, tag: str | None, node: str | None, meta: Any) -> bytes:
    """One row, laid out."""
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
    """Many rows at once: pieces of at most a frame each, and how many rows each has. A row that
    is larger than `bytes_max` is a piece of its own."""
    if isinstance(records, (str, bytes, dict)) or not isinstance(records, Sequence):
        raise InvalidArgument("records must be a list of payloads")
    texts, total = _texts(records if type(records) is list else list(records))
    label = _label("tag", tag, limits.TAG_BYTES_MAX)
    by = _label("node", node, limits.NODE_BYTES_MAX)
    if not texts:
        return []
    extra = ROW_BYTES + len(label) + len(by)
    if len(texts) <= limits.BATCH_RECORDS_MAX and total + extra * len(texts) <= bytes_max:
        return [(lay_records(texts, label, by), len(texts))]
    return [(lay_records(some, label, by), len(some)) for some in _cut(texts, extra, bytes_max)]


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


def _texts(records: list[Any]) -> tuple[list[bytes], int]:
    """All as JSON texts of a size that is allowed, and their bytes."""
    total, largest = sizes(records)
    texts: list[bytes] = records
    if total < 0 or not are_json(texts):  # not all are texts, or one is not plain: look at each
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
