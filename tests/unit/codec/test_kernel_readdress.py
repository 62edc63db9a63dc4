"""Records of one topic as records of another."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.frame import Frame, decode_frame
from tests.unit.codec.support import Record, frame_of, record_lists
from tests.unit.codec.support import frames_of as frames_one_by_one

DEST, SEQ, NOW = 77, 500, 1_700_000_000_123


def frames_of(records: list[Record]) -> bytes:
    return b"".join(frames_one_by_one(records))


def _decoded(frames: bytes) -> list[Frame]:
    found, at = [], 0
    while at < len(frames):
        frame, at = decode_frame(frames, at)
        found.append(frame)
    return found


@pytest.mark.parametrize("keep_tag", [True, False])
@pytest.mark.parametrize("keep_node", [True, False])
@given(records=record_lists, hops_max=st.integers(0, 15))
def test_both_forms_give_the_same_bytes(
    forms: tuple[ModuleType, ModuleType],
    records: list[Record],
    keep_node: bool,
    keep_tag: bool,
    hops_max: int,
) -> None:
    given_frames = frames_of(records)

    answers = [
        form.readdress(given_frames, DEST, SEQ, NOW, 4, keep_node, keep_tag, hops_max)
        for form in forms
    ]

    assert answers[0] == answers[1]


@given(records=record_lists)
def test_a_copy_differs_in_its_address_and_hops_alone(
    kernel: ModuleType, records: list[Record]
) -> None:
    given_frames = frames_of(records)

    frames, offsets, payload, seqs = kernel.readdress(
        given_frames, DEST, SEQ, NOW, 4, True, True, 8
    )

    before, after = _decoded(given_frames), _decoded(frames)
    assert len(before) == len(after) == len(offsets) // 4
    assert list(struct.unpack(f"<{len(before)}Q", seqs)) == [one.seq for one in before]
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        assert (new.topic_id, new.seq, new.ts) == (DEST, SEQ + number, NOW)
        assert (new.node, new.tag, new.data) == (old.node, old.tag, old.data)
        assert new.flags >> 4 == (old.flags >> 4) + 1
        assert new.flags & 4
    assert payload == kernel.measure(frames, offsets, 4, 0, len(before), None)[1]


def test_records_that_came_far_enough_stay(kernel: ModuleType) -> None:
    frames = frames_of([Record(b"1")])
    for hops in range(1, 4):
        frames, _, _, seqs = kernel.readdress(frames, DEST, SEQ, NOW, 0, True, True, 3)
        assert bool(seqs) == (hops <= 3)
    assert kernel.readdress(frames, DEST, SEQ, NOW, 0, True, True, 3) == (b"", b"", 0, b"")


def test_node_and_tag_can_be_left_behind(kernel: ModuleType) -> None:
    given_frames = frames_of([Record(b"1", tag=b"t", node=b"n")])

    (bare,) = _decoded(kernel.readdress(given_frames, DEST, SEQ, NOW, 0, False, False, 8)[0])

    assert (bare.node, bare.tag, bare.flags & 3) == (b"", b"", 0)


@pytest.mark.parametrize("cut", [1, 20, 45])
def test_what_is_no_whole_record_is_refused(kernel: ModuleType, cut: int) -> None:
    whole = frames_of([Record(b"1")])

    with pytest.raises(ValueError, match=f"byte {len(whole)}"):
        kernel.readdress(whole + whole[:cut], DEST, SEQ, NOW, 0, True, True, 8)
    with pytest.raises(ValueError, match="byte 0"):
        kernel.readdress(frame_of(2, 0, 1, 0, 1, b"", b"", b""), DEST, SEQ, NOW, 0, True, True, 8)


def test_seqs_do_not_wrap(kernel: ModuleType) -> None:
    two = frames_of([Record(b"1")] * 2)

    with pytest.raises(OverflowError):
        kernel.readdress(two, DEST, (1 << 64) - 1, NOW, 0, True, True, 8)
