"""The events and features of the benchmark: one event type, one table, written for both servers."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from benchmarks.load_requests import http
from benchmarks.server_process import DidNotStart

EVENT: Final = "Order"
TABLE: Final = "UserFeatures"
FIELDS: Final = {"user": "str", "item": "str", "amount": "f64", "pieces": "i64", "paid": "bool"}
MARKED: Final = "marked"  # the user of the first event of each request
BATCH: Final = 1_000  # events of a request

FRAME_HEAD_BYTES: Final = 7
_PUSH: Final = 0x0010
_GET: Final = 0x0020
_REGISTER: Final = 0x0001

Feature = dict[str, Any]

_COMMON: Final[dict[str, Feature]] = {
    "orders": {"op": "count"},
    "orders_1h": {"op": "count", "window": "1h"},
    "spent": {"op": "sum", "field": "amount"},
    "mean_1h": {"op": "mean", "field": "amount", "window": "1h"},
    "largest": {"op": "max", "field": "amount"},
    "paid_share": {"op": "ratio", "where": "(paid == true)"},
    "last_item": {"op": "last", "field": "item"},
}
PLAIN: Final[dict[str, Feature]] = {
    **_COMMON,
    "pieces_1d": {"op": "sum", "field": "pieces", "window": "1d"},
    "smallest": {"op": "min", "field": "amount"},
    "spread": {"op": "var", "field": "amount"},
}
SKETCHES: Final[dict[str, Feature]] = {
    **_COMMON,
    "items": {"op": "n_unique", "field": "item"},
    "high": {"op": "quantile", "field": "amount", "q": 0.9},
    "often": {"op": "top_k", "field": "item", "k": 10},
}


def events(count: int, keys: int, seed: int = 1) -> list[bytes]:
    """JSON objects; their keys are spread evenly, in no order."""
    draw = random.Random(seed)
    return [
        b'{"user":"user-%07d","item":"item-%04d","amount":%.2f,"pieces":%d,"paid":%b}'
        % (
            draw.randrange(keys),
            int(draw.random() ** 2 * 2_000),
            draw.random() * 500,
            draw.randrange(1, 9),
            b"true" if draw.random() < 0.8 else b"false",
        )
        for _ in range(count)
    ]


def batches(count: int, keys: int) -> list[list[bytes]]:
    """So many batches, each with an event of the marked user."""
    every = events(count * BATCH, keys)
    return [
        [marked_event(MARKED), *every[at + 1 : at + BATCH]] for at in range(0, len(every), BATCH)
    ]


def marked_event(user: str) -> bytes:
    """An event that shows that its batch was folded."""
    marked = b'{"user":"%b","item":"item-0001","amount":1.50,"pieces":1,"paid":true}'
    return marked % user.encode()


def marked_by(batches: Sequence[list[bytes]], user: str) -> list[list[bytes]]:
    """The same batches with the events of another marked user."""
    return [[marked_event(user), *batch[1:]] for batch in batches]


def each_key(keys: int) -> Iterator[list[bytes]]:
    """Batches with one event of each key, in no order."""
    users = list(range(keys))
    random.Random(2).shuffle(users)
    for at in range(0, keys, BATCH):
        yield [
            b'{"user":"user-%07d","item":"item-%04d","amount":%d.25,"pieces":2,"paid":true}'
            % (user, user % 2_000, user % 500)
            for user in users[at : at + BATCH]
        ]


# Ours.


def definition(features: dict[str, Feature]) -> dict[str, Any]:
    return {
        "events": [{"name": EVENT, "topic": "orders", "fields": FIELDS}],
        "tables": [{"name": TABLE, "from": EVENT, "key": ["user"], "features": features}],
    }


def push_request(batch: Sequence[bytes]) -> bytes:
    return http("POST", f"/v0/features/push/{EVENT}", b"[" + b",".join(batch) + b"]")


def get_request(key: str = MARKED) -> bytes:
    body = msgspec.json.encode({"table": TABLE, "key": key})
    return http("POST", "/v0/features/get", body)


# The peer's frames: length, operation, content type, payload.


def frame(operation: int, payload: bytes) -> bytes:
    return struct.pack(">IHB", 3 + len(payload), operation, 1) + payload


def push_frames(batch: Sequence[bytes]) -> bytes:
    """One frame for each event: the peer takes no batches."""
    head = b'{"event":"%b","body":' % EVENT.encode()
    return b"".join([frame(_PUSH, head + event + b"}") for event in batch])


def get_frame(key: str = MARKED) -> bytes:
    return frame(_GET, msgspec.json.encode({"table": TABLE, "key": key}))


def register_frame(features: dict[str, Feature]) -> bytes:
    aggregations = {
        name: {
            "op": feature["op"],
            "params": {name: value for name, value in feature.items() if name != "op"},
        }
        for name, feature in features.items()
    }
    nodes = [
        {"kind": "event", "name": EVENT, "schema": {"fields": FIELDS, "optional_fields": []}},
        {
            "kind": "derivation",
            "name": TABLE,
            "output_kind": "table",
            "upstreams": [EVENT],
            "table_primary_key": ["user"],
            "ops": [{"op": "group_by", "keys": ["user"], "agg": aggregations}],
            "schema": {"fields": {"user": "str"}, "optional_fields": []},
        },
    ]
    return frame(_REGISTER, msgspec.json.encode({"nodes": nodes}))


def check_registered(answer: bytes) -> None:
    """Raises DidNotStart when the peer refused: nothing can be measured then."""
    if b'"status":"ok"' not in answer:
        raise DidNotStart(f"beava refused the definition: {answer[:300]!r}")
