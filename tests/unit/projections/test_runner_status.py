from __future__ import annotations

from penstock.projections.runner_status import RunnerCounts


def test_a_copy_of_the_counts_stays_as_it_was() -> None:
    counts = RunnerCounts(records=3)
    seen = counts.copy()

    counts.records += 1

    assert (seen.records, counts.records) == (3, 4)
