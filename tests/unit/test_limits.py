from __future__ import annotations

import pytest

from penstock import limits


def test_the_bounds_agree_with_one_another() -> None:
    limits.check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RECORD_BYTES_MAX", limits.BATCH_BYTES_MAX + 1),
        ("META_BYTES_MAX", limits.RECORD_BYTES_MAX + 1),
        ("BATCH_BYTES_MAX", limits.SHARD_QUEUE_BYTES_MAX),
        ("SEGMENT_BYTES_MAX", 1 << 32),
        ("CHECKPOINT_WAL_BYTES", limits.UNABSORBED_BYTES_MAX),
        ("SEQ_RESERVE", limits.BATCH_RECORDS_MAX),
        ("COMMIT_WINDOW_MIN_S", 1.0),
        ("TAG_BYTES_MAX", 1 << 16),
        ("JSON_DEPTH_MAX", limits.BODY_DEPTH_MAX - 4),
        ("BODY_DEPTH_MAX", 501),
    ],
)
def test_a_bound_that_breaks_a_relation_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(limits, name, value)

    with pytest.raises(AssertionError, match="limits disagree"):
        limits.check()
