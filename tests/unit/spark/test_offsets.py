"""Offsets as text and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.spark.offsets import Offsets, StreamOffset, of_json, parsed, to_json

numbers = st.integers(0, (1 << 63) - 1)


@given(st.dictionaries(st.text(), st.builds(StreamOffset, numbers, numbers)))
def test_offsets_survive_the_checkpoint(offsets: Offsets) -> None:
    assert of_json(json.loads(json.dumps(to_json(offsets)))) == offsets
    assert parsed("startingOffsets", json.dumps(to_json(offsets))) == offsets


def test_where_a_batch_began_is_kept_and_is_no_part_of_how_far_it_came() -> None:
    text = '{"t": {"epoch": 1, "seq": 9, "begun": 4}}'

    found = of_json(json.loads(text))

    assert json.dumps(to_json(found)) == text
    assert found == {"t": StreamOffset(1, 9)}
    assert [StreamOffset(1, 9, at).is_initial for at in (None, 4, 9)] == [False, False, True]
    assert json.dumps(to_json(parsed("startingOffsets", text))) == '{"t": {"epoch": 1, "seq": 9}}'


def test_equal_offsets_are_equal_texts() -> None:
    one = {"a": StreamOffset(1, 2), "b": StreamOffset(3, 4)}
    other = {"b": StreamOffset(3, 4), "a": StreamOffset(1, 2)}

    assert json.dumps(to_json(one)) == json.dumps(to_json(other))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        '{"t": 5}',
        '{"t": {"epoch": 1}}',
        '{"t": {"epoch": 1, "seq": -1}}',
        '{"t": {"epoch": 1, "seq": true}}',
        '{"t": {"epoch": 1, "seq": 2, "more": 3}}',
        '{"t": {"epoch": "1", "seq": 2}}',
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument, match="option endingOffsets must have the form"):
        parsed("endingOffsets", text)
