"""Rows laid out as records travel, held against the server's own reading of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import InvalidArgument
from penstock.spark import encoding
from penstock.spark.encoding import ColumnMapping, Rows, encode, encode_sorted, mapping_of
from penstock.wire.binary_batch import split_records


def read(rows: Rows) -> list[tuple[Any, ...]]:
    """(data, meta, tag, node) of each row, as a server takes them apart."""
    data = bytes(rows.data[rows.ends[0] : rows.ends[-1]])
    datas, *others = split_records(data, 0, rows.count)
    filled = [column if column is not None else [None] * rows.count for column in others]
    return list(zip(datas, *filled, strict=True))


def only(layout: ColumnMapping, batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    (rows,) = encode(layout, batch)
    return read(rows)


def test_every_column_of_a_record_has_its_place() -> None:
    batch = pa.record_batch(
        {
            "data": pa.array(["1", '{"a":2}', None]),
            "meta": pa.array(['{"m":1}', None, ""]),
            "tag": pa.array(["t", "", None]),
            "node": pa.array([None, "n", "ü"]),
        }
    )

    found = only(mapping_of(batch.schema.names, "x"), batch)

    assert found == [
        (b"1", b'{"m":1}', b"t", None),
        (b'{"a":2}', None, None, b"n"),
        (b"null", None, None, "ü".encode()),
    ]


def test_without_data_all_other_columns_are_one_object() -> None:
    batch = pa.record_batch({"id": pa.array([1, 2]), "tag": pa.array(["a", "b"])})

    found = only(mapping_of(batch.schema.names, "x"), batch)

    assert [(json.loads(one[0]), one[2]) for one in found] == [({"id": 1}, b"a"), ({"id": 2}, b"b")]


def test_values_that_are_no_text_become_json() -> None:
    batch = pa.record_batch(
        {"data": pa.array([{"a": 1}, None]), "meta": pa.array([{"b": 2}, None]), "tag": [7, None]}
    )

    found = only(mapping_of(batch.schema.names, "x"), batch)

    assert found == [(b'{"a":1}', b'{"b":2}', b"7", None), (b"null", None, None, None)]


def test_a_column_says_where_each_row_goes() -> None:
    batch = pa.record_batch({"topic": ["b", "a", "b"], "data": ["1", "2", "3"]})

    found = {rows.topic: rows for rows in encode(mapping_of(batch.schema.names, ""), batch)}

    assert {topic: [row[0] for row in read(rows)] for topic, rows in found.items()} == {
        "b": [b"1", b"3"],
        "a": [b"2"],
    }
    assert [found["b"].index(i) for i in range(2)] == [0, 2]


def test_sorted_rows_do_not_tell_how_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("b", "2"), ("a", "1"), ("b", "1"), ("b", "10")]
    layout = mapping_of(["topic", "data"], "")

    def laid(order: list[int]) -> dict[str, list[tuple[Any, ...]]]:
        batches = [pa.record_batch({"topic": [rows[i][0]], "data": [rows[i][1]]}) for i in order]
        return {one.topic: read(one) for one in encode_sorted(layout, batches)}

    assert laid([0, 1, 2, 3]) == laid([3, 1, 2, 0])
    assert sorted(row[0] for row in laid([0, 1, 2, 3])["b"]) == [b"1", b"10", b"2"]
    assert not list(encode_sorted(layout, []))

    monkeypatch.setattr(encoding, "SORT_BYTES_MAX", 10)
    with pytest.raises(InvalidArgument, match="repartition"):
        laid([0])


def test_a_key_is_a_tag() -> None:
    assert mapping_of(["key", "data"], "x") == ColumnMapping("x", tag="key", data="data")


@pytest.mark.parametrize(
    ("names", "topic", "why"),
    [
        (["data"], "", "no topic: set option topic"),
        (["data", "topic"], "x", "remove one"),
        (["data", "id"], "x", "'id' cannot be beside column data"),
        (["tag"], "x", "nothing to write"),
        (["a", "a"], "x", "two columns"),
    ],
)
def test_columns_that_make_no_record_are_refused(names: list[str], topic: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        mapping_of(names, topic)


def test_a_label_that_is_too_long_and_a_row_without_a_topic_are_refused() -> None:
    long = pa.record_batch({"data": ["1"], "tag": ["t" * 257]})
    with pytest.raises(InvalidArgument, match="257 bytes"):
        only(mapping_of(long.schema.names, "x"), long)

    lost = pa.record_batch({"data": ["1"], "topic": pa.array([None], pa.string())})
    with pytest.raises(InvalidArgument, match="no topic"):
        only(mapping_of(lost.schema.names, ""), lost)


def test_an_empty_batch_has_no_rows() -> None:
    assert not list(
        encode(ColumnMapping("x", data="data"), pa.record_batch({"data": pa.array([], "str")}))
    )
