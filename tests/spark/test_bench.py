"""`penstock bench spark` at a tiny size: every figure of the source is taken."""

from __future__ import annotations

import math
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.benchmarks.spark import Stand, source_figures


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
