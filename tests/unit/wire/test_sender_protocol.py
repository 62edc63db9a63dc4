"""What senders and servers say to each other, taken apart again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.topics import validation
from penstock.wire.sender_protocol import (
    Parcel,
    Reply,
    ReplyStatus,
    check_topic,
    decode_reply,
    encode_reply,
    open_parcel,
    parcel_head,
)

GOOD = (ReplyStatus.OK, ReplyStatus.DURABLE)
U64 = st.integers(0, (1 << 64) - 1)


@given(st.text(min_size=1, max_size=300), st.integers(1, limits.BATCH_RECORDS_MAX), st.binary())
def test_a_parcel_says_whose_records_it_has(topic: str, count: int, records: bytes) -> None:
    head = parcel_head(topic, count)

    assert open_parcel(head + records) == Parcel(topic, count, len(head))


@given(st.binary(max_size=40))
def test_any_payload_is_a_parcel_or_refused(payload: bytes) -> None:
    try:
        parcel = open_parcel(payload)
    except InvalidArgument:
        return
    assert payload[: parcel.at] == parcel_head(parcel.topic, parcel.count)


def test_a_parcel_that_was_cut_is_refused() -> None:
    head = parcel_head("topic", 3)
    for size in range(len(head)):
        with pytest.raises(InvalidArgument):
            open_parcel(head[:size])


@pytest.mark.parametrize(
    "payload",
    [
        parcel_head("t", 0),
        parcel_head("t", limits.BATCH_RECORDS_MAX + 1),
        b"PSP2" + parcel_head("t", 1)[4:],
        b"PSP1\2\0" + parcel_head("t", 1)[6:],
        parcel_head("t", 1)[:-1] + b"\xff",
    ],
)
def test_what_is_no_parcel(payload: bytes) -> None:
    with pytest.raises(InvalidArgument):
        open_parcel(payload)


@given(st.sampled_from(GOOD), U64)
def test_a_good_answer_is_its_status_and_its_count(status: ReplyStatus, count: int) -> None:
    data = encode_reply(Reply(status, count, "not sent"))

    assert len(data) == 9
    assert decode_reply(data) == Reply(status, count)


@given(st.sampled_from([s for s in ReplyStatus if s not in GOOD]), U64, st.text(max_size=200))
def test_a_refusal_says_why(status: ReplyStatus, count: int, text: str) -> None:
    assert decode_reply(encode_reply(Reply(status, count, text))) == Reply(status, count, text)


def test_a_long_reason_is_cut_and_can_be_read() -> None:
    data = encode_reply(Reply(ReplyStatus.PARSE, 1, "ä" * 5000))

    assert len(data) == 9 + 1024
    assert decode_reply(data).text.startswith("ä" * 500)


@given(st.binary(max_size=30))
def test_any_answer_is_understood_or_refused(data: bytes) -> None:
    if len(data) < 9:
        with pytest.raises(InvalidArgument):
            decode_reply(data)
    else:
        assert decode_reply(data).status == data[0]


@given(st.text(max_size=10) | st.from_regex(r"[A-Za-z0-9._:-]{1,260}", fullmatch=True))
def test_a_topic_is_taken_here_exactly_if_the_server_takes_it(topic: str) -> None:
    assert is_taken(check_topic, topic) == is_taken(validation.topic_name, topic)


@pytest.mark.parametrize("topic", [None, 7, b"t", ["t"]])
def test_a_topic_is_text(topic: object) -> None:
    assert not is_taken(check_topic, topic)


def is_taken(check: object, topic: object) -> bool:
    assert callable(check)
    try:
        check(topic)
    except InvalidArgument:
        return False
    return True


def test_the_numbers_of_refusals_are_those_of_the_protocol() -> None:
    """Other clients know them."""
    assert {status.name: int(status) for status in ReplyStatus} == {
        "OK": 0,
        "DURABLE": 2,
        "SCHEMA": 3,
        "PARSE": 5,
        "INTERNAL": 6,
        "SECURITY": 8,
        "WRITE": 9,
    }
