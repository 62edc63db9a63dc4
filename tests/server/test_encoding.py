"""Bodies: their type, their JSON, their compression, and payloads that come back as they went."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from decimal import Decimal
from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.support import JSON, Api, api_of, compact, refused
from tests.server.wire import Connection

ONE = b'{"records":[{"data":1}]}'


# Content types.


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/json",
        "application/xml",
        "",
    ],
)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v0/topics/{}", b"{}"),
        ("POST", "/v0/topics/{}", ONE),
        ("POST", "/v0/topics/{}/diff", b"{}"),
        ("POST", "/v0/topics/{}/delete", b'{"before_seq":1}'),
        ("POST", "/v0/watch", b'{"topics":{"a":{}}}'),
        ("POST", "/v0/batch", b'{"writes":[]}'),
        ("PUT", "/v0/topics/{}/positions/p", b'{"seq":0}'),
    ],
)
def test_a_body_of_another_type_is_refused(
    api: Api, topic: str, method: str, path: str, body: bytes, kind: str
) -> None:
    reply = api.call(method, path.format(topic), body, {"Content-Type": kind})

    refused(reply, 415, "unsupported_media_type")


def test_a_body_without_a_type_is_refused(api: Api, topic: str) -> None:
    refused(api.post(f"/v0/topics/{topic}", ONE), 415, "unsupported_media_type")
    refused(api.put(f"/v0/topics/{topic}", b"{}"), 415, "unsupported_media_type")
    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "   application/json"])
def test_parameters_and_leading_blanks_of_the_type_do_not_matter(
    api: Api, topic: str, kind: str
) -> None:
    assert api.post(f"/v0/topics/{topic}", ONE, {"Content-Type": kind}).status == 201


def test_the_type_is_checked_before_the_json(api: Api, topic: str) -> None:
    reply = api.post(f"/v0/topics/{topic}", b"{broken", {"Content-Type": "text/plain"})

    refused(reply, 415, "unsupported_media_type")


def test_some_bodies_may_be_empty(api: Api, topic: str) -> None:
    assert api.call("PUT", f"/v0/topics/{topic}").status == 201
    assert api.call("PUT", f"/v0/topics/{topic}", b"", JSON).status == 200
    assert api.call("POST", f"/v0/topics/{topic}/diff").status == 200
    assert api.call("POST", f"/v0/topics/{topic}/diff", b"", JSON).status == 200


@pytest.mark.parametrize("path", ["/v0/topics/{}", "/v0/topics/{}/delete", "/v0/watch"])
def test_other_bodies_may_not(api: Api, topic: str, path: str) -> None:
    api.create(topic)

    refused(api.call("POST", path.format(topic)), 415, "unsupported_media_type")
    refused(api.call("POST", path.format(topic), b"", JSON), 400, "invalid_request")


# JSON.

WRONG_WRITES = {
    "cut": b'{"records":[{"data":1}]',
    "an array": b"[]",
    "null": b"null",
    "text": b'"records"',
    "two values": b'{"records":[{"data":1}]}{}',
    "no records": b"{}",
    "records null": b'{"records":null}',
    "records empty": b'{"records":[]}',
    "records no array": b'{"records":{"data":1}}',
    "a record no object": b'{"records":[1]}',
    "a record without data": b'{"records":[{"tag":"a"}]}',
    "one of two without data": b'{"records":[{"data":1},{}]}',
    "tag a number": b'{"records":[{"data":1,"tag":5}]}',
    "node a number": b'{"records":[{"data":1,"node":5}]}',
    "batch node a number": b'{"records":[{"data":1}],"node":5}',
    "key a number": b'{"records":[{"data":1}],"idempotency_key":5}',
    "create a word": b'{"records":[{"data":1}],"create":"yes"}',
    "config a number": b'{"records":[{"data":1}],"config":5}',
    "config of wrong types": b'{"records":[{"data":1}],"config":{"ttl_ms":"x"}}',
    "expected_seq negative": b'{"records":[{"data":1}],"expected_seq":-1}',
    "expected_seq a word": b'{"records":[{"data":1}],"expected_seq":"0"}',
    "expected_seq a fraction": b'{"records":[{"data":1}],"expected_seq":0.5}',
    "not a number": b'{"records":[{"data":NaN}]}',
    "infinity": b'{"records":[{"data":-Infinity}]}',
    "a leading zero": b'{"records":[{"data":01}]}',
    "single quotes": b"{'records':[{'data':1}]}",
    "a trailing comma": b'{"records":[{"data":1},]}',
    "a control character": b'{"records":[{"data":"a\x01b"}]}',
    "not UTF-8": b'{"records":[{"data":"\xff\xfe"}]}',
    "not UTF-8 in a tag": b'{"records":[{"data":1,"tag":"\xff"}]}',
    "cut inside data": b'{"records":[{"data":{"a":[1,2}}]}',
}


@pytest.mark.parametrize("body", WRONG_WRITES.values(), ids=WRONG_WRITES.keys())
def test_a_write_that_is_wrong_is_invalid_and_creates_nothing(
    api: Api, topic: str, body: bytes
) -> None:
    refused(api.post(f"/v0/topics/{topic}", body, JSON), 400, "invalid_request")

    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found", {"topic": topic})


WRONG_DIFFS = (
    '{"from_seq":"1"}',
    '{"from_seq":-1}',
    '{"from_seq":1.5}',
    '{"from_seq":18446744073709551616}',
    '{"limit":"all"}',
    '{"limit":-1}',
    '{"node":5}',
    '{"node":["a",5]}',
    '{"include_tags":"yes"}',
    '{"include_meta":1}',
    '{"wait_ms":"long"}',
    '{"wait_ms":-5}',
    '{"max_batch_bytes":"many"}',
    '{"from_ts":"today"}',
    '{"epoch":"1"}',
    '{"tag":["tag","Eq"]}',
    '{"tag":["node","Eq","x"]}',
    '{"tag":["tag","Like","x"]}',
    '{"tag":["tag","Glob","x"]}',
    '{"tag":5}',
    '{"consistency":"perhaps"}',
    "[]",
    "5",
)


@pytest.mark.parametrize("body", WRONG_DIFFS)
def test_a_diff_of_wrong_types_is_invalid(api: Api, topic: str, body: str) -> None:
    api.create(topic)

    refused(api.post(f"/v0/topics/{topic}/diff", body.encode(), JSON), 400, "invalid_request")


def test_unknown_fields_are_passed_over(api: Api, topic: str) -> None:
    extra = {"colour": "blue", "nested": {"deep": [1]}}

    assert api.put(f"/v0/topics/{topic}", extra).status == 201
    assert api.write(topic, records=[{"data": 1, **extra}], **extra)["count"] == 1
    assert len(api.diff(topic, **extra)["records"]) == 1
    assert api.remove(topic, before_seq=1, **extra)["deleted"] == 0
    assert api.watch({topic: {"from_seq": 0, **extra}}, **extra)["wid"]


def test_json_too_deep_is_refused_and_hurts_nobody(api: Api, topic: str) -> None:
    depth = 100_000
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
        body = b'{"records":[{"data":%b}]}' % text.encode()

        assert api.post(f"/v0/topics/{topic}", body, JSON).status in (400, 413)
    assert api.get("/v0/health").status == 200


@pytest.mark.parametrize(
    "text", [r'"\ud800"', r'{"\udfff":1}', "1e999", "1" * 4000, "-0", '{"a":1,"a":2}']
)
def test_json_at_the_edge_is_kept_or_refused_but_never_a_fault(
    api: Api, topic: str, text: str
) -> None:
    reply = api.post(f"/v0/topics/{topic}", b'{"records":[{"data":%b}]}' % text.encode(), JSON)

    assert reply.status in (201, 400)
    if reply.status == 201:
        assert f'"data":{text}'.encode() in api.post(f"/v0/topics/{topic}/diff", {}).body


# Payloads.

PAYLOADS = (
    "null",
    "true",
    "0",
    "-1.50",
    "1.10",
    "1e2",
    "9007199254740993",
    "123456789012345678901234567890",
    '""',
    '"é\\u00e9\\n\\"\\\\\\/"',
    '"\\u2028\\u2029"',
    '"\U0001f600"',
    "[]",
    "{}",
    '{"":{"":[]}}',
    '{"b":1,"a":{"d":[1,2,{"e":null}],"c":""}}',
    "[" * 50 + "]" * 50,
)


def exact(text: bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_data_and_meta_come_back_equal(api: Api, topic: str, payload: str) -> None:
    body = f'{{"records":[{{"data":{payload},"meta":{{"m":{payload}}}}}]}}'.encode()
    assert api.post(f"/v0/topics/{topic}", body, JSON).status == 201

    record = exact(api.post(f"/v0/topics/{topic}/diff", {}).body)["records"][0]

    assert record["data"] == exact(payload.encode())
    assert record["meta"] == {"m": exact(payload.encode())}


def test_blanks_and_newlines_inside_a_payload_do_no_harm(api: Api, topic: str) -> None:
    body = b'{"records":[{"data":{\r\n\t"a" : [1,\n2 ]\r} ,"meta" : [ 3,\n4 ]}]}'
    assert api.post(f"/v0/topics/{topic}", body, JSON).status == 201

    record = api.diff(topic)["records"][0]

    assert record["data"] == {"a": [1, 2]}
    assert record["meta"] == [3, 4]


def test_a_record_on_the_wire_has_only_what_was_given(api: Api, topic: str) -> None:
    api.write(
        topic,
        records=[{"data": None}, {"data": 1, "tag": "t", "node": "n", "meta": {"m": 1}}],
    )

    bare, full = api.diff(topic, include_tags=True)["records"]

    assert set(bare) == {"$seq", "$ts", "data"}
    assert bare["data"] is None
    assert full == {
        "$seq": 2,
        "$ts": full["$ts"],
        "$tag": "t",
        "$node": "n",
        "data": 1,
        "meta": {"m": 1},
    }


# The performance block.


def test_writes_and_reads_say_what_they_cost(api: Api, topic: str) -> None:
    wrote = api.write(topic, 1, 2, 3)["performance"]
    read = api.diff(topic)["performance"]

    assert wrote["wal_append_ms"] >= 0
    assert wrote["fsync_ms"] == 0
    assert read["records_scanned"] == 3


def test_a_durable_write_says_how_long_the_sync_took(api: Api, topic: str) -> None:
    api.create(topic, durable=True)

    assert api.write(topic, 1)["performance"]["fsync_ms"] > 0


# gzip.


def gzipped(body: bytes) -> tuple[bytes, dict[str, str]]:
    return gzip.compress(body), JSON | {"Content-Encoding": "gzip"}


def test_a_body_may_be_compressed(api: Api, topic: str) -> None:
    body, headers = gzipped(compact({"records": [{"data": "x" * 10_000}]}).encode())

    assert api.post(f"/v0/topics/{topic}", body, headers).status == 201
    assert api.diff(topic)["records"][0]["data"] == "x" * 10_000


@pytest.mark.parametrize("spoil", [lambda b: b"not gzip at all", lambda b: b[:-12], lambda b: b""])
def test_a_compressed_body_that_is_broken_is_a_bad_request(api: Api, topic: str, spoil) -> None:
    body, headers = gzipped(ONE)

    reply = api.post(f"/v0/topics/{topic}", spoil(body), headers)

    assert reply.status == 400
    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate", "gzip, gzip", "x-unknown"])
def test_other_codings_are_refused(api: Api, topic: str, coding: str) -> None:
    reply = api.post(f"/v0/topics/{topic}", ONE, JSON | {"Content-Encoding": coding})

    refused(reply, 415, "unsupported_media_type")


def test_a_compressed_body_may_not_grow_past_the_limit(start: Start, topic: str) -> None:
    """One that is all zeros, and one that hardly shrinks: the limit is on what comes out."""
    api = api_of(start(PENSTOCK_MAX_BODY_BYTES=str(1 << 20)))
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = b"".join([*(bomb.compress(b" " * (1 << 20)) for _ in range(40)), bomb.flush()])
    noise = gzip.compress(random.Random(7).randbytes(1_600_000).hex().encode())
    assert len(zeros) < 1 << 20

    for body in (zeros, noise[: 1 << 20]):
        reply = api.post(f"/v0/topics/{topic}", body, JSON | {"Content-Encoding": "gzip"})

        refused(reply, 413, "payload_too_large")


@pytest.mark.parametrize("accepts", ["gzip", "br, gzip;q=0.5", "deflate, gzip"])
def test_a_large_answer_is_compressed_for_who_wants_it(api: Api, topic: str, accepts: str) -> None:
    api.write(topic, *["word " * 20] * 50)

    reply = api.post(f"/v0/topics/{topic}/diff", {}, {"Accept-Encoding": "identity"})
    packed = _packed(api, f"/v0/topics/{topic}/diff", accepts)

    assert reply.headers.get("content-encoding") is None
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body))["records"] == reply.json["records"]
    assert len(packed.body) < len(reply.body)


def test_a_large_answer_is_not_compressed_for_who_does_not(api: Api, topic: str) -> None:
    api.write(topic, *["word " * 20] * 50)

    for accepts in ("gzip;q=0", "br", ""):
        headers = {"Accept-Encoding": accepts}
        reply = api.post(f"/v0/topics/{topic}/diff", {}, headers)

        assert reply.headers.get("content-encoding") is None


def test_a_small_answer_is_not_worth_it(api: Api, topic: str) -> None:
    api.write(topic, 1)

    reply = api.get(f"/v0/topics/{topic}/positions", {"Accept-Encoding": "gzip"})

    assert len(reply.body) < 1024
    assert reply.headers.get("content-encoding") is None


def _packed(api: Api, target: str, accepts: str) -> Any:
    """Without the laws, which read JSON."""
    with Connection(api.address) as connection:
        return connection.request("POST", target, b"{}", JSON | {"Accept-Encoding": accepts})
