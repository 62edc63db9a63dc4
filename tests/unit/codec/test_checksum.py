"""XXH3-64, against the reference implementation."""

from __future__ import annotations

import random
import struct
from types import ModuleType

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import checksum

NOISE = random.Random(1).randbytes(1 << 17)


def test_every_length_up_to_two_kilobytes_agrees_with_the_reference(kernel: ModuleType) -> None:
    for size in range(2049):
        data = NOISE[size : 2 * size]
        assert kernel.xxh3_64(data) == xxhash.xxh3_64_intdigest(data), size


@pytest.mark.parametrize(
    "size", [1024 * n + d for n in (3, 4, 16, 64) for d in (-65, -1, 0, 1, 64)]
)
def test_the_edges_of_blocks_agree_with_the_reference(kernel: ModuleType, size: int) -> None:
    assert kernel.xxh3_64(NOISE[:size]) == xxhash.xxh3_64_intdigest(NOISE[:size])


@given(data=st.binary(max_size=600))
def test_any_bytes_agree_with_the_reference(kernel: ModuleType, data: bytes) -> None:
    assert kernel.xxh3_64(data) == xxhash.xxh3_64_intdigest(data)


@pytest.mark.parametrize("at", range(9))
def test_no_alignment_is_asked_for(kernel: ModuleType, at: int) -> None:
    view = memoryview(bytearray(NOISE[:400]))[at:]

    assert kernel.xxh3_64(view) == xxhash.xxh3_64_intdigest(view)


def test_the_package_has_one_checksum() -> None:
    assert checksum.xxh3_64(b"penstock") == xxhash.xxh3_64_intdigest(b"penstock")


@given(texts=st.lists(st.none() | st.text(st.characters(exclude_categories=()), max_size=300)))
def test_texts_are_hashed_as_utf_8(kernel: ModuleType, texts: list[str | None]) -> None:
    expected = [
        0 if text is None else xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
        for text in texts
    ]

    assert list(struct.unpack(f"<{len(texts)}Q", kernel.hash_texts(texts))) == expected


def test_only_a_text_is_hashed_as_one(kernel: ModuleType) -> None:
    with pytest.raises((TypeError, AttributeError)):
        kernel.hash_texts(["a", 1])
