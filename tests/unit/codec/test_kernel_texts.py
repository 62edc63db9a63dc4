"""Many JSON texts at once."""

from __future__ import annotations

import json
from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import nesting
from tests.unit.codec.support import json_texts

text_lists = st.lists(json_texts, max_size=8)


@given(texts=text_lists)
def test_texts_are_measured_in_one_pass(kernel: ModuleType, texts: list[bytes]) -> None:
    assert kernel.sizes(texts) == (sum(map(len, texts)), max(map(len, texts), default=0))


@given(
    texts=text_lists,
    at=st.integers(0, 8),
    odd=st.sampled_from(["1", None, 1, bytearray(b"1"), memoryview(b"1")]),
)
def test_one_text_that_is_not_bytes_is_noticed(
    kernel: ModuleType, texts: list[object], at: int, odd: object
) -> None:
    texts.insert(at, odd)

    assert kernel.sizes(texts) == (-1, 0)


plain = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain, inner, max_size=4),
)  # fmt: skip
spacings = st.sampled_from([None, (" , ", " :\t"), (",\r\n", ": ")])
MARKS = b'{}[]",:\\/0123456789.-+eEtrufalsn bdDxX\t\n\r\x00\x1f\x7f\x80\xff'


@given(value=values, separators=spacings)
def test_what_others_write_in_ascii_is_plain(
    kernel: ModuleType, value: object, separators: tuple[str, str] | None
) -> None:
    text = json.dumps(value, separators=separators).encode()
    assert kernel.are_plain_json([text])


@given(
    value=values, separators=spacings, cuts=st.lists(st.tuples(st.integers(0), st.integers(0, 2)))
)
def test_what_is_plain_is_json_whatever_was_done_to_it(
    kernel: ModuleType,
    value: object,
    separators: tuple[str, str] | None,
    cuts: list[tuple[int, int]],
) -> None:
    """Others may be stricter with what is not plain, never with what is."""
    text = bytearray(json.dumps(value, separators=separators).encode())
    for where, how in cuts:
        at = where % (len(text) + 1)
        mark = MARKS[where // (len(text) + 1) % len(MARKS)]
        text[at : at + how] = bytes([mark])

    if kernel.are_plain_json([bytes(text)]):
        assert text.isascii()
        assert text == text.strip()
        msgspec.json.decode(text, type=msgspec.Raw)
        json.loads(text)


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        (b"[" * 128 + b"]" * 128, True),
        (b"[" * 129 + b"]" * 129, False),
        (b'{"a":' * 128 + b"1" + b"}" * 128, True),
        (b'{"a":' * 129 + b"1" + b"}" * 129, False),
        (b'[{"a":[{}]},[]]', True),
        (b"[1}", False),
        (b'{"a":1]', False),
        (b'{"a":1,}', False),
        (b"[1,]", False),
        (b"[,1]", False),
        (b"[]]", False),
        (b"[1 2]", False),
        (b'{"a" 1}', False),
        (b"{1:1}", False),
        (b"{", False),
        (b'{"a"', False),
        (b'{"a":', False),
        (b"", False),
        (b" 1", False),
        (b"1 ", False),
        (b"[ 1 ]", True),
        (b"01", False),
        (b"-", False),
        (b"-0.5e+7", True),
        (b"1.", False),
        (b".5", False),
        (b"1e", False),
        (b"+1", False),
        (b"tru", False),
        (b"truex", False),
        (b"false", True),
        (b"null", True),
        (b"NaN", False),
        (b'"', False),
        (b'"\\"', False),
        (b'"\\u12"', False),
        (b'"\\u12aF"', True),
        (b'"\\ud83d\\ude00"', False),
        (b'"\\ud7ff"', True),
        (b'"\\x"', False),
        (b'"\n"', False),
        (b'"\x7f"', True),
        (b'"\x80"', False),
    ],
)
def test_the_edges_of_plain(kernel: ModuleType, text: bytes, is_plain: bool) -> None:
    assert kernel.are_plain_json([text]) is is_plain
    assert kernel.are_plain_json([b"1", text, b"2"]) is is_plain


# How deep they nest.


@pytest.mark.parametrize("depth", [1, 2, 63, 64, 65, *nesting.AROUND, 5000])
@pytest.mark.parametrize("shape", nesting.SHAPES)
def test_depth_is_that_of_brackets_outside_of_strings(
    kernel: ModuleType, shape: str, depth: int
) -> None:
    text = nesting.SHAPES[shape](depth)

    assert kernel.nesting(text) == depth
    for most in (depth - 1, depth, depth + 1, nesting.MOST):
        found = kernel.first_deep([b"1", None, text, text], most)
        assert found == (2 if depth > most and len(text) > 2 * most else -1)
    is_plain = shape in nesting.PLAIN and depth <= nesting.MOST
    assert kernel.are_plain_json([b"1", text]) is is_plain
    assert kernel.is_plain_text(text) is is_plain


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        (b"", 0),
        (b"1", 0),
        (b'"[[["', 0),
        (b"[]", 1),
        (b'[{"a":[[1]]},{"b":{}},[[]]]', 4),
        (b"[" + b"[1]," * 500 + b"[2]]", 2),
        (b"]]]][[", 0),
        (b"[[[}}}", 3),
        (b'[["[[[', 2),
        (b'[["\\\\"[[', 4),
        (b'[["\\"[[', 2),
        (b'[["\\\\\\"[[', 2),
        (b'\\"[', 0),
        (b'[["' + b"x" * 61 + b"\\", 2),
        (b'[["' + b"x" * 61 + b"\\[", 2),
        (b'[["' + b"x" * 60 + b'\\"[["[[[', 5),
    ],
)
def test_any_bytes_have_a_depth(kernel: ModuleType, text: bytes, depth: int) -> None:
    assert kernel.nesting(text) == depth
    assert kernel.nesting(text + b" " * 99) == depth


@given(
    pieces=st.lists(
        st.sampled_from(
            [b"[", b"{", b"]", b"}", b'"', b"\\", b"\xc3\xa9", b"x", b" " * 13, b"[" * 9]
        )
        | st.binary(max_size=5),
        max_size=200,
    ),
    most=st.integers(0, 40),
)
def test_both_forms_count_alike_whatever_the_bytes(
    forms: tuple[ModuleType, ModuleType], pieces: list[bytes], most: int
) -> None:
    text = b"".join(pieces)
    interpreted, compiled = (form.nesting(text) for form in forms)

    assert interpreted == compiled
    for form in forms:
        is_deep = compiled > most and len(text) > 2 * most
        assert form.first_deep([text], most) == (0 if is_deep else -1)


@given(kinds=st.lists(st.booleans(), min_size=1, max_size=nesting.MOST), data=st.data())
def test_each_bracket_is_closed_by_its_own_kind_at_any_depth(
    kernel: ModuleType, kinds: list[bool], data: st.DataObject
) -> None:
    closings = [b"}" if is_object else b"]" for is_object in reversed(kinds)]
    opened = b"".join(b'{"a":' if is_object else b"[" for is_object in kinds) + b"1"
    wrong = data.draw(st.integers(0, len(kinds) - 1))

    assert kernel.are_plain_json([opened + b"".join(closings)])
    closings[wrong] = b"]" if closings[wrong] == b"}" else b"}"
    assert not kernel.are_plain_json([opened + b"".join(closings)])


def test_only_bytes_nest(kernel: ModuleType) -> None:
    assert kernel.first_deep([], 1) == -1
    with pytest.raises(TypeError):
        kernel.nesting("[]")
    with pytest.raises(TypeError, match="str"):
        kernel.first_deep(["[]"], 1)


def test_only_bytes_can_be_plain(kernel: ModuleType) -> None:
    assert kernel.are_plain_json([])
    with pytest.raises(TypeError, match="str"):
        kernel.are_plain_json(["1"])


@given(texts=text_lists, tag=st.binary(max_size=300), node=st.binary(max_size=9))
def test_records_are_laid_out_as_they_are_split(
    kernel: ModuleType, texts: list[bytes], tag: bytes, node: bytes
) -> None:
    laid = kernel.pack_records(texts, tag, node)

    datas, metas, tags, nodes, end = kernel.split_records(laid, 0, len(texts))
    assert datas == texts
    assert metas is None
    assert tags == ([tag] * len(texts) if tag and texts else None)
    assert nodes == ([node] * len(texts) if node and texts else None)
    assert end == len(laid)


@given(st.one_of(st.binary(max_size=12), st.text(max_size=6), st.integers(), st.none()))
def test_one_text_is_judged_as_many_are(forms: tuple[ModuleType, ModuleType], text: object) -> None:
    for form in forms:
        expected = type(text) is bytes and form.are_plain_json([text])
        assert form.is_plain_text(text) is expected


@pytest.mark.parametrize("text", [b"1", b'{"a":[true,"b"]}', b'"\\n"'])
def test_one_plain_text_is_plain(kernel: ModuleType, text: bytes) -> None:
    assert kernel.is_plain_text(text) is True
    assert kernel.is_plain_text(bytearray(text)) is False
