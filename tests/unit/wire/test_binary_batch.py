"""The binary batch body: what goes in comes out, and no bytes whatever do harm."""

from __future__ import annotations

import contextlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import kernel
from penstock.errors import CorruptFrame, InvalidArgument
from penstock.types import Record
from penstock.wire import binary_batch

TEXTS = st.binary(min_size=1, max_size=40)
SHORT = st.none() | st.binary(min_size=1, max_size=20)
RECORDS = st.lists(st.tuples(TEXTS, SHORT, SHORT, SHORT), max_size=12)
HEADS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=8), max_size=3)


def columns(rows: list[tuple[Any, ...]]) -> list[Any]:
    """The rows as columns; None where nothing occurs, as a decoder answers."""
    datas, *others = ([row[i] for row in rows] for i in range(4))
    return [datas, *(column if any(column) else None for column in others)]


def decode_write(body: bytes) -> list[Any]:
    """(head, datas, metas, tags, nodes), as the server reads them."""
    head, at, count = binary_batch.split_head(body)
    return [json.loads(head), *binary_batch.split_records(body, at, count)]


@given(HEADS, RECORDS)
def test_a_write_comes_out_as_it_went_in(head: dict[str, Any], rows: list[tuple[Any, ...]]) -> None:
    wanted = columns(rows)

    assert list(decode_write(binary_batch.encode_write(head, *wanted))) == [
        head,
        *wanted,
    ]


def test_a_write_has_the_bytes_that_the_format_says() -> None:
    body = binary_batch.encode_write({"node": "n"}, [b"1", b"[2]"], [None, b"{}"], [b"t", None])

    head = b'{"node":"n"}'
    expected = b"PSB1" + struct.pack("<I", len(head)) + head + struct.pack("<I", 2)
    expected += struct.pack("<IIHH", 1, 0, 1, 0) + b"t" + b"1"
    expected += struct.pack("<IIHH", 3, 2, 0, 0) + b"{}" + b"[2]"
    assert body == expected


@pytest.fixture(scope="module")
def write() -> bytes:
    return binary_batch.encode_write(
        {"create": True}, [b"1", b"22", b""], [None, b"{}", None], [b"t", None, None], [None] * 3
    )


def test_a_write_cut_at_any_byte_is_refused(write: bytes) -> None:
    for size in range(len(write)):
        with pytest.raises(InvalidArgument):
            decode_write(write[:size])


def test_a_write_with_more_behind_it_is_refused(write: bytes) -> None:
    with pytest.raises(InvalidArgument, match="1 bytes follow"):
        decode_write(write + b"\0")


def test_a_write_with_any_byte_changed_is_read_or_refused(write: bytes) -> None:
    for at in range(len(write)):
        for value in (0, 1, 0x7F, 0x80, 0xFF, write[at] ^ 1):
            changed = bytes([*write[:at], value, *write[at + 1 :]])
            try:
                _, datas, *others = decode_write(changed)
            except (InvalidArgument, ValueError):  # ValueError: the head is not JSON
                continue
            assert all(column is None or len(column) == len(datas) for column in others)


@given(st.binary(max_size=200))
def test_no_bytes_whatever_break_the_decoder(body: bytes) -> None:
    for opened in (body, b"PSB1" + body, b"PSB1\2\0\0\0{}" + body):
        with contextlib.suppress(InvalidArgument, ValueError):
            decode_write(opened)


def test_a_count_beyond_the_body_reserves_nothing() -> None:
    body = b"PSB1\2\0\0\0{}" + struct.pack("<I", 9_999)

    with pytest.raises(InvalidArgument, match="ends inside"):
        decode_write(body)


@pytest.mark.parametrize("head", [b"[]", b"{", b"", b"1", b'{"a":', b"\xff"])
def test_a_head_that_is_no_object_is_refused(head: bytes) -> None:
    body = b"PSB1" + struct.pack("<I", len(head)) + head + bytes(4)

    with pytest.raises(CorruptFrame, match="head"):
        binary_batch.decode_page(body)


def test_a_tag_longer_than_its_length_field_is_refused_before_sending() -> None:
    with pytest.raises(InvalidArgument, match="65535"):
        binary_batch.encode_write({}, [b"1"], None, [b"x" * 65_536])


# Pages.


def frames(*seqs: int, data: bytes = b'{"a":1}', meta: bytes | None = None) -> bytes:
    return b"".join(
        kernel.encode_appends(7, seq, 1000 + seq, 0, [data], [meta], [b"t"], [b"n"], None, None)[0]
        for seq in seqs
    )


def test_a_page_brings_records_with_all_their_fields() -> None:
    body = binary_batch.encode_page({"head_seq": 9}, frames(3, 4, 9, meta=b"[5]"), 3)

    head, found = binary_batch.decode_page(body)

    assert head == {"head_seq": 9}
    assert found == [
        Record(data={"a": 1}, tag="t", node="n", meta=[5], seq=seq, ts=1000 + seq)
        for seq in (3, 4, 9)
    ]


def test_a_page_keeps_the_texts_of_payloads() -> None:
    text = b'{"big": 12345678901234567890123, "f": 1.0}'
    body = binary_batch.encode_page(b"{}", frames(1, data=text), 1)

    _, array, count = binary_batch.project_page(body, binary_batch.DATA | binary_batch.DOLLAR)

    assert count == 1
    assert text in array
    assert json.loads(array)[0]["$seq"] == 1


@pytest.mark.parametrize("number", ["1e999", "1" + "0" * 5000])
def test_numbers_that_only_json_allows_are_read_all_the_same(number: str) -> None:
    body = binary_batch.encode_page({}, frames(1, data=number.encode()), 1)

    (record,) = binary_batch.decode_page(body)[1]

    assert str(record.data) in ("inf", number)


def test_a_page_without_records_is_empty() -> None:
    assert binary_batch.decode_page(binary_batch.encode_page({"a": 1}, b"", 0)) == ({"a": 1}, [])


def test_a_page_with_any_bit_of_its_frames_changed_is_corrupt() -> None:
    body = binary_batch.encode_page({}, frames(1, 2), 2)
    start = len(body) - len(frames(1, 2))

    for at in range(start, len(body)):
        for bit in range(8):
            changed = bytearray(body)
            changed[at] ^= 1 << bit
            with pytest.raises(CorruptFrame):
                binary_batch.decode_page(bytes(changed))


def test_a_page_cut_at_any_byte_is_corrupt() -> None:
    body = binary_batch.encode_page({}, frames(1, 2), 2)

    for size in range(len(body)):
        with pytest.raises(CorruptFrame, match="from here"):
            binary_batch.decode_page(body[:size], "a page from here")


def test_a_page_with_another_number_of_frames_than_it_says_is_corrupt() -> None:
    for said in (0, 1, 3, 4_000_000_000):
        with pytest.raises(CorruptFrame):
            binary_batch.decode_page(binary_batch.encode_page({}, frames(1, 2), said))


def test_a_page_with_a_control_frame_in_it_is_corrupt() -> None:
    control = kernel.encode_control(8, 0, 0, 0, 1, b"", b"", b"")

    with pytest.raises(CorruptFrame):
        binary_batch.decode_page(binary_batch.encode_page({}, frames(1) + control, 2))


def test_a_page_whose_record_has_no_known_shape_is_corrupt() -> None:
    odd = kernel.encode_control(1, 0, 7, 1, 1, b"", b"", b'{"x":1}')

    with pytest.raises(CorruptFrame):
        binary_batch.decode_page(binary_batch.encode_page({}, odd, 1))


# The page that describes it.

PAGE = Path(__file__).parents[3] / "docs" / "format" / "batch.md"


def test_the_byte_tables_of_the_page_are_the_layout() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| `?(\w+)`? \|", PAGE.read_text(), re.MULTILINE)

    assert rows == [
        *[("0", "4", "magic"), ("4", "4", "head_len")],
        *[("0", "4", "data_len"), ("4", "4", "meta_len"), ("8", "2", "tag_len")],
        ("10", "2", "node_len"),
    ]
    assert binary_batch.CONTENT_TYPE in PAGE.read_text()
