"""Choosing the form, and encoding."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import kernel as chooser
from tests.unit.codec.support import (
    FIRST,
    TOPIC,
    TS,
    Record,
    append_frame,
    encode,
    frame_of,
    frames_of,
    json_texts,
    labels,
    record_lists,
    starts_of,
    u32s,
)

SOURCE = Path(__file__).parents[3] / "src"
U64_MAX = (1 << 64) - 1


def test_both_forms_can_be_loaded_side_by_side(forms: tuple[ModuleType, ModuleType]) -> None:
    interpreted, compiled = forms

    assert not interpreted.COMPILED
    assert compiled.COMPILED
    assert chooser.load(pure=True) is interpreted
    assert chooser.load(pure=False) is compiled


@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_environment_can_ask_for_the_interpreted_form(pure: str) -> None:
    program = "from penstock.codec import kernel; print(kernel.COMPILED, kernel.scan.__module__)"
    environment = dict(os.environ, PENSTOCK_PURE=pure, PYTHONPATH=str(SOURCE))

    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()

    if pure == "1":
        assert answer == ["False", "penstock.codec.kernel_source.scanning"]
    else:
        assert answer[0] == str(chooser.COMPILED)


def test_every_function_is_reexported_by_name() -> None:
    form = chooser.load(pure=not chooser.COMPILED)
    public = chooser.load(pure=True).__all__

    assert all(getattr(chooser, name) is getattr(form, name) for name in public)


@given(records=record_lists)
def test_appends_are_laid_out_as_the_format_says(kernel: ModuleType, records: list[Record]) -> None:
    frames, offsets, payload = encode(kernel, records)

    expected = frames_of(records)
    assert frames == b"".join(expected)
    assert offsets == u32s(starts_of(expected))
    assert payload == sum(record.payload_bytes for record in records)


@given(
    datas=st.lists(json_texts, max_size=4),
    some=st.lists(labels, min_size=4, max_size=4),
    tag=labels,
    node=labels,
)
def test_a_default_tag_and_node_stand_in_where_a_record_has_none(
    kernel: ModuleType,
    datas: list[bytes],
    some: list[bytes | None],
    tag: bytes | None,
    node: bytes | None,
) -> None:
    tags = some[: len(datas)]

    frames, _, _ = kernel.encode_appends(TOPIC, FIRST, TS, 4, datas, None, tags, None, tag, node)

    records = [
        Record(data, None, tag if own is None else own, node)
        for data, own in zip(datas, tags, strict=True)
    ]
    assert frames == b"".join(frames_of(records))


def test_large_and_small_batches_are_encoded_alike(kernel: ModuleType) -> None:
    """Above a size the fill runs without the GIL; the bytes are the same."""
    noise = random.Random(2)
    records = [Record(b'"%s"' % noise.randbytes(noise.randrange(3000)).hex().encode())] * 200

    frames, offsets, _ = encode(kernel, records)

    assert frames == b"".join(frames_of(records))
    assert offsets == u32s(starts_of(frames_of(records)))


def test_no_records_make_no_frames(kernel: ModuleType) -> None:
    assert kernel.encode_appends(1, 1, 1, 4, [], None, None, None, None, None) == (b"", b"", 0)


@pytest.mark.parametrize("flags", [0, 3, 4, 7, 0xFF])
def test_presence_bits_follow_the_lengths(kernel: ModuleType, flags: int) -> None:
    frames, _, _ = kernel.encode_appends(
        1, 1, 1, flags, [b"1"], None, [b""], None, b"default", b"n"
    )

    assert frames[5] == flags & 0xFC | 2


@pytest.mark.parametrize("number", [0, 1, 1 << 32, 1 << 63, U64_MAX])
def test_numbers_reach_the_whole_64_bits(kernel: ModuleType, number: int) -> None:
    frames, _, _ = kernel.encode_appends(
        number, number, number, 0, [b"1"], None, None, None, None, None
    )

    assert frames == frame_of(1, 0, number, number, number, b"", b"", b'{"d":1}')
    assert kernel.scan(frames, 0, len(frames))[0][0][:4] == (1, number, number, number)


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_numbers_beyond_64_bits_are_refused(kernel: ModuleType, number: int) -> None:
    for numbers in [(number, 1, 1), (1, number, 1), (1, 1, number)]:
        with pytest.raises(OverflowError):
            kernel.encode_appends(*numbers, 0, [b"1"], None, None, None, None, None)
        with pytest.raises(OverflowError):
            kernel.encode_control(2, 0, *numbers, b"", b"", b"")


def test_seqs_do_not_wrap_around(kernel: ModuleType) -> None:
    with pytest.raises(OverflowError):
        kernel.encode_appends(1, U64_MAX, 1, 0, [b"1", b"2"], None, None, None, None, None)


@pytest.mark.parametrize(
    "columns",
    [
        ([b"1"], [None, None], None, None, None, None),
        ([b"1"], [], None, None, None, None),
        ([b"1", b"2"], None, [b"t"], None, None, None),
        ([b"1", b"2"], None, None, [b"n"], None, None),
        ([b"1"], None, None, None, b"t" * 65536, None),
        ([b"1"], None, None, None, None, b"n" * 65536),
        ([b"1", b"2"], None, [None, b"t" * 65536], None, None, None),
        ([b"1", b"2"], None, None, [None, b"n" * 65536], None, None),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    kernel: ModuleType, columns: tuple[object, ...]
) -> None:
    with pytest.raises(ValueError, match=r"for \d records|at most 65535"):
        kernel.encode_appends(1, 1, 1, 0, *columns)


@pytest.mark.parametrize(
    "columns",
    [
        (["1"], None, None, None, None, None),
        ([bytearray(b"1")], None, None, None, None, None),
        ([None], None, None, None, None, None),
        ([b"1"], ["{}"], None, None, None, None),
        ([b"1"], None, ["t"], None, None, None),
        ([b"1"], None, None, [1], None, None),
        ([b"1"], None, None, None, "t", None),
        ([b"1"], None, None, None, None, "n"),
    ],
)
def test_anything_but_bytes_is_refused(kernel: ModuleType, columns: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        kernel.encode_appends(1, 1, 1, 0, *columns)


def test_the_longest_labels_fit(kernel: ModuleType) -> None:
    record = Record(b"1", None, b"t" * 65535, b"n" * 65535)

    frames, _, _ = encode(kernel, [record])

    assert frames == append_frame(record, FIRST)
    assert kernel.scan(frames, 0, len(frames))[2] == 0


def test_a_batch_of_four_gigabytes_is_refused(kernel: ModuleType) -> None:
    piece = bytes(1 << 26)

    with pytest.raises(ValueError, match="32 bits"):
        kernel.encode_appends(1, 1, 1, 0, [piece] * 64, None, None, None, None, None)


@given(
    kind=st.integers(1, 63),
    flags=st.integers(0, 255),
    numbers=st.tuples(*[st.integers(0, U64_MAX)] * 3),
    parts=st.tuples(*[st.binary(max_size=40)] * 3),
)
def test_a_control_frame_is_laid_out_as_the_format_says(
    kernel: ModuleType,
    kind: int,
    flags: int,
    numbers: tuple[int, int, int],
    parts: tuple[bytes, bytes, bytes],
) -> None:
    assert kernel.encode_control(kind, flags, *numbers, *parts) == frame_of(
        kind, flags, *numbers, *parts
    )


@pytest.mark.parametrize("kind", [0, 64, -1, 256])
def test_a_control_frame_has_a_type_that_scan_accepts(kernel: ModuleType, kind: int) -> None:
    with pytest.raises(ValueError, match="type"):
        kernel.encode_control(kind, 0, 1, 1, 1, b"", b"", b"")
