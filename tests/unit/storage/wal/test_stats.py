from __future__ import annotations

import pytest

from penstock.storage.wal.stats import SYNC_BUCKETS_US, ShardStats


@pytest.mark.parametrize(
    ("micros", "slot"),
    [(0, 0), (50, 0), (51, 1), (1000, 4), (99_999, 8), (100_001, len(SYNC_BUCKETS_US)), (9e9, -1)],
)
def test_a_sync_is_counted_in_the_first_bucket_that_holds_it(micros: float, slot: int) -> None:
    stats = ShardStats()

    stats.synced(micros / 1e6)

    assert stats.sync_buckets[slot] == sum(stats.sync_buckets) == stats.syncs == 1


def test_seconds_add_up() -> None:
    stats = ShardStats()

    stats.synced(0.25)
    stats.synced(0.5)

    assert (stats.syncs, stats.sync_seconds) == (2, 0.75)


def test_the_peak_is_the_most_that_ever_waited() -> None:
    stats = ShardStats()

    for depth in (1, 7, 3):
        stats.drained(depth)

    assert stats.queue_peak == 7
