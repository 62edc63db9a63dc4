from __future__ import annotations

import json
from collections import UserList
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.codec import kernel
from penstock.codec.entry import encode_entry
from penstock.engine.batch import (
    Batch,
    from_columns,
    from_packed,
    from_spans,
    from_table,
    prepare,
    split_json,
)
from penstock.entries import BatchStarted
from penstock.errors import BatchTooLarge, InvalidArgument, RecordTooLarge
from penstock.types import Record

VALID = [b"1", b'"a"', b"null", b"[1,2]", b'{"a":{"b":[]}}', b" 1 ", b"\t[1 , 2]\n", '"é"'.encode()]
INVALID = [
    *(b"", b" ", b"1 2", b"1,2", b"[3", b"4]", b"[1,]", b'{"a":1,}', b"{1:2}", b"{'a':1}"),
    *(b"tru", b"nulll", b"NaN", b"Infinity", b"-Infinity", b"01", b"1.", b".5", b"+1", b"1e", b"-"),
    *(b'"a', b'"\x01"', b'"\\x"', b'"\\u12g4"', b'"\xff"', b'"\xc3"', b'"\xed\xa0\x80"', b"\xff"),
    *(b"1\0", b"\xef\xbb\xbf1", b"/**/1", b"[" * 5000 + b"]" * 5000, b"[" * 5000),
]


def prepared(*records: Any, tag: Any = None, node: Any = None, key: Any = None) -> Batch:
    return prepare(list(records), tag=tag, node=node, key=key)


# JSON texts.


@pytest.mark.parametrize("text", VALID)
def test_a_json_text_is_kept_byte_for_byte(text: bytes) -> None:
    assert prepared(text).datas == [text]
    assert prepared(b"0", text, b"1").datas == [b"0", text, b"1"]


@pytest.mark.parametrize("text", INVALID, ids=lambda text: repr(text[:12]))
def test_what_is_not_json_is_refused_alone_and_in_company(text: bytes) -> None:
    for records in ([text], [b"0", text], [text, b"0"], [1, text], [Record(text)]):
        with pytest.raises(InvalidArgument, match="payload"):
            prepared(*records)


@pytest.mark.parametrize(
    "texts",
    [
        [b"1,2", b"[3", b"4]"],
        [b"[1", b"2]"],
        [b'{"a":1', b'"b":2}'],
        [b'"a', b'b"'],
        [b"[", b"]"],
        [b"1", b"", b"2"],
        [b"1],[2"],
        [b"1", b"2],[3"],
    ],
)
def test_texts_that_only_make_sense_together_are_refused(texts: list[bytes]) -> None:
    with pytest.raises(InvalidArgument):
        prepared(*texts)


@given(
    texts=st.lists(
        st.text('[]{}",:01 \\tn', max_size=6).map(str.encode)
        | st.sampled_from([b"1", b"[3", b"4]"]),
        min_size=1,
        max_size=4,
    )
)
def test_a_batch_is_valid_exactly_when_each_of_its_texts_is(texts: list[bytes]) -> None:
    def is_json(text: bytes) -> bool:
        try:
            json.loads(text)
        except ValueError:
            return False
        return True

    try:
        accepted = prepared(*texts).datas == texts
    except InvalidArgument:
        accepted = False

    assert accepted == all(map(is_json, texts))


# Values.


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, b"null"), ("é", '"é"'.encode()), ({"a": [1, 2.5]}, b'{"a":[1,2.5]}'), ((1,), b"[1]")],
)
def test_a_value_becomes_compact_json(value: object, text: bytes) -> None:
    assert prepared(value).datas == prepared(Record(value)).datas == [text]


@pytest.mark.parametrize("value", [object(), {object(): 1}, 1j, "\ud800"])
def test_a_value_that_is_not_json_able_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="JSON"):
        prepared(value)


def test_a_value_nested_without_end_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(InvalidArgument):
        prepared(loop)


def test_defaults_and_what_a_record_says_itself_are_kept_apart() -> None:
    batch = prepared(1, Record(2, tag="x", node="n", meta={"a": 1}), 3, tag="t", node="m", key="k")

    assert batch == Batch(
        [b"1", b"2", b"3"],
        3 + len(b'{"a":1}'),
        [None, b'{"a":1}', None],
        [None, b"x", None],
        [None, b"n", None],
        b"t",
        b"m",
        b"k",
    )


def test_records_that_say_nothing_themselves_cost_no_lists() -> None:
    batch = prepared(Record(1), 2)

    assert (batch.metas, batch.tags, batch.nodes) == (None, None, None)


# Limits.


@pytest.mark.parametrize("records", ["ab", b"12", {"a": 1}, Record(1), 5, None, {1, 2}, iter([1])])
def test_only_a_sequence_of_records_will_do(records: Any) -> None:
    with pytest.raises(InvalidArgument, match="records must be a list"):
        prepare(records, tag=None, node=None, key=None)


def test_any_sequence_will_do() -> None:
    assert prepare((1, 2), tag=None, node=None, key=None).datas == [b"1", b"2"]
    assert prepare(UserList([1]), tag=None, node=None, key=None).datas == [b"1"]


def test_nothing_is_not_a_batch() -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        prepared()


def test_a_batch_has_so_many_records_at_most() -> None:
    most = limits.BATCH_RECORDS_MAX

    assert len(prepared(*[b"1"] * most).datas) == most
    with pytest.raises(BatchTooLarge, match=str(most)):
        prepared(*[b"1"] * (most + 1))


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("with_meta", [False, True])
def test_a_record_has_so_many_bytes_at_most_its_meta_included(extra: int, with_meta: bool) -> None:
    meta = b'"m"' if with_meta else b""
    text = b'"' + b"x" * (limits.RECORD_BYTES_MAX - 2 - len(meta) + extra) + b'"'
    record = Record(text, meta=meta) if with_meta else text

    if extra:
        with pytest.raises(RecordTooLarge):
            prepared(b"1", record)
    else:
        assert prepared(record).payload_bytes == limits.RECORD_BYTES_MAX


def test_a_batch_has_so_many_bytes_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_BYTES_MAX", 10)

    assert prepared(*[b"12345"] * 2).payload_bytes == 10
    with pytest.raises(BatchTooLarge):
        prepared(*[b"12345"] * 2, b"1")
    with pytest.raises(BatchTooLarge):
        prepared(12345, 12345, 1)


@pytest.mark.parametrize(
    "meta",
    [
        {str(n): n for n in range(limits.META_KEYS_MAX + 1)},
        "x" * limits.META_BYTES_MAX,
        b"[1",
        b" {" + b",".join(b'"%d":1' % n for n in range(limits.META_KEYS_MAX + 1)) + b"}",
    ],
    ids=["keys", "bytes", "not json", "keys as text"],
)
def test_meta_has_its_own_limits(meta: object) -> None:
    with pytest.raises(InvalidArgument):
        prepared(Record(1, meta=meta))


@pytest.mark.parametrize(
    "labels",
    [
        {"tag": ""},
        {"tag": "x" * 257},
        {"tag": 5},
        {"node": ""},
        {"node": "é" * 65},
        {"key": ""},
        {"key": "x" * 257},
        {"key": b"k"},
    ],
)
def test_labels_are_short_text(labels: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        prepared(1, **labels)
    if "key" not in labels:
        with pytest.raises(InvalidArgument):
            prepared(Record(1, **labels))


# Records that stay in the text they arrived in.


def packed(*texts: bytes, tag: bytes = b"", node: bytes = b"") -> bytes:
    return b"head" + kernel.pack_records(list(texts), tag, node)


@pytest.fixture
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "COMPILED", True)  # both forms can do it, and one does it fast


@pytest.mark.usefixtures("_compiled")
def test_a_packed_batch_is_the_batch_of_its_records() -> None:
    texts = [b'{"a":1}', b"[2]"]

    batch = from_packed(packed(*texts, tag=b"t"), 4, 2, node=b"n", key=b"k")

    apart = from_columns(texts, None, [b"t", b"t"], None, node=b"n", key=b"k", are_valid=False)
    assert batch is not None
    assert (batch.count, batch.payload_bytes, batch.key) == (2, 10, b"k")
    assert batch.encode(1, 2, 3, 4) == apart.encode(1, 2, 3, 4)


def test_the_interpreted_form_checks_records_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "COMPILED", False)

    assert from_packed(packed(b"1"), 4, 1) is None


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize(
    ("text", "count"),
    [
        (packed(b"1"), 0),
        (packed(b"1"), 2),
        (packed(b"{"), 1),
        (packed('"é"'.encode()), 1),
        (packed(b"1", tag=b"x" * (limits.TAG_BYTES_MAX + 1)), 1),
        (packed(b"1", node=b"x" * (limits.NODE_BYTES_MAX + 1)), 1),
        (packed(b"1") + b"!", 1),
    ],
)
def test_packed_records_that_are_not_plain_are_left_to_be_checked_one_by_one(
    text: bytes, count: int
) -> None:
    assert from_packed(text, 4, count) is None


def test_a_batch_of_a_table_is_the_batch_of_its_records() -> None:
    body = b'[{"a":1}, [2]]'
    found = kernel.element_spans(body, 9)

    assert found is not None
    batch = from_table(body, found[0])
    apart = from_columns([b'{"a":1}', b"[2]"], None, None, None, are_valid=True)
    assert (batch.count, batch.payload_bytes) == (2, 10)
    assert batch.encode(1, 2, 3, 4) == apart.encode(1, 2, 3, 4)


@pytest.mark.usefixtures("_compiled")
def test_a_packed_batch_has_the_limits_of_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECORD_BYTES_MAX", 5)
    monkeypatch.setattr(limits, "BATCH_BYTES_MAX", 8)
    assert from_packed(packed(b"12345"), 4, 1) is not None

    with pytest.raises(RecordTooLarge):
        from_packed(packed(b"123456"), 4, 1)
    with pytest.raises(BatchTooLarge):
        from_packed(packed(b"12345", b"12345"), 4, 2)


# Records in a JSON body.


@pytest.mark.usefixtures("_compiled")
def test_a_json_body_is_split_into_its_records_and_the_rest() -> None:
    body = b'{"node":"n","records":[{"data":{"a":1},"tag":"t"},{"data":[2]}],"create":true}'

    found = split_json(body)

    assert found is not None
    head, spans = found
    assert head == b'{"node":"n","records":[],"create":true}'
    batch = from_spans(spans, node=b"n", key=b"k")
    listed = from_columns(
        [b'{"a":1}', b"[2]"], None, [b"t", None], None, node=b"n", key=b"k", are_valid=True
    )
    assert (batch.count, batch.payload_bytes, batch.key) == (2, 10, b"k")
    assert batch.encode(1, 2, 3, 4) == listed.encode(1, 2, 3, 4)


def test_the_interpreted_form_leaves_a_json_body_to_a_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "COMPILED", False)

    assert split_json(b'{"records":[{"data":1}]}') is None


@pytest.mark.usefixtures("_compiled")
@pytest.mark.parametrize(
    "record",
    [
        b'{"data":1,"meta":{}}',
        b'{"data":1,"tag":"%b"}' % (b"x" * (limits.TAG_BYTES_MAX + 1)),
        b'{"data":1,"node":"%b"}' % (b"x" * (limits.NODE_BYTES_MAX + 1)),
        b'{"data":"\xc3\xa9"}',
        b'{"data":}',
    ],
)
def test_a_json_body_that_is_not_plain_is_left_to_a_parser(record: bytes) -> None:
    assert split_json(b'{"records":[%b]}' % record) is None


@pytest.mark.usefixtures("_compiled")
def test_records_of_a_json_body_have_the_limits_of_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "RECORD_BYTES_MAX", 5)
    found = split_json(b'{"records":[{"data":123456}]}')

    assert found is not None
    with pytest.raises(RecordTooLarge):
        from_spans(found[1])


# The frames of a commit.


@pytest.mark.parametrize("key", [b"", b"key"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_commit_begins_with_a_batch_frame_if_it_needs_one(count: int, key: bytes) -> None:
    batch = from_columns([b"1"] * count, None, None, None, key=key, are_valid=True)

    written, frames, offsets, payload = batch.encode_commit(7, 5, 9, 4)

    assert (bytes(frames), offsets, payload) == batch.encode(7, 5, 9, 4)
    start = b""
    if count > 1 or key:
        start = encode_entry(BatchStarted(7, 5, count, key, 9), 9)
    assert written == start + bytes(frames)
