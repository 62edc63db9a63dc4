"""Messages: header, symbols, tables, rows; and whatever bytes there are."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.compat.qwp import codec
from penstock.compat.qwp.byte_reader import QwpError, QwpStatus
from penstock.compat.qwp.codec import QwpDecoder
from tests.support import qwp
from tests.support.qwp import Block, Column, longs, message

# What the official client wrote for one flush of three rows.
REAL = bytes.fromhex(
    "5157503101080100ae00000000030742 54432d555344 07 4554482d555344 03 627579"
    "06 747261646573 03 07 03 73796d 09 04 73696465 09 05 7072696365 07 03 717479 05"
    "04 6e6f7465 0f 02 6f6b 01 00 10"
    "00 000100 00 020202 00 000000000000f03f 0000000000000040 0000000000000840"
    "00 0100000000000000 0200000000000000 0300000000000000"
    "00 00000000 02000000 04000000 06000000 6e306e316e32 00 02"
    "00 e803000000000000 e903000000000000 ea03000000000000"
)
EVERY = [
    Column("bool", qwp.BOOLEAN, [True, None]),
    Column("byte", qwp.BYTE, [1, 2]),
    Column("sym", qwp.SYMBOL, [0, 1]),
    Column("text", qwp.VARCHAR, ["é", None]),
    Column("blob", qwp.BINARY, [b"\0", b""]),
    Column("list", qwp.DOUBLES, [((2,), [1.0, 2.0]), None]),
    Column("dec", qwp.DECIMAL128, [5, -5], detail=1),
    Column("geo", qwp.GEOHASH, [3, None], detail=7),
    Column("uuid", qwp.UUID, [1, 2]),
    Column("", qwp.TIMESTAMP_US, [1, 2], has_encoding=True),
]
WHOLE = message(Block("t", EVERY), longs("u", 1, 2), flags=qwp.GORILLA, symbols=(0, ["x", "y"]))


def decoded(data: bytes) -> Any:
    """Tables as lists of values."""
    found = QwpDecoder().decode(data)
    return {table.name: [json.loads(row) for row in table.rows] for table in found.tables}


def refused(data: bytes, decoder: QwpDecoder | None = None) -> QwpError:
    with pytest.raises(QwpError) as caught:
        (decoder or QwpDecoder()).decode(data)
    return caught.value


def test_a_message_of_the_official_client() -> None:
    data = REAL[:8] + struct.pack("<I", len(REAL) - 12) + REAL[12:]

    assert decoded(data) == {
        "trades": [
            {
                "sym": ("BTC-USD", "ETH-USD", "BTC-USD")[row],
                "side": "buy",
                "price": row + 1.0,
                "qty": row + 1,
                "note": f"n{row}",
                "ok": row == 1,
                "timestamp": 1000 + row,
            }
            for row in range(3)
        ]
    }


# The header.


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "at least 12 bytes"),
        (b"QWP1" + bytes(7), "at least 12 bytes"),
        (message(magic=b"QWP2"), "magic"),
        (message(version=2), "version 2"),
        (message(version=0), "version 0"),
        (message(flags=0x10), "flags 0x10"),
        (message(longs("t", 1))[:-1], "cut short"),
        (struct.pack("<4sBBHI", b"QWP1", 1, 0, 1, 0), "cut short"),
        (struct.pack("<4sBBHI", b"QWP1", 1, 0, 0, 1) + b"x", "1 bytes follow"),
    ],
)
def test_a_wrong_header_is_a_parse_error(data: bytes, why: str) -> None:
    error = refused(data)

    assert why in str(error)
    assert error.status is QwpStatus.PARSE


def test_bytes_after_the_payload_and_the_reserved_flag_mean_nothing() -> None:
    assert decoded(message(longs("t", 1), flags=0x02) + b"more") == {"t": [{"n": 1}]}


def test_a_message_may_be_empty_and_may_be_deferred() -> None:
    assert QwpDecoder().decode(message()) == codec.Message([], False)
    assert QwpDecoder().decode(message(flags=qwp.DEFER)).is_deferred
    assert decoded(message(longs("t"))) == {"t": []}


# Tables and rows.


def test_the_designated_timestamp_may_stand_anywhere() -> None:
    times, numbers = Column("", qwp.TIMESTAMP_NS, [5, 6]), Column("n", qwp.LONG, [1, 2])

    for columns in ([times, numbers], [numbers, times]):
        (table,) = QwpDecoder().decode(message(Block("t", columns))).tables
        assert table.is_timed
        assert [json.loads(row) for row in table.rows] == [
            {"n": 1, "timestamp": 5},
            {"n": 2, "timestamp": 6},
        ]


@pytest.mark.parametrize("times", [[], [Column("", qwp.TIMESTAMP_NS, [5, None])]])
def test_rows_without_a_timestamp_of_their_own_are_left_to_the_server(times: list[Column]) -> None:
    (table,) = (
        QwpDecoder().decode(message(Block("t", [Column("n", qwp.LONG, [1, 2]), *times]))).tables
    )

    assert not table.is_timed
    assert table.rows[1] == b'{"n":2}'


def test_of_two_columns_with_one_name_the_second_counts() -> None:
    columns = [
        Column("n", qwp.LONG, [1]),
        Column("n", qwp.VARCHAR, ["two"]),
        Column("timestamp", qwp.LONG, [3]),
        Column("", qwp.TIMESTAMP_NS, [4]),
    ]

    assert decoded(message(Block("t", columns))) == {"t": [{"n": "two", "timestamp": 4}]}


def test_a_row_without_values_is_an_empty_object() -> None:
    assert decoded(message(Block("t", [], rows=2))) == {"t": [{}, {}]}
    assert decoded(message(Block("t", [Column("n", qwp.LONG, [None])]))) == {"t": [{}]}


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (longs("", 1), "no name"),
        (longs("x" * 128, 1), "at most 127"),
        (Block("t", [Column("x" * 128, qwp.LONG, [1])]), "at most 127"),
        (Block("t", [Column("", qwp.LONG, [1])]), "no name"),
        (Block("t", [Column("", qwp.TIMESTAMP_NS, [1])] * 2), "two designated"),
        (Block("t", [], rows=codec.ROWS_MAX + 1), "1000001 rows"),
        (Block("t", [Column("c", qwp.LONG, [])] * (codec.COLUMNS_MAX + 1)), "2049 columns"),
        (Block("t", [Column("c", qwp.LONG, [])] * 9, rows=codec.ROWS_MAX), "rows times columns"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_limits_of_a_table(block: Block, why: str) -> None:
    error = refused(message(block))

    assert why in str(error)
    assert error.status is QwpStatus.PARSE


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_a_column_name_that_json_would_escape_is_refused(name: str) -> None:
    error = refused(message(Block("t", [Column(name, qwp.LONG, [1])])))

    assert error.status is QwpStatus.SCHEMA


def test_tables_of_a_connection_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "TABLES_MAX", 2)
    decoder = QwpDecoder()
    decoder.decode(message(longs("a", 1), longs("b", 1), longs("a", 1)))

    assert "more than 2 tables" in str(refused(message(longs("c", 1)), decoder))


def test_a_small_message_does_not_become_a_huge_one() -> None:
    """A symbol of a megabyte, named once a row; a long name, repeated for each row."""
    large = "x" * (1 << 20)
    symbol = Block("t", [Column("s", qwp.SYMBOL, [0] * 100)])
    many = Block("t", [Column(f"s{n}", qwp.SYMBOL, [0]) for n in range(100)])

    assert "as JSON" in str(refused(message(symbol, symbols=(0, [large]))))
    assert "as JSON" in str(refused(message(many, symbols=(0, [large]))))
    wide = Block("t", [Column("n" * 127, qwp.BYTE, [1] * 1_000_000)])
    assert "as JSON" in str(refused(message(wide)))


# Whatever bytes there are.


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_a_message_that_is_cut_is_refused(cut: int) -> None:
    refused(WHOLE[:cut])
    if cut > 12:  # and also when its header says that this is all
        refused(WHOLE[:8] + struct.pack("<I", cut - 12) + WHOLE[12:cut])


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_changed_byte_gives_rows_or_a_refusal(at: int, byte: int) -> None:
    data = WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :]
    try:
        found = QwpDecoder().decode(data)
    except QwpError:
        return
    for table in found.tables:
        for row in table.rows:
            assert isinstance(json.loads(row), dict)


@given(st.binary(max_size=200), st.integers(0, 3), st.sampled_from([0, 1, 4, 8, 12, 13]))
def test_any_bytes_give_rows_or_a_refusal(payload: bytes, count: int, flags: int) -> None:
    data = struct.pack("<4sBBHI", b"QWP1", 1, flags, count, len(payload)) + payload
    with contextlib.suppress(QwpError):
        QwpDecoder().decode(data)


@given(
    st.integers(1, 0x18), st.integers(0, 20), st.binary(max_size=120), st.sampled_from([0, 4, 8])
)
def test_any_bytes_in_a_column_give_values_or_a_refusal(
    kind: int, rows: int, data: bytes, flags: int
) -> None:
    head = b"\x00\x01\x01s" if flags & qwp.DELTA else b""
    payload = head + b"\x01t" + bytes([rows]) + b"\x01\x01c" + bytes([kind]) + data
    whole = struct.pack("<4sBBHI", b"QWP1", 1, flags, 1, len(payload)) + payload
    try:
        found = QwpDecoder().decode(whole)
    except QwpError:
        return
    for row in found.tables[0].rows:
        json.loads(row)
