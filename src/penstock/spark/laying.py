"""Rows of a DataFrame laid out as records travel: a batch at a time, without a look at any one."""

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
_NONE: Final = pa.scalar(b"", _BYTES)
_OWN: Final = ("topic", "tag", "node", "meta", "data")


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of one topic. Row i is `data[ends[i]:ends[i + 1]]`, and was row `places[i]` of its
    batch (None: row i)."""

    topic: str
    data: memoryview
    ends: memoryview
    places: Any = None

    @property
    def count(self) -> int:
        return len(self.ends) - 1

    def place(self, row: int) -> int:
        return row if self.places is None else int(self.places[row].as_py())


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns become what. `topic` is where all rows go, or empty: a column says it."""

    topic: str
    tag: str = ""  # the name of a column, or empty: there is none
    node: str = ""
    meta: str = ""
    data: str = ""  # empty: `others` are one JSON object
    others: tuple[str, ...] = ()


def layout_of(names: list[str], topic: str) -> Layout:
    """The layout for a DataFrame with these columns, or InvalidArgument."""
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InvalidArgument(f"the DataFrame has two columns named {min(twice)!r}")
    if not topic and "topic" not in names:
        raise InvalidArgument("give option topic, or a column topic: where should rows go?")
    if topic and "topic" in names:
        raise InvalidArgument("option topic and a column topic are given: drop one of them")
    known: dict[str, str] = {name: name for name in _OWN if name in names}
    others = tuple(name for name in names if name not in _OWN)
    if "data" in names and others == ("key",) and "tag" not in names:
        known["tag"], others = "key", ()
    if "data" in names and others:
        raise InvalidArgument(
            f"column {others[0]!r} has no place beside data: put it into data, or drop it. "
            "Columns of a record are topic, tag (or key), node, meta and data"
        )
    if "data" not in names and not others:
        raise InvalidArgument("there is nothing to write: give a column data, or others")
    known.pop("topic", None)
    return Layout(topic, others=others, **known)


def lay(layout: Layout, batch: pa.RecordBatch) -> Iterator[Rows]:
    """The rows of a batch, topic by topic."""
    if batch.num_rows:
        yield from _by_topic(layout.topic, _laid(layout, batch), _topics(layout, batch))


def lay_sorted(layout: Layout, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    """All rows of a partition, topic by topic, sorted: their order says nothing of how they came.
    InvalidArgument when memory should not hold them."""
    laid: list[Any] = []
    topics: list[Any] = []
    size = 0
    for batch in batches:
        laid.append(_laid(layout, batch))
        topics.append(_topics(layout, batch))
        size += laid[-1].nbytes
        if size > SORT_BYTES_MAX:
            raise InvalidArgument(
                f"rowOrder=any sorts a partition in memory, at most {SORT_BYTES_MAX} bytes: "
                "repartition the DataFrame into more of them"
            )
    if laid:
        whole = pa.concat_arrays(laid)
        order = pc.sort_indices(whole)
        names = None if layout.topic else pa.concat_arrays(topics).take(order)
        yield from _by_topic(layout.topic, whole.take(order), names)


def _topics(layout: Layout, batch: pa.RecordBatch) -> Any:
    if layout.topic:
        return None
    topics = pc.cast(batch.column("topic"), pa.large_string())
    if topics.null_count:
        raise InvalidArgument("a row has no topic: its column topic is null")
    return topics


def _by_topic(topic: str, laid: pa.Array, topics: Any) -> Iterator[Rows]:
    if topics is None:
        yield _rows(topic, laid)
        return
    for one in pc.unique(topics):
        mask = pc.equal(topics, one)
        yield _rows(one.as_py(), laid.filter(mask), pc.indices_nonzero(mask))


def _rows(topic: str, laid: pa.Array, places: Any = None) -> Rows:
    _, ends, data = laid.buffers()
    offsets = memoryview(ends).cast("q")[laid.offset : laid.offset + len(laid) + 1]
    return Rows(topic, memoryview(data if data is not None else b"").cast("B"), offsets, places)


def _laid(layout: Layout, batch: pa.RecordBatch) -> pa.Array:
    """Lengths and texts of each row, one behind the other, as `wire.sending` has them."""
    if layout.data:
        data = _payload(layout.data, batch.column(layout.data))
    else:
        data = objects(layout.others, [batch.column(name) for name in layout.others])
    data = data.cast(_BYTES)
    parts = [_length(data, 4)]
    texts_: list[Any] = []
    for name, width, most in (
        (layout.meta, 4, limits.META_BYTES_MAX),
        (layout.tag, 2, limits.TAG_BYTES_MAX),
        (layout.node, 2, limits.NODE_BYTES_MAX),
    ):
        if not name:
            parts.append(pa.scalar(bytes(width), _BYTES))
            continue
        column = _column(name, batch.column(name), name == layout.meta)
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        if longest > most:
            raise InvalidArgument(f"a {name} has {longest} bytes, at most {most} are allowed")
        parts.append(_length(column, width))
        texts_.append(column)
    # Behind the lengths come tag, node, meta and data.
    if layout.meta:
        texts_.append(texts_.pop(0))
    return pc.binary_join_element_wise(*parts, *texts_, data, _NONE)


def _payload(name: str, column: pa.Array) -> pa.Array:
    """A text is JSON already, and the server looks whether it is. A null is JSON's null."""
    if not _is_text(column.type):
        return texts(name, column)
    column = column.cast(_BYTES)
    return pc.fill_null(column, b"null") if column.null_count else column


def _column(name: str, column: pa.Array, is_json: bool) -> pa.Array:
    """A tag, node or meta; null and empty mean that there is none."""
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
    """The lengths of its texts as so many bytes each, little-endian."""
    kind = pa.int32() if width == 4 else pa.uint16()
    lengths = pc.cast(pc.binary_length(column), kind)
    raw = pa.Array.from_buffers(
        pa.binary(width), len(lengths), [None, lengths.buffers()[1]], offset=lengths.offset
    )
    return raw.cast(_BYTES)
