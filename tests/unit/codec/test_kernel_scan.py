"""Walking frames: what is accepted, where it stops and why; finding the way back."""

from __future__ import annotations

import random
import struct
from types import ModuleType

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codec.support import (
    FIRST,
    TOPIC,
    TS,
    Record,
    append_frame,
    frame_of,
    frames_of,
    outcome,
    record_lists,
    starts_of,
    u32s,
)

CLEAN, TORN, CHECKSUM, MALFORMED = range(4)
SMALL = [
    append_frame(Record(b"1"), 1),
    append_frame(Record(b'"two"', b'{"k":"v"}', b"tag", b"node"), 2),
    frame_of(12, 4, TOPIC, 3, TS, b"", b"key", struct.pack("<I", 2)),
    append_frame(Record(b"[3]"), 3),
    append_frame(Record(b"{}"), 4),
]
SMALL_LOG = b"".join(SMALL)
ENDS = [0, *(start + len(frame) for start, frame in zip(starts_of(SMALL), SMALL, strict=True))]
Item = tuple[int, int, int, int, int, int, int, int, bytes, int]


def accepted(items: list[Item]) -> list[int]:
    """The end of each single frame in the items."""
    ends = []
    for *_, start, end, _, _, offsets, _ in items:
        inner = struct.unpack(f"<{len(offsets) // 4}I", offsets)
        ends += [start + at for at in inner[1:]] + [end]
    return ends


@given(records=record_lists, noise=st.binary(max_size=9))
def test_neighbouring_appends_make_one_item(
    kernel: ModuleType, records: list[Record], noise: bytes
) -> None:
    frames = frames_of(records)
    log = noise + b"".join(frames)

    items, stop, reason = kernel.scan(log, len(noise), len(log))

    payload = sum(record.payload_bytes for record in records)
    run = (1, TOPIC, FIRST, TS, len(noise), len(log), len(frames), payload)
    assert items == ([(*run, u32s(starts_of(frames)), TS)] if frames else [])
    assert (stop, reason) == (len(log), CLEAN)


def test_a_run_ends_where_topic_or_seq_jumps_or_a_control_frame_stands(kernel: ModuleType) -> None:
    one = Record(b"1")
    log = [
        append_frame(one, 1, topic_id=1, ts=10),
        append_frame(one, 2, topic_id=1, ts=11),
        append_frame(one, 3, topic_id=2, ts=12),
        append_frame(one, 5, topic_id=2, ts=13),
        append_frame(one, 5, topic_id=2, ts=14),
        frame_of(7, 4, 2, 0, 15, b"n", b"t", b"body"),
        append_frame(one, 6, topic_id=2, ts=16),
    ]
    size = len(log[0])
    tail = 5 * size + len(log[5])

    items, _, reason = kernel.scan(b"".join(log), 0, sum(map(len, log)))

    first = u32s([0])
    assert reason == CLEAN
    assert items == [
        (1, 1, 1, 10, 0, 2 * size, 2, 2, u32s([0, size]), 11),
        (1, 2, 3, 12, 2 * size, 3 * size, 1, 1, first, 12),
        (1, 2, 5, 13, 3 * size, 4 * size, 1, 1, first, 13),
        (1, 2, 5, 14, 4 * size, 5 * size, 1, 1, first, 14),
        (7, 2, 0, 15, 5 * size, tail, 1, 0, b"", 15),
        (1, 2, 6, 16, tail, tail + size, 1, 1, first, 16),
    ]


def test_seq_zero_after_the_last_seq_is_a_new_run(kernel: ModuleType) -> None:
    last = append_frame(Record(b"1"), (1 << 64) - 1)
    log = last + append_frame(Record(b"1"), 0)

    items, _, _ = kernel.scan(log, 0, len(log))

    assert [item[6] for item in items] == [1, 1]


def test_thousands_of_items_are_all_returned(kernel: ModuleType) -> None:
    """More than fits the room a scan starts with, large enough to release the GIL."""
    frames = [append_frame(Record(b"%d" % i), i * (1 + i % 3)) for i in range(3000)]
    log = b"".join(frames)

    items, stop, reason = kernel.scan(log, 0, len(log))

    assert (stop, reason) == (len(log), CLEAN)
    assert accepted(items) == [
        start + len(frame) for start, frame in zip(starts_of(frames), frames, strict=True)
    ]


@pytest.mark.parametrize(
    "body", [b"", b"1", b'{"d":', b'{"d":1', b'{"x":1}', b'{"m":1}', b"12345}"]
)
def test_a_body_that_is_not_ours_counts_whole(kernel: ModuleType, body: bytes) -> None:
    log = frame_of(1, 4, 1, 1, 1, b"", b"t", body) + frame_of(1, 4, 1, 2, 1, b"", b"", body)

    items, _, reason = kernel.scan(log, 0, len(log))

    assert reason == CLEAN
    assert items[0][7] == 2 * len(body)


@pytest.mark.parametrize("zeros", [1, 2, 3, 4, 5, 100])
def test_zeros_after_the_last_frame_are_a_clean_end(kernel: ModuleType, zeros: int) -> None:
    log = SMALL_LOG + bytes(zeros)

    items, stop, reason = kernel.scan(log, 0, len(log))

    assert (accepted(items), stop, reason) == (ENDS[1:], len(SMALL_LOG), CLEAN)


@pytest.mark.parametrize("rest", [b"\1", b"\0\1", b"\0\0\1"])
def test_a_few_bytes_that_are_not_zero_are_torn(kernel: ModuleType, rest: bytes) -> None:
    log = SMALL_LOG + rest

    assert kernel.scan(log, 0, len(log))[1:] == (len(SMALL_LOG), TORN)


def spoiled(at: int, layout: str, value: int, *, checked: bool = True) -> bytes:
    """A frame with one field changed, and its checksum made true again."""
    frame = bytearray(frame_of(2, 4, 1, 1, 1, b"n", b"t", b"body"))
    struct.pack_into(layout, frame, at, value)
    if not checked:
        return bytes(frame)
    struct.pack_into("<Q", frame, len(frame) - 8, xxhash.xxh3_64_intdigest(frame[4:-8]))
    return bytes(frame)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (spoiled(0, "<I", 41), MALFORMED),
        (spoiled(0, "<I", 1), MALFORMED),
        (spoiled(0, "<I", 49), TORN),
        (spoiled(0, "<I", 0xFFFFFFFF), TORN),
        (spoiled(0, "<I", 47), MALFORMED),
        (spoiled(0, "<I", 0), CLEAN),
        (spoiled(4, "<B", 0), MALFORMED),
        (spoiled(4, "<B", 64), MALFORMED),
        (spoiled(4, "<B", 255), MALFORMED),
        (spoiled(4, "<B", 63), CLEAN),
        (spoiled(30, "<H", 2), MALFORMED),
        (spoiled(32, "<H", 0xFFFF), MALFORMED),
        (spoiled(34, "<I", 0xFFFFFFFF), MALFORMED),
        (spoiled(34, "<I", 0), MALFORMED),
        (spoiled(38, "<B", 0, checked=False), CHECKSUM),
        (spoiled(44, "<B", 1, checked=False), CHECKSUM),
    ],
)
def test_each_kind_of_damage_has_its_reason(kernel: ModuleType, frame: bytes, reason: int) -> None:
    good = SMALL[0]
    log = good + frame

    items, stop, why = kernel.scan(log, 0, len(log))

    assert why == reason
    assert items[0][5] == len(good)
    assert stop == (len(good) if reason or frame[:4] == bytes(4) else len(log))


@pytest.mark.parametrize("cut", range(len(SMALL_LOG) + 1))
def test_a_cut_keeps_every_whole_frame_before_it(kernel: ModuleType, cut: int) -> None:
    for log in (SMALL_LOG[:cut], SMALL_LOG):  # the file ends here; or the caller looks no further
        items, stop, reason = kernel.scan(log, 0, cut)

        assert accepted(items) == [end for end in ENDS[1:] if end <= cut]
        assert stop == max(end for end in ENDS if end <= cut)
        assert reason == (CLEAN if cut in ENDS else TORN)


@pytest.mark.parametrize("at", range(len(SMALL_LOG)))
def test_no_flipped_bit_is_ever_accepted(kernel: ModuleType, at: int) -> None:
    before, _, _ = kernel.scan(SMALL_LOG, 0, max(end for end in ENDS if end <= at))
    for bit in range(8):
        log = bytearray(SMALL_LOG)
        log[at] ^= 1 << bit

        items, stop, _ = kernel.scan(log, 0, len(log))

        assert items == before
        assert stop == max(end for end in ENDS if end <= at)


@given(log=st.binary(max_size=300), start=st.integers(-2, 310), end=st.integers(-2, 310))
def test_both_forms_judge_garbage_alike(
    forms: tuple[ModuleType, ModuleType], log: bytes, start: int, end: int
) -> None:
    interpreted, compiled = forms

    assert outcome(lambda: compiled.scan(log, start, end)) == outcome(
        lambda: interpreted.scan(log, start, end)
    )
    assert outcome(lambda: compiled.resync(log, start, end)) == outcome(
        lambda: interpreted.resync(log, start, end)
    )


@given(changes=st.lists(st.tuples(st.integers(0, len(SMALL_LOG) - 1), st.integers(0, 255))))
def test_both_forms_judge_damage_alike(
    forms: tuple[ModuleType, ModuleType], changes: list[tuple[int, int]]
) -> None:
    interpreted, compiled = forms
    log = bytearray(SMALL_LOG)
    for at, value in changes:
        log[at] = value

    assert compiled.scan(log, 0, len(log)) == interpreted.scan(log, 0, len(log))
    assert compiled.resync(log, 1, len(log)) == interpreted.resync(log, 1, len(log))


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (3, 2), (0, len(SMALL_LOG) + 1)])
def test_a_scan_outside_the_buffer_is_refused(kernel: ModuleType, start: int, end: int) -> None:
    with pytest.raises(ValueError, match="buffer"):
        kernel.scan(SMALL_LOG, start, end)
    with pytest.raises(ValueError, match="buffer"):
        kernel.resync(SMALL_LOG, start, end)


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, memoryview, lambda b: memoryview(b"xx" + b)[2:]]
)
def test_any_buffer_will_do(kernel: ModuleType, wrap: type) -> None:
    log = wrap(SMALL_LOG)

    assert kernel.scan(log, 0, len(log)) == kernel.scan(SMALL_LOG, 0, len(SMALL_LOG))


@pytest.mark.parametrize("start", range(len(SMALL_LOG) + 1))
def test_resync_finds_the_next_frame(kernel: ModuleType, start: int) -> None:
    following = [at for at in ENDS[:-1] if at >= start]

    assert kernel.resync(SMALL_LOG, start, len(SMALL_LOG)) == (following or [-1])[0]


@given(
    gap=st.binary(max_size=60) | st.integers(0, 70).map(bytes),
    cut=st.integers(0, len(SMALL[1])),
)
def test_resync_steps_over_garbage_zeros_and_half_frames(
    kernel: ModuleType, gap: bytes, cut: int
) -> None:
    half = SMALL[1][:cut] if cut < len(SMALL[1]) else b""
    log = half + gap + SMALL[0] + SMALL[2]

    found = kernel.resync(log, 0, len(log))

    assert found == len(half) + len(gap)


@pytest.mark.parametrize("frame_len", [1 << 8, 1 << 16, 1 << 24])
def test_resync_does_not_take_the_zeros_of_a_length_for_the_gap(
    kernel: ModuleType, frame_len: int
) -> None:
    frame = frame_of(2, 4, 1, 1, 1, b"", b"", bytes(frame_len - 42))
    for zeros in range(12):
        assert kernel.resync(bytes(zeros) + frame, 0, zeros + len(frame)) == zeros


def test_resync_is_not_lost_in_a_large_file(kernel: ModuleType) -> None:
    noise = random.Random(3).randbytes(300_000)
    log = noise + bytes(300_000) + SMALL[0]

    assert kernel.resync(log, 0, len(log)) == 600_000
    assert kernel.resync(log, 0, 600_010) == -1


@given(records=record_lists, cut=st.integers(0, 60))
def test_frames_are_counted_as_far_as_they_are_whole(
    kernel: ModuleType, records: list[Record], cut: int
) -> None:
    log = b"".join(frames_of(records)) + SMALL_LOG
    whole = len(records) + len(SMALL)

    assert kernel.count_frames(log) == whole
    assert kernel.count_frames(memoryview(log + bytes(99))) == whole
    shorter = log[: len(log) - min(cut, len(SMALL[-1]))]
    assert kernel.count_frames(shorter) == (whole if not cut else whole - 1)


@given(garbage=st.binary(max_size=300))
def test_both_forms_count_garbage_alike(
    forms: tuple[ModuleType, ModuleType], garbage: bytes
) -> None:
    assert len({form.count_frames(garbage) for form in forms}) == 1
