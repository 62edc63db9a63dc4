"""R22: a lake and a cold tier that commit b6e1408 wrote are read and continued by Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from penstock.storage.fs import OsFilesystem
from penstock.testing import FakeClock
from tests.spark.lakes import Bed
from tests.support import golden_lake
from tests.support.golden_directories import expectation, open_home, unpack


def test_a_lake_of_the_earlier_commit_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """The run that it left to do and another one leave the rows that they left with its code."""
    home = unpack("lake", tmp_path)
    expected = expectation("lake")
    bed = Bed(spark, home, text="")

    held = golden_lake.rows(home / "lake")
    with golden_lake.open_log(home, FakeClock(expected["now_ms"])) as log:
        continued = golden_lake.continue_lake(log, bed.run, home / "lake")

    assert held == expected["held"]
    assert continued == expected["continued"]
    assert bed.verify().differences == []
    assert bed.run().commits == 0


def test_spark_reads_a_cold_tier_of_the_earlier_commit(spark: SparkSession, tmp_path: Path) -> None:
    """Alone, and through the data directory that it belongs to."""
    home = unpack("closed", tmp_path)
    clock = FakeClock(expectation("closed")["now_ms"])
    open_home(home, clock, OsFilesystem()).close()  # it remembers where its tier is now

    found = {
        place: {
            topic: golden_lake.spark_seqs(spark, home / place, topic) for topic in golden_lake.READ
        }
        for place in ("cold", "data")
    }

    assert found == expectation("spark")
