"""Frames that an operator puts aside."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument, SlotInUse
from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
from penstock.sender.skip_frames import skip_frames
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


def test_the_oldest_frame_is_put_aside() -> None:
    fs = filled()

    assert skip_frames(fs, "/sf", "edge", None) == [0]

    assert left(fs) == list(range(1, 14))


def test_all_up_to_a_frame_are_put_aside() -> None:
    fs = filled()

    assert skip_frames(fs, "/sf", "edge", 4) == [0, 1, 2, 3, 4]

    assert left(fs) == list(range(5, 14))


def test_what_is_not_there_cannot_be_skipped() -> None:
    fs = filled()

    with pytest.raises(InvalidArgument, match="the newest frame of the slot is 13"):
        skip_frames(fs, "/sf", "edge", 14)

    assert left(fs) == list(range(14))


def test_a_slot_in_use_is_left_alone() -> None:
    fs = filled()
    spool = opened(fs)

    with pytest.raises(SlotInUse):
        skip_frames(fs, "/sf", "edge", None)

    spool.close()


def test_frames_are_put_aside_on_a_network_file_system_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = filled(2)
    monkeypatch.setattr(MemoryFilesystem, "network_kind", lambda self, path: "nfs")

    assert skip_frames(fs, "/sf", "edge", None) == [0]
