"""Records column by column, as Arrow wants them."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codec.support import (
    FIRST,
    NO_LIMIT,
    TOPIC,
    TS,
    Record,
    bitmap_of,
    encode,
    record_lists,
)

NODE, TAG, META, DATA = 1, 2, 4, 8
ALL = NODE | TAG | META | DATA
NAMES = ("node", "tag", "meta", "data")
dead_sets = st.sets(st.integers(0, 7))


def texts(column: tuple[bytes, bytes, bytes], count: int) -> list[bytes | None]:
    """What Arrow would make of it."""
    offsets, data, bits = column
    places = struct.unpack(f"<{count + 1}I", offsets)
    assert places[0] == 0
    assert places[-1] == len(data)
    assert len(bits) == (count + 7) // 8
    return [
        data[places[i] : places[i + 1]] if bits[i >> 3] >> (i & 7) & 1 else None
        for i in range(count)
    ]


def rows(found: tuple[object, ...]) -> list[tuple[int, int, dict[str, bytes | None]]]:
    count, _, _, seqs, tss, columns = found
    numbers = struct.unpack(f"<{count}Q", seqs), struct.unpack(f"<{count}Q", tss)
    by_name = {
        name: texts(column, count)
        for name, column in zip(NAMES, columns, strict=True)
        if column is not None
    }
    return [
        (seq, ts, {name: column[i] for name, column in by_name.items()})
        for i, (seq, ts) in enumerate(zip(*numbers, strict=True))
    ]


def expected(seq: int, record: Record, wanted: int = ALL) -> tuple[int, int, dict[str, object]]:
    every = {
        "node": record.node or None,
        "tag": record.tag or None,
        "meta": record.meta or None,
        "data": record.data,
    }
    return seq, TS, {name: every[name] for bit, name in enumerate(NAMES) if wanted >> bit & 1}


@given(
    records=record_lists,
    dead=dead_sets,
    i0=st.integers(0, 8),
    limit=st.sampled_from([0, 1, 3, NO_LIMIT]),
    wanted=st.integers(0, ALL),
)
def test_columns_hold_what_the_records_are(
    kernel: ModuleType,
    records: list[Record],
    dead: set[int],
    i0: int,
    limit: int,
    wanted: int,
) -> None:
    frames, offsets, _ = encode(kernel, records)
    i0 = min(i0, len(records))
    live = [i for i in range(i0, len(records)) if i not in dead][:limit]
    index = kernel.build_index(frames, offsets, len(records), 0)

    for table, stride in ((offsets, 4), (index, 24)):
        found = kernel.columns(
            frames,
            table,
            stride,
            i0,
            len(records),
            bitmap_of(dead),
            limit,
            NO_LIMIT,
            wanted,
            FIRST,
            TOPIC,
        )
        assert rows(found) == [expected(FIRST + i, records[i], wanted) for i in live]
        assert found[2] == 0
        assert found[1] == (live[-1] + 1 if limit == len(live) and live else found[1])


@given(
    records=record_lists,
    tag=st.sampled_from([b"", b"a", b"ab", b"abc", b"\xc3"]),
    prefix=st.booleans(),
)
def test_tags_choose_as_they_do_in_reads(
    kernel: ModuleType, records: list[Record], tag: bytes, prefix: bool
) -> None:
    frames, offsets, _ = encode(kernel, records)
    chosen = [
        expected(FIRST + i, record)
        for i, record in enumerate(records)
        if record.tag and (record.tag.startswith(tag) if prefix else record.tag == tag)
    ]

    found = kernel.columns(
        frames,
        offsets,
        4,
        0,
        len(records),
        None,
        NO_LIMIT,
        NO_LIMIT,
        ALL,
        FIRST,
        TOPIC,
        tag,
        prefix,
    )

    assert rows(found) == chosen


def test_a_budget_ends_before_the_record_that_would_pass_it(kernel: ModuleType) -> None:
    records = [Record(b'"%s"' % (b"x" * 98), tag=b"t") for _ in range(10)]
    frames, offsets, _ = encode(kernel, records)

    def taken(budget: int, i0: int = 0) -> tuple[int, int]:
        found = kernel.columns(
            frames, offsets, 4, i0, 10, None, NO_LIMIT, budget, ALL, FIRST, TOPIC
        )
        return found[0], found[1]

    assert taken(303) == (3, 3)
    assert taken(302) == (2, 2)
    assert taken(1) == (1, 1)  # one at least
    assert taken(1, 9) == (1, 10)


@pytest.mark.parametrize(
    ("at", "status"),
    [(50, 2), (4, 3), (0, 1)],
)
def test_damage_is_told_with_its_place(kernel: ModuleType, at: int, status: int) -> None:
    frames, offsets, _ = encode(kernel, [Record(b"%d" % i) for i in range(3)])
    second = struct.unpack_from("<I", offsets, 4)[0]
    damaged = bytearray(frames)
    damaged[second + at] ^= 0xFF if at == 4 else 0x80
    if at == 0:
        damaged[second : second + 4] = b"\xff\xff\xff\x7f"

    found = kernel.columns(
        bytes(damaged), offsets, 4, 0, 3, None, NO_LIMIT, NO_LIMIT, ALL, FIRST, TOPIC
    )

    assert found[:3] == (1, 1, status if at else 1)
    assert rows(found) == [expected(FIRST, Record(b"0"))]


def test_a_record_of_another_place_is_a_stranger(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, [Record(b"0"), Record(b"1")])

    for first, topic in ((FIRST + 1, TOPIC), (FIRST, TOPIC + 1)):
        found = kernel.columns(
            frames, offsets, 4, 0, 2, None, NO_LIMIT, NO_LIMIT, ALL, first, topic
        )
        assert found[:3] == (0, 0, 4)


def test_a_range_outside_the_table_is_refused(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, [Record(b"0")])
    with pytest.raises(IndexError):
        kernel.columns(frames, offsets, 4, 0, 2, None, 1, 1, ALL, FIRST, TOPIC)
    with pytest.raises(TypeError):
        kernel.columns(frames, offsets, 4, 0, 1, None, 1, 1, ALL, FIRST, TOPIC, "text")


def test_verified_frames_of_any_topic_need_not_follow_one_another(kernel: ModuleType) -> None:
    first, _, _ = encode(kernel, [Record(b"1")])
    offsets = struct.pack("<2I", 0, len(first))

    found = kernel.columns(first + first, offsets, 4, 0, 2, None, 9, NO_LIMIT, DATA, 0, 0)

    assert [seq for seq, _, _ in rows(found)] == [FIRST, FIRST]
    assert found[2] == 0
