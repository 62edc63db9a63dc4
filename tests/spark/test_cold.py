"""Spark reads cold tiers: through their log's directory, and where nothing else is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.engine import Log
from penstock.types import Record
from tests.spark.lakes import Bed
from tests.spark.support import complete, opened, seqs
from tests.support import s3
from tests.support.rig import on_disk

TIER: dict[str, Any] = {"segment_max_events": 10, "hot_retain_segments": 1}


# An object store is read by the same code: its own tests are in tests/unit/storage/tiers.
@pytest.fixture(params=["folder", pytest.param("objects", marks=pytest.mark.crash)])
def cold(request: pytest.FixtureRequest, tmp_path: Path, store: s3.Store) -> str:
    if request.param == "folder":
        return str(on_disk(tmp_path, "cold") / "tier")
    return store.url(f"spark/{tmp_path.name}")


@pytest.fixture
def log(tmp_path: Path, cold: str) -> Iterator[Log]:
    with opened(on_disk(tmp_path, "hot") / "data", cold_dir=cold, **TIER) as found:
        grow(found, 0, 50)
        found.relocate()
        yield found


def grow(log: Log, start: int, stop: int) -> None:
    for first in range(start, stop, 10):
        log.append("t", [Record({"n": n}, tag=f"k{n % 2}") for n in range(first, first + 10)])
    log.checkpoint(everything=True)


def read(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.read.format("penstock").options(path=path, topic="t", **options).load()


def test_a_directory_is_read_with_what_went_cold(spark: SparkSession, log: Log) -> None:
    frame = read(spark, log.core.parts.layout.root)

    assert seqs(frame) == list(range(1, 51))
    assert seqs(frame.filter("tag = 'k1' and seq between 5 and 30")) == list(range(6, 31, 2))
    assert [row.data for row in frame.filter("seq = 7").collect()] == ['{"n":6}']


def test_a_tier_is_read_alone(spark: SparkSession, log: Log, cold: str) -> None:
    log.delete("t", seqs=[3])
    log.relocate()

    frame = read(spark, f"{cold}/")

    assert seqs(frame) == [1, 2, *range(4, 41)]
    assert seqs(frame.filter("seq > 25")) == list(range(26, 41))
    assert frame.filter("seq = 40").first().data == '{"n":39}'  # type: ignore[union-attr]


def test_a_stream_follows_what_comes_to_a_tier(
    spark: SparkSession, log: Log, cold: str, tmp_path: Path
) -> None:
    out, home = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def run() -> None:
        frame = spark.readStream.format("penstock").options(path=cold, topic="t").load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", home)
        complete(lambda: writer.trigger(availableNow=True).start(out))

    run()
    assert seqs(spark.read.parquet(out)) == list(range(1, 41))
    grow(log, 50, 80)
    log.relocate()

    run()

    assert seqs(spark.read.parquet(out)) == list(range(1, 71))


def test_a_tier_that_is_away_fails_the_query_with_its_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    home = on_disk(tmp_path, "away")
    with opened(home / "data", cold_dir=str(home / "cold"), **TIER) as log:
        grow(log, 0, 50)
        log.relocate()
        root = log.core.parts.layout.root
    (home / "cold").rename(home / "elsewhere")

    with pytest.raises(PySparkException, match="there is no cold tier here; mount it"):
        seqs(read(spark, root))
    assert seqs(read(spark, root, startingSeq=41)) == list(range(41, 51))


def test_damage_in_a_tier_is_named_by_file_and_offset(spark: SparkSession, tmp_path: Path) -> None:
    home = on_disk(tmp_path, "damaged")
    with opened(home / "data", cold_dir=str(home / "cold"), **TIER) as log:
        grow(log, 0, 50)
        log.relocate()
        root = log.core.parts.layout.root
    path = next((home / "cold").glob("topics/*/seg-0000000000000011.data"))
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)

    with pytest.raises(PySparkException, match=rf"{path} at byte 0: checksum differs"):
        seqs(read(spark, root))
    assert seqs(read(spark, root, skipCorrupt="true")) == [*range(1, 11), *range(12, 51)]


def test_a_store_that_does_not_exist_is_told(spark: SparkSession, store: s3.Store) -> None:
    with pytest.raises(PySparkException, match="is not a Penstock data directory"):
        seqs(read(spark, store.url("nothing/here")))


def test_a_lake_can_be_made_of_a_tier(
    spark: SparkSession, log: Log, cold: str, tmp_path: Path
) -> None:
    bed = Bed(spark, tmp_path / "bed", f'[source]\npath = "{cold}"\ntopics = ["*"]\n')

    bed.run()

    assert [row[2] for row in bed.records()] == list(range(1, 41))
    assert bed.verify().differences == []
