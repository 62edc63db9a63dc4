"""Which batches have nothing but payloads, and batches of texts."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import limits
from penstock.engine.batch import Batch, RecordSpans, prepare
from penstock.errors import RecordTooLarge
from penstock.server.appends import batch_of_texts, is_plain
from penstock.types import Record


@pytest.mark.parametrize(
    "more",
    [
        {"key": b"k"},
        {"metas": [b"{}"]},
        {"tags": [b"a"]},
        {"nodes": [b"n"]},
        {"tag": b"a"},
        {"node": b"n"},
        {"due_ms": 5},
    ],
    ids=lambda more: next(iter(more)),
)
def test_a_batch_with_anything_but_payloads_is_not_plain(more: dict[str, Any]) -> None:
    assert is_plain(Batch([b"1"], 1))
    assert not is_plain(Batch([b"1"], 1, **more))


def test_records_that_stay_in_their_text_are_plain() -> None:
    spans = RecordSpans([b"1"], [bytes(24)], 1)

    assert is_plain(Batch([], 1, spans=spans))
    assert not is_plain(Batch([], 1, spans=spans, key=b"k"))


def test_records_without_labels_are_plain() -> None:
    assert is_plain(prepare([1, Record(2)], tag=None, node=None, key=None))
    assert not is_plain(prepare([Record(2, tag="a")], tag=None, node=None, key=None))


def test_a_batch_of_texts_has_its_key_and_is_held_to_the_limits() -> None:
    batch = batch_of_texts([b"1", b"22"], b"k")

    assert (batch.datas, batch.payload_bytes, batch.key) == ([b"1", b"22"], 3, b"k")
    with pytest.raises(RecordTooLarge):
        batch_of_texts([b"1" * (limits.RECORD_BYTES_MAX + 1)])
