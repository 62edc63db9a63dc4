"""Columns of records in Spark and in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from penstock.codec.columns import DATA, META, NODE, TAG, Columns
from penstock.errors import InvalidArgument
from penstock.spark import schema

BITS = b"\1"
SOME = Columns(
    2,
    (7).to_bytes(8, "little") + (9).to_bytes(8, "little"),
    (1000).to_bytes(8, "little") * 2,
    None,
    (bytes(4) + (1).to_bytes(4, "little") * 2, b"x", BITS),
    None,
    None,
)


def test_columns_are_made_of_what_the_kernel_gives() -> None:
    made = schema.columns_of(["topic", "epoch", "seq", "ts", "tag", "other"], "t", 5, SOME)

    assert {name: column.to_pylist() for name, column in made.items() if name != "ts"} == {
        "topic": ["t", "t"],
        "epoch": [5, 5],
        "seq": [7, 9],
        "tag": ["x", None],
    }
    assert made["ts"].cast(pa.int64()).to_pylist() == [1_000_000, 1_000_000]


def test_the_kernel_is_asked_for_texts_alone() -> None:
    assert schema.wanted(["seq", "ts", "topic"]) == 0
    assert schema.wanted(["node", "tag", "meta", "data"]) == NODE | TAG | META | DATA


def test_columns_are_chosen_in_the_order_asked() -> None:
    assert schema.chosen(("data", "seq"), schema.RECORD).names == ["data", "seq"]
    assert schema.chosen((), schema.RECORD) == schema.RECORD
    with pytest.raises(InvalidArgument, match="unknown column 'sequence'"):
        schema.chosen(("sequence",), schema.RECORD)


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (StructField("seq", IntegerType()), "column seq is bigint, not int"),
        (StructField("other", StringType()), "records have no column 'other'"),
    ],
)
def test_other_columns_are_refused(field: StructField, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        schema.asked_for(StructType([field]))


def test_nullability_is_as_spark_asks() -> None:
    asked = StructType([StructField("topic", StringType()), StructField("tag", StringType())])

    assert [field.nullable for field in schema.in_arrow(asked)] == [True, True]
    assert not schema.in_arrow(schema.RECORD).field("seq").nullable
