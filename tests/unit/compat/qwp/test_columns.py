"""Every type of column: what is on the wire, and what JSON says of it."""

from __future__ import annotations

import base64
import ipaddress
import json
import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.codec import kernel
from penstock.compat.qwp.byte_reader import QwpError
from penstock.compat.qwp.codec import QwpDecoder
from tests.support import qwp
from tests.support.qwp import Block, Column, message

LONG_MIN = -(1 << 63)
LETTERS = "0123456789bcdefghjkmnpqrstuvwxyz"


def rows_of(*columns: Column, flags: int = 0, **options: Any) -> list[Any]:
    found = QwpDecoder().decode(message(Block("t", columns), flags=flags, **options))
    return [json.loads(row) for row in found.tables[0].rows]


def values_of(one: Column, **options: Any) -> list[Any]:
    return [row.get(one.name) for row in rows_of(one, **options)]


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """With at least one null, so that there is a bitmap."""
    return st.lists(st.none() | values, max_size=40).map(lambda drawn: [None, *drawn])


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (0x01, b"\x05", [True, False, True]),
        (0x02, b"\x01\xff\x80", [1, -1, -128]),
        (0x03, struct.pack("<3h", 1, -1, -32768), [1, -1, -32768]),
        (0x04, struct.pack("<3i", 1, -1, -(1 << 31)), [1, -1, None]),
        (0x05, struct.pack("<3q", 1, -1, LONG_MIN), [1, -1, None]),
        (0x06, struct.pack("<3f", 0.5, -0.0, math.nan), [0.5, -0.0, None]),
        (0x07, struct.pack("<3d", 0.1, math.inf, -math.inf), [0.1, "Infinity", "-Infinity"]),
        (0x0A, struct.pack("<3q", 1, -1, LONG_MIN), [1000, -1000, None]),
        (0x10, struct.pack("<3q", 1, -1, LONG_MIN), [1, -1, None]),
        (0x0B, struct.pack("<3q", 1, -1, LONG_MIN), [1_000_000, -1_000_000, None]),
        (0x09, b"\x02\x01a\x02bc" + b"\x01\x00\x01", ["bc", "a", "bc"]),
        (0x0E, b"\x05" + b"\x00\x1f\xff", ["0", "z", None]),
        (0x0E, b"\x03" + b"\x00\x05\xff", ["##000", "##101", None]),
        (0x0F, struct.pack("<4I", 0, 1, 1, 3) + "aé".encode(), ["a", "", "é"]),
        (0x17, struct.pack("<4I", 0, 1, 1, 3) + b"\x00\x01\xff", ["AA==", "", "Af8="]),
        (0x13, b"\x02" + struct.pack("<3q", 5, -1234, LONG_MIN), ["0.05", "-12.34", None]),
        (0x16, struct.pack("<3H", 65, 0xE9, 0), ["A", "é", "\0"]),
        (
            0x18,
            struct.pack("<3I", 0x0A010203, 0xFFFFFFFF, 0),
            ["10.1.2.3", "255.255.255.255", None],
        ),
    ],
    ids=lambda one: f"{one:#04x}" if isinstance(one, int) else "",
)
def test_the_bytes_of_the_protocols_table(kind: int, data: bytes, expected: list[Any]) -> None:
    """Three rows without a bitmap: the type's sentinel is its null."""
    payload = b"\x01t\x03\x01\x01c" + bytes([kind]) + b"\x00" + data
    head = struct.pack("<4sBBHI", b"QWP1", 1, 0, 1, len(payload))

    (table,) = QwpDecoder().decode(head + payload).tables

    assert [json.loads(row).get("c") for row in table.rows] == expected


def test_the_wide_types_of_the_protocols_table() -> None:
    number = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    low, high = number.int & ((1 << 64) - 1), number.int >> 64
    null = struct.pack("<q", LONG_MIN)
    data = struct.pack("<QQ", low, high) + null * 2 + (1 << 200).to_bytes(32, "little") + null * 4
    payload = b"\x01t\x02\x02\x01u\x0c\x01l\x0d" + b"\0" + data[:32] + b"\0" + data[32:]
    head = struct.pack("<4sBBHI", b"QWP1", 1, 0, 1, len(payload))

    rows = [json.loads(row) for row in QwpDecoder().decode(head + payload).tables[0].rows]

    assert rows == [{"u": str(number), "l": hex(1 << 200)}, {}]


# Round trips, with nulls in a bitmap: then every value is only itself.


@pytest.mark.parametrize(
    ("kind", "width", "factor"),
    [
        (qwp.BYTE, 8, 1),
        (qwp.SHORT, 16, 1),
        (qwp.INT, 32, 1),
        (qwp.LONG, 64, 1),
        (qwp.TIMESTAMP_NS, 64, 1),
        (qwp.TIMESTAMP_US, 64, 1000),
        (qwp.DATE, 64, 1_000_000),
    ],
)
@given(data=st.data())
def test_integers_and_times(kind: int, width: int, factor: int, data: st.DataObject) -> None:
    half = 1 << (width - 1)
    values = data.draw(nullable(st.integers(-half, half - 1)))

    found = values_of(Column("c", kind, values))

    assert found == [None if value is None else value * factor for value in values]


@given(nullable(st.floats(allow_nan=False, allow_infinity=False)))
def test_doubles(values: list[Any]) -> None:
    assert values_of(Column("c", qwp.DOUBLE, values)) == values


@given(nullable(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_floats_are_given_as_the_doubles_they_are(values: list[Any]) -> None:
    assert values_of(Column("c", qwp.FLOAT, values)) == values


@given(nullable(st.booleans()))
def test_booleans(values: list[Any]) -> None:
    assert values_of(Column("c", qwp.BOOLEAN, values)) == values


@given(nullable(st.text(max_size=12)))
def test_texts(values: list[Any]) -> None:
    assert values_of(Column("c", qwp.VARCHAR, values)) == values


@given(nullable(st.binary(max_size=12)))
def test_binaries_are_base64(values: list[Any]) -> None:
    found = values_of(Column("c", qwp.BINARY, values))

    assert [None if one is None else base64.b64decode(one) for one in found] == values


@given(st.lists(st.text(max_size=8), min_size=1, max_size=300), st.data())
def test_symbols_of_the_connection_and_of_the_column(known: list[str], data: st.DataObject) -> None:
    ids = data.draw(nullable(st.integers(0, len(known) - 1)))
    expected = [None if one is None else known[one] for one in ids]

    assert values_of(Column("c", qwp.SYMBOL, ids), symbols=(0, known)) == expected
    assert values_of(Column("c", qwp.SYMBOL, ids, own=known)) == expected


@given(nullable(st.uuids()))
def test_uuids(values: list[Any]) -> None:
    ints = [None if value is None else value.int for value in values]

    found = values_of(Column("c", qwp.UUID, ints))

    assert found == [None if value is None else str(value) for value in values]


@given(nullable(st.integers(0, (1 << 256) - 1)))
def test_long256s(values: list[Any]) -> None:
    found = values_of(Column("c", qwp.LONG256, values))

    assert [None if one is None else int(one, 16) for one in found] == values


@given(nullable(st.integers(0, (1 << 32) - 1)))
def test_addresses(values: list[Any]) -> None:
    found = values_of(Column("c", qwp.IPV4, values))

    assert [None if one is None else int(ipaddress.IPv4Address(one)) for one in found] == values


@pytest.mark.parametrize("kind", sorted(qwp.DECIMALS))
@given(data=st.data(), scale=st.integers(0, 76))
def test_decimals_keep_their_digits(kind: int, data: st.DataObject, scale: int) -> None:
    half = 1 << (8 * qwp.DECIMALS[kind] - 1)
    values = data.draw(nullable(st.integers(-half, half - 1)))

    found = values_of(Column("c", kind, values, detail=scale))

    for one, value in zip(found, values, strict=True):
        if value is None:
            assert one is None
        else:
            sign, digits, exponent = Decimal(one).as_tuple()
            assert int("".join(map(str, digits))) * (-1 if sign else 1) == value
            assert exponent == -scale


@given(data=st.data(), precision=st.integers(1, 60))
def test_geohashes(data: st.DataObject, precision: int) -> None:
    values = data.draw(nullable(st.integers(0, (1 << precision) - 1)))

    found = values_of(Column("c", qwp.GEOHASH, values, detail=precision))

    for one, value in zip(found, values, strict=True):
        if value is None:
            assert one is None
        elif precision % 5:
            assert one[:2] == "##"
            assert len(one) == precision + 2
            assert int(one[2:], 2) == value
        else:
            assert len(one) == precision // 5
            assert sum(LETTERS.index(c) << 5 * at for at, c in enumerate(reversed(one))) == value


@given(nullable(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])))
def test_chars(values: list[Any]) -> None:
    units = [None if value is None else ord(value) for value in values]

    assert values_of(Column("c", qwp.CHAR, units)) == values


def test_half_of_a_surrogate_pair_is_its_number() -> None:
    units = [ord("a"), 0xD7FF, 0xD800, None, 0xDFFF, 0xE000]

    found = values_of(Column("c", qwp.CHAR, units))

    assert found == ["a", "\ud7ff", 0xD800, None, 0xDFFF, "\ue000"]


@pytest.mark.parametrize("kind", [qwp.DOUBLES, qwp.LONGS])
def test_arrays_are_lists_in_lists(kind: int) -> None:
    values = [((2, 3), range(6)), None, ((1,), [7]), ((2, 0), []), ((1, 1, 2), [8, 9])]

    found = values_of(Column("c", kind, values))

    assert found == [[[0, 1, 2], [3, 4, 5]], None, [7], [], [[[8, 9]]]]


def test_no_array_nests_deeper_than_a_record_may() -> None:
    deepest = Column("c", qwp.DOUBLES, [((1,) * 32, [1.5])])

    (row,) = QwpDecoder().decode(message(Block("t", (deepest,)))).tables[0].rows

    assert kernel.nesting(row) == 1 + 32 <= limits.JSON_DEPTH_MAX


def test_elements_of_arrays_have_their_nulls() -> None:
    doubles = ((4,), [1.5, math.nan, math.inf, -math.inf])

    assert values_of(Column("c", qwp.DOUBLES, [doubles])) == [[1.5, None, "Infinity", "-Infinity"]]
    assert values_of(Column("c", qwp.LONGS, [((2,), [1, LONG_MIN])])) == [[1, None]]


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=40), st.booleans())
def test_timestamps_with_an_encoding(values: list[int], is_packed: bool) -> None:
    small = [min(values) + value % 1_000_000 for value in values]
    one = Column("c", qwp.TIMESTAMP_NS, small, is_packed=is_packed, has_encoding=True)
    date = Column("d", qwp.DATE, small)  # never has one

    rows = rows_of(one, date, flags=qwp.GORILLA)

    assert [row["c"] for row in rows] == small
    assert [row["d"] for row in rows] == [value * 1_000_000 for value in small]


def test_a_time_beyond_64_bits_of_nanoseconds_is_still_exact() -> None:
    assert values_of(Column("c", qwp.TIMESTAMP_US, [(1 << 63) - 1])) == [((1 << 63) - 1) * 1000]


# What is refused.


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (Column("c", 0x08, []), "type code 0x08"),
        (Column("c", 0x19, []), "type code 0x19"),
        (Column("c", qwp.SYMBOL, [2], own=["a", "b"]), "out of range: 2 of 2"),
        (Column("c", qwp.GEOHASH, [], detail=61), "60 bits"),
        (Column("c", qwp.GEOHASH, [], detail=0), "60 bits"),
        (Column("c", qwp.DECIMAL64, [1], detail=77), "77 digits"),
        (Column("c", qwp.DOUBLES, [((), [])]), "dimensions"),
        (Column("c", qwp.DOUBLES, [((1,) * 33, [1.0])]), "dimensions"),
        (Column("c", qwp.DOUBLES, [((-1, 2), [])]), "negative"),
        (Column("c", qwp.DOUBLES, [(((1 << 31) - 1,) * 32, [])]), "cut short"),
        (Column("c", qwp.LONGS, [((9,), [1])]), "cut short"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_cannot_be_is_refused_with_a_reason(one: Column, why: str) -> None:
    with pytest.raises(QwpError, match=why):
        values_of(one)


def raw(kind: int, data: bytes, flags: int = 0, rows: int = 1) -> bytes:
    payload = b"\x01t" + bytes([rows]) + b"\x01\x01c" + bytes([kind]) + data
    return struct.pack("<4sBBHI", b"QWP1", 1, flags, 1, len(payload)) + payload


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (raw(qwp.VARCHAR, b"\0" + struct.pack("<2I", 1, 1) + b"a"), "do not rise"),
        (raw(qwp.VARCHAR, b"\0" + struct.pack("<3I", 0, 2, 1) + b"ab", rows=2), "do not rise"),
        (raw(qwp.VARCHAR, b"\0" + struct.pack("<2I", 0, 1 << 31)), "cut short"),
        (raw(qwp.VARCHAR, b"\0" + struct.pack("<2I", 0, 1) + b"\xff"), "UTF-8"),
        (raw(qwp.SYMBOL, b"\0" + b"\x01\x01\xff\x00"), "UTF-8"),
        (raw(qwp.SYMBOL, b"\0" + b"\xff\xff\x7f"), "longer than its message"),
        (raw(qwp.TIMESTAMP_NS, b"\0\x02" + bytes(8), qwp.GORILLA), "encoding 2"),
        (raw(qwp.LONG, b"\0" + bytes(7)), "cut short"),
        (raw(qwp.LONG, b"\x01"), "cut short"),
    ],
    ids=range(9),
)
def test_what_is_malformed_is_refused_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(QwpError, match=why):
        QwpDecoder().decode(data)
