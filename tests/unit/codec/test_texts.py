"""JSON texts by the thousand."""

from __future__ import annotations

import pytest

from penstock.codec.texts import are_json, is_deep


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([b"1"], True),
        ([b"1", b'"a"', b'{"a":[1,2]}'], True),
        ([b"1,2", b"[3", b"4]"], False),
        ([b"1", b""], False),
        ([b"1", b" 2"], False),
        ([b"1", b'"\xc3\xa4"'], False),
        ([b'"\xff"'], False),
        ([b"nul"], False),
        ([b"[" * 65 + b"]" * 65], False),
    ],
)
def test_only_plain_json_passes_at_once(texts: list[bytes], expected: bool) -> None:
    assert are_json(texts) is expected


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b"[" * 9 + b"]" * 9, 9),
        (b'[{"a":[[1]]},{"b":{}},[[]]]', 4),
        (b"[" + b"[1]," * 50 + b"[2]]", 2),
        (b'["' + b"[" * 50 + b'"]', 1),
        (b'["\\"' + b"[{" * 50 + b'","\\\\"]', 1),
        ('["ä[[[[[[[[[",{"ß":[]}]'.encode(), 3),
    ],
)
def test_depth_is_that_of_brackets_outside_of_strings(text: bytes, depth: int) -> None:
    for most in range(12):
        assert is_deep(text + b" " * 30, most) is (depth > most)
