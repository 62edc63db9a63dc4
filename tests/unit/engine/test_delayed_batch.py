"""A delayed batch as text: what comes out is what went in, whatever form the batch had."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine import delayed_batch
from penstock.engine.batch import Batch, prepare, split_json
from penstock.engine.batch import from_spans as of_spans
from penstock.limits import JSON_DEPTH_MAX
from penstock.types import Record

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda some: (
        st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some, max_size=3)
    ),
    max_leaves=6,
)
TEXTS = st.none() | st.text(min_size=1, max_size=6)


def columns(batch: Batch) -> list[tuple[Any, ...]]:
    """Each record of a batch, with the tag and node of the batch."""
    count = batch.count
    metas, tags, nodes = (one or [None] * count for one in (batch.metas, batch.tags, batch.nodes))
    return [
        (data, meta, tag or batch.tag, node or batch.node)
        for data, meta, tag, node in zip(batch.datas, metas, tags, nodes, strict=True)
    ]


@given(
    st.lists(st.tuples(VALUES, TEXTS, TEXTS, st.none() | st.integers()), min_size=1, max_size=6),
    TEXTS,
    TEXTS,
)
def test_a_batch_comes_back_as_it_was(
    records: list[tuple[Any, str | None, str | None, int | None]], tag: str | None, node: str | None
) -> None:
    batch = prepare(
        [Record(data, own, name, meta) for data, own, name, meta in records],
        tag=tag,
        node=node,
        key=None,
    )

    stored = delayed_batch.decode(delayed_batch.encode(batch, 7, 1234))
    again = delayed_batch.joined([stored, stored], b"k")

    assert (stored.topic_id, stored.due_ms) == (7, 1234)
    assert stored.payload_bytes == batch.payload_bytes
    assert columns(again) == columns(batch) * 2
    assert again.key == b"k"


def test_records_that_stay_in_their_text_are_copied_out_of_it() -> None:
    found = split_json(b'{"records":[{"data":{"a":1},"tag":"x"},{"data":2,"node":"n"}]}')
    if found is None:
        pytest.skip("the interpreted kernel leaves the records in no text")
    batch = of_spans(found[1])

    stored = delayed_batch.decode(delayed_batch.encode(batch, 1, 0))

    assert columns(delayed_batch.joined([stored], b"")) == [
        (b'{"a":1}', None, b"x", None),
        (b"2", None, None, b"n"),
    ]


def test_the_deepest_record_can_be_delayed() -> None:
    deepest = json.loads("[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX)
    batch = prepare([deepest], tag=None, node=None, key=None)

    stored = delayed_batch.decode(delayed_batch.encode(batch, 1, 0))

    assert columns(delayed_batch.joined([stored], b"")) == columns(batch)
