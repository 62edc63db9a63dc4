"""What is sent is what the protocols ask for."""

from __future__ import annotations

import json
import struct

import pytest

from benchmarks.load_job import STAMP
from benchmarks.load_requests import (
    binary_batch,
    http,
    json_batch,
    nats_publish,
    resp,
    stamped,
    text_frame,
    xadd,
    xadd_numbered,
    xrange,
    xrange_bytes,
)


def test_a_request_names_the_length_of_its_body() -> None:
    request = http("POST", "/v0/topics/a", b"[1]", accept="text/plain")

    assert request == (
        b"POST /v0/topics/a HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/plain\r\n"
        b"Content-Type: application/json\r\nContent-Length: 3\r\n\r\n[1]"
    )


def test_a_get_has_no_body() -> None:
    assert http("GET", "/") == b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def test_a_json_batch_is_json() -> None:
    assert json.loads(json_batch(b'{"a":1}', 2)) == {"records": [{"data": {"a": 1}}] * 2}


def test_a_binary_batch_has_the_documented_layout() -> None:
    body = binary_batch(b"[7]", 2)

    magic, head_len = struct.unpack_from("<4sI", body)
    head = body[8 : 8 + head_len]
    (count,) = struct.unpack_from("<I", body, 8 + head_len)
    record = struct.pack("<IIHH", 3, 0, 0, 0) + b"[7]"

    assert (magic, json.loads(head), count) == (b"PSB1", {}, 2)
    assert body[12 + head_len :] == record * 2


def test_a_stamped_payload_has_the_size_asked_for_and_is_json_once_stamped() -> None:
    payload = stamped(100)

    assert len(payload) == 100
    assert json.loads(payload.replace(STAMP, b"1" * 19))["t"] == int("1" * 19)


@pytest.mark.parametrize("size", [5, 125, 126, 65_535, 65_536])
def test_a_text_frame_is_masked_and_unmasks_to_its_text(size: int) -> None:
    text = bytes(n % 251 for n in range(size))

    sent = text_frame(text)

    assert sent[0] == 0x81
    assert sent[1] & 0x80
    extra = {126: 2, 127: 8}.get(sent[1] & 0x7F, 0)
    told = int.from_bytes(sent[2 : 2 + extra], "big") if extra else sent[1] & 0x7F
    mask, masked = sent[2 + extra : 6 + extra], sent[6 + extra :]
    assert told == size
    assert bytes(byte ^ mask[n % 4] for n, byte in enumerate(masked)) == text


def test_a_redis_command_is_a_list_of_sized_words() -> None:
    assert resp("GET", b"k", 10) == b"*3\r\n$3\r\nGET\r\n$1\r\nk\r\n$2\r\n10\r\n"
    assert xadd(b"v", 3).count(b"XADD") == 3


def test_an_answer_to_xrange_has_the_size_we_count_with() -> None:
    ids = [b"1-1000000", b"1-1000001"]
    pairs = [b"*2\r\n$9\r\n%b\r\n*2\r\n$1\r\nd\r\n$3\r\n{1}\r\n" % name for name in ids]

    assert xrange_bytes(b"{1}", 2) == len(b"*2\r\n" + b"".join(pairs))
    assert ids[1] in xadd_numbered(b"{1}", [0, 1])
    assert ids[1] in xrange(1, 5)


def test_a_nats_publish_names_its_inbox_and_its_size() -> None:
    assert nats_publish(b"{1}") == b"PUB bench _INBOX.bench@@ 3\r\n{1}\r\n"
