"""Columns out of JSON: what Arrow finds at once and what is found record by record are the same."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from penstock.spark.json_columns import JsonColumnDecoder

FIELDS = pa.schema(
    [
        ("s", pa.string()),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.date32()),
        ("l", pa.list_(pa.int64())),
        ("o", pa.struct([("a", pa.string())])),
    ]
)
values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 40), 1 << 40),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=5),
    st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02", "soon"]),
    st.lists(st.integers(0, 9), max_size=3),
    st.fixed_dictionaries({}, optional={"a": st.text(max_size=3), "z": st.integers()}),
)
objects = st.dictionaries(st.sampled_from([*FIELDS.names, "other"]), values, max_size=6)


def decode(texts: list[bytes], fields: Any = FIELDS) -> tuple[list[dict[str, Any]], dict[int, str]]:
    offsets = [0]
    for text in texts:
        offsets.append(offsets[-1] + len(text))
    flaws: dict[int, str] = {}
    packed = struct.pack(f"<{len(offsets)}I", *offsets)
    columns = JsonColumnDecoder(fields).decode(
        len(texts), (packed, b"".join(texts), b""), flaws.__setitem__
    )
    assert [column.type for column in columns] == [field.type for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=fields).to_pylist(), flaws


@hypothesis_settings(max_examples=200, deadline=None)
@given(st.lists(objects, max_size=6))
def test_a_record_is_read_the_same_alone_and_among_others(records: list[dict[str, Any]]) -> None:
    texts = [json.dumps(record).encode() for record in records]

    rows, flaws = decode(texts)

    alone = [decode([text]) for text in texts]
    assert rows == [found[0][0] for found in alone]
    assert set(flaws) == {row for row, found in enumerate(alone) if found[1]}
    # And the same beside a record that Arrow stumbles over.
    beside, _ = decode([*texts, b"[]"])
    assert beside[:-1] == rows


def test_a_flaw_costs_its_field_alone() -> None:
    rows, flaws = decode([b'{"n": "x", "s": "kept"}', b'{"n": 1}'], FIELDS)

    assert (rows[0]["n"], rows[0]["s"], rows[1]["n"]) == (None, "kept", 1)
    assert flaws == {0: "field n is str, not int32"}


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        (b'{"n": 1', "not JSON"),
        (b"7", "not an object but int"),
        (b'{"n": 2147483648}', "field n is int, not int32"),
        (b'{"n": 1.5}', "field n is float, not int32"),
        (b'{"n": true}', "field n is bool, not int32"),
        (b'{"b": 1}', "field b is int, not bool"),
        (b'{"s": 1}', "field s is int, not string"),
        (b'{"t": 5}', "field t is int, not timestamp"),
        (b'{"t": "soon"}', "field t is 'soon', not timestamp"),
        (b'{"d": "soon"}', "field d is 'soon', not date32"),
        (b'{"l": 1}', "field l is int, not list"),
        (b'{"l": ["x"]}', "field l is str, not int64"),
        (b'{"o": []}', "field o is list, not struct"),
    ],
)
def test_flaws_are_named(text: bytes, flaw: str) -> None:
    _, flaws = decode([b"{}", text, b"{}"])

    assert list(flaws) == [1]
    assert flaw in flaws[1]


def test_flaws_in_a_large_batch_are_found_where_they_are() -> None:
    texts = [b'{"n": %d}' % n for n in range(10_000)]
    texts[1234] = texts[9999] = b'{"n": "?"}'

    rows, flaws = decode(texts)

    assert set(flaws) == {1234, 9999}
    assert [row["n"] for row in rows] == [None if n in flaws else n for n in range(10_000)]


def test_null_is_a_record_without_fields() -> None:
    for texts in ([b"{}", b"null"], [b"[]", b"null"]):
        rows, flaws = decode(texts)
        assert rows[1] == dict.fromkeys(FIELDS.names)
        assert 1 not in flaws


def test_no_records_are_no_rows() -> None:
    assert decode([]) == ([], {})
