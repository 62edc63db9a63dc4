"""The server's answers as values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.client import answers
from penstock.client.http import HttpResponse
from penstock.errors import CorruptFrame, ServerError
from penstock.types import Appended, Gap, Position, Removed, TopicConfig
from penstock.wire import binary_batch

TOPIC = {"topic": "t", "head_seq": 5, "earliest_seq": 2, "count": 4, "bytes": 9}


def response(body: Any, **headers: str) -> HttpResponse:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpResponse(
        200, {name.replace("_", "-"): value for name, value in headers.items()}, text
    )


def test_an_append_is_told_with_what_it_cost() -> None:
    told = {"topic": "t", "first_seq": 3, "last_seq": 4, "count": 2, "head_seq": 4, "epoch": 7}
    told |= {"ts": 9, "created": True, "deduped": False, "unheard_of": 1}
    told |= {"performance": {"server_total_ms": 1, "wal_append_ms": 0.5, "fsync_ms": 2}}

    expected = Appended("t", 3, 4, 2, 4, 7, 9, True, False, 0.5, 2.0)
    assert answers.appended(response(told), "s") == expected
    assert answers.appended_many(response({"results": [told]}), "s") == [expected]


def test_a_page_has_its_place_and_its_gap() -> None:
    stone = {"gap_from": 1, "gap_to": 3, "reason": "cap", "missed_estimate": 3}
    stone |= {"earliest_seq": 4, "head_seq": 6}
    head = {"topic": "t", "next_from_seq": 6, "head_seq": 6, "earliest_seq": 4, "caught_up": True}
    head |= {"tombstone": stone, "lag": 0, "epoch": 2}
    body = response(binary_batch.encode_page(head, b"", 0), content_type=binary_batch.CONTENT_TYPE)

    page = answers.page(body, "s")
    as_json = answers.json_page(body, binary_batch.DATA, "s")

    assert page.gap == Gap(1, 3, "cap", 3, 4, 6)
    assert (page.next_seq, page.head_seq, page.earliest_seq, page.epoch) == (6, 6, 4, 2)
    assert page.caught_up
    assert as_json.records == b"[]"
    assert (as_json.count, as_json.gap, as_json.next_seq) == (0, page.gap, 6)


def test_a_page_that_is_not_binary_is_the_server_s_fault() -> None:
    with pytest.raises(ServerError, match="expected a binary page"):
        answers.page(response({}, content_type="application/json"), "s")


def test_a_damaged_page_names_where_it_came_from() -> None:
    with pytest.raises(CorruptFrame, match="a page from http://a"):
        answers.page(response(b"PSB1", content_type=binary_batch.CONTENT_TYPE), "http://a")


def test_a_page_without_its_place_is_the_server_s_fault() -> None:
    body = binary_batch.encode_page({}, b"", 0)

    with pytest.raises(ServerError, match="next_from_seq"):
        answers.page(response(body, content_type=binary_batch.CONTENT_TYPE), "s")


def test_a_topic_has_all_that_the_server_tells() -> None:
    config = {"cap_records": 3, "durability": "fsync"}
    told = TOPIC | {"epoch": 8, "next_seq": 6, "last_write_ts": 11, "config": config}

    info = answers.topic(response(told), "s")

    assert (info.name, info.epoch, info.head_seq, info.next_seq) == ("t", 8, 5, 6)
    assert (info.count, info.bytes, info.last_write_ts) == (4, 9, 11)
    assert info.config == TopicConfig(cap_records=3, durability="fsync")


def test_a_topic_without_its_configuration_is_no_answer() -> None:
    with pytest.raises(ServerError, match="configuration"):
        answers.topic(response(TOPIC), "s")


def test_positions_share_the_head_of_their_topic() -> None:
    one = {"name": "n", "seq": 1, "epoch": 2, "ts": 3, "lag_records": 4, "lag_ms": 5}

    expected = Position("n", 1, 2, 3, 4, 5, head_seq=6)
    assert answers.positions(response({"positions": [one], "head_seq": 6}), "s") == [expected]
    assert answers.position(response(one | {"head_seq": 6}), "s") == expected


def test_positions_that_lack_something_are_the_server_s_fault() -> None:
    with pytest.raises(ServerError):
        answers.positions(response({"positions": [{}]}), "s")


def test_a_removal_tells_what_is_left() -> None:
    told = TOPIC | {"deleted": 2}

    assert answers.removed(response(told), "s") == Removed(2, 2, 5, 4, 9)


def test_a_tombstone_without_an_estimate_counts_its_seqs() -> None:
    assert answers.gap(b'{"gap_from":3,"gap_to":5,"reason":"ttl"}').missed_estimate == 3


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"topic":7}', b'{"\xff":1}'])
def test_what_cannot_be_understood_is_the_server_s_fault(body: bytes) -> None:
    with pytest.raises(ServerError, match="http://a"):
        answers.appended(response(body), "http://a")


def test_text_is_taken_as_it_is() -> None:
    assert answers.text(response(b"a \xff"), "s") == "a \ufffd"
    assert answers.plain(response({"a": 1}), "s") == {"a": 1}
