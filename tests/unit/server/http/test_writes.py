"""From a write's body to a batch: payloads as they were sent, everything else checked."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import BatchTooLarge, InvalidArgument
from penstock.server.http import writes
from penstock.server.http.message import BATCH
from penstock.types import Appended
from penstock.wire import binary_batch as binary
from penstock.wire.models import WriteBody, WriteHead
from tests.unit.server.support import Site, on_loop, request_of, until

PARENT = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


def batch_of(records: list[dict[str, Any]], **given: Any) -> Any:
    body = msgspec.json.decode(json.dumps({"records": records, **given}), type=WriteBody)
    return writes.batch_of(body, body.records, request_of("POST", "/"))


# Records.


@given(
    records=st.lists(
        st.fixed_dictionaries(
            {"data": json_values},
            optional={
                "tag": st.none() | st.text("ab", max_size=3),
                "node": st.none() | st.text("cd", max_size=3),
                "meta": st.none() | st.dictionaries(st.text("xy", max_size=2), st.integers()),
            },
        ),
        min_size=1,
        max_size=6,
    )
)
def test_json_and_binary_make_the_same_batch(records: list[dict[str, Any]]) -> None:
    body = msgspec.json.encode({"records": records})
    parsed = msgspec.json.decode(body, type=WriteBody)
    request = request_of("POST", "/")

    one = writes.batch_of(parsed, parsed.records, request)
    request.body = binary.encode_write(
        {},
        [msgspec.json.encode(record["data"]) for record in records],
        [
            msgspec.json.encode(record["meta"]) if record.get("meta") is not None else None
            for record in records
        ],
        [(record.get("tag") or "").encode() for record in records],
        [(record.get("node") or "").encode() for record in records],
    )
    _, at, count = binary.split_head(request.body)
    other = writes.binary_batch_of(WriteHead(), at, count, request)

    assert one.datas == [msgspec.json.encode(record["data"]) for record in records]
    assert (one.count, one.payload_bytes) == (other.count, other.payload_bytes)
    assert one.encode(1, 1, 1, 0) == other.encode(1, 1, 1, 0)


def test_payloads_are_kept_byte_for_byte() -> None:
    body = b'{"records":[{"data": {"b" : 1.50, "a":1e2, "b":2} }, {"data":"\\u00e9"}]}'
    parsed = msgspec.json.decode(body, type=WriteBody)

    batch = writes.batch_of(parsed, parsed.records, request_of("POST", "/"))

    assert batch.datas == [b'{"b" : 1.50, "a":1e2, "b":2}', b'"\\u00e9"']


def test_empty_is_the_same_as_absent() -> None:
    batch = batch_of([{"data": 1, "tag": "", "node": "", "meta": None}], node="")

    assert (batch.metas, batch.node) == (None, None)
    assert (batch.tags or [None], batch.nodes or [None]) == ([None], [None])


def test_a_node_for_all_stands_beside_those_of_single_records() -> None:
    batch = batch_of([{"data": 1}, {"data": 2, "node": "own"}], node="all")

    assert (batch.node, batch.nodes) == (b"all", [None, b"own"])


@pytest.mark.parametrize(
    "record",
    [
        {"data": 1, "tag": "x" * (limits.TAG_BYTES_MAX + 1)},
        {"data": 1, "tag": "é" * (limits.TAG_BYTES_MAX // 2 + 1)},
        {"data": 1, "node": "x" * (limits.NODE_BYTES_MAX + 1)},
        {"data": 1, "meta": {str(n): n for n in range(limits.META_KEYS_MAX + 1)}},
        {"data": 1, "meta": "x" * limits.META_BYTES_MAX},
    ],
)
def test_what_is_too_long_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        batch_of([{"data": 0}, record])


def test_a_batch_has_one_record_and_at_most_so_many() -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        batch_of([])
    with pytest.raises(BatchTooLarge):
        batch_of([{"data": 1}] * (limits.BATCH_RECORDS_MAX + 1))
    assert len(batch_of([{"data": 1}] * limits.BATCH_RECORDS_MAX).datas) == 10_000


@pytest.mark.parametrize("data", [b"", b"{", b"nope", b'"\xff"', b"1 2"])
@on_loop
async def test_binary_payloads_are_looked_into(data: bytes) -> None:
    site = Site()
    body = binary.encode_write({}, [b"1", data])

    answer = await site.call("POST", "/v0/topics/t", body, headers={b"content-type": BATCH})

    assert (answer.status, answer.code) == (400, "invalid_request")
    assert site.log.core.catalogue.find("t") is None


# Traces.


def traced(meta: Any, headers: dict[bytes, bytes] | None = None) -> Any:
    body = msgspec.json.decode(json.dumps({"records": [{"data": 1, "meta": meta}]}), type=WriteBody)
    request = request_of("POST", "/", headers=headers or {b"traceparent": PARENT})
    batch = writes.batch_of(body, body.records, request)
    return None if batch.metas is None else json.loads(batch.metas[0])


@pytest.mark.parametrize(
    ("meta", "kept"),
    [
        (None, {"traceparent": PARENT.decode()}),
        ({}, {"traceparent": PARENT.decode()}),
        ({"a": 1}, {"traceparent": PARENT.decode(), "a": 1}),
        ({"traceparent": "own"}, {"traceparent": "own"}),
        ([1], [1]),
        ("text", "text"),
    ],
)
def test_a_trace_joins_what_can_hold_it(meta: Any, kept: Any) -> None:
    assert traced(meta) == kept


def test_the_state_of_a_trace_comes_along() -> None:
    found = traced(None, {b"traceparent": PARENT, b"tracestate": b'a="1",b=2'})

    assert found == {"traceparent": PARENT.decode(), "tracestate": 'a="1",b=2'}


@pytest.mark.parametrize("parent", [b"", b"00-short", PARENT.upper(), PARENT + b"0", b'"},{"'])
def test_what_is_no_trace_is_left_alone(parent: bytes) -> None:
    assert traced(None, {b"traceparent": parent}) is None


@pytest.mark.parametrize(
    "meta",
    [
        {str(n): n for n in range(limits.META_KEYS_MAX)},
        {"a": "x" * (limits.META_BYTES_MAX - 10)},
    ],
    ids=["keys", "bytes"],
)
def test_a_trace_makes_no_meta_too_large(meta: dict[str, Any]) -> None:
    assert traced(meta) == meta


# Answers.


def test_an_answer_names_every_seq_or_none() -> None:
    answer = Appended("t", 5, 7, 3, 9, 2, 1000, fsync_ms=0.00001)

    full = json.loads(b"{%b}" % writes.appended_fields(answer, has_seqs=True, elapsed_ms=1.5))
    short = json.loads(b"{%b}" % writes.appended_fields(answer, has_seqs=False, elapsed_ms=1.5))

    assert full["seqs"] == [5, 6, 7]
    assert "seqs" not in short
    assert (full["first_seq"], full["last_seq"], full["head_seq"]) == (5, 7, 9)
    assert full["performance"]["fsync_ms"] > 0, "a sync that happened does not round to none"
    assert full["performance"]["server_total_ms"] == 1.5


def test_a_repeated_write_created_nothing() -> None:
    answer = Appended("t", 1, 1, 1, 1, 1, 1000, deduped=True)

    found = json.loads(b"{%b}" % writes.appended_fields(answer, has_seqs=True, elapsed_ms=0))

    assert (found["created"], found["deduped"]) == (False, True)


@on_loop
async def test_a_bad_record_beats_a_missing_topic() -> None:
    site = Site()
    body = {"records": [{"data": 1, "tag": "x" * 300}], "create": False}

    assert (await site.call("POST", "/v0/topics/t", body)).status == 400
    body = {"records": [{"data": 1}], "create": False}
    assert (await site.call("POST", "/v0/topics/t", body)).code == "topic_not_found"


@on_loop
async def test_writes_to_a_topic_not_yet_made_keep_their_order() -> None:
    site = Site()
    sent = [site.send("POST", "/v0/topics/t", {"records": [{"data": n}]}) for n in range(20)]
    await until(lambda: all(one.is_answered for one in sent))

    assert [record.data for record in site.log.read("t").records] == list(range(20))
    assert [one.responses[0].status for one in sent] == [201] + [200] * 19
