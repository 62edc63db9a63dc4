"""The bounds of names, records, batches, bodies and answers, on both sides of each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.conftest import Start
from tests.server.support import BATCH, JSON, Api, api_of, compact, new_name, refused, seqs_of
from tests.server.wire import Connection, Reply, head

MIB = 1 << 20


def post(api: Api, topic: str, *records: Any, **fields: Any) -> Reply:
    return api.post(f"/v0/topics/{topic}", {"records": list(records), **fields})


# Names.

GOOD_NAMES = ["a", "Z", "0", "a.b_c:d-e", "9:", "a" + "-" * 254]
BAD_NAMES = [".a", "-a", ":a", "_a", "a b", "a/b", "é", "a\n", "a>b", "a" * 256, "a%", "a*"]


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_good_name_is_taken(api: Api, name: str) -> None:
    assert api.put(f"/v0/topics/{name}").status in (200, 201)
    assert api.state(name)["topic"] == name


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_bad_name_is_refused_where_it_would_be_made_and_unknown_where_read(
    api: Api, name: str
) -> None:
    path = "".join(f"%{byte:02x}" for byte in name.encode())

    refused(api.put(f"/v0/topics/{path}"), 400, "invalid_request")
    refused(post(api, path, {"data": 1}), 400, "invalid_request")
    refused(api.get(f"/v0/topics/{path}"), 404, "topic_not_found")
    refused(api.post(f"/v0/topics/{path}/diff", {}), 404, "topic_not_found")
    batch = {"writes": [{"topic": name, "records": [{"data": 1}]}]}
    refused(api.post("/v0/batch", batch), 400, "invalid_request")


def test_names_that_differ_in_case_are_different_topics(api: Api) -> None:
    name = new_name("Case")
    api.write(name, 1)

    assert api.get(f"/v0/topics/{name.swapcase()}").status == 404
    assert api.write(name.swapcase(), 2)["created"] is True
    assert api.state(name)["count"] == 1


# Records.


def test_a_batch_has_at_most_ten_thousand_records(api: Api, topic: str) -> None:
    most = [{"data": 0}] * 10_000

    refused(post(api, topic, *most, {"data": 0}), 400, "batch_too_large")

    assert api.get(f"/v0/topics/{topic}").status == 404
    assert post(api, topic, *most).json["last_seq"] == 10_000


def test_a_record_has_at_most_one_mebibyte_of_data_and_meta(api: Api, topic: str) -> None:
    """Measured as JSON, so a text has its two quotes."""
    data, meta = "x" * (MIB - 2), {"k": 1}
    less = data[: -len(compact(meta))]

    assert post(api, topic, {"data": data}).status == 201
    assert post(api, topic, {"data": less, "meta": meta}).status == 200
    refused(post(api, topic, {"data": data + "x"}), 400, "record_too_large")
    refused(post(api, topic, {"data": less + "x", "meta": meta}), 400, "record_too_large")
    refused(post(api, topic, {"data": 1}, {"data": data + "x"}), 400, "record_too_large")
    assert api.state(topic)["head_seq"] == 2


@pytest.mark.parametrize("meta", [[1, 2], "text", 5, True, {}], ids=repr)
def test_meta_may_be_any_json(api: Api, topic: str, meta: Any) -> None:
    api.write(topic, records=[{"data": 1, "meta": meta}])

    assert api.diff(topic)["records"][0]["meta"] == meta


def test_meta_has_at_most_sixteen_kibibytes_and_sixty_four_keys(api: Api, topic: str) -> None:
    full = {"k": "x" * (16 * 1024 - len('{"k":""}'))}
    many = {f"k{n}": n for n in range(64)}

    assert post(api, topic, {"data": 1, "meta": full}).status == 201
    assert post(api, topic, {"data": 1, "meta": many}).status == 200
    full["k"] += "x"
    refused(post(api, topic, {"data": 1, "meta": full}), 400, "invalid_request")
    refused(post(api, topic, {"data": 1, "meta": {**many, "k64": 1}}), 400, "invalid_request")
    nested = {"one": {f"k{n}": n for n in range(100)}}
    assert post(api, topic, {"data": 1, "meta": nested}).status == 200


@pytest.mark.parametrize(("field", "most"), [("tag", 256), ("node", 128)])
def test_tag_and_node_are_bounded_in_bytes(api: Api, topic: str, field: str, most: int) -> None:
    assert post(api, topic, {"data": 1, field: "x" * most}).status == 201
    assert post(api, topic, {"data": 1, field: "é" * (most // 2)}).status == 200
    refused(post(api, topic, {"data": 1, field: "x" * (most + 1)}), 400, "invalid_request")
    refused(post(api, topic, {"data": 1, field: "é" * (most // 2) + "x"}), 400, "invalid_request")


def test_the_node_of_a_batch_is_bounded_too(api: Api, topic: str) -> None:
    assert post(api, topic, {"data": 1}, node="x" * 128).status == 201
    refused(post(api, topic, {"data": 1}, node="x" * 129), 400, "invalid_request")


def test_an_idempotency_key_has_at_most_256_bytes_wherever_it_stands(api: Api, topic: str) -> None:
    path, body = f"/v0/topics/{topic}", {"records": [{"data": 1}]}

    assert post(api, topic, {"data": 1}, idempotency_key="x" * 256).status == 201
    assert api.post(path, body, {"Idempotency-Key": "y" * 256}).status == 200
    refused(post(api, topic, {"data": 1}, idempotency_key="x" * 257), 400, "invalid_request")
    refused(api.post(path, body, {"Idempotency-Key": "y" * 257}), 400, "invalid_request")


def test_the_order_of_the_checks_of_a_write(api: Api, topic: str) -> None:
    """Records before key, key before each record, each record before the topic."""
    too_long = "x" * 257
    bad = {"data": 1, "tag": too_long}

    for reply in (
        post(api, topic, create=False),
        post(api, topic, {"data": 1}, create=False, idempotency_key=too_long),
        post(api, topic, bad, create=False),
    ):
        refused(reply, 400, "invalid_request")
    many = [bad] * 10_001
    refused(post(api, topic, *many, create=False), 400, "batch_too_large")
    refused(post(api, topic, {"data": 1}, create=False), 404, "topic_not_found")
    refused(post(api, ".bad", {"data": "x" * MIB}), 400, "record_too_large")


# Reads.


def test_the_limit_of_a_diff_is_256_unless_given_and_at_most_1000(api: Api, topic: str) -> None:
    api.write(topic, *range(1200))

    assert len(api.diff(topic)["records"]) == 256
    assert len(api.diff(topic, limit=0)["records"]) == 256
    assert len(api.diff(topic, limit=999)["records"]) == 999
    assert len(api.diff(topic, limit=1000)["records"]) == 1000
    assert len(api.diff(topic, limit=4_000_000_000)["records"]) == 1000
    assert api.diff(topic, limit=1)["next_from_seq"] == 1


def test_the_bytes_of_a_diff_are_bounded_but_one_record_always_comes(api: Api, topic: str) -> None:
    api.write(topic, *["x" * 400_000] * 3)

    assert seqs_of(api.diff(topic)) == [1, 2]
    assert seqs_of(api.diff(topic, max_batch_bytes=0)) == [1, 2]
    assert seqs_of(api.diff(topic, max_batch_bytes=1)) == [1]
    assert seqs_of(api.diff(topic, max_batch_bytes=500_000)) == [1]
    assert seqs_of(api.diff(topic, max_batch_bytes=2_000_000)) == [1, 2, 3]
    short = api.diff(topic, max_batch_bytes=1)
    assert short["next_from_seq"] == 1
    assert short["caught_up"] is False
    assert short["lag"] == 2


def test_the_bytes_of_a_diff_are_at_most_eight_mebibytes(api: Api, topic: str) -> None:
    for _ in range(2):
        api.write(topic, *["x" * 1_000_000] * 6)

    assert seqs_of(api.diff(topic, max_batch_bytes=100 * MIB)) == list(range(1, 9))


def test_a_page_of_topics_has_between_one_and_a_thousand(api: Api) -> None:
    prefix = new_name("many")
    api.create(f"{prefix}.a")
    api.create(f"{prefix}.b")

    def names(size: str) -> list[str]:
        page = api.get(f"/v0/topics?prefix={prefix}.&page_size={size}").json
        return [item["topic"] for item in page["topics"]]

    assert len(names("0")) == 1
    assert len(names("1")) == 1
    assert len(names("1000000")) == 2


def test_a_watch_has_between_1_and_256_topics(api: Api, topic: str) -> None:
    api.create(topic)
    absent = {f"{topic}.{n}": {} for n in range(256)}

    refused(api.post("/v0/watch", {"topics": {}}), 400, "invalid_request")
    refused(api.post("/v0/watch", {}), 400, "invalid_request")
    both = {**absent, topic: {}}
    refused(api.post("/v0/watch?lenient=true", {"topics": both}), 400, "invalid_request")
    del both[f"{topic}.0"]
    assert api.post("/v0/watch?lenient=true", {"topics": both}).status == 200


def test_a_heartbeat_is_not_quicker_than_a_second_unless_a_test_says_so(
    api: Api, topic: str
) -> None:
    """And not slower than was asked for: it comes."""
    api.create(topic)

    with api.follow([topic], heartbeat_ms=1) as stream:
        while (frame := stream.next()) is not None and frame.comment is None:
            continue

    assert frame is not None
    assert ": hb" in frame.raw


# Bodies.


@pytest.fixture
def tight(start: Start) -> Api:
    return api_of(start(PENSTOCK_MAX_BODY_BYTES="1000"))


def padded(size: int) -> bytes:
    body = b'{"records":[{"data":"%b"}]}'
    return body % (b"x" * (size - len(body % b"")))


def test_a_body_over_the_limit_is_refused_before_it_is_read(tight: Api, topic: str) -> None:
    path = f"/v0/topics/{topic}"

    assert tight.post(path, padded(1000), JSON).status == 201
    refused(tight.post(path, padded(1001), JSON), 413, "payload_too_large")
    with Connection(tight.address) as wire:
        start = {"Host": "localhost", "Content-Length": "99999999999"} | JSON
        wire.send(head("POST", path, start))
        refused(wire.read_reply(), 413, "payload_too_large")
    assert tight.state(topic)["head_seq"] == 1


def test_a_refused_body_is_not_asked_for(tight: Api) -> None:
    with Connection(tight.address) as wire:
        start = {"Host": "localhost", "Content-Length": "1001", "Expect": "100-continue"}
        wire.send(head("POST", "/v0/topics/x", start | JSON))

        reply = wire.read_reply()

    assert reply.interim == ()
    refused(reply, 413, "payload_too_large")


def test_a_chunked_body_over_the_limit_is_refused_before_its_end(tight: Api) -> None:
    with Connection(tight.address) as wire:
        start = {"Host": "localhost", "Transfer-Encoding": "chunked"} | JSON
        wire.send(head("POST", "/v0/topics/x", start))
        for _ in range(20):
            wire.send_what_it_takes(b"64\r\n" + b" " * 100 + b"\r\n")

        refused(wire.read_reply(), 413, "payload_too_large")


def test_the_limit_counts_what_is_received_and_not_only_what_is_kept(tight: Api) -> None:
    """Extensions of chunks are nobody's data, and may not go on for ever either."""
    with Connection(tight.address) as wire:
        start = {"Host": "localhost", "Transfer-Encoding": "chunked"} | JSON
        wire.send(head("POST", "/v0/topics/x", start) + b"2;")
        wire.send_what_it_takes(b"x" * 2_000_000)

        assert wire.read_reply().status in (400, 413, 431)


def test_the_limit_holds_for_every_kind_of_body(tight: Api) -> None:
    for reply in (
        tight.put("/v0/topics/x", padded(1001)),
        tight.post("/v0/watch", padded(1001), JSON),
        tight.post("/v0/batch", padded(1001), JSON),
        tight.post("/v0/topics/x", padded(1001), {"Content-Type": BATCH}),
        tight.post("/v0/topics/x", padded(1001), {"Content-Type": "text/plain"}),
    ):
        assert reply.status in (413, 415)


def test_the_limit_is_64_mebibytes_unless_set(api: Api) -> None:
    with Connection(api.address) as wire:
        start = {"Host": "localhost", "Content-Length": str(64 * MIB + 1)} | JSON
        wire.send(head("POST", "/v0/topics/x", start))

        refused(wire.read_reply(), 413, "payload_too_large")
