"""Records between values and texts."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import BatchTooLarge, InvalidArgument
from penstock.types import Record
from penstock.wire import json_records
from penstock.wire.json_records import TextColumns
from tests.unit import nesting


def test_payloads_become_texts_and_texts_stay_as_they_are() -> None:
    assert json_records.columns([{"a": 1}, b' {"b": 1.0} ', None, "x"]) == TextColumns(
        [b'{"a":1}', b' {"b": 1.0} ', b"null", b'"x"']
    )


def test_a_record_s_own_tag_goes_before_the_call_s() -> None:
    held = json_records.columns([Record(1, tag="own", node="n", meta={"k": 1}), 2], tag="all")

    assert held == TextColumns([b"1", b"2"], [b'{"k":1}', None], [b"own", b"all"], [b"n", None])


def test_the_json_form_has_the_same_texts() -> None:
    held = json_records.columns([Record(b"1.0", tag="t", node="n", meta=b"[ ]"), 2])

    made = json_records.objects(held)

    assert [sorted(one) for one in made] == [["data", "meta", "node", "tag"], ["data"]]
    assert bytes(made[0]["data"]) == b"1.0"
    assert bytes(made[0]["meta"]) == b"[ ]"


@pytest.mark.parametrize(
    "wrong", ["text", b"1", {"a": 1}, Record(1), 7, [], [object()], [b"{"], [float], [{1, 2}, {}]]
)
def test_what_cannot_be_sent_is_refused_before_sending(wrong: Any) -> None:
    if wrong == [{1, 2}, {}]:
        wrong = [Record(1, tag="")]

    with pytest.raises(InvalidArgument):
        json_records.columns(wrong)


@pytest.mark.parametrize("shape", nesting.SHAPES)
def test_a_text_that_nests_too_deep_is_refused_before_sending(shape: str) -> None:
    good, bad = (nesting.SHAPES[shape](depth) for depth in (nesting.MOST, nesting.MOST + 1))
    assert json_records.columns([good, Record(good, meta=good)]).datas == [good, good]

    for wrong in ([bad], [1, bad], [Record(bad)], [1, Record(1, meta=bad)]):
        with pytest.raises(InvalidArgument, match="nests 129 levels deep, at most 128"):
            json_records.columns(wrong)


def test_a_value_that_nests_too_deep_is_refused_before_sending() -> None:
    assert json_records.columns([nesting.value(nesting.MOST)])

    for depth in (nesting.MOST + 1, 200_000):  # the latter is encoded by no interpreter
        for wrong in ([1, nesting.value(depth)], [Record(1, meta=nesting.value(depth))]):
            with pytest.raises(InvalidArgument, match="at most 128"):
                json_records.columns(wrong)


def test_a_batch_beyond_the_limit_is_refused_before_sending() -> None:
    with pytest.raises(BatchTooLarge):
        json_records.columns([1] * 10_001)


@pytest.mark.parametrize("value", ["", 7, "\ud800", b"bytes"])
def test_a_tag_is_text_and_not_empty(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="tag"):
        json_records.short("tag", value)


def test_decoded_records_have_the_fields_of_a_record() -> None:
    array = b'[{"seq":1,"ts":2,"tag":"t","data":{"a":1}},{"seq":2,"ts":2,"data":null}]'

    assert json_records.decode_records(array) == [
        Record(data={"a": 1}, tag="t", seq=1, ts=2),
        Record(seq=2, ts=2),
    ]
