from __future__ import annotations

import pytest

from penstock.topics.tiering import going, may_move
from penstock.types import TopicConfig


@pytest.mark.parametrize(
    ("sizes", "segments", "kept_bytes", "expected"),
    [
        ([], 4, 0, 0),
        ([10] * 4, 4, 0, 0),
        ([10] * 6, 4, 0, 2),
        ([10] * 6, 0, 0, 6),
        ([10] * 6, 4, 25, 4),  # two of 10 fit 25
        ([10] * 6, 2, 1000, 4),  # the stricter one counts
        ([10] * 6, 4, 5, 6),  # not even the newest fits
        ([500, 1, 1], 4, 10, 1),
    ],
)
def test_the_oldest_go(sizes: list[int], segments: int, kept_bytes: int, expected: int) -> None:
    assert going(sizes, segments_kept=segments, bytes_kept=kept_bytes) == expected


def test_queues_stay_on_the_local_disk() -> None:
    assert may_move(TopicConfig())
    assert not may_move(TopicConfig(type="queue"))
