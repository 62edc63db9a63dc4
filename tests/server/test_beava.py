"""beava's ports as its clients in other languages see them: HTTP requests and TCP frames."""

from __future__ import annotations

import json
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.beava import (
    ERROR,
    MSGPACK,
    BeavaServer,
    FrameClient,
    event,
    frame,
    push,
    table,
)
from tests.support.serving import Failed

REGISTER, PUSH_SYNC, GET, MGET = 0x01, 0x11, 0x20, 0x21
GET_MULTI, ANSWER, BATCH_GET = 0x22, 0x23, 0x24
NODES = [
    event("Ride", rider="str", fare="f64"),
    event("Order", id="str", user="str") | {"dedupe_key": "id", "dedupe_window_ms": 3_600_000},
    table("Riders", "Ride", ["rider"], n={"op": "count"}, spend={"op": "sum", "field": "fare"}),
    table("Users", "Order", ["user"], orders={"op": "count"}),
    table("Fleet", "Ride", [], n={"op": "count"}),
]
ANA = {"rider": "ana", "fare": 2.5}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BeavaServer]:
    running = BeavaServer(tmp_path_factory.mktemp("beava")).start()
    yield running
    running.server.close()


@pytest.fixture
def server(running: BeavaServer) -> BeavaServer:
    """With the definition and no events."""
    http(running, "POST", "/reset")
    http(running, "POST", "/register", {"nodes": NODES})
    return running


def http(
    server: BeavaServer, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    given = {"Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    port = "admin" if path in ("/registry", "/metrics") else "http"
    request = urllib.request.Request(
        server.url(port) + path, data=data, method=method, headers=given
    )
    try:
        with urllib.request.urlopen(request) as answer:
            status, text = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            status, text = error.code, error.read()
    return status, json.loads(text) if path != "/metrics" else text.decode()


def code(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], answer[1]["error"]["code"]


# HTTP.


def test_a_push_names_its_event_in_the_path_or_in_the_body(server: BeavaServer) -> None:
    pushes = [
        http(server, "POST", "/push", {"event": "Ride", "data": ANA}),
        http(server, "POST", "/push/Ride", ANA),
        http(server, "POST", "/push-sync", {"event": "Ride", "data": ANA}),
        http(server, "POST", "/push-sync/Ride/", ANA),
        http(server, "POST", "/push-batch/Ride", [ANA, ANA]),
        http(server, "POST", "/push-batch/Ride?why=not", ANA),
    ]

    assert [status for status, _ in pushes] == [200] * 6
    assert [answer["ack_lsn"] for _, answer in pushes] == [1, 2, 3, 4, 6, 7]
    assert http(server, "POST", "/get", {"table": "Fleet", "key": ""}) == (200, {"n": 7})


def test_a_batch_with_a_wrong_event_is_refused_whole(server: BeavaServer) -> None:
    answer = http(server, "POST", "/push-batch/Ride", [ANA, {"rider": "bo"}])

    assert code(answer) == (400, "invalid_event")
    assert http(server, "POST", "/get", {"table": "Fleet", "key": ""}) == (200, {})


def test_a_repeated_event_gets_the_answer_of_the_first(server: BeavaServer) -> None:
    order = {"event": "Order", "data": {"id": "o1", "user": "ana"}}

    first, again = [http(server, "POST", "/push", order) for _ in range(2)]

    assert first == again
    assert http(server, "GET", "/get/orders/ana") == (200, {"value": 1})


def test_a_feature_is_read_by_its_name(server: BeavaServer) -> None:
    http(server, "POST", "/push/Ride", ANA | {"rider": "ana b/c"})

    assert http(server, "GET", "/get/spend/ana%20b%2Fc") == (200, {"value": 2.5})
    assert http(server, "GET", "/get/Riders/ana%20b%2Fc") == (200, {"n": 1, "spend": 2.5})
    assert http(server, "GET", "/get/Fleet/") == (200, {"n": 1})
    assert code(http(server, "GET", "/get/spend/bo")) == (404, "key_not_found")
    assert code(http(server, "GET", "/get/Riders/bo")) == (404, "key_not_found")
    assert code(http(server, "GET", "/get/nothing/bo")) == (404, "feature_not_found")
    assert code(http(server, "GET", "/get/n/bo")) == (400, "ambiguous_feature")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "error"),
    [
        ("GET", "/nowhere", None, 404, "not_found"),
        ("GET", "/", None, 404, "not_found"),
        ("GET", "/push", None, 405, "method_not_allowed"),
        ("POST", "/get/n/ana", {}, 405, "method_not_allowed"),
        ("POST", "/push", b"{", 400, "invalid_json_body"),
        ("POST", "/push", {"data": {}}, 400, "missing_event_name_in_body"),
        ("POST", "/push", [], 400, "missing_event_name_in_body"),
        ("POST", "/push/Ride", [1], 400, "invalid_event"),
        ("POST", "/push/Ride", b"\xff", 400, "invalid_event"),
        ("POST", "/push-batch/Ride", [], 400, "invalid_event"),
        ("POST", "/push-batch/Ride", b"[1,", 400, "invalid_event"),
        ("POST", "/push-batch/Nothing", [{}], 404, "event_not_found"),
        ("POST", "/get", b"x", 400, "internal_error"),
        ("POST", "/batch_get", {}, 400, "internal_error"),
        ("POST", "/register", {"nope": 1}, 400, "invalid_registration"),
        ("POST", "/register", {"nodes": [5]}, 400, "invalid_registration"),
    ],
)
def test_a_wrong_request_has_a_json_answer(
    server: BeavaServer, method: str, path: str, body: Any, status: int, error: str
) -> None:
    assert code(http(server, method, path, body)) == (status, error)


def test_a_registration_is_json(server: BeavaServer) -> None:
    answer = http(server, "POST", "/register", {"nodes": []}, Content_Type="text/plain")

    assert code(answer) == (415, "unsupported_media_type")
    parameters = "Application/JSON; charset=utf-8"
    assert http(server, "POST", "/register", {"nodes": []}, Content_Type=parameters)[0] == 200


def test_a_page_of_another_site_is_refused(server: BeavaServer) -> None:
    assert code(http(server, "POST", "/ping", Host="evil.example")) == (421, "misdirected_request")
    assert code(http(server, "POST", "/ping", Origin="http://evil.example")) == (403, "forbidden")


def test_the_admin_port_has_the_registry_and_metrics(server: BeavaServer) -> None:
    http(server, "POST", "/push/Ride", ANA)
    http(server, "POST", "/get", {"table": "Riders", "key": "ana"})

    status, registry = http(server, "GET", "/registry")
    _, metrics = http(server, "GET", "/metrics")

    assert (status, registry["node_count"]) == (200, len(NODES))
    assert f"beava_registry_version {registry['version']}\n" in metrics
    assert "beava_entity_count_resident " in metrics
    for port in ("http", "admin"):
        with urllib.request.urlopen(server.url(port) + "/ready") as answer:
            assert json.load(answer) == {"status": "ready"}


def test_a_reset_needs_test_mode(tmp_path: Path) -> None:
    plain = BeavaServer(tmp_path, PENSTOCK_BEAVA_TEST_MODE="0").start()
    try:
        answer = http(plain, "POST", "/reset")
    finally:
        plain.server.close()

    assert code(answer) == (403, "reset_disabled_in_production")


# TCP.


@pytest.fixture
def client(server: BeavaServer) -> Iterator[FrameClient]:
    with FrameClient(server.address("tcp")) as client:
        yield client


def test_answers_have_the_order_of_their_requests(client: FrameClient) -> None:
    get = json.dumps({"table": "Fleet", "key": ""}).encode()
    burst = [push("Ride", ANA) if number % 7 else frame(GET, get) for number in range(700)]

    client.send(*burst)
    answers = [client.answer() for _ in burst]

    seqs = iter(range(1, 1000))
    pushed = 0
    for number, (op, _, payload) in enumerate(answers):
        if number % 7:
            pushed += 1
            assert (op, json.loads(payload)["ack_lsn"]) == (0x10, next(seqs))
        else:
            assert (op, json.loads(payload)) == (ANSWER, {"n": pushed} if pushed else {})


def test_each_push_of_a_burst_is_checked_for_itself(client: FrameClient) -> None:
    client.send(
        push("Ride", ANA),
        push("Ride", {"rider": "bo"}),
        push("Order", {"id": "o1", "user": "ana"}),
        push("Nothing", {}),
        push("Order", {"id": "o1", "user": "ana"}),
        frame(0x10, b"{"),
        push("Ride", ANA | {"city": "Oslo"}),
        push("Ride", ANA),
    )

    answers = [(op, json.loads(payload)) for op, _, payload in (client.answer() for _ in range(8))]

    assert [op for op, _ in answers] == [0x10, ERROR, 0x10, ERROR, 0x10, ERROR, ERROR, 0x10]
    assert [one["ack_lsn"] for op, one in answers if op == 0x10] == [1, 1, 1, 2]
    assert [one["idempotent_replay"] for op, one in answers if op == 0x10] == [0, 0, 1, 0]
    assert answers[1][1]["error"]["code"] == "invalid_event"
    assert answers[3][1]["error"]["code"] == "event_not_found"
    assert answers[5][1] == {"code": "unsupported"}
    assert answers[6][1]["error"]["code"] == "unknown_field_v0"


def test_an_event_that_is_too_long_is_refused_alone(client: FrameClient) -> None:
    client.send(
        push("Ride", ANA), push("Ride", ANA | {"rider": "x" * (2 << 20)}), push("Ride", ANA)
    )

    answers = [(op, json.loads(payload)) for op, _, payload in (client.answer() for _ in range(3))]

    assert [op for op, _ in answers] == [0x10, ERROR, 0x10]
    assert answers[1][1]["error"]["code"] == "invalid_event"


def test_many_rows_are_read_at_a_time(server: BeavaServer) -> None:
    http(server, "POST", "/push/Ride", ANA)
    reads = [{"table": "Riders", "key": key} for key in ("ana", "bo")] * 5_000

    status, answer = http(server, "POST", "/batch_get", {"requests": reads})

    assert (status, answer["results"]) == (200, [{"n": 1, "spend": 2.5}, {}] * 5_000)


def test_messagepack_is_answered_in_kind(client: FrameClient) -> None:
    packed = msgspec.msgpack.encode({"event": "Ride", "body": ANA})
    read = {"table": "Riders", "key": "ana"}

    assert client.ask(0x10, packed, MSGPACK)[0] == 0x10
    client.send(frame(GET, msgspec.msgpack.encode(read), MSGPACK))
    op, kind, payload = client.answer()
    batch = msgspec.msgpack.encode({"requests": [read]})

    assert (op, kind) == (ANSWER, MSGPACK)
    assert msgspec.msgpack.decode(payload) == {"n": 1, "spend": 2.5}
    assert client.ask(BATCH_GET, batch, MSGPACK) == (
        ANSWER,
        {"results": [{"n": 1, "spend": 2.5}]},
    )


def test_older_reads_name_features_alone(client: FrameClient) -> None:
    client.ask(PUSH_SYNC, {"event": "Ride", "body": ANA})
    client.ask(PUSH_SYNC, {"event": "Order", "body": {"id": "o1", "user": "ana"}})
    keys = ["ana", "bo"]

    assert client.ask(MGET, {"feature": "spend", "keys": keys}) == (ANSWER, {"ana": {"spend": 2.5}})
    assert client.ask(GET_MULTI, {"features": ["spend", "orders"], "keys": keys}) == (
        ANSWER,
        {"ana": {"spend": 2.5, "orders": 1}},
    )
    many = {"features": ["spend"] * 101, "keys": ["ana"] * 100}
    assert client.ask(GET_MULTI, many)[1]["error"]["code"] == "internal_error"


@pytest.mark.parametrize(
    ("op", "body", "kind", "error"),
    [
        (0x99, b"", 1, "unknown_op"),
        (GET, b"", 9, "unsupported_content_type"),
        (0x10, b"", 9, "unsupported_content_type"),
        (REGISTER, b"", 2, "unsupported_content_type"),
        (REGISTER, b"x", 1, "invalid_registration"),
        (GET, b"x", 1, "internal_error"),
        (GET, b"x", 2, "internal_error"),
        (GET, b'{"table":"Nowhere","key":""}', 1, "unknown_table"),
    ],
)
def test_a_wrong_frame_has_an_error_and_the_connection_goes_on(
    client: FrameClient, op: int, body: bytes, kind: int, error: str
) -> None:
    found, answer = client.ask(op, body, kind)

    assert (found, answer["error"]["code"]) == (ERROR, error)
    assert client.ask(0, b"")[0] == 0


def test_a_frame_that_is_too_long_is_the_last(client: FrameClient) -> None:
    client.send(push("Ride", ANA), struct.pack(">IHB", (4 << 20) + 4, 0x10, 1))

    assert client.answer()[0] == 0x10
    op, _, payload = client.answer()
    error = json.loads(payload)["error"]
    assert (op, error["code"]) == (ERROR, "frame_too_large")
    assert (error["declared"], error["limit"]) == ((4 << 20) + 4, (4 << 20) + 3)
    assert client.is_closed()


def test_a_frame_without_a_head_ends_the_connection(client: FrameClient) -> None:
    client.send(push("Ride", ANA), struct.pack(">I", 2))

    assert client.answer()[0] == 0x10
    assert client.is_closed()


def test_a_client_that_shuts_its_side_gets_every_answer(client: FrameClient) -> None:
    client.send(*[push("Ride", ANA)] * 100)
    client.wire.shutdown(socket.SHUT_WR)

    assert [client.answer()[0] for _ in range(100)] == [0x10] * 100
    assert client.is_closed()


def test_a_frame_may_come_a_byte_at_a_time(client: FrameClient) -> None:
    for byte in push("Ride", ANA):
        client.send(bytes([byte]))

    assert client.answer()[0] == 0x10


def test_a_kill_loses_no_event_that_was_acknowledged(tmp_path: Path) -> None:
    running = BeavaServer(tmp_path).start()
    try:
        http(running, "POST", "/register", {"nodes": NODES})
        with FrameClient(running.address("tcp")) as client:
            client.send(*[push("Ride", ANA)] * 4_000)
            acked = [client.answer()[0] for _ in range(1_000)]
            running.server.kill()
        running.start()
        _, row = http(running, "POST", "/get", {"table": "Fleet", "key": ""})
    finally:
        running.server.close()

    assert acked == [0x10] * 1_000
    assert 1_000 <= row["n"] <= 4_000


def test_a_server_with_keys_does_not_let_clients_in_without(tmp_path: Path) -> None:
    guarded = BeavaServer(tmp_path, PENSTOCK_API_KEYS="secret")

    with pytest.raises(Failed, match="clients have none"):
        guarded.start()
