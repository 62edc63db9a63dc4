"""How these tests speak to a server: an `Api` with the laws that hold for every answer.

`refused` names the status and the code of a refusal. It is called with literals at least once for
every row of CODES, and a test reads the sources to see that it is.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, TypeVar

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.server.sse import EventStream
from tests.server.wire import Connection, Ended, Reply
from tests.support.serving import DEADLINE_S, Address, Server, eventually

JSON = {"Content-Type": "application/json"}
BATCH = "application/vnd.penstock.batch"
# A server that is held up at its end is so for longer than a test waits for that end.
LONG_DRAIN = {"PENSTOCK_DRAIN_TIMEOUT_MS": "900000"}

# Every refusal of the server.
CODES = {
    (400, "bad_request"),
    (400, "batch_too_large"),
    (400, "invalid_request"),
    (400, "record_too_large"),
    (401, "unauthorized"),
    (403, "forbidden"),
    (404, "delayed_not_found"),
    (404, "not_found"),
    (404, "position_not_found"),
    (404, "router_not_found"),
    (404, "row_not_found"),
    (404, "table_not_found"),
    (404, "topic_not_found"),
    (405, "method_not_allowed"),
    (406, "not_acceptable"),
    (408, "request_timeout"),
    (409, "already_delivered"),
    (409, "force_required"),
    (409, "not_a_queue"),
    (409, "router_cycle"),
    (409, "seq_mismatch"),
    (409, "table_exists"),
    (409, "table_failed"),
    (409, "topic_exists_incompatible"),
    (409, "topic_not_empty"),
    (410, "history_gone"),
    (413, "payload_too_large"),
    (415, "unsupported_media_type"),
    (421, "misdirected_request"),
    (422, "topic_full"),
    (426, "upgrade_required"),
    (429, "throttled"),
    (431, "headers_too_large"),
    (501, "not_implemented"),
    (503, "cold_unavailable"),
    (503, "not_ready"),
    (503, "shutting_down"),
    (503, "table_not_ready"),
    (507, "storage_failed"),
}
# 500 `internal` is not in the table: a request that causes it is a bug, and the law of every answer
# below fails on it.

# Codes that only a WebSocket message can carry.
SOCKET_CODES = {"invalid_json", "unsupported_message", "server_shutting_down"}

WITHOUT_PERFORMANCE = ("/v0/health", "/healthz", "/v0/ready", "/readyz", "/v0/metrics")
CONFIG = {
    "type": "log",
    "ttl_ms": 0,
    "cap_records": 0,
    "cap_bytes": 0,
    "discard": "old",
    "durable": False,
    "durability": "disk",
    "priority": None,
    "auto_priority": True,
    "auto_create": True,
    "idempotency_window_ms": 120_000,
    "dedupe_node": True,
    "lease_ms": 30_000,
    "claim_jitter_ms": 0,
    "max_deliveries": 0,
    "dead_letter": None,
    "leases_durable": False,
}

_names = itertools.count()
T = TypeVar("T")


def new_name(kind: str = "t") -> str:
    """A topic name nobody else has."""
    return f"{kind}-{os.getpid()}-{next(_names)}"


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def check_laws(reply: Reply, target: str) -> None:
    """What every answer outside a stream fulfils."""
    path = target.partition("?")[0]
    assert reply.status != 500, reply
    assert b"Traceback" not in reply.body, reply
    if reply.status >= 400:
        check_error(reply)
    elif reply.headers.get("content-type", "").startswith("application/json"):
        body = reply.json
        assert "error" not in body, body
        if path in WITHOUT_PERFORMANCE or path == "/v0/openapi.json":
            return
        assert not {"ok", "status"} & set(body), body
        took = body["performance"]["server_total_ms"]
        assert isinstance(took, (int, float)), took
        assert took >= 0


def check_error(reply: Reply) -> None:
    """The one shape of an error."""
    assert reply.headers.get("content-type", "").startswith("application/json"), reply
    body = reply.json
    assert not {"ok", "status"} & set(body), body
    error = body["error"]
    assert {"code", "message"} <= set(error) <= {"code", "message", "detail"}, error
    assert re.fullmatch(r"[a-z][a-z0-9_]*", error["code"]), error
    assert isinstance(error["message"], str), error
    assert error["message"], error


def refused(
    reply: Reply, status: int, code: str, detail: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The answer is this refusal; its detail, which has at least the fields of `detail`."""
    assert (status, code) in CODES, "add it to the table"
    assert reply.status == status, (reply.status, reply.body)
    check_error(reply)
    error = reply.json["error"]
    assert error["code"] == code, error
    found = error.get("detail") or {}
    for name, value in (detail or {}).items():
        assert found.get(name) == value, error
    return dict(found)


class Api:
    """A caller with one key, or none. Each call is a connection of its own."""

    def __init__(self, address: Address, key: str | None = None) -> None:
        self.address = address
        self.key = key

    def as_key(self, key: str | None) -> Api:
        return Api(self.address, key)

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        return own | dict(more or {})

    def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Bytes go as they are, anything else but None as JSON with its content type."""
        wanted = self.headers(headers)
        if body is not None and not isinstance(body, bytes):
            body = compact(body).encode()
            wanted = JSON | wanted
        with Connection(self.address) as connection:
            reply = connection.request(method, target, body, wanted)
        check_laws(reply, target)
        return reply

    def get(self, target: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self.call("GET", target, headers=headers)

    def put(self, target: str, body: Any = None) -> Reply:
        return self.call("PUT", target, body)

    def post(
        self, target: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        return self.call("POST", target, body, headers)

    def delete(self, target: str) -> Reply:
        return self.call("DELETE", target)

    # The verbs, when they are to succeed.

    def create(self, topic: str, **config: Any) -> Any:
        return _good(self.put(f"/v0/topics/{topic}", config))

    def drop(self, topic: str) -> Any:
        return _good(self.delete(f"/v0/topics/{topic}"))

    def write(self, topic: str, *datas: Any, **fields: Any) -> Any:
        """One batch; `records` instead of data when they have more than data."""
        fields.setdefault("records", [{"data": data} for data in datas])
        return _good(self.post(f"/v0/topics/{topic}", fields))

    def tagged(self, topic: str, *tags: str | None) -> Any:
        """A batch of one record a tag; its data is the tag."""
        rows = [{"data": tag} | ({} if tag is None else {"tag": tag}) for tag in tags]
        return self.write(topic, records=rows)

    def diff(self, topic: str, **fields: Any) -> Any:
        return _good(self.post(f"/v0/topics/{topic}/diff", fields))

    def remove(self, topic: str, **fields: Any) -> Any:
        return _good(self.post(f"/v0/topics/{topic}/delete", fields))

    def state(self, topic: str, query: str = "") -> Any:
        return _good(self.get(f"/v0/topics/{topic}{query}"))

    def watch(self, topics: Mapping[str, Any] | Sequence[str], **fields: Any) -> Any:
        wanted = topics if isinstance(topics, Mapping) else {name: {} for name in topics}
        return _good(self.post("/v0/watch", {"topics": wanted, **fields}))

    def stream(
        self, wid: str, headers: Mapping[str, str] | None = None, *, receive_bytes: int = 0
    ) -> EventStream:
        target = f"/v0/watch/{wid}"
        return EventStream(self.address, target, self.headers(headers), receive_bytes=receive_bytes)

    def follow(self, topics: Mapping[str, Any] | Sequence[str], **fields: Any) -> EventStream:
        """Watch, and open the stream."""
        return self.stream(self.watch(topics, **fields)["wid"])

    def socket(self, query: str = "", **options: Any) -> Socket:
        host, port = self.address
        return Socket(
            connect(
                f"ws://{host}:{port}/v0/ws{query}",
                additional_headers=self.headers(options.pop("headers", None)),
                compression=None,
                proxy=None,
                max_size=None,
                open_timeout=DEADLINE_S,
                ping_interval=None,  # a peer that is paused for long is no dead one
                close_timeout=1,  # what nobody reads may stand before the other's goodbye
                **options,
            )
        )


class Socket:
    """A WebSocket that speaks JSON. A context manager."""

    def __init__(self, opening: AbstractContextManager[ClientConnection]) -> None:
        self._opening = opening
        self.connection = opening.__enter__()
        self._ids = itertools.count(1)
        self._kept: collections.deque[Any] = collections.deque()  # came while `ask` waited

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self._opening.__exit__(None, None, None)

    def send(self, op: str, **fields: Any) -> None:
        self.connection.send(compact({"op": op, **fields}))

    def next(self, deadline_s: float = DEADLINE_S) -> Any:
        return self._kept.popleft() if self._kept else self._receive(deadline_s)

    def _receive(self, deadline_s: float = DEADLINE_S) -> Any:
        text = self.connection.recv(timeout=deadline_s)
        assert isinstance(text, str), text
        return json.loads(text)

    def one(self, op: str, deadline_s: float = DEADLINE_S) -> Any:
        """The next message of this kind; others are passed over."""
        for _ in range(100_000):
            message = self.next(deadline_s)
            if message["op"] == op:
                return message
            assert message["op"] != "error", message
        raise AssertionError(f"no {op}")

    def ask(self, op: str, **fields: Any) -> Any:
        """Send with a request id and return the message that echoes it; others are kept."""
        request_id = f"r{next(self._ids)}"
        self.send(op, request_id=request_id, **fields)
        while True:
            message = self._receive()
            if message.get("request_id") == request_id:
                return message
            self._kept.append(message)

    def records(self, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            found += self.one("record")["records"]
        assert len(found) == count, found
        return found


def socket_error(message: Any, code: str) -> None:
    """The message is this error."""
    assert message["op"] == "error", message
    assert message["code"] == code, message
    assert message["message"], message


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """Run `work(0)` … `work(count - 1)` in threads that start together; their results."""
    gate = threading.Barrier(count)
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(index: int) -> None:
        try:
            gate.wait(DEADLINE_S)
            results[index] = work(index)
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[index] for index in range(count)]


def insist(call: Callable[[], T]) -> T:
    """For a good caller of a server with short deadlines: when a machine was paused for longer
    than one of them, the server closes its connection, and the caller asks again."""

    def attempt() -> list[T]:
        try:
            return [call()]
        except (Ended, OSError, EOFError, WebSocketException):
            return []

    return eventually(attempt, "an answer")[0]


class Later:
    """A call in a thread, for requests that are to wait. A context manager."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __enter__(self) -> Later:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(DEADLINE_S)

    def result(self, deadline_s: float = DEADLINE_S) -> Any:
        self._thread.join(deadline_s)
        assert not self._thread.is_alive(), f"no answer within {deadline_s} s"
        if self._error is not None:
            raise self._error
        return self._result

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self._error = error


def api_of(server: Server, key: str | None = None) -> Api:
    return Api(server.connect_to, key)


def holds(found: Any, expected: Mapping[str, Any]) -> bool:
    """Every field of `expected` is there with its value, also inside. More may be: within a
    version answers only grow, and clients pass over what they do not know."""
    for name, value in expected.items():
        inside = isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        assert holds(found[name], value) if inside else found.get(name) == value, (name, found)
    return True


def seqs_of(answer: Any) -> list[int]:
    return [record["$seq"] for record in answer["records"]]


def datas_of(answer: Any) -> list[Any]:
    return [record["data"] for record in answer["records"]]


def _good(reply: Reply) -> Any:
    assert reply.status in (200, 201), (reply.status, reply.body)
    return reply.json
