"""Segments that are made before they are needed: how many, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import SpoolFailed
from penstock.sender.segment_files import PreallocatedSegment, SegmentFiles
from penstock.sender.spool import Spool
from penstock.testing import MemoryFilesystem
from penstock.testing.clock import FakeClock
from tests.unit.sender.test_spool import SEGMENT, fill, opened, payloads, segments


def test_rotation_costs_the_producer_neither_sync_nor_allocation() -> None:
    fs = MemoryFilesystem()
    spool = opened(fs)
    spool.append([b"first"])
    for _ in range(5):
        spool.maintain()
        tail = segments(fs)[-2]
        fs.counts.clear()
        while segments(fs)[-2:][0] == tail and spool._tail and spool._tail.fits(1000):
            spool.append([bytes(900)])
        spool.append([bytes(900)])
        assert not {"sync", "sync_dir", "allocate", "create"} & set(fs.counts)


def hurried(fs: MemoryFilesystem) -> tuple[Spool, list[bytes]]:
    """A spool whose segments last for a moment each, with spares ahead."""
    clock = FakeClock()
    spool = opened(fs, clock)
    made: list[bytes] = []
    for _ in range(3):
        made += fill(spool, 7)
        spool.maintain()
        clock.advance(10)
    return spool, made


@pytest.mark.parametrize("is_killed", [True, False])
def test_in_a_hurry_several_spares_are_kept_and_an_end_takes_them(is_killed: bool) -> None:
    fs = MemoryFilesystem()
    spool, made = hurried(fs)

    assert len(spool._preallocated) == 3
    assert spool.stored_bytes == len(segments(fs)) * SEGMENT
    made += fill(spool, 7)
    if is_killed:
        fs = fs.kill()
    else:
        spool.close()
    again = opened(fs)
    assert payloads(again) == made
    assert len(segments(fs)) == len(again._index.segments)


@pytest.mark.parametrize("kind", ["write", "unlink"])
def test_a_spare_that_cannot_be_used_leaves_no_hole(kind: str) -> None:
    fs = MemoryFilesystem()
    spool, _ = hurried(fs)
    fs.fail("write")
    if kind == "unlink":
        fs.fail("unlink", persistent=True)
    with pytest.raises(SpoolFailed):
        fill(spool, 1, size=3500)
    fs.heal()

    made = [one for one in payloads(spool) if one is not None]
    made += fill(spool, 30)
    spool.maintain()

    assert payloads(spool) == made
    assert payloads(opened(fs.kill())) == made


def test_a_spare_that_is_being_made_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = opened(MemoryFilesystem(), total_bytes_max=2 * SEGMENT)
    fill(spool, 3)
    seen = []
    prepare = SegmentFiles.prepare

    def watched(self: SegmentFiles, *given: Any, **named: Any) -> PreallocatedSegment:
        seen.append(spool.wait_for_room(0, 3500))
        return prepare(self, *given, **named)

    monkeypatch.setattr(SegmentFiles, "prepare", watched)
    spool.maintain()

    assert seen == [True]
    fill(spool, 1, size=3500)
    assert not spool.wait_for_room(0, 3500)
