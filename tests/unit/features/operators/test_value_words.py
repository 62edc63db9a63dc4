"""Values as words and hashes."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.features import fold_kernel
from penstock.features.event_column import ColumnType, column_of
from penstock.features.operators.value_words import (
    hashes_of,
    texts_of,
    value_of_text,
    value_of_word,
    values_of_bytes,
    words_of_numbers,
)
from tests.support.operators import form

INTEGERS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=()))
JSON = st.recursive(
    st.booleans() | INTEGERS | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def hashed(type_: ColumnType, *values: Any) -> list[int]:
    return hashes_of(column_of(type_, list(values))).tolist()


@settings(max_examples=20, deadline=None)
@given(integers=st.lists(INTEGERS), floats=st.lists(FLOATS), flags=st.lists(st.booleans()))
def test_numbers_come_back_from_their_words(
    integers: list[int], floats: list[float], flags: list[bool]
) -> None:
    for type_, values in (("i64", integers), ("f64", floats), ("bool", flags)):
        words = words_of_numbers(column_of(type_, values))  # type: ignore[arg-type]
        assert [value_of_word(type_, word) for word in words.tolist()] == values  # type: ignore[arg-type]
        assert values_of_bytes(type_, words.tobytes()) == values  # type: ignore[arg-type]


def test_zero_has_one_word() -> None:
    assert words_of_numbers(column_of("f64", [0.0, -0.0])).tolist() == [0, 0]
    assert math.copysign(1, value_of_word("f64", 0)) == 1


@settings(max_examples=20, deadline=None)
@given(values=st.lists(JSON.filter(lambda value: value is not None), max_size=5))
def test_json_values_come_back_from_their_texts(values: list[Any]) -> None:
    texts = texts_of(column_of("json", values))

    assert [repr(value_of_text("json", text)) for text in texts] == [repr(v) for v in values]


@settings(max_examples=20, deadline=None)
@given(values=st.lists(TEXTS, unique=True))
def test_texts_are_hashed_by_xxh3_of_utf_8(values: list[str]) -> None:
    expected = [
        xxhash.xxh3_64_intdigest(value.encode("utf-8", "surrogatepass")) for value in values
    ]

    assert hashed("str", *values) == expected


@settings(max_examples=20, deadline=None)
@given(values=st.lists(INTEGERS, unique=True))
def test_different_numbers_have_different_hashes_in_both_forms(values: list[int]) -> None:
    hashes = hashed("i64", *values)

    assert len(set(hashes)) == len(values)
    for pure in (True, False):
        with form(pure):
            assert hashed("i64", *values) == hashes


def test_no_hash_is_that_of_an_empty_entry() -> None:
    assert hashed("i64", 0) == hashed("bool", False) == hashed("f64", 0.0) == [1]
    assert all(hashed("str", "", "\ud800"))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (2, 2.0, True),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ([{"x": [1.0]}], [{"x": [1]}], True),
        (1e300, int(1e300), True),
        (1, True, False),
        (1, "1", False),
        (0, False, False),
        ([1, 2], [2, 1], False),
        ([1], 1, False),
        (2**53, 2**53 + 1, False),
        (0.1, 0.10000000000000002, False),
        (-0.0, 0, True),
    ],
)
def test_equal_json_values_have_equal_hashes(one: Any, other: Any, is_same: bool) -> None:
    first, second = hashed("json", one, other)

    assert (first == second) is is_same


def test_a_value_that_is_absent_is_no_error() -> None:
    for type_ in ("i64", "f64", "bool", "str", "json"):
        column = column_of(type_, [None, None])  # type: ignore[arg-type]
        assert len(hashes_of(column)) == 2
    assert texts_of(column_of("json", [None, 1])).tolist() == [None, "1"]


def test_hashes_are_the_same_in_every_version() -> None:
    """They are part of saved state, so they never change."""
    assert hashed("i64", 1, -1) == [0x5692161D100B05E5, 0xB4D055FCF2CBBD7B]
    assert hashed("str", "a") == [xxhash.xxh3_64_intdigest(b"a")]
    assert hashed("json", {"b": 1.0, "a": "é"}) == [
        xxhash.xxh3_64_intdigest(
            json.dumps({"a": "é", "b": 1}, ensure_ascii=False, separators=(",", ":")).encode()
        )
    ]


def test_the_kernel_hashes_as_split_mix_does() -> None:
    words = np.array([0, 1, 2**64 - 1], np.uint64)
    hashes = np.empty(3, np.uint64)

    fold_kernel.chosen.mix_words(words, hashes)

    assert hashes.tolist() == [1, 0x5692161D100B05E5, 0xB4D055FCF2CBBD7B]
