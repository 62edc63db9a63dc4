"""Columns out of JSON, as Spark gets them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.engine.engine import Log
from tests.spark.support import load, opened

DDL = (
    "user string, amount double, n int, at timestamp, day date, l array<bigint>, o struct<a:string>"
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path / "data") as found:
        yield found


def test_fields_are_columns_beside_those_of_records(spark: SparkSession, log: Log) -> None:
    full: dict[str, Any] = {
        "user": "ann",
        "amount": 1.5,
        "n": 7,
        "at": "2026-01-02T03:04:05.5Z",
        "day": "2026-01-02",
        "l": [1, 2],
        "o": {"a": "x", "b": 1},
        "more": {},
    }
    log.append("t", [full, {"amount": 2, "n": None}])
    log.sync()

    frame = load(spark, log, schema=f"seq bigint, {DDL}")

    rows = [row.asDict(recursive=True) for row in frame.orderBy("seq").collect()]
    assert [str(rows[0].pop(name)) for name in ("at", "day")] == [
        "2026-01-02 03:04:05.500000",
        "2026-01-02",
    ]
    assert rows[0] == {
        "seq": 1,
        "user": "ann",
        "amount": 1.5,
        "n": 7,
        "l": [1, 2],
        "o": {"a": "x"},
    }
    assert {name for name, value in rows[1].items() if value is not None} == {"seq", "amount"}


def test_what_does_not_fit_is_null_and_can_be_seen(spark: SparkSession, log: Log) -> None:
    good = [{"n": n, "user": "x"} for n in range(2000)]
    log.append("t", [*good, {"n": "many", "user": "ann"}, [1], "text", {"n": 1 << 40}, {"n": 1}])
    log.sync()

    frame = load(spark, log, schema="seq bigint, n int, user string, _corrupt string")

    bad = frame.where("_corrupt IS NOT NULL").orderBy("seq").collect()
    assert [tuple(row) for row in bad] == [
        (2001, None, "ann", '{"n":"many","user":"ann"}'),
        (2002, None, None, "[1]"),
        (2003, None, None, '"text"'),
        (2004, None, None, '{"n":1099511627776}'),
    ]
    assert frame.where("n IS NOT NULL").count() == 2001


def test_failfast_names_the_record(spark: SparkSession, log: Log) -> None:
    log.append("t", [{"n": 1}, {"n": "many"}])
    log.sync()

    with pytest.raises(Exception, match="record 2 of topic t: field n is str, not int32"):
        load(spark, log, schema="n int", mode="failfast").collect()


def test_a_schema_may_be_given_as_spark_does(spark: SparkSession, log: Log) -> None:
    log.append("t", [{"n": 1}])
    log.sync()
    reader = spark.read.format("penstock").option("path", log.core.parts.layout.root)

    frame = reader.option("topic", "t").schema("n bigint, topic string").load()

    assert [tuple(row) for row in frame.collect()] == [(1, "t")]


@pytest.mark.parametrize(
    ("ddl", "complaint"),
    [
        ("seq int", "column seq is bigint, not int"),
        ("n decimal(10,2)", "cannot be decoded"),
        ("n int not null", "must be nullable"),
    ],
)
def test_what_cannot_be_is_said(spark: SparkSession, log: Log, ddl: str, complaint: str) -> None:
    log.append("t", [{"n": 1}])
    log.sync()

    with pytest.raises(Exception, match=complaint):
        load(spark, log, schema=ddl).collect()
