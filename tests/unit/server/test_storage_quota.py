from __future__ import annotations

import pytest

from penstock.server.errors import ApiError
from penstock.server.storage_quota import StorageQuota


def test_appends_are_admitted_up_to_the_limit_and_refused_beyond() -> None:
    live = [0]
    quota = StorageQuota(100, lambda: live[0])
    quota.admit(60)
    live[0] = 60

    with pytest.raises(ApiError, match="max_total_bytes"):
        quota.admit(41)
    quota.admit(40)


def test_freed_bytes_are_found_when_the_limit_seems_to_be_reached() -> None:
    counts = iter([10])  # counted once
    quota = StorageQuota(100, lambda: next(counts))

    quota.admit(90)
    quota.admit(90)


def test_a_batch_under_way_counts_until_it_has_ended() -> None:
    quota = StorageQuota(100, lambda: 0)

    quota.admit(70)
    with quota.under_way(70):
        with pytest.raises(ApiError):
            quota.admit(31)
        quota.admit(30)

    quota.admit(100)


def test_without_a_limit_it_is_not_set() -> None:
    assert not StorageQuota(0, lambda: 0).is_set
