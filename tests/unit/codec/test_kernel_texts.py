"""Many JSON texts at once."""

from __future__ import annotations

import json
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

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


@given(texts=text_lists)
def test_texts_are_joined_into_one_array(kernel: ModuleType, texts: list[bytes]) -> None:
    joined = kernel.join_array(texts)

    assert joined == b"[" + b",".join(texts) + b"]"
    assert json.loads(joined) == [json.loads(text) for text in texts]


@given(texts=text_lists, other=st.binary(max_size=9), at=st.integers(0, 8))
def test_sizes_are_compared_place_by_place(
    kernel: ModuleType, texts: list[bytes], other: bytes, at: int
) -> None:
    values = [memoryview(text) for text in texts]

    assert kernel.same_sizes(values, texts)
    assert not kernel.same_sizes(values, [*texts, b"1"])
    if at < len(texts) and len(other) != len(texts[at]):
        values[at] = memoryview(other)
        assert not kernel.same_sizes(values, texts)


@given(texts=text_lists, tag=st.binary(max_size=300), node=st.binary(max_size=9))
def test_records_are_laid_out_as_they_are_split(
    kernel: ModuleType, texts: list[bytes], tag: bytes, node: bytes
) -> None:
    laid = kernel.lay_records(texts, tag, node)

    datas, metas, tags, nodes, end = kernel.split_records(laid, 0, len(texts))
    assert datas == texts
    assert metas is None
    assert tags == ([tag] * len(texts) if tag and texts else None)
    assert nodes == ([node] * len(texts) if node and texts else None)
    assert end == len(laid)
