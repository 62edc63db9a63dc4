"""`python -m benchmarks spark` at a tiny size: every figure is taken, and nothing is left."""

from __future__ import annotations

import math
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.spark import Stand, source_figures
from tests.support.watched import BENCHMARKS, Watched


def test_every_figure_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    figures = list(source_figures(Stand(spark, str(tmp_path), 2_000, 1)))

    assert [figure.name for figure in figures if figure.goal is not None] == [
        "  … of Parquet's rate",
        "  … of the rate of JSON lines",
        "  … times from_json",
        "  … pushed down, of Parquet's time",
        "  … of the batch's rate",
        "idle trigger",
    ]
    assert all(figure.value > 0 and not math.isnan(figure.value) for figure in figures)


def test_spark_writes_to_the_scratch_folder_and_ends_before_it_is_removed(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    words = ("spark", "--records", "1000", "--rounds", "1", "--dir", tmp_path / "given")

    with Watched(tmp_path, *words, module=BENCHMARKS) as command:
        code = command.ends()

        assert code == 0, command.process.communicate()[1][-4000:]
        assert command.pids() == []
        assert command.strayed == set()
        assert command.left() == []
    assert list((tmp_path / "given").iterdir()) == []
