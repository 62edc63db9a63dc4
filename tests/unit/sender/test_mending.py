"""Going on without what is missing."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument, SlotInUse, SpoolHole
from penstock.sender import mending
from penstock.sender.opening import open_spool
from penstock.sender.segment import name_of, number_of
from penstock.sender.settings import SpoolSettings
from penstock.sender.spool import Spool
from penstock.testing import MemoryFilesystem
from penstock.testing.clock import FakeClock
from penstock.wire.spool_frame import decode_frame

SLOT = "/sf/edge"


def opened(fs: MemoryFilesystem) -> Spool:
    settings = SpoolSettings(sf_dir="/sf", sender_id="edge", segment_bytes=4096)
    return open_spool(settings, fs=fs, clock=FakeClock())


def filled(count: int = 14) -> MemoryFilesystem:
    """Three frames in each segment."""
    fs = MemoryFilesystem()
    spool = opened(fs)
    for number in range(count):
        spool.append([b"%d" % number, bytes(1000)])
    spool.close()
    return fs


def left(fs: MemoryFilesystem) -> list[int]:
    """The frames that a new opening would send, each checked against what was stored."""
    spool = opened(fs)
    found = []
    at = spool.acked_fsn + 1
    while batch := spool.read(at, 1 << 20):
        for stored in batch:
            if stored.data is not None:
                fsn, payload = decode_frame(stored.data)
                assert payload == b"%d" % fsn + bytes(1000)
                found.append(fsn)
        at += len(batch)
    spool.close()
    return found


def numbers(fs: MemoryFilesystem) -> list[int]:
    return sorted(n for name in fs.list(SLOT) if (n := number_of(name)) is not None)


def test_the_oldest_frame_is_put_aside() -> None:
    fs = filled()

    assert mending.skip_frames(fs, "/sf", "edge", None) == [0]

    assert left(fs) == list(range(1, 14))


def test_all_up_to_a_frame_are_put_aside() -> None:
    fs = filled()

    assert mending.skip_frames(fs, "/sf", "edge", 4) == [0, 1, 2, 3, 4]

    assert left(fs) == list(range(5, 14))


def test_what_is_not_there_cannot_be_skipped() -> None:
    fs = filled()

    with pytest.raises(InvalidArgument, match="ends at frame 13"):
        mending.skip_frames(fs, "/sf", "edge", 14)

    assert left(fs) == list(range(14))


def test_a_slot_in_use_is_left_alone() -> None:
    fs = filled()
    spool = opened(fs)

    with pytest.raises(SlotInUse):
        mending.skip_holes(fs, SLOT, now_us=1)

    spool.close()


@pytest.mark.parametrize("gone", [(2,), (3,), (2, 3)])
def test_without_missing_segments_all_other_frames_are_sent(gone: tuple[int, ...]) -> None:
    fs = filled()
    assert len(numbers(fs)) >= 4
    for number in gone:
        fs.unlink(f"{SLOT}/{name_of(number)}")
    with pytest.raises(SpoolHole):
        opened(fs)

    done = mending.skip_holes(fs, SLOT, now_us=1)

    assert len(done) == len(gone)
    lost = {3 * (number - 1) + i for number in gone for i in range(3)}
    assert left(fs) == [fsn for fsn in range(14) if fsn not in lost]


def test_a_segment_with_a_bad_head_is_moved_aside() -> None:
    fs = filled()
    file = fs.open(f"{SLOT}/{name_of(2)}", writable=True)
    file.write_at(bytes(200), 0)
    file.close()

    done = mending.skip_holes(fs, SLOT, now_us=1)

    assert "quarantine" in done[0]
    assert left(fs) == [0, 1, 2, *range(6, 14)]


def test_the_first_segment_may_be_the_missing_one() -> None:
    fs = filled()
    spool = opened(fs)
    spool.ack(0)
    spool.close()
    fs.unlink(f"{SLOT}/{name_of(1)}")

    mending.skip_holes(fs, SLOT, now_us=1)

    assert left(fs) == list(range(3, 14))


def test_a_slot_that_opens_needs_nothing() -> None:
    fs = filled()

    assert mending.skip_holes(fs, SLOT, now_us=1) == []

    assert left(fs) == list(range(14))
