"""Gaps as rows and as errors."""

from __future__ import annotations

import datetime

from penstock.spark import gaps
from penstock.spark.gaps import GAPS, GapFound, GapRow
from penstock.spark.schema import in_arrow

SOME = [GapRow("t", 5, 4, 9, "cap"), GapRow("t", 4, 7, None, "recreated")]


def test_rows_have_all_columns() -> None:
    batch = gaps.batch_of(in_arrow(GAPS), SOME, 1_500)

    noticed = datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, datetime.UTC)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        ("t", 5, 4, 9, "cap", noticed),
        ("t", 4, 7, None, "recreated", noticed),
    ]


def test_an_error_names_the_range_and_what_to_do() -> None:
    text = str(GapFound("/data", SOME))

    assert text.startswith("/data: topic t: records 4 to 9 of epoch 5 are gone (cap)")
    assert "(and 1 more gaps)" in text
    assert "onGap=report" in text
    assert "the rest of epoch 4 from record 7 on" in str(GapFound("/data", SOME[1:]))
