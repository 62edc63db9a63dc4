"""Records that stay in the buffer they came in: plain ones are found, and have the same frames."""

from __future__ import annotations

import json
import struct
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codec.support import FIRST, TOPIC, TS, frame_of, json_values, outcome
from tests.unit.codec.test_kernel_split import Row, columns, encoded, liars

JSON = st.sampled_from(
    [
        b"1",
        b'"abc"',
        b'{"a":[1,2.5e3,true,null],"b":"\\u00e9"}',
        b"[]",
        b"{",
        b"",
        b" 1",
        '"é"'.encode(),
        b'"\xff"',
        b"01",
        b"nul",
        b"falsy",
    ]
)
LABEL = st.sampled_from([b"", b"a", b"abcdefgh", b"x" * 9, "é".encode(), b"\xff"])
likely = st.lists(st.tuples(JSON, st.sampled_from([b"", b"", b"{}"]), LABEL, LABEL), max_size=6)
plain = st.lists(
    st.tuples(
        json_values.map(lambda value: json.dumps(value).encode()),
        st.just(b""),
        st.sampled_from([b"", b"a", b"abcdefgh"]),
        st.sampled_from([b"", b"n"]),
    ),
    max_size=6,
).filter(lambda rows: not any(b"\\ud" in row[0] or b"Infinity" in row[0] for row in rows))


def is_plain(kernel: ModuleType, row: Row) -> bool:
    data, meta, tag, node = row
    return (
        not meta
        and max(len(tag), len(node)) <= 8
        and (tag + node).isascii()
        and bool(kernel.are_plain_json([data]))
    )


def texts_in(table: bytes, buf: bytes) -> list[Row]:
    """The records of a table, cut out."""
    rows = []
    for data, data_size, tag, tag_size, node, node_size in struct.iter_unpack("<6I", table):
        cut = buf[data : data + data_size], buf[tag : tag + tag_size], buf[node : node + node_size]
        rows.append((cut[0], b"", cut[1], cut[2]))
    return rows


# Length-prefixed records.


@given(rows=likely, before=st.binary(max_size=9))
def test_exactly_plain_packed_records_are_found(
    kernel: ModuleType, rows: list[Row], before: bytes
) -> None:
    body = before + encoded(rows)

    table = kernel.packed_spans(body, len(before), len(rows), 8, 8)

    if all(is_plain(kernel, row) for row in rows):
        assert texts_in(table, body) == rows
        sizes = [len(row[0]) for row in rows]
        assert kernel.span_sizes(table) == (sum(sizes), max(sizes, default=0))
    else:
        assert table is None


@given(rows=plain.filter(bool))
def test_packed_records_have_to_fill_the_buffer(kernel: ModuleType, rows: list[Row]) -> None:
    body = encoded(rows)
    assert kernel.packed_spans(body, 0, len(rows), 8, 8) is not None

    assert kernel.packed_spans(body + b"\0", 0, len(rows), 8, 8) is None
    for size in range(len(body)):
        assert kernel.packed_spans(body[:size], 0, len(rows), 8, 8) is None


@given(rows=likely, lies=st.lists(liars, max_size=2), tail=st.binary(max_size=20), data=st.data())
def test_no_packed_bytes_break_it_and_both_forms_agree(
    forms: tuple[ModuleType, ModuleType], rows: list[Row], lies: Any, tail: bytes, data: Any
) -> None:
    body = encoded(rows) + b"".join(struct.pack("<IIHH", *lie) for lie in lies) + tail
    offset = data.draw(st.integers(-2, len(body) + 2) | st.sampled_from([-(2**63), 2**63 - 1]))
    count = data.draw(st.integers(-2, len(rows) + 3) | st.sampled_from([2**31, 2**62, 2**63 - 1]))

    tables = [form.packed_spans(body, offset, count, 8, 8) for form in forms]

    assert tables[0] == tables[1]


# Records in a JSON body.


def json_body(rows: list[Row], blank: bytes = b"", **members: object) -> bytes:
    """The body of a write with these records, and other members on both sides of them."""
    objects = []
    for data, _, tag, node in rows:
        one = [b'"data"' + blank + b":" + blank + data]
        one += [b'"tag":"%b"' % tag] * bool(tag) + [b'"node":"%b"' % node] * bool(node)
        objects.append(b"{" + blank + (blank + b"," + blank).join(one) + blank + b"}")
    array = b"[" + blank + (blank + b"," + blank).join(objects) + blank + b"]"
    others = [b'"%b":%b' % (n.encode(), json.dumps(v).encode()) for n, v in members.items()]
    names = [*others[:1], b'"records"' + blank + b":" + blank + array, *others[1:]]
    return blank + b"{" + blank + b",".join(names) + blank + b"}" + blank


@given(rows=plain.filter(bool), blank=st.sampled_from([b"", b" ", b"\n\t "]))
def test_plain_records_of_a_json_body_are_found(
    kernel: ModuleType, rows: list[Row], blank: bytes
) -> None:
    body = json_body(rows, blank, node="n", config={"cap_records": [1]}, create=True)

    table, start, end = kernel.json_spans(body, 10, 8, 8)

    assert texts_in(table, body) == rows
    assert json.loads(body[start:end]) == json.loads(body)["records"]
    head = json.loads(body[:start] + b"[]" + body[end:])
    assert head == json.loads(body) | {"records": []}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"records":[]}',
        b'{"records":{}}',
        b'{"records":[1]}',
        b'{"records":[{}]}',
        b'{"records":[{"tag":"t"}]}',
        b'{"records":[{"data":1,"meta":2}]}',
        b'{"records":[{"data":1,"more":2}]}',
        b'{"records":[{"data":1,"data":2}]}',
        b'{"records":[{"data":1,"tag":null}]}',
        b'{"records":[{"data":1,"tag":"123456789"}]}',
        b'{"records":[{"data":1,"node":"123456789"}]}',
        b'{"records":[{"data":1,"tag":"a\\n"}]}',
        b'{"records":[{"data":1,"t\\u0061g":"a"}]}',
        b'{"records":[{"data":"\xc3\xa9"}]}',
        b'{"records":[{"data":1}],"records":[{"data":1}]}',
        b'{"records":[{"data":1},{"data":2},{"data":3},{"data":4}]}',
        b'{"records":[{"data":1}]} x',
        b'{"records":[{"data":1}],}',
        b'{"records":[{"data":1},]}',
        b'{"records":[{"data":1,}]}',
        b'{"records":[{"data":1}]',
        b'{"records":[{"data":01}]}',
        b'{"records":[{"data":1}]}{',
        b'{"records":[{"data":1} {"data":1}]}',
        b'{"records":[{"data":' + b"[" * 129 + b"]" * 129 + b"}]}",
        b'{"rec\\u006frds":[{"data":1}]}',
    ],
)
def test_a_body_that_is_not_plain_is_left_to_a_parser(kernel: ModuleType, body: bytes) -> None:
    assert kernel.json_spans(body, 3, 8, 8) is None


@given(rows=plain.filter(bool), data=st.data())
def test_a_changed_body_is_found_only_if_it_is_json(
    forms: tuple[ModuleType, ModuleType], rows: list[Row], data: Any
) -> None:
    """And the records are those that a parser finds, in both forms."""
    body = bytearray(json_body(rows, node="n"))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(
            st.sampled_from(b'{}[],:"\\ 0aetn\x80\x01') | st.integers(0, 255)
        )
    changed = bytes(body)

    found = [form.json_spans(changed, 10, 8, 8) for form in forms]

    assert found[0] == found[1]
    if found[0] is not None:
        parsed = msgspec.json.decode(changed, type=dict[str, msgspec.Raw])
        records = msgspec.json.decode(parsed["records"], type=list[dict[str, msgspec.Raw]])
        datas = [bytes(record["data"]) for record in records]
        assert [row[0] for row in texts_in(found[0][0], changed)] == datas


@given(rows=plain.filter(bool))
def test_a_cut_body_is_not_found(kernel: ModuleType, rows: list[Row]) -> None:
    body = json_body(rows)

    for size in range(len(body)):
        assert kernel.json_spans(body[:size], 10, 8, 8) is None


@pytest.mark.parametrize("most", [-1, 0, 1, 2])
def test_no_more_records_are_found_than_allowed(kernel: ModuleType, most: int) -> None:
    body = json_body([(b"1", b"", b"", b"")] * 2)

    assert (kernel.json_spans(body, most, 8, 8) is not None) is (most == 2)


# Elements of an array.


@given(rows=plain.filter(bool), blank=st.sampled_from([b"", b" ", b"\r\n\t"]))
def test_the_elements_of_an_array_are_found(
    kernel: ModuleType, rows: list[Row], blank: bytes
) -> None:
    datas = [data.strip() for data, *_ in rows]
    body = blank + b"[" + blank + (blank + b"," + blank).join(datas) + blank + b"]" + blank

    table, count = kernel.element_spans(body, 10)

    assert count == len(datas)
    assert texts_in(table, body) == [(data, b"", b"", b"") for data in datas]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"[]",
        b"{}",
        b"[1",
        b"[1,",
        b"[1,]",
        b"[1 2]",
        b"[1]]",
        b"[1,2,3,4]",
        b"[01]",
        '["é"]'.encode(),
        b"[" + b"[" * 200 + b"]" * 200 + b"]",
    ],
)
def test_an_array_that_is_not_plain_is_left_to_a_parser(kernel: ModuleType, body: bytes) -> None:
    assert kernel.element_spans(body, 3) is None


@given(rows=plain.filter(bool), data=st.data())
def test_a_changed_array_has_the_elements_that_a_parser_finds(
    forms: tuple[ModuleType, ModuleType], rows: list[Row], data: Any
) -> None:
    body = bytearray(b"[" + b",".join(row[0] for row in rows) + b"]")
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(
            st.sampled_from(b'{}[],:"\\ 0aetn\x80\x01') | st.integers(0, 255)
        )
    changed = bytes(body)

    found = [form.element_spans(changed, 10) for form in forms]

    assert found[0] == found[1]
    if found[0] is not None:
        parsed = msgspec.json.decode(changed, type=list[msgspec.Raw])
        assert [row[0] for row in texts_in(found[0][0], changed)] == [bytes(one) for one in parsed]


@pytest.mark.parametrize("most", [-1, 0, 1, 2])
def test_no_more_elements_are_found_than_allowed(kernel: ModuleType, most: int) -> None:
    assert (kernel.element_spans(b"[1,2]", most) is not None) is (most == 2)


# Their frames.


@given(
    rows=plain,
    node=st.sampled_from([None, b"", b"here"]),
    key=st.sampled_from([None, b"", b"key"]),
)
def test_the_frames_are_those_of_records_in_lists(
    kernel: ModuleType, rows: list[Row], node: bytes | None, key: bytes | None
) -> None:
    body = encoded(rows)
    table = kernel.packed_spans(body, 0, len(rows), 8, 8)
    datas, _, tags, nodes = columns(rows)

    found = kernel.encode_spans(TOPIC, FIRST, TS, 4, [body], [table], node, key)

    listed = kernel.encode_appends(TOPIC, FIRST, TS, 4, datas, None, tags, nodes, None, node, key)
    assert found == listed


@given(
    groups=st.lists(plain, max_size=4),
    node=st.sampled_from([None, b"here"]),
    key=st.sampled_from([None, b"", b"key"]),
)
def test_the_frames_of_several_texts_are_those_of_one(
    kernel: ModuleType, groups: list[list[Row]], node: bytes | None, key: bytes | None
) -> None:
    bodies = [encoded(rows) for rows in groups]
    tables = [
        kernel.packed_spans(body, 0, len(rows), 8, 8)
        for body, rows in zip(bodies, groups, strict=True)
    ]
    together = [row for rows in groups for row in rows]
    table = kernel.packed_spans(encoded(together), 0, len(together), 8, 8)

    views = [memoryview(body) for body in bodies]
    found = kernel.encode_spans(TOPIC, FIRST, TS, 4, views, tables, node, key)

    one = kernel.encode_spans(TOPIC, FIRST, TS, 4, [encoded(together)], [table], node, key)
    assert found == one


def test_texts_without_a_table_are_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="1 tables for 2 texts"):
        kernel.encode_spans(TOPIC, FIRST, TS, 0, [b"1", b"2"], [b""], None)


@pytest.mark.parametrize("key", [b"", b"key", b"k" * 65535])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_a_batch_frame_comes_first_when_a_key_is_given(
    kernel: ModuleType, key: bytes, count: int
) -> None:
    datas = [b'"%s"' % (b"x" * 90)] * count
    plain_frames = kernel.encode_appends(TOPIC, FIRST, TS, 4, datas, None, None, None, b"t", b"n")

    frames, offsets, payload = kernel.encode_appends(
        TOPIC, FIRST, TS, 4, datas, None, None, None, b"t", b"n", key
    )

    start = frame_of(12, 0, TOPIC, FIRST, TS, b"", key, struct.pack("<I", count))
    assert (frames, offsets, payload) == (start + plain_frames[0], *plain_frames[1:])


@pytest.mark.parametrize(
    ("key", "error"), [("text", TypeError), (1, TypeError), (b"k" * 65536, ValueError)]
)
def test_a_batch_key_that_does_not_fit_is_refused(
    kernel: ModuleType, key: object, error: type[Exception]
) -> None:
    row = struct.pack("<6I", 0, 1, 0, 0, 0, 0)

    with pytest.raises(error):
        kernel.encode_appends(1, 1, TS, 0, [b"1"], None, None, None, None, None, key)
    with pytest.raises(error):
        kernel.encode_spans(1, 1, TS, 0, [b"1"], [row], None, key)


@given(
    numbers=st.lists(
        st.integers(0, 12) | st.sampled_from([2**16, 2**31, 2**32 - 1]), min_size=6, max_size=18
    ),
    buf=st.binary(max_size=12),
)
def test_a_table_that_lies_reads_nothing_outside(
    forms: tuple[ModuleType, ModuleType], numbers: list[int], buf: bytes
) -> None:
    table = struct.pack(f"<{len(numbers)}I", *numbers)[: len(numbers) // 6 * 24]

    found = [
        outcome(lambda form=form: form.encode_spans(TOPIC, FIRST, TS, 0, [buf], [table], b"n"))
        for form in forms
    ]

    assert found[0] == found[1]
    spans = [numbers[i : i + 2] for i in range(0, len(table) // 4, 2)]
    if any(start + size > len(buf) for start, size in spans):
        assert found[0] is ValueError


def test_seqs_and_nodes_that_do_not_fit_are_refused(kernel: ModuleType) -> None:
    row = struct.pack("<6I", 0, 1, 0, 0, 0, 0)

    with pytest.raises(OverflowError):
        kernel.encode_spans(TOPIC, 2**64 - 1, TS, 0, [b"1"], [row * 2], None)
    with pytest.raises(ValueError, match="at most 65535"):
        kernel.encode_spans(1, 1, TS, 0, [b"1"], [row], b"x" * 65536)
