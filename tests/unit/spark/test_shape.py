"""What rows look like."""

from __future__ import annotations

import struct

import pytest
from pyspark.sql.types import (
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.codec.columns import DATA, TAG, Columns
from penstock.errors import InvalidArgument
from penstock.spark.options import SourceOptions
from penstock.spark.schema import RECORD
from penstock.spark.shape import Shape, shape_of

DOCS = [b'{"n":1}', b'{"n":"x"}']
SOME = Columns(
    2,
    struct.pack("<2Q", 7, 9),
    struct.pack("<2Q", 0, 0),
    None,
    None,
    None,
    (struct.pack("<3I", 0, 7, 16), b"".join(DOCS), b"\3"),
)


def shape(*fields: StructField, mode: str = "permissive") -> Shape:
    options = SourceOptions(topics=("t",), mode=mode)  # type: ignore[arg-type]
    return shape_of(options, StructType(list(fields)))


def test_data_is_read_for_what_comes_out_of_it() -> None:
    assert shape(StructField("seq", LongType())).wanted == 0
    assert (
        shape(StructField("n", LongType()), StructField("tag", StringType())).wanted == DATA | TAG
    )
    assert shape(StructField("_corrupt", StringType())).wanted == DATA
    assert not len(shape_of(SourceOptions(topics=("t",)), RECORD).typed)


def test_typed_and_raw_columns_stand_as_asked() -> None:
    found = shape(
        StructField("n", LongType()),
        StructField("seq", LongType()),
        StructField("_corrupt", StringType()),
    )

    batch = found.batch_of("t", 5, SOME)

    assert batch.to_pylist() == [
        {"n": 1, "seq": 7, "_corrupt": None},
        {"n": None, "seq": 9, "_corrupt": '{"n":"x"}'},
    ]


def test_failfast_names_the_record() -> None:
    found = shape(StructField("n", LongType()), mode="failfast")

    with pytest.raises(InvalidArgument, match="record 9 of topic t: field n is str, not int64"):
        found.batch_of("t", 5, SOME)


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (StructField("n", LongType(), False), "must be nullable"),
        (StructField("n", DecimalType(10, 2)), "decimal.* cannot be decoded"),
        (StructField("n", MapType(StringType(), StringType())), "map.* cannot be decoded"),
        (StructField("_corrupt", LongType()), "column _corrupt must be a string"),
        (StructField("seq", StringType()), "column seq is bigint"),
    ],
)
def test_what_cannot_be_is_said(field: StructField, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        shape(field)
