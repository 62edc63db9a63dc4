"""The binary batch body, both ways: `application/vnd.penstock.batch`."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import xxhash

from tests.server.support import BATCH, Api, datas_of, refused
from tests.server.wire import Connection, Reply

MAGIC = b"PSB1"
BINARY = {"Content-Type": BATCH}


def record(data: bytes, *, meta: bytes = b"", tag: bytes = b"", node: bytes = b"") -> bytes:
    lengths = struct.pack("<IIHH", len(data), len(meta), len(tag), len(node))
    return lengths + tag + node + meta + data


def batch(*records: bytes, head: bytes = b"{}", count: int | None = None) -> bytes:
    counted = len(records) if count is None else count
    start = MAGIC + struct.pack("<I", len(head)) + head
    return start + struct.pack("<I", counted) + b"".join(records)


def write(api: Api, topic: str, body: bytes, query: str = "") -> Reply:
    return api.post(f"/v0/topics/{topic}{query}", body, BINARY)


class Append(NamedTuple):
    seq: int
    ts: int
    node: bytes
    tag: bytes
    body: bytes


def frames(data: bytes) -> Iterator[Append]:
    """The frames of docs/format/frame.md, each checked against its checksum."""
    while data:
        (length,) = struct.unpack_from("<I", data)
        frame, data = data[4 : 4 + length], data[4 + length :]
        assert len(frame) == length
        (checksum,) = struct.unpack("<Q", frame[-8:])
        assert xxhash.xxh3_64_intdigest(frame[:-8]) == checksum
        fixed = struct.unpack_from("<BBQQQHHI", frame)
        kind, _, _, seq, ts, node_len, tag_len, data_len = fixed
        assert kind == 1
        rest = frame[34:-8]
        assert len(rest) == node_len + tag_len + data_len
        node, tag = rest[:node_len], rest[node_len : node_len + tag_len]
        yield Append(seq, ts, node, tag, rest[node_len + tag_len :])


def read(api: Api, topic: str, **fields: Any) -> tuple[Any, list[Append]]:
    with Connection(api.address) as wire:
        reply = wire.request(
            "POST",
            f"/v0/topics/{topic}/diff",
            json.dumps(fields).encode(),
            {"Content-Type": "application/json", "Accept": BATCH},
        )
    assert reply.status == 200, reply
    assert reply.headers["content-type"].startswith(BATCH)
    assert reply.body[:4] == MAGIC
    (size,) = struct.unpack_from("<I", reply.body, 4)
    head = json.loads(reply.body[8 : 8 + size])
    (count,) = struct.unpack_from("<I", reply.body, 8 + size)
    found = list(frames(reply.body[12 + size :]))
    assert len(found) == count
    return head, found


def test_a_binary_batch_is_a_write(api: Api, topic: str) -> None:
    body = batch(
        record(b'{"w": 41}', meta=b'{"m":1}', tag=b"flat:7", node=b"gw"),
        record(b"null"),
        record(b'"\xc3\xa9"'),
    )

    reply = write(api, topic, body)

    assert reply.status == 201
    answer = reply.json
    assert (answer["seqs"], answer["count"], answer["created"]) == ([1, 2, 3], 3, True)
    first, second, third = api.diff(topic, include_tags=True)["records"]
    assert (first["data"], first["meta"]) == ({"w": 41}, {"m": 1})
    assert (first["$tag"], first["$node"]) == ("flat:7", "gw")
    assert set(second) == {"$seq", "$ts", "data"}
    assert third["data"] == "é"


def test_the_head_is_the_rest_of_a_write(api: Api, topic: str) -> None:
    head = json.dumps(
        {
            "node": "batch",
            "idempotency_key": "k",
            "expected_seq": 0,
            "config": {"cap_records": 5},
            "unknown": 1,
        }
    ).encode()
    body = batch(record(b"1"), record(b"2", node=b"own"), head=head)

    first, again = write(api, topic, body).json, write(api, topic, body).json

    assert (first["deduped"], again["deduped"]) == (False, True)
    assert api.state(topic)["config"]["cap_records"] == 5
    assert [r["$node"] for r in api.diff(topic)["records"]] == ["batch", "own"]
    refused(write(api, topic, batch(record(b"3"), head=b'{"expected_seq":9}')), 409, "seq_mismatch")
    nowhere = batch(record(b"1"), head=b'{"create":false}')
    refused(write(api, f"{topic}.absent", nowhere), 404, "topic_not_found")


def test_queries_headers_and_codings_hold_for_binary_writes_too(api: Api, topic: str) -> None:
    body = batch(record(b"1"))
    assert "seqs" not in write(api, topic, body, "?return_seqs=false").json
    header = BINARY | {"Idempotency-Key": "k"}
    api.post(f"/v0/topics/{topic}", body, header)
    assert api.post(f"/v0/topics/{topic}", body, header).json["deduped"] is True
    packed = BINARY | {"Content-Encoding": "gzip"}
    assert api.post(f"/v0/topics/{topic}", gzip.compress(body), packed).status == 200
    assert api.state(topic)["head_seq"] == 3


GOOD = batch(record(b'{"a":1}', meta=b'{"m":2}', tag=b"t", node=b"n"), record(b"2"))


@pytest.mark.parametrize("cut", range(len(GOOD)))
def test_a_batch_cut_anywhere_is_invalid(api: Api, topic: str, cut: int) -> None:
    refused(write(api, topic, GOOD[:cut]), 400, "invalid_request")
    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")


WRONG = {
    "another magic": b"PSB2" + GOOD[4:],
    "bytes after the end": GOOD + b"x",
    "a head that is no json": batch(record(b"1"), head=b"{"),
    "a head that is no object": batch(record(b"1"), head=b"[]"),
    "a head of wrong types": batch(record(b"1"), head=b'{"node":5}'),
    "no record": batch(),
    "fewer records than said": batch(record(b"1"), count=2),
    "more records than said": batch(record(b"1"), record(b"2"), count=1),
    "a length beyond reason": MAGIC + struct.pack("<I", 0xFFFFFFFF) + b"{}",
    "no data": batch(record(b"")),
    "data that is no json": batch(record(b"{a:1}")),
    "data that is two values": batch(record(b"1 2")),
    "data that is not UTF-8": batch(record(b'"\xff"')),
    "data that breaks out of its frame": batch(record(b'1,"x":2')),
    "meta that is no json": batch(record(b"1", meta=b"{")),
    "meta that breaks out of its frame": batch(record(b"1", meta=b'1,"d":2')),
    "a tag that is not UTF-8": batch(record(b"1", tag=b"\xff")),
    "a node that is not UTF-8": batch(record(b"1", node=b"\xff")),
    "a tag too long": batch(record(b"1", tag=b"x" * 257)),
    "a node too long": batch(record(b"1", node=b"x" * 129)),
    "too much meta": batch(record(b"1", meta=b'"' + b"x" * 16384 + b'"')),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_batch_is_invalid(api: Api, topic: str, body: bytes) -> None:
    refused(write(api, topic, body), 400, "invalid_request")

    refused(api.get(f"/v0/topics/{topic}"), 404, "topic_not_found")


def test_the_limits_hold_for_binary_batches(api: Api, topic: str) -> None:
    large = b'"' + b"x" * ((1 << 20) - 2) + b'"'

    refused(write(api, topic, batch(*[record(b"1")] * 10_001)), 400, "batch_too_large")
    assert write(api, topic, batch(record(b"1"), count=0xFFFFFFFF)).status == 400
    refused(write(api, topic, batch(record(large + b" "))), 400, "record_too_large")
    assert write(api, topic, batch(record(large))).status == 201
    assert write(api, topic, batch(*[record(b"1")] * 10_000)).json["last_seq"] == 10_001


def test_a_read_can_be_binary(api: Api, topic: str) -> None:
    api.write(
        topic,
        records=[
            {"data": {"a": 1}, "tag": "t", "node": "n", "meta": [1]},
            {"data": "é"},
            {"data": None},
        ],
    )
    plain = api.diff(topic)

    head, found = read(api, topic, limit=2)

    assert "records" not in head
    assert (head["next_from_seq"], head["caught_up"], head["lag"]) == (2, False, 1)
    assert (head["topic"], head["epoch"], head["tombstone"]) == (topic, plain["epoch"], None)
    assert head["performance"]["server_total_ms"] >= 0
    assert [(f.seq, f.ts) for f in found] == [(r["$seq"], r["$ts"]) for r in plain["records"][:2]]
    assert (found[0].node, found[0].tag) == (b"n", b"t")
    assert found[0].body == b'{"m":[1],"d":{"a":1}}'
    assert found[1] == Append(2, found[1].ts, b"", b"", '{"d":"é"}'.encode())


def test_a_binary_read_filters_and_tells_like_the_other(api: Api, topic: str) -> None:
    api.create(topic, cap_records=6)
    records = [{"data": n, "tag": f"t{n % 2}", "node": f"n{n % 3}"} for n in range(8)]
    api.write(topic, records=records)
    api.remove(topic, before_seq=4)

    for fields in ({}, {"node": "n0"}, {"tag": "t1"}, {"from_seq": 5}, {"limit": 2}):
        plain = api.diff(topic, **fields)
        head, found = read(api, topic, **fields)

        assert [f.seq for f in found] == [r["$seq"] for r in plain["records"]]
        for field in ("next_from_seq", "head_seq", "earliest_seq", "caught_up", "tombstone"):
            assert head[field] == plain[field]


def test_a_binary_read_can_wait(api: Api, topic: str) -> None:
    api.create(topic)

    head, found = read(api, topic, wait_ms=20)

    assert (head["caught_up"], found) == (True, [])


def test_what_was_written_one_way_is_read_the_other(api: Api, topic: str) -> None:
    write(api, topic, batch(*[record(b'{"n":%d}' % n) for n in range(1000)]))
    api.write(topic, *range(1000))

    _, first = read(api, topic, limit=1000)
    _, second = read(api, topic, from_seq=1000, limit=1000)

    assert [f.body for f in first] == [b'{"d":{"n":%d}}' % n for n in range(1000)]
    assert [f.body for f in second] == [b'{"d":%d}' % n for n in range(1000)]
    assert datas_of(api.diff(topic, limit=1000)) == [{"n": n} for n in range(1000)]


def test_errors_stay_json(api: Api, topic: str) -> None:
    reply = api.post(
        f"/v0/topics/{topic}/diff", b"{}", {"Content-Type": "application/json", "Accept": BATCH}
    )

    refused(reply, 404, "topic_not_found", {"topic": topic})
    refused(api.post(f"/v0/topics/{topic}/diff", GOOD, BINARY), 415, "unsupported_media_type")
    refused(api.post("/v0/watch", GOOD, BINARY), 415, "unsupported_media_type")
