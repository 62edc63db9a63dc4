"""Batches of records: the caller's values, checked and ready to be encoded. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock import limits
from penstock.codec import kernel
from penstock.codec.json_text import SHALLOW_BYTES_MAX, are_json, check_depth, too_deep
from penstock.codec.kernel_source.layout import BATCH_FRAME_BYTES_MIN, SPAN_BYTES
from penstock.errors import BatchTooLarge, InvalidArgument, RecordTooLarge
from penstock.topics.validation import key_text, short_text
from penstock.types import Record

_encode = msgspec.json.Encoder().encode
_RAW = msgspec.json.Decoder(msgspec.Raw)
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


Text = bytes | memoryview


class RecordSpans(msgspec.Struct, frozen=True):
    """Records that stay in the texts they arrived in, each of which has a table. An entry of a
    table says where the data, tag and node of a record lie in the text; only the kernel reads
    it."""

    texts: list[Text]
    tables: list[bytes]
    count: int


class Batch(msgspec.Struct, frozen=True):
    """Checked records. Lists are None when no record differs from the defaults. Either `datas`
    or `spans` has the records."""

    datas: list[bytes]
    payload_bytes: int
    metas: list[bytes | None] | None = None
    tags: list[bytes | None] | None = None
    nodes: list[bytes | None] | None = None
    tag: bytes | None = None
    node: bytes | None = None
    key: bytes = b""
    due_ms: int = 0  # jobs are not delivered before this time; 0: at once
    cron: str = ""  # the schedule of recurring jobs
    spans: RecordSpans | None = None

    @property
    def count(self) -> int:
        spans = self.spans
        return len(self.datas) if spans is None else spans.count

    def encode_commit(
        self, topic_id: int, first_seq: int, ts: int, flags: int
    ) -> tuple[bytes, bytes | memoryview, bytes, int]:
        """The frames to write: (all of them, the Append frames among them, where each of these
        begins (u32), payload bytes). A Batch frame comes first when there are several records or
        a key. The Append frames are a view of all frames, not a copy."""
        if not self.key and (len(self.datas) == 1 or self.count == 1):
            frames, offsets, payload = self.encode(topic_id, first_seq, ts, flags)
            return frames, frames, offsets, payload
        frames, offsets, payload = self.encode(topic_id, first_seq, ts, flags, self.key)
        start = BATCH_FRAME_BYTES_MIN + len(self.key)
        return frames, memoryview(frames)[start:], offsets, payload

    def encode(
        self, topic_id: int, first_seq: int, ts: int, flags: int, batch_key: bytes | None = None
    ) -> tuple[bytes, bytes, int]:
        """The Append frames, where each begins (u32), and the payload bytes. Unless `batch_key` is
        None, a Batch frame comes first."""
        spans = self.spans
        if spans is not None:
            return kernel.encode_spans(
                topic_id, first_seq, ts, flags, spans.texts, spans.tables, self.node, batch_key
            )
        return kernel.encode_appends(
            topic_id,
            first_seq,
            ts,
            flags,
            self.datas,
            self.metas,
            self.tags,
            self.nodes,
            self.tag,
            self.node,
            batch_key,
        )


def prepare(records: Sequence[Any], *, tag: str | None, node: str | None, key: str | None) -> Batch:
    """A checked batch of the caller's values. `bytes` are JSON texts, kept byte for byte."""
    if type(records) is not list:
        records = _as_list(records)
    if not records:
        raise InvalidArgument("records must not be empty")
    if len(records) > limits.BATCH_RECORDS_MAX:
        raise BatchTooLarge(
            f"{len(records)} records in one append, at most {limits.BATCH_RECORDS_MAX} are allowed"
        )
    tag_bytes = None if tag is None else short_text("tag", tag, limits.TAG_BYTES_MAX)
    node_bytes = None if node is None else short_text("node", node, limits.NODE_BYTES_MAX)
    key_bytes = b"" if key is None else key_text(key)
    total, largest = kernel.sizes(records)
    if total >= 0:  # all records are JSON texts
        _check_sizes(total, largest)
        _check_texts(records)
        return Batch(records, total, None, None, None, tag_bytes, node_bytes, key_bytes)
    return _prepare_mixed(records, tag_bytes, node_bytes, key_bytes)


def _as_list(records: Any) -> list[Any]:
    if isinstance(records, (str, bytes, dict, Record)) or not isinstance(records, Sequence):
        raise InvalidArgument("records must be a list of payloads or Record values")
    return list(records)


def _prepare_mixed(records: list[Any], tag: bytes | None, node: bytes | None, key: bytes) -> Batch:
    datas: list[bytes] = []
    metas: list[bytes | None] = []
    tags: list[bytes | None] = []
    nodes: list[bytes | None] = []
    plain = True
    total = largest = 0
    for record in records:
        meta = None
        if isinstance(record, Record):
            if plain:
                plain = False
                metas.extend([None] * len(datas))
                tags.extend(metas)
                nodes.extend(metas)
            text = _text(record.data)
            meta = None if record.meta is None else _meta(record.meta)
            metas.append(meta)
            tags.append(_short("tag", record.tag, limits.TAG_BYTES_MAX))
            nodes.append(_short("node", record.node, limits.NODE_BYTES_MAX))
        else:
            text = _text(record)
            if not plain:
                metas.append(None)
                tags.append(None)
                nodes.append(None)
        datas.append(text)
        size = len(text) + (len(meta) if meta else 0)
        total += size
        largest = max(largest, size)
    _check_sizes(total, largest)
    check_depth(datas)
    return Batch(
        datas,
        total,
        metas if any(metas) else None,
        tags if any(tags) else None,
        nodes if any(nodes) else None,
        tag,
        node,
        key,
    )


def _short(what: str, value: str | None, bytes_max: int) -> bytes | None:
    return None if value is None else short_text(what, value, bytes_max)


def _text(payload: Any, what: str = "payload") -> bytes:
    """The JSON text of a payload. The caller checks the depth of a text that is encoded here."""
    if isinstance(payload, bytes):
        if len(payload) > SHALLOW_BYTES_MAX:
            check_depth([payload], what)
        _check_text(payload, what)
        return payload
    try:
        return _encode(payload)
    except RecursionError:
        raise too_deep(what) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"{what} cannot be encoded as JSON: {error}") from None


def _meta(meta: Any) -> bytes:
    text = _text(meta, "meta")
    check_depth([text], "meta")
    _check_meta(text, are_valid=True)
    return text


def _check_meta(text: bytes, *, are_valid: bool) -> None:
    if not are_valid:
        _check_text(text, "meta")
    if len(text) > limits.META_BYTES_MAX:
        raise InvalidArgument(
            f"meta has {len(text)} bytes, at most {limits.META_BYTES_MAX} are allowed"
        )
    if text.lstrip()[:1] == b"{" and len(_OBJECT.decode(text)) > limits.META_KEYS_MAX:
        raise InvalidArgument(f"meta has more than {limits.META_KEYS_MAX} keys")


def _check_texts(texts: list[bytes]) -> None:
    """Validate JSON texts: all at once, and one by one only when that fails."""
    if not are_json(texts):  # one has white space around it, is not ASCII or not JSON
        check_depth(texts)
        for text in texts:
            _check_text(text)


def _check_text(text: bytes, what: str = "payload") -> None:
    """Call `check_depth` first: a parser must not exceed the interpreter's recursion limit."""
    try:
        _RAW.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidArgument(f"{what} is not valid JSON: {error}") from None
    if not text.isascii() and not _is_utf8(text):
        raise InvalidArgument(f"{what} is not valid UTF-8")


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_sizes(total: int, largest: int) -> None:
    if largest > limits.RECORD_BYTES_MAX:
        raise RecordTooLarge(
            f"a record has {largest} bytes, at most {limits.RECORD_BYTES_MAX} are allowed"
        )
    if total > limits.BATCH_BYTES_MAX:
        raise BatchTooLarge(
            f"the batch has {total} bytes, at most {limits.BATCH_BYTES_MAX} are allowed"
        )


def from_columns(
    datas: list[bytes],
    metas: list[bytes | None] | None,
    tags: list[bytes | None] | None,
    nodes: list[bytes | None] | None,
    *,
    node: bytes | None = None,
    key: bytes = b"",
    are_valid: bool,
) -> Batch:
    """A batch from columns of texts, for servers. With `are_valid` the caller has checked that they
    are JSON in UTF-8 and not nested too deep. Sizes are checked in any case."""
    if not datas:
        raise InvalidArgument("records must not be empty")
    if len(datas) > limits.BATCH_RECORDS_MAX:
        raise BatchTooLarge(
            f"{len(datas)} records in one append, at most {limits.BATCH_RECORDS_MAX} are allowed"
        )
    total, largest = kernel.sizes(datas)
    if metas is not None:
        if not are_valid:
            check_depth(metas, "meta")
        for data, meta in zip(datas, metas, strict=True):
            if meta is not None:
                _check_meta(meta, are_valid=are_valid)
                total += len(meta)
                largest = max(largest, len(data) + len(meta))
    _check_sizes(total, largest)
    for what, column, most in (
        ("tag", tags, limits.TAG_BYTES_MAX),
        ("node", nodes, limits.NODE_BYTES_MAX),
    ):
        if column is not None and max(map(_length, column)) > most:
            raise InvalidArgument(f"a {what} is longer than {most} bytes")
    if not are_valid:
        _check_texts(datas)
        for column in (tags, nodes):
            if column is not None and not all(text is None or _is_utf8(text) for text in column):
                raise InvalidArgument("a tag or node is not valid UTF-8")
    return Batch(datas, total, metas, tags, nodes, None, node, key)


def from_packed(
    text: Text, at: int, count: int, *, node: bytes | None = None, key: bytes = b""
) -> Batch | None:
    """A batch of the length-prefixed records in text[at:], without an object for each. None when
    a record is not plain: then `from_columns` checks the records one by one."""
    if not kernel.COMPILED or not count:
        return None
    table = kernel.packed_spans(text, at, count, limits.TAG_BYTES_MAX, limits.NODE_BYTES_MAX)
    if table is None:
        return None
    return from_spans(RecordSpans([text], [table], count), node=node, key=key)


def split_json(body: Text) -> tuple[bytes, RecordSpans] | None:
    """The JSON body of a write as (the body with an empty list of records, its records), without an
    object for each. The records are checked; the rest is left to a parser. None when a record has
    meta or is otherwise not plain: then a parser reads the whole body."""
    if not kernel.COMPILED:
        return None
    found = kernel.json_spans(
        body, limits.BATCH_RECORDS_MAX, limits.TAG_BYTES_MAX, limits.NODE_BYTES_MAX
    )
    if found is None:
        return None
    table, start, end = found
    rest = b"".join((body[:start], b"[]", body[end:]))
    return rest, RecordSpans([body], [table], len(table) // SPAN_BYTES)


def from_spans(spans: RecordSpans, *, node: bytes | None = None, key: bytes = b"") -> Batch:
    """A batch of the records of one text, which the kernel has found."""
    (table,) = spans.tables
    total, largest = kernel.span_sizes(table)
    _check_sizes(total, largest)
    return Batch([], total, node=node, key=key, spans=spans)


def from_table(text: Text, table: bytes) -> Batch:
    """A batch of the records of one text that lie where the table says."""
    return from_spans(RecordSpans([text], [table], len(table) // SPAN_BYTES))


def bare(data: bytes, key: bytes) -> Batch:
    """A batch of one record without tag, node and meta; its data is valid as in `from_columns`."""
    size = len(data)
    _check_sizes(size, size)
    return Batch([data], size, key=key)


def _length(text: bytes | None) -> int:
    return 0 if text is None else len(text)
