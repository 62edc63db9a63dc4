"""JSON texts by the thousand."""

from __future__ import annotations

import pytest

from penstock import limits
from penstock.codec import json_text
from penstock.codec.json_text import are_json, check_depth, depth_beyond
from penstock.errors import InvalidArgument
from tests.unit import nesting


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([b"1"], True),
        ([b"1", b'"a"', b'{"a":[1,2]}'], True),
        ([b"1,2", b"[3", b"4]"], False),
        ([b"1", b""], False),
        ([b"1", b" 2"], False),
        ([b"1", b'"\xc3\xa4"'], False),
        ([b'"\xff"'], False),
        ([b"nul"], False),
        ([b"[" * 128 + b"]" * 128], True),
        ([b"[" * 129 + b"]" * 129], False),
        ([b"[" * 50_000 + b"]" * 50_000], False),
    ],
)
def test_only_plain_json_passes_at_once(given: list[bytes], expected: bool) -> None:
    assert are_json(given) is expected


@pytest.mark.parametrize("shape", nesting.SHAPES)
def test_the_first_text_that_nests_too_deep_is_refused_with_its_depth(shape: str) -> None:
    good, bad = (nesting.SHAPES[shape](depth) for depth in (nesting.MOST, nesting.MOST + 1))
    check_depth([good])
    check_depth([good, None, good], "meta")

    with pytest.raises(InvalidArgument, match=r"^payload nests 129 levels deep, at most 128 are"):
        check_depth([bad])
    with pytest.raises(InvalidArgument, match=r"^record 2: meta nests 129 levels deep"):
        check_depth([good, None, bad, bad], "meta")


def test_a_text_that_is_short_enough_need_not_be_looked_at() -> None:
    assert depth_beyond(nesting.arrays(nesting.MOST), nesting.MOST) == 0
    assert len(nesting.arrays(nesting.MOST)) == json_text.SHALLOW_BYTES_MAX


def test_the_depth_of_what_is_deep_is_told() -> None:
    assert depth_beyond(nesting.arrays(300), 256) == 300
    assert depth_beyond(nesting.arrays(256), 256) == 0


def test_the_kernel_has_the_limit_that_is_stated() -> None:
    assert are_json([nesting.arrays(limits.JSON_DEPTH_MAX)])
    assert not are_json([nesting.arrays(limits.JSON_DEPTH_MAX + 1)])
