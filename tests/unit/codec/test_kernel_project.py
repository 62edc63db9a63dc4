"""Frames into JSON, or out again as they are, against an oracle written with the json module."""

from __future__ import annotations

import json
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codec.support import (
    ALL,
    ARRAY,
    DATA,
    DOLLAR,
    FIRST,
    FRAMES,
    META,
    NO_LIMIT,
    TAG,
    TOPIC,
    TS,
    VERIFY,
    Record,
    append_frame,
    bitmap_of,
    encode,
    frame_of,
    frames_of,
    object_of,
    outcome,
    record_lists,
    starts_of,
    u32s,
)

TORN, CHECKSUM, MALFORMED, STRANGER = 1, 2, 3, 4
TEN = [Record(b'{"n":%d}' % i, tag=b"t%d" % (i % 2)) for i in range(10)]


def project(
    kernel: ModuleType,
    frames: bytes,
    offsets: bytes,
    *,
    stride: int = 4,
    i0: int = 0,
    i1: int | None = None,
    dead: bytes | None = None,
    nodes: list[bytes] | None = None,
    limit: int = NO_LIMIT,
    budget: int = NO_LIMIT,
    options: int = ALL,
    first_seq: int = FIRST,
    topic_id: int = TOPIC,
    match: tuple[bytes | None, bool] = (None, False),
) -> tuple[bytes, int, int, int]:
    i1 = len(offsets) // stride if i1 is None else i1
    fixed = limit, budget, options, first_seq, topic_id, *match
    answer: tuple[bytes, int, int, int] = kernel.project(
        frames, offsets, stride, i0, i1, dead, nodes, *fixed
    )
    return answer


def expected(
    records: list[Record],
    dead: set[int],
    nodes: list[bytes] | None,
    limit: int,
    budget: int,
    options: int,
    match: tuple[bytes | None, bool] = (None, False),
) -> tuple[bytes, int, int, int]:
    texts: list[bytes] = []
    between = b"" if options & FRAMES else b","
    at = 0
    for i, record in enumerate(records):
        at = i
        if len(texts) >= limit:
            break
        if i in dead or (record.node and record.node in (nodes or [])) or not wants(match, record):
            continue
        text = object_of(record, FIRST + i, options)
        if options & FRAMES:
            text = append_frame(record, FIRST + i)
        if texts and len(between.join([*texts, text])) > budget:
            break
        texts.append(text)
    else:
        at = len(records)
    whole = between.join(texts)
    if options & ARRAY and not options & FRAMES:
        whole = b"[" + whole + b"]"
    return whole, len(texts), at, 0


def wants(match: tuple[bytes | None, bool], record: Record) -> bool:
    pattern, is_prefix = match
    if pattern is None:
        return True
    tag = record.tag or b""
    return tag != b"" and (tag.startswith(pattern) if is_prefix else tag == pattern)


@given(
    records=record_lists,
    dead=st.sets(st.integers(0, 7)),
    nodes=st.none() | st.lists(st.sampled_from([b"a", b"ab", b"b", b""]), max_size=3),
    limit=st.integers(-1, 9),
    budget=st.integers(0, 700),
    options=st.integers(0, 127),
    match=st.tuples(st.sampled_from([None, b"", b"a", b"ab", b"abc"]), st.booleans()),
)
def test_a_projection_is_what_the_oracle_says(
    kernel: ModuleType,
    records: list[Record],
    dead: set[int],
    nodes: list[bytes] | None,
    limit: int,
    budget: int,
    options: int,
    match: tuple[bytes | None, bool],
) -> None:
    frames, offsets, _ = encode(kernel, records)

    answer = project(
        kernel, frames, offsets, dead=bitmap_of(dead), nodes=nodes,
        limit=limit, budget=budget, options=options, match=match,
    )  # fmt: skip

    assert answer == expected(records, dead, nodes, limit, budget, options, match)


@given(records=record_lists)
def test_what_was_sent_is_what_a_parser_gets(kernel: ModuleType, records: list[Record]) -> None:
    frames, offsets, _ = encode(kernel, records)

    text, *_ = project(kernel, frames, offsets)

    for i, found in enumerate(json.loads(b"[%b]" % text)):
        assert (found["$seq"], found["$ts"]) == (FIRST + i, TS)
        assert found["data"] == json.loads(records[i].data)
        assert found.get("meta") == (json.loads(records[i].meta) if records[i].meta else None)
        assert found.get("$tag") == (records[i].tag.decode() if records[i].tag else None)
        assert found.get("$node") == (records[i].node.decode() if records[i].node else None)


def test_the_keys_come_in_the_promised_order(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, [Record(b"1", b"{}", b"t", b"n")])

    assert project(kernel, frames, offsets)[0] == (
        b'{"$seq":100,"$ts":1700000000000,"$node":"n","$tag":"t","meta":{},"data":1}'
    )
    assert project(kernel, frames, offsets, options=TAG | META | DATA)[0] == (
        b'{"seq":100,"ts":1700000000000,"node":"n","tag":"t","meta":{},"data":1}'
    )
    assert project(kernel, frames, offsets, options=0)[0] == (
        b'{"seq":100,"ts":1700000000000,"node":"n"}'
    )


@pytest.mark.parametrize("options", [0, DOLLAR])
def test_every_byte_of_a_label_is_escaped_as_json_does(kernel: ModuleType, options: int) -> None:
    every = "".join(map(chr, range(256))) + "\u20ac\U0001f600"
    record = Record(b"1", None, every.encode(), every[::-1].encode())
    frames, offsets, _ = encode(kernel, [record])

    text, *_ = project(kernel, frames, offsets, options=TAG | DATA | options)

    assert text == object_of(record, FIRST, TAG | DATA | options)


def test_bytes_that_are_not_utf8_pass_as_they_are(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, [Record(b"1", None, b"\xff\x80", None)])

    assert b'"$tag":"\xff\x80"' in project(kernel, frames, offsets)[0]


@pytest.mark.parametrize("number", [0, 9, 10, 99, 100, 12345, 10**13, (1 << 64) - 1])
def test_numbers_are_written_out_in_full(kernel: ModuleType, number: int) -> None:
    frame = append_frame(Record(b"1"), number, ts=number)

    text, *_ = project(kernel, frame, u32s([0]), first_seq=number)

    assert text == b'{"$seq":%d,"$ts":%d,"data":1}' % (number, number)


@pytest.mark.parametrize(
    "meta",
    [
        b"1", b'""', b'"\\""', b'"\\\\"', b'"a,\\"d\\":b"', b'{"d":[{"x":"}],"}]}', b"[1,[2,3],4]",
        b'{"a":"\\\\\\"","d":1}', b" { } ",
    ],
)  # fmt: skip
def test_meta_ends_where_its_json_value_ends(kernel: ModuleType, meta: bytes) -> None:
    record = Record(b'{"d":2,"m":3}', meta)
    frames, offsets, _ = encode(kernel, [record])

    text, *_ = project(kernel, frames, offsets)

    assert text == object_of(record, FIRST, ALL)
    assert kernel.frame_at(frames, offsets, 4, 0)[4:] == (record.data, record.meta)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b'{"d":', b'{"d":1', b'{"m":1}', b'{"m":{}}', b'{"m":,"d":1}', b'{"m":1,"x":1}',
        b'{"m":1,"d"}', b'{"m":"1,"d":1}', b'{"m":[1,"d":1}', b'{"m":1],"d":1}', b'{"m":"\\}',
        b'{"m":1,"d":', b'{"x":1}', b"[1,2,3,4]",
    ],
)  # fmt: skip
def test_a_body_that_is_not_ours_is_never_delivered(kernel: ModuleType, body: bytes) -> None:
    frames = [append_frame(TEN[0], FIRST), frame_of(1, 4, TOPIC, FIRST + 1, TS, b"", b"", body)]
    offsets = u32s(starts_of(frames))

    text, delivered, at, status = project(kernel, b"".join(frames), offsets)
    raw = project(kernel, b"".join(frames), offsets, options=FRAMES)

    assert (text, delivered, at, status) == (object_of(TEN[0], FIRST, ALL), 1, 1, MALFORMED)
    assert raw == (frames[0], 1, 1, MALFORMED)
    with pytest.raises(ValueError, match="record 1"):
        kernel.frame_at(b"".join(frames), offsets, 4, 1)


def test_the_first_object_is_delivered_whatever_the_budget(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN)

    one = project(kernel, frames, offsets, budget=0)
    exact = project(kernel, frames, offsets, budget=2 * len(one[0]) + 1)

    assert one[1:] == (1, 1, 0)
    assert exact[1:] == (2, 2, 0)
    assert project(kernel, frames, offsets, budget=2 * len(one[0]))[1] == 1


def test_a_page_goes_on_where_the_last_one_stopped(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN)
    whole = project(kernel, frames, offsets)[0]

    pages, at = [], 0
    while at < len(TEN):
        text, _, at, _ = project(kernel, frames, offsets, i0=at, limit=3)
        pages.append(text)

    assert b",".join(pages) == whole


def test_a_record_that_the_tag_leaves_out_moves_the_cursor_and_counts_for_nothing(
    kernel: ModuleType,
) -> None:
    frames, offsets, _ = encode(kernel, TEN)

    some = project(kernel, frames, offsets, limit=2, options=0, match=(b"t1", False))
    none = project(kernel, frames, offsets, limit=2, options=0, match=(b"u", True))

    assert some[1:] == (2, 4, 0)
    assert none == (b"", 0, 10, 0)


def test_frames_are_given_as_they_lie_there_and_the_budget_counts_their_bytes(
    kernel: ModuleType,
) -> None:
    frames, offsets, _ = encode(kernel, TEN)
    each = frames_of(TEN)
    two = len(each[0]) + len(each[1])

    assert project(kernel, frames, offsets, options=FRAMES | VERIFY | ARRAY) == (frames, 10, 10, 0)
    assert project(kernel, frames, offsets, options=FRAMES, budget=0) == (each[0], 1, 1, 0)
    assert project(kernel, frames, offsets, options=FRAMES, budget=two)[1] == 2
    assert project(kernel, frames, offsets, options=FRAMES, budget=two - 1)[1] == 1


def test_a_damaged_record_is_met_even_where_the_tag_would_leave_it_out(kernel: ModuleType) -> None:
    """Damage may have changed the very tag that was asked for."""
    frames, offsets, _ = encode(kernel, TEN)
    damaged = bytearray(frames)
    damaged[len(frames) // 10 + 39] ^= 1  # the tag of record 1

    answer = project(kernel, bytes(damaged), offsets, match=(b"t0", False))

    assert answer[1:] == (1, 1, CHECKSUM)


def test_a_tag_is_bytes(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN)

    with pytest.raises(TypeError):
        project(kernel, frames, offsets, match=("t", True))  # type: ignore[arg-type]


def test_large_pages_are_whole(kernel: ModuleType) -> None:
    records = [Record(b'"%s"' % (b"x" * (i % 700)), tag=b"%d" % (i % 3)) for i in range(1000)]
    frames, offsets, _ = encode(kernel, records)

    for options in (ALL, FRAMES | VERIFY):
        for match in ((None, False), (b"1", False)):
            fixed = NO_LIMIT, NO_LIMIT, options, match
            found = project(kernel, frames, offsets, options=options, match=match)
            assert found == expected(records, set(), None, *fixed)


def test_index_entries_of_length_zero_are_passed_over(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN)
    index = bytearray(kernel.build_index(frames, offsets, 10, 0))
    for i in (0, 4, 9):
        index[24 * i : 24 * i + 24] = bytes(24)

    answer = project(kernel, frames, bytes(index), stride=24)

    assert answer == expected(TEN, {0, 4, 9}, None, NO_LIMIT, NO_LIMIT, ALL)


@pytest.mark.parametrize("at", range(len(append_frame(TEN[4], FIRST + 4))))
def test_a_verified_projection_never_delivers_a_flipped_bit(kernel: ModuleType, at: int) -> None:
    frames, offsets, _ = encode(kernel, TEN)
    before = expected(TEN[:4], set(), None, NO_LIMIT, NO_LIMIT, ALL)[0]
    for bit in range(8):
        damaged = bytearray(frames)
        damaged[4 * len(frames) // 10 + at] ^= 1 << bit

        text, delivered, stop, status = project(kernel, bytes(damaged), offsets)
        raw, *_ = project(kernel, bytes(damaged), offsets, options=FRAMES | VERIFY)

        assert (text, delivered, stop) == (before, 4, 4)
        assert raw == frames[: 4 * len(frames) // 10]
        assert status in (TORN, CHECKSUM, MALFORMED)


def test_another_record_than_expected_is_not_delivered(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN[:1])
    control = frame_of(2, 4, TOPIC, FIRST, TS, b"", b"", b'{"d":1}')

    assert project(kernel, frames, offsets, first_seq=FIRST + 1) == (b"", 0, 0, STRANGER)
    assert project(kernel, frames, offsets, topic_id=8) == (b"", 0, 0, STRANGER)
    assert project(kernel, control, u32s([0])) == (b"", 0, 0, STRANGER)
    assert project(kernel, frames, offsets, topic_id=8, options=ALL & ~VERIFY)[1:] == (1, 1, 0)


@pytest.mark.parametrize("options", [ALL, ALL & ~VERIFY])
def test_an_offset_outside_the_buffer_is_torn(kernel: ModuleType, options: int) -> None:
    frames, _, _ = encode(kernel, TEN[:1])
    for offset in (len(frames), len(frames) - 3, len(frames) + 1, 0xFFFFFFFF):
        assert project(kernel, frames, u32s([offset]), options=options) == (b"", 0, 0, TORN)
    for size in range(len(frames)):
        assert project(kernel, frames[:size], u32s([0]), options=options)[1:] == (0, 0, TORN)


def test_an_entry_that_disagrees_with_its_frame_is_malformed(kernel: ModuleType) -> None:
    frames, _, _ = encode(kernel, TEN[:1])

    assert project(kernel, frames, u32s([0, len(frames)]), stride=8)[1:] == (1, 1, 0)
    assert project(kernel, frames, u32s([0, 50]), stride=8) == (b"", 0, 0, MALFORMED)


@given(
    frames=st.binary(max_size=200),
    offsets=st.lists(st.integers(0, 220), max_size=6).map(u32s),
    stride=st.sampled_from([0, 3, 4, 8, 12, 24]),
    i0=st.integers(-1, 6),
    i1=st.integers(-1, 7),
    dead=st.none() | st.binary(max_size=2),
    options=st.integers(0, 127),
    match=st.tuples(st.none() | st.binary(max_size=2), st.booleans()),
)
def test_both_forms_answer_garbage_alike(
    forms: tuple[ModuleType, ModuleType],
    frames: bytes,
    offsets: bytes,
    stride: int,
    i0: int,
    i1: int,
    dead: bytes | None,
    options: int,
    match: tuple[bytes | None, bool],
) -> None:
    answers = [
        outcome(
            lambda form=form: form.project(
                frames, offsets, stride, i0, i1, dead, [b"a"], 9, 999, options, 1, 1, *match
            )
        )
        for form in forms
    ]

    assert answers[0] == answers[1]


@given(
    records=record_lists.filter(bool),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4),
    options=st.integers(0, 127),
    match=st.tuples(st.none() | st.sampled_from([b"", b"a"]), st.booleans()),
)
def test_both_forms_answer_damage_alike(
    forms: tuple[ModuleType, ModuleType],
    records: list[Record],
    changes: list[tuple[int, int]],
    options: int,
    match: tuple[bytes | None, bool],
) -> None:
    log = bytearray(b"".join(frames_of(records)))
    for at, value in changes:
        log[at % len(log)] = value
    offsets = u32s(starts_of(frames_of(records)))

    answers = [project(form, bytes(log), offsets, options=options, match=match) for form in forms]

    assert answers[0] == answers[1]


def test_nodes_are_bytes(kernel: ModuleType) -> None:
    frames, offsets, _ = encode(kernel, TEN)

    with pytest.raises(TypeError):
        project(kernel, frames, offsets, nodes=["a"])  # type: ignore[list-item]


@pytest.mark.parametrize(("i0", "i1"), [(-1, 2), (3, 2), (0, 11)])
def test_a_range_outside_the_table_is_refused(kernel: ModuleType, i0: int, i1: int) -> None:
    frames, offsets, _ = encode(kernel, TEN)

    with pytest.raises(IndexError):
        project(kernel, frames, offsets, i0=i0, i1=i1)
