"""JSON texts by the thousand."""

from __future__ import annotations

import pytest

from penstock.codec.texts import are_json


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
    ],
)
def test_only_plain_json_passes_at_once(texts: list[bytes], expected: bool) -> None:
    assert are_json(texts) is expected
