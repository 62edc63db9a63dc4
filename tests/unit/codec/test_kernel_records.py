"""Records by number: tags, sizes, index entries, copies."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codec.support import (
    FIRST,
    TS,
    Record,
    append_frame,
    bitmap_of,
    encode,
    frames_of,
    numbers_in,
    outcome,
    record_lists,
    starts_of,
    u32s,
)

dead_sets = st.sets(st.integers(0, 7))
TEN = [Record(b"%d" % i, tag=b"t") for i in range(10)]


def entry_of(frame: bytes, record: Record, offset: int, ts: int = TS) -> bytes:
    return struct.pack("<IIQIB3x", offset, len(frame), ts, record.payload_bytes, frame[5])


@given(
    records=record_lists,
    dead=dead_sets,
    pattern=st.sampled_from([b"", b"a", b"ab", b"abc", b"\xc3"]),
    prefix=st.booleans(),
)
def test_tags_are_found_by_value_or_prefix(
    kernel: ModuleType, records: list[Record], dead: set[int], pattern: bytes, prefix: bool
) -> None:
    frames, offsets, _ = encode(kernel, records)

    found = kernel.find_tags(frames, offsets, 4, 0, len(records), bitmap_of(dead), pattern, prefix)

    assert numbers_in(found) == [
        i
        for i, record in enumerate(records)
        if i not in dead
        and record.tag
        and (record.tag.startswith(pattern) if prefix else record.tag == pattern)
    ]


@given(records=record_lists, dead=dead_sets, i0=st.integers(0, 8))
def test_live_records_and_their_payload_are_measured(
    kernel: ModuleType, records: list[Record], dead: set[int], i0: int
) -> None:
    frames, offsets, _ = encode(kernel, records)
    i0 = min(i0, len(records))
    live = [r for i, r in enumerate(records) if i >= i0 and i not in dead]
    expected = len(live), sum(record.payload_bytes for record in live)
    index = kernel.build_index(frames, offsets, len(records), 0)

    for table, stride in ((offsets, 4), (index, 24)):
        assert expected == kernel.measure(frames, table, stride, i0, len(records), bitmap_of(dead))


def test_a_segment_index_is_measured_without_its_data(kernel: ModuleType) -> None:
    frames, offsets, payload = encode(kernel, TEN)
    index = bytearray(kernel.build_index(frames, offsets, 10, 0))
    index[24:48] = bytes(24)

    assert kernel.measure(b"", index, 24, 0, 10, None) == (9, payload - 1)
    assert kernel.measure_some(b"", index, 24, u32s([0, 1, 2])) == 2


@given(records=record_lists.filter(bool), numbers=st.lists(st.integers(0, 7), max_size=9))
def test_payload_of_chosen_records(
    kernel: ModuleType, records: list[Record], numbers: list[int]
) -> None:
    frames, offsets, _ = encode(kernel, records)
    chosen = [i for i in numbers if i < len(records)]

    assert kernel.measure_some(frames, offsets, 4, u32s(chosen)) == sum(
        records[i].payload_bytes for i in chosen
    )


@pytest.mark.parametrize("bad", [10, 0xFFFFFFFF])
def test_a_number_outside_the_table_is_refused(kernel: ModuleType, bad: int) -> None:
    frames, offsets, _ = encode(kernel, TEN)

    with pytest.raises(IndexError):
        kernel.measure_some(frames, offsets, 4, u32s([1, bad, 2]))


@given(
    numbers=st.lists(st.integers(0, 20), max_size=12),
    start=st.integers(0, 20),
    stop=st.integers(0, 20),
    dead=st.sets(st.integers(0, 20)),
)
def test_indices_are_kept_inside_a_range_and_alive(
    kernel: ModuleType, numbers: list[int], start: int, stop: int, dead: set[int]
) -> None:
    kept = kernel.filter_indices(u32s(numbers), start, stop, bitmap_of(dead))

    assert numbers_in(kept) == [i for i in numbers if start <= i < stop and i not in dead]


@given(offsets=st.lists(st.integers(0, 1 << 31), max_size=9), by=st.integers(0, 1 << 30))
def test_offsets_are_shifted(kernel: ModuleType, offsets: list[int], by: int) -> None:
    assert numbers_in(kernel.shift_offsets(u32s(offsets), by)) == [at + by for at in offsets]


@pytest.mark.parametrize("by", [-6, (1 << 32) - 5])
def test_a_shift_out_of_32_bits_is_refused(kernel: ModuleType, by: int) -> None:
    with pytest.raises(OverflowError):
        kernel.shift_offsets(u32s([9, 5]), by)


@given(runs=st.lists(record_lists, max_size=5))
def test_runs_of_frames_are_joined_with_their_offsets(
    kernel: ModuleType, runs: list[list[Record]]
) -> None:
    encoded = [encode(kernel, run) for run in runs]

    frames, offsets = kernel.join_frames(
        [memoryview(frames) for frames, _, _ in encoded], [table for _, table, _ in encoded]
    )

    each = [frame for run in runs for frame in frames_of(run)]
    assert frames == b"".join(each)
    assert offsets == u32s(starts_of(each))


def test_runs_of_frames_that_do_not_fit_are_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="1 offset tables for 2 runs"):
        kernel.join_frames([b"a", b"b"], [u32s([0])])
    with pytest.raises(OverflowError):
        kernel.join_frames([b"a", b"b"], [u32s([0]), u32s([0xFFFFFFFF])])
    with pytest.raises(TypeError):
        kernel.join_frames(["a"], [u32s([0])])


@given(records=record_lists, base=st.integers(0, 1 << 31))
def test_an_index_has_one_entry_a_record(
    kernel: ModuleType, records: list[Record], base: int
) -> None:
    frames, offsets, _ = encode(kernel, records)
    rows = zip(frames_of(records), records, starts_of(frames_of(records)), strict=True)

    assert kernel.build_index(frames, offsets, len(records), base) == b"".join(
        entry_of(frame, record, base + start) for frame, record, start in rows
    )


def test_an_index_beyond_four_gigabytes_is_refused(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN)

    with pytest.raises(ValueError, match="32 bits"):
        kernel.build_index(frames, offsets, 10, (1 << 32) - 100)
    with pytest.raises(ValueError, match="32 bits"):
        kernel.copy_live(frames, offsets, 4, 0, 10, None, (1 << 32) - 100)
    with pytest.raises(ValueError, match="negative"):
        kernel.build_index(frames, offsets, 10, -1)


@given(records=record_lists, dead=dead_sets, i0=st.integers(0, 8), base=st.integers(0, 1 << 31))
def test_live_frames_are_copied_and_all_records_indexed(
    kernel: ModuleType, records: list[Record], dead: set[int], i0: int, base: int
) -> None:
    frames, offsets, _ = encode(kernel, records)
    i0 = min(i0, len(records))
    expected, entries = b"", b""
    for i, (frame, record) in enumerate(zip(frames_of(records), records, strict=True)):
        if i >= i0 and i in dead:
            entries += bytes(24)
        elif i >= i0:
            entries += entry_of(frame, record, base + len(expected))
            expected += frame

    copied = kernel.copy_live(frames, offsets, 4, i0, len(records), bitmap_of(dead), base)

    assert copied == (expected, entries)


def test_a_copy_of_a_copy_keeps_its_holes(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN)
    once = kernel.copy_live(frames, offsets, 4, 0, 10, bitmap_of({0, 3, 9}), 0)

    twice = kernel.copy_live(*once, 24, 0, 10, bitmap_of({4}), 0)

    assert [i for i in range(10) if twice[1][24 * i + 4] == 0] == [0, 3, 4, 9]
    assert kernel.scan(twice[0], 0, len(twice[0]))[2] == 0


@given(
    times=st.lists(st.integers(0, 12).map(lambda t: t or None), max_size=12),
    ts=st.integers(0, 14),
)
def test_time_is_found_by_halving_and_holes_count_as_what_follows(
    kernel: ModuleType, times: list[int | None], ts: int
) -> None:
    present = iter(sorted(t for t in times if t is not None))
    times = [None if t is None else next(present) for t in times]
    index = b"".join(
        bytes(24) if t is None else struct.pack("<IIQIB3x", 0, 46, t, 0, 0) for t in times
    )

    bound = kernel.ts_bound(index, len(times), ts)

    assert all(t is None or t < ts for t in times[:bound])
    following = [t for t in times[bound:] if t is not None]
    assert all(t >= ts for t in following)
    assert bound == 0 or times[bound - 1] is not None


@given(records=record_lists, dead=dead_sets, i0=st.integers(0, 8), base=st.integers(0, 9))
def test_records_are_grouped_by_tag(
    kernel: ModuleType, records: list[Record], dead: set[int], i0: int, base: int
) -> None:
    frames, offsets, _ = encode(kernel, records)
    i0 = min(i0, len(records))
    groups = {b"a": bytearray(u32s([77]))}

    count = kernel.group_tags(frames, offsets, 4, i0, len(records), bitmap_of(dead), base, groups)

    expected = {b"a": [77]}
    for i, record in enumerate(records):
        if i >= i0 and i not in dead and record.tag:
            expected.setdefault(record.tag, []).append(i - i0 + base)
    assert {tag: numbers_in(group) for tag, group in groups.items()} == expected
    assert count == sum(map(len, expected.values())) - 1


@given(records=record_lists)
def test_a_record_is_decoded_as_it_was_given(kernel: ModuleType, records: list[Record]) -> None:
    frames, offsets, _ = encode(kernel, records)

    for i, record in enumerate(records):
        expected = (
            FIRST + i,
            TS,
            record.node or b"",
            record.tag or b"",
            record.data,
            record.meta or None,
        )
        assert kernel.frame_at(frames, offsets, 4, i) == expected
        assert kernel.frame_ts(frames, offsets, 4, i) == TS


def test_an_absent_record_cannot_be_decoded(kernel: ModuleType) -> None:
    for function in (kernel.frame_ts, kernel.frame_at):
        with pytest.raises(IndexError, match="record 0 is absent"):
            function(b"", bytes(24), 24, 0)
        with pytest.raises(IndexError):
            function(b"", bytes(24), 24, 1)


def test_a_frame_that_is_not_whole_is_named(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN)
    cut = frames[:-1]
    calls = [
        lambda: kernel.find_tags(cut, offsets, 4, 0, 10, None, b"t", False),
        lambda: kernel.measure(cut, offsets, 4, 0, 10, None),
        lambda: kernel.measure_some(cut, offsets, 4, u32s([0, 9])),
        lambda: kernel.build_index(cut, offsets, 10, 0),
        lambda: kernel.copy_live(cut, offsets, 4, 0, 10, None, 0),
        lambda: kernel.group_tags(cut, offsets, 4, 0, 10, None, 0, {}),
        lambda: kernel.frame_ts(cut, offsets, 4, 9),
        lambda: kernel.frame_at(cut, offsets, 4, 9),
    ]

    for call in calls:
        with pytest.raises(ValueError, match="record 9"):
            call()
    assert kernel.measure(cut, offsets, 4, 0, 10, bitmap_of({9})) == (9, 9)


@given(
    buf=st.binary(max_size=200) | st.just(append_frame(TEN[0], 1) + append_frame(TEN[1], 2)),
    offsets=st.lists(st.sampled_from([0, 1, 54, 55, 108, 150, 0xFFFFFFFF]), max_size=8).map(u32s),
    stride=st.sampled_from([0, 4, 5, 8, 24]),
    i0=st.integers(-1, 4),
    i1=st.integers(-1, 9),
    dead=st.none() | st.binary(max_size=2),
)
def test_both_forms_treat_garbage_alike(
    forms: tuple[ModuleType, ModuleType],
    buf: bytes,
    offsets: bytes,
    stride: int,
    i0: int,
    i1: int,
    dead: bytes | None,
) -> None:
    def answers(form: ModuleType) -> list[object]:
        groups: dict[bytes, bytearray] = {}
        where = (buf, offsets, stride, i0, i1, dead)
        return [
            outcome(lambda: form.find_tags(*where, b"t", True)),
            outcome(lambda: form.measure(*where)),
            outcome(lambda: form.measure_some(buf, offsets, stride, u32s([0, max(i0, 0)]))),
            outcome(lambda: form.build_index(buf, offsets, i1, 7)),
            outcome(lambda: form.copy_live(*where, 7)),
            outcome(lambda: form.group_tags(*where, 3, groups)),
            outcome(lambda: form.frame_ts(buf, offsets, stride, i0)),
            outcome(lambda: form.frame_at(buf, offsets, stride, i0)),
            outcome(lambda: form.ts_bound(offsets, i1, 5)),
            groups,
        ]

    interpreted, compiled = forms
    assert answers(compiled) == answers(interpreted)
