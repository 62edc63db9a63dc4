"""Encodes rows of a DataFrame as records of the wire format, a whole Arrow batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.spark.json_texts import objects, texts

SORT_BYTES_MAX: Final = 256 << 20
_BYTES: Final = pa.large_binary()
_OWN: Final = ("topic", "tag", "node", "meta", "data")


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of one topic. Row i is `data[ends[i]:ends[i + 1]]`, and was row `indices[i]` of its
    batch (None: row i)."""

    topic: str
    data: memoryview
    ends: memoryview
    indices: Any = None

    @property
    def count(self) -> int:
        return len(self.ends) - 1

    def index(self, row: int) -> int:
        return row if self.indices is None else int(self.indices[row].as_py())


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Which column becomes which part of a record. An empty `topic` means: the column `topic`."""

    topic: str
    tag: str = ""  # name of a column, or empty for none
    node: str = ""
    meta: str = ""
    data: str = ""  # empty: the columns `others` become one JSON object
    others: tuple[str, ...] = ()


def mapping_of(names: list[str], topic: str) -> ColumnMapping:
    """The mapping for a DataFrame with these columns, or InvalidArgument."""
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidArgument(f"the DataFrame has two columns named {min(twice)!r}")
    if not topic and "topic" not in names:
        raise InvalidArgument("no topic: set option topic, or add a column topic")
    if topic and "topic" in names:
        raise InvalidArgument("both option topic and a column topic are given: remove one of them")
    known: dict[str, str] = {name: name for name in _OWN if name in names}
    others = tuple(name for name in names if name not in _OWN)
    if "data" in names and others == ("key",) and "tag" not in names:
        known["tag"], others = "key", ()
    if "data" in names and others:
        raise InvalidArgument(
            f"column {others[0]!r} cannot be beside column data: move it into data, or drop it. "
            "Columns of a record are topic, tag (or key), node, meta and data"
        )
    if "data" not in names and not others:
        raise InvalidArgument("nothing to write: the DataFrame has neither data nor other columns")
    known.pop("topic", None)
    return ColumnMapping(topic, others=others, **known)


def encode(mapping: ColumnMapping, batch: pa.RecordBatch) -> Iterator[Rows]:
    """Encode the rows of a batch, topic by topic."""
    if batch.num_rows:
        yield from _by_topic(mapping.topic, _encoded(mapping, batch), _topics(mapping, batch))


def encode_sorted(mapping: ColumnMapping, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    """Encode all rows of a partition, sorted by their bytes, topic by topic. The result does not
    depend on the order of the rows. InvalidArgument above SORT_BYTES_MAX."""
    encoded: list[Any] = []
    topics: list[Any] = []
    size = 0
    for batch in batches:
        encoded.append(_encoded(mapping, batch))
        topics.append(_topics(mapping, batch))
        size += encoded[-1].nbytes
        if size > SORT_BYTES_MAX:
            raise InvalidArgument(
                f"rowOrder=any sorts a partition in memory, at most {SORT_BYTES_MAX} bytes: "
                "repartition the DataFrame into more partitions"
            )
    if encoded:
        whole = pa.concat_arrays(encoded)
        order = pc.sort_indices(whole)
        names = None if mapping.topic else pa.concat_arrays(topics).take(order)
        yield from _by_topic(mapping.topic, whole.take(order), names)


def _topics(mapping: ColumnMapping, batch: pa.RecordBatch) -> Any:
    if mapping.topic:
        return None
    topics = pc.cast(batch.column("topic"), pa.large_string())
    if topics.null_count:
        raise InvalidArgument("a row has no topic: its column topic is null")
    return topics


def _by_topic(topic: str, encoded: pa.Array, topics: Any) -> Iterator[Rows]:
    if topics is None:
        yield _rows(topic, encoded)
        return
    for one in pc.unique(topics):
        mask = pc.equal(topics, one)
        yield _rows(one.as_py(), encoded.filter(mask), pc.indices_nonzero(mask))


def _rows(topic: str, encoded: pa.Array, indices: Any = None) -> Rows:
    _, ends, data = encoded.buffers()
    offsets = memoryview(ends).cast("q")[encoded.offset : encoded.offset + len(encoded) + 1]
    return Rows(topic, memoryview(data if data is not None else b"").cast("B"), offsets, indices)


def _encoded(mapping: ColumnMapping, batch: pa.RecordBatch) -> pa.Array:
    """Lengths and texts of each row, concatenated, in the format of `wire.sender_protocol`."""
    if mapping.data:
        data = _payload(mapping.data, batch.column(mapping.data))
    else:
        data = objects(mapping.others, [batch.column(name) for name in mapping.others])
    data = data.cast(_BYTES)
    parts = [_length(data, 4)]
    texts_: list[Any] = []
    for name, width, most in (
        (mapping.meta, 4, limits.META_BYTES_MAX),
        (mapping.tag, 2, limits.TAG_BYTES_MAX),
        (mapping.node, 2, limits.NODE_BYTES_MAX),
    ):
        if not name:
            parts.append(pa.scalar(bytes(width), _BYTES))
            continue
        column = _column(name, batch.column(name), name == mapping.meta)
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        if longest > most:
            raise InvalidArgument(f"a {name} has {longest} bytes, at most {most} are allowed")
        parts.append(_length(column, width))
        texts_.append(column)
    # Behind the lengths come tag, node, meta and data.
    if mapping.meta:
        texts_.append(texts_.pop(0))
    return pc.binary_join_element_wise(*parts, *texts_, data, pa.scalar(b"", _BYTES))


def _payload(name: str, column: pa.Array) -> pa.Array:
    """A text column is JSON already; the server validates it. A null becomes JSON null."""
    if not _is_text(column.type):
        return texts(name, column)
    column = column.cast(_BYTES)
    return pc.fill_null(column, b"null") if column.null_count else column


def _column(name: str, column: pa.Array, is_json: bool) -> pa.Array:
    """A tag, node or meta column. Null and empty mean none."""
    if not _is_text(column.type):
        made = texts(name, column) if is_json else pc.cast(column, pa.large_string())
        column = pc.if_else(pc.is_valid(column), made, pa.scalar("", pa.large_string()))
    column = column.cast(_BYTES)
    return pc.fill_null(column, b"") if column.null_count else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _length(column: pa.Array, width: int) -> pa.Array:
    """The lengths of the texts, each in `width` bytes, little-endian."""
    kind = pa.int32() if width == 4 else pa.uint16()
    lengths = pc.cast(pc.binary_length(column), kind)
    raw = pa.Array.from_buffers(
        pa.binary(width), len(lengths), [None, lengths.buffers()[1]], offset=lengths.offset
    )
    return raw.cast(_BYTES)
