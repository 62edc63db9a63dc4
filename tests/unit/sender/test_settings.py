"""Settings of a spool: those that can work, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InvalidArgument
from penstock.sender.settings import SpoolSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"sender_id": "a/b"},
        {"sender_id": ""},
        {"segment_bytes": 100},
        {"segment_bytes": 1 << 31},
        {"total_bytes_max": 5 << 20},
        {"durability": "flush", "sf_dir": "/sf"},
        {"durability": "append"},
        {"durability": "periodic"},
        {"sync_interval_s": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        SpoolSettings(**wrong)


def test_the_cap_depends_on_where_the_spool_lives() -> None:
    assert SpoolSettings().cap_bytes == 128 << 20
    assert SpoolSettings(sf_dir="/sf").cap_bytes == 10 << 30
    assert SpoolSettings(segment_bytes=100 << 20).cap_bytes == 200 << 20


def test_pages_are_made_ahead_when_there_is_time_and_frames_are_not_synced() -> None:
    assert SpoolSettings(sf_dir="/sf").prefaults_segments(1.0)
    assert not SpoolSettings(sf_dir="/sf").prefaults_segments(0.1)
    assert SpoolSettings(sf_dir="/sf", durability="periodic").prefaults_segments(1.0)
    assert not SpoolSettings(sf_dir="/sf", durability="append").prefaults_segments(1.0)
    assert not SpoolSettings().prefaults_segments(1.0)


def test_spares_are_more_while_segments_last_a_moment_and_there_is_room() -> None:
    on_disk = SpoolSettings(sf_dir="/sf", segment_bytes=4096, total_bytes_max=40_960)

    assert [on_disk.preallocated_segments(lasted_s, 0) for lasted_s in (0.0, 0.01, 1.0)] == [
        1,
        3,
        1,
    ]
    assert [on_disk.preallocated_segments(0.01, stored) for stored in (20_480, 20_481)] == [3, 1]
    assert SpoolSettings().preallocated_segments(0.01, 0) == 1
