"""Verification finds what is missing, altered, there twice or not from the log at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.lake.manifest import DataFile, Manifest, digest_text
from penstock.lake.table import replaced
from tests.spark.lakes import ORDERS, PROJECT, Bed


@pytest.fixture(scope="module")
def bed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bed:
    bed = Bed(spark, tmp_path_factory.mktemp("verify"), PROJECT + ORDERS)
    bed.append("orders", {"id": 1, "total": 1.5}, {"id": 2, "name": "b"}, {"id": "bad"})
    bed.append("clicks", {"x": 1})
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

    assert (verdict.files, verdict.records, verdict.gone) == (4, 4, 0)
    assert verdict.differences == []


def test_a_file_that_was_removed_is_missed_with_its_records(restored: Bed) -> None:
    file = file_of(restored, "bronze", "records")
    Path(restored.table().path_of(file)).unlink()

    found = restored.verify().differences

    assert str(found[0]) == f"bronze: file {file.path} was removed"
    assert "bronze: topic orders" in str(found[1])
    assert (found[1].what, found[1].first, found[1].last, found[1].count) == ("missing", 1, 3, 3)


@pytest.mark.parametrize(("name", "part"), [("bronze", "records"), ("orders", "quarantine")])
def test_a_flipped_bit_is_found(restored: Bed, name: str, part: str) -> None:
    file = file_of(restored, name, part)
    path = Path(restored.table(name).path_of(file))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)

    found = restored.verify().differences

    assert str(found[0]) == f"{name}: file {file.path} was changed"


def forged(bed: Bed, name: str, part: str, change: str) -> None:
    """A lake whose files and digests agree, and whose rows are wrong."""
    table, held = bed.table(name), bed.manifest(name)
    file = file_of(bed, name, part)
    path = Path(table.path_of(file))
    rows = pq.ParquetFile(path).read()
    if change == "less":
        rows = rows.slice(1)
    elif change == "twice":
        rows = pa.concat_tables([rows, rows.slice(0, 1)])
    else:
        column = "data" if part == "records" else "total"
        value = '{"id":9}' if part == "records" else 9.0
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


@pytest.mark.parametrize(
    ("name", "part", "change", "what"),
    [
        ("bronze", "records", "less", "missing"),
        ("bronze", "records", "twice", "twice"),
        ("bronze", "records", "other", "altered"),
        ("orders", "rows", "less", "missing"),
        ("orders", "rows", "twice", "twice"),
        ("orders", "rows", "other", "altered"),
    ],
)
def test_rows_that_are_wrong_are_found_even_in_files_that_are_whole(
    restored: Bed, name: str, part: str, change: str, what: str
) -> None:
    forged(restored, name, part, change)

    found = [one for one in restored.verify().differences if one.table == name]

    assert [(one.what, one.topic, one.count) for one in found] == [(what, "orders", 1)]


def test_rows_that_no_record_stands_for_are_found(restored: Bed) -> None:
    held: Manifest = restored.manifest("orders")
    moved = msgspec.structs.replace(
        held,
        version=held.version + 1,
        offsets={t: msgspec.structs.replace(p, seq=1) for t, p in held.offsets.items()},
    )
    restored.table("orders").commit(moved)

    found = restored.verify().differences

    assert [(one.table, one.what, one.count) for one in found] == [("orders", "extra", 2)]
