"""Verification finds what is missing, altered, there twice or not from the log at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.lake.manifest import DataFile, digest_text
from penstock.lake.table_commits import replaced
from tests.spark.lakes import ORDERS, PROJECT, Bed


@pytest.fixture(scope="module")
def bed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bed:
    text = PROJECT + ORDERS.replace('["orders"]', '["orders*"]')
    bed = Bed(spark, tmp_path_factory.mktemp("verify"), text)
    bed.append("orders", {"id": 1, "total": 1.5}, {"id": 2, "name": "b"}, {"id": "bad"})
    bed.append("orders.b", {"id": 3})
    bed.append("orders.c", {"id": 4}, {"id": 5})
    bed.run()
    return bed


def file_of(bed: Bed, name: str, part: str) -> DataFile:
    return next(f for f in bed.manifest(name).of(part) if f.topic in ("orders", ""))


@pytest.fixture
def restored(bed: Bed) -> Iterator[Bed]:
    """The lake as it was, after each test."""
    held = {path: path.read_bytes() for path in (bed.root / "lake").rglob("*") if path.is_file()}
    yield bed
    for path in (bed.root / "lake").rglob("*"):
        if path.is_file() and path not in held:
            path.unlink()
    for path, data in held.items():
        path.write_bytes(data)


def test_a_lake_as_it_was_made_is_equal(bed: Bed) -> None:
    verdict = bed.verify()

    assert (verdict.files, verdict.records, verdict.gone) == (7, 6, 0)
    assert verdict.differences == []


def test_a_file_that_was_removed_or_changed_is_found_and_so_are_its_records(restored: Bed) -> None:
    gone = file_of(restored, "bronze", "records")
    Path(restored.table().path_of(gone)).unlink()
    flipped = file_of(restored, "orders", "quarantine")
    path = Path(restored.table("orders").path_of(flipped))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)

    found = restored.verify().differences

    assert str(found[0]) == f"bronze: file {gone.path} was removed"
    assert str(found[1]) == f"orders: file {flipped.path} was changed"
    assert "bronze: topic orders, epoch" in str(found[2])
    assert (found[2].what, found[2].first, found[2].last, found[2].count) == ("missing", 1, 3, 3)


def forged(bed: Bed, name: str, part: str, topic: str, change: str) -> None:
    """A lake whose files and digests agree, and whose rows are wrong."""
    table, held = bed.table(name), bed.manifest(name)
    file = next(f for f in held.of(part) if f.topic == topic)
    path = Path(table.path_of(file))
    rows = pq.ParquetFile(path).read()
    if change == "less":
        rows = rows.slice(1)
    elif change == "twice":
        rows = pa.concat_tables([rows, rows.slice(0, 1)])
    else:
        column, value = ("data", '{"id":9}') if part == "records" else ("total", 9.0)
        made = [value, *rows[column].to_pylist()[1:]]
        at = rows.column_names.index(column)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(made, rows[column].type))
    pq.write_table(rows, path)
    new = msgspec.structs.replace(
        file, rows=rows.num_rows, digest=digest_text(path.read_bytes()), bytes=path.stat().st_size
    )
    table.commit(
        msgspec.structs.replace(
            held, version=held.version + 1, files=replaced(held.files, [file], [new])
        )
    )


@pytest.mark.parametrize(("name", "part"), [("bronze", "records"), ("orders", "rows")])
def test_rows_that_are_wrong_are_found_even_in_files_that_are_whole(
    restored: Bed, name: str, part: str
) -> None:
    forged(restored, name, part, "orders", "less")
    forged(restored, name, part, "orders.b", "twice")
    forged(restored, name, part, "orders.c", "other")

    found = [one for one in restored.verify().differences if one.table == name]

    assert [(one.topic, one.what, one.count) for one in found] == [
        ("orders", "missing", 1),
        ("orders.b", "twice", 1),
        ("orders.c", "altered", 1),
    ]


def test_rows_that_no_record_stands_for_are_found(restored: Bed) -> None:
    held = restored.manifest("orders")
    moved = dataclasses.replace(held.offsets["orders"], seq=1)
    restored.table("orders").commit(
        msgspec.structs.replace(
            held, version=held.version + 1, offsets=held.offsets | {"orders": moved}
        )
    )

    found = restored.verify().differences

    assert [(one.table, one.what, one.count) for one in found] == [("orders", "extra", 2)]
