"""Sizes of memory: texts with a unit, and bytes."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.features.sizes import size_bytes, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024KiB", 1 << 20), ("256MiB", 256 << 20), ("3GiB", 3 << 30), ("1TiB", 1 << 40)],
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert size_bytes(text) == size
    assert size_bytes(text.replace("i", "")) == size
    assert size_bytes(size_text(size)) == size


def test_a_number_is_in_bytes() -> None:
    assert size_bytes(1_500_001) == 1_500_001
    assert size_text(1_500_001) == 1_500_001


@pytest.mark.parametrize("value", ["", "5", "MiB", "1 GiB", "1.5GiB", "-1MiB", "1mb", None, True])
def test_anything_else_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(InvalidArgument, match='"256MiB"'):
        size_bytes(value, "memory_max")


@pytest.mark.parametrize("value", ["1023KiB", 0, -1, "17TiB"])
def test_a_size_is_between_a_mebibyte_and_sixteen_tebibytes(value: object) -> None:
    with pytest.raises(InvalidArgument, match="expected 1MiB to 16TiB"):
        size_bytes(value)
