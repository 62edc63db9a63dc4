"""What Spark is handed for which options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, InputPartition, LessThan

from penstock.engine.engine import Log
from penstock.spark.gaps import GAPS
from penstock.spark.schema import RECORD
from penstock.spark.source import BatchReader, FilteredReader, GapReader, PenstockSource
from penstock.spark.stream import StreamReader
from tests.unit.spark.support import filled, opened, options_of


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path / "data") as found:
        filled(found)
        yield found


def source(**given: str) -> PenstockSource:
    return PenstockSource({"path": "/data", "topic": "t", **given})


def test_the_schema_follows_the_options() -> None:
    assert source().schema() == RECORD
    assert source(rows="gaps").schema() == GAPS
    assert source(schema="n int").schema() == "n int"
    columns = source(columns="data,seq").schema()
    assert not isinstance(columns, str)
    assert columns.names == ["data", "seq"]


def test_a_reader_looks_at_filters_only_when_asked_to() -> None:
    assert type(source().reader(RECORD)) is BatchReader
    assert type(source(pushFilters="true").reader(RECORD)) is FilteredReader
    assert type(source(rows="gaps").reader(GAPS)) is GapReader
    assert type(source().streamReader(RECORD)) is StreamReader
    assert PenstockSource.name() == "penstock"


def test_pushed_filters_bound_what_is_read(log: Log) -> None:
    reader = FilteredReader(options_of(log), RECORD)
    other = EqualTo(("data",), "x")

    left = list(reader.pushFilters([LessThan(("seq",), 8), EqualTo(("tag",), "k0"), other]))

    assert left == [other]
    found = [n for p in reader.partitions() for b in reader.read(p) for n in b["seq"].to_pylist()]
    assert found == [1, 4, 7]


def test_no_partition_is_no_rows() -> None:
    assert list(source().reader(RECORD).read(InputPartition(None))) == []
