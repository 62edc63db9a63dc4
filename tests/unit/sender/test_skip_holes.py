"""Going past a hole, when an operator says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.errors import SpoolHole
from penstock.sender.ack_watermark import AckWatermark
from penstock.sender.opening import recover
from penstock.sender.recovery import SlotFindings
from penstock.sender.segment_files import SegmentFiles
from penstock.sender.skip_holes import skip_holes
from penstock.sender.slot import Slot
from penstock.testing import FakeClock, MemoryFilesystem

PATH = "/sf/edge"


def slot_of_four() -> MemoryFilesystem:
    """Segments 1 to 4 with two frames each."""
    fs = MemoryFilesystem()
    fs.make_dirs(PATH)
    files = SegmentFiles(fs, PATH, 4096)
    for number in range(1, 5):
        base = 2 * number - 2
        writer = files.promote(files.prepare(number, b"i" * 16, now_ms=5), base)
        for fsn in (base, base + 1):
            writer.segment.add(*writer.write(fsn, [b"x"]))
    return fs


def segment(number: int) -> str:
    return f"{PATH}/sf-{number:016x}.seg"


def recovered(fs: MemoryFilesystem) -> SlotFindings:
    slot = Slot.open(fs, PATH)
    try:
        return recover(slot, AckWatermark(fs, PATH))
    finally:
        slot.release()


def frames(findings: SlotFindings) -> list[int]:
    return [
        segment.base + at
        for segment in findings.segments
        for at, offset in enumerate(segment.offsets)
        if offset and segment.base + at > findings.acked
    ]


def without_two_in_the_middle(fs: MemoryFilesystem) -> None:
    fs.unlink(segment(2))
    fs.unlink(segment(3))


def without_a_head(fs: MemoryFilesystem) -> None:
    for byte in range(128):
        fs.corrupt(segment(2), byte)


def without_the_first(fs: MemoryFilesystem) -> None:
    AckWatermark(fs, PATH).record(0, 7)
    fs.unlink(segment(1))


@pytest.mark.parametrize(
    ("harm", "left"),
    [
        (without_two_in_the_middle, [0, 1, 6, 7]),
        (without_a_head, [0, 1, 4, 5, 6, 7]),
        (without_the_first, [2, 3, 4, 5, 6, 7]),
    ],
)
def test_a_slot_opens_again_with_every_frame_that_is_left(
    harm: Callable[[MemoryFilesystem], None], left: list[int]
) -> None:
    fs = slot_of_four()
    harm(fs)
    with pytest.raises(SpoolHole):
        recovered(fs)

    slot = Slot.open(fs, PATH)
    assert skip_holes(slot, clock=FakeClock())
    assert skip_holes(slot, clock=FakeClock()) == []
    slot.release()

    findings = recovered(fs)
    assert frames(findings) == left
    lost = {n for d in findings.damage for n in range(d.first_fsn, d.last_fsn + 1)}
    assert lost | set(left) >= set(range(findings.acked + 1, 8))


def test_a_slot_without_a_hole_is_left_alone() -> None:
    fs = slot_of_four()
    slot = Slot.open(fs, PATH)
    before = fs.fingerprint()

    assert skip_holes(slot) == []
    assert fs.fingerprint() == before
