"""Records and rows as Arrow batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.codec.columns import Columns
from penstock.spark import feature_columns
from penstock.spark.feature_columns import KEYED, KEYED_ARROW
from penstock.spark.feature_job import job_of
from tests.support import feature_history
from tests.unit.spark.feature_stages import columns, records

TEXTS = [b'{"a":1}', b"null", '"ä"'.encode(), b"[]", b"7"]


def data_of(found: Columns) -> list[bytes | None]:
    assert found.data is not None
    offsets, joined, bits = found.data
    ends = np.frombuffer(offsets, np.int32)
    return [
        joined[ends[i] : ends[i + 1]] if bits[i >> 3] >> (i & 7) & 1 else None
        for i in range(found.count)
    ]


def test_records_become_columns() -> None:
    found = columns(TEXTS, 3)

    assert found.count == 5
    assert np.frombuffer(found.seqs, np.int64).tolist() == [3, 4, 5, 6, 7]
    assert data_of(found) == TEXTS


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_slice_of_records_becomes_columns(kind: Any) -> None:
    batch = records(TEXTS)
    batch = batch.set_column(3, "data", batch.column("data").cast(kind))

    found = feature_columns.records_of(batch.slice(1, 3))

    assert np.frombuffer(found.seqs, np.int64).tolist() == [2, 3, 4]
    assert np.frombuffer(found.tss, np.int64).tolist() == batch.column("ts").to_pylist()[1:4]
    assert data_of(found) == TEXTS[1:4]


def test_records_without_data_stay_without() -> None:
    batch = records(TEXTS[:2])
    data = pa.array([None, "1"], pa.string())

    assert data_of(feature_columns.records_of(batch.set_column(3, "data", data))) == [None, b"1"]
    assert feature_columns.records_of(records([])).count == 0


def test_spark_and_arrow_have_the_same_columns_between_the_stages() -> None:
    assert KEYED.fieldNames() == KEYED_ARROW.names


def test_rows_have_the_key_then_the_features_with_their_types() -> None:
    job = job_of(feature_history.document(), "T", ["top_k", "sum", "count", "has_seen"])
    row = {"top_k": [["a", 2]], "sum": 0, "count": 2, "has_seen": True}

    batch = feature_columns.rows_batch(job, [("ann", 1), ("bob", 2)], [row, {}])

    assert batch.schema == feature_columns.arrow_schema(job)
    assert feature_columns.spark_schema(job).fieldNames() == batch.schema.names
    assert batch.to_pylist() == [
        {"user": "ann", "band": 1, "top_k": '[["a",2]]', "sum": 0, "count": 2, "has_seen": True},
        {"user": "bob", "band": 2, **dict.fromkeys(("top_k", "sum", "count", "has_seen"))},
    ]


def test_plain_values_are_those_of_spark() -> None:
    assert feature_columns.plain("f64", 0) == 0.0
    assert isinstance(feature_columns.plain("f64", 0), float)
    assert feature_columns.plain("f64", math.nan) is None
    assert feature_columns.plain("f64", -math.inf) is None
    assert feature_columns.plain("i64", 3) == 3
    assert feature_columns.plain("str", None) is None


def test_keys_become_columns_of_their_types() -> None:
    batch = pa.RecordBatch.from_pydict({"user": ["a", None], "band": [1, 2]})

    user, band = feature_columns.key_columns(batch, {"user": "str", "band": "i64"})

    assert (user.type, user.is_present.tolist()) == ("str", [True, False])
    assert band.values.tolist() == [1, 2]
