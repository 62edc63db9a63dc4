from __future__ import annotations

from penstock.projection_types import ProjectionCounts


def test_a_copy_of_the_counts_stays_as_it_was() -> None:
    counts = ProjectionCounts(records=3)
    seen = counts.copy()

    counts.records += 1

    assert (seen.records, counts.records) == (3, 4)
