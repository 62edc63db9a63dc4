"""GET /v0/ws: subscribe, publish, unsubscribe, ping, and what the server says by itself."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import Frame, Opcode

from tests.server.conftest import patiently
from tests.server.support import (
    JSON,
    Api,
    Socket,
    at_once,
    datas_of,
    holds,
    new_name,
    now_ms,
    socket_error,
)
from tests.server.wire import Connection
from tests.support.serving import DEADLINE_S


@pytest.fixture
def socket(api: Api) -> Socket:
    with api.socket() as opened:
        yield opened


def test_a_ping_is_answered_with_what_it_was_asked(socket: Socket) -> None:
    for request_id in ("text", 5, None, {"any": ["json"]}, 1.5, True):
        socket.send("ping", request_id=request_id)
        assert socket.next() == {"op": "pong", "request_id": request_id}
    socket.send("ping")
    assert socket.next() == {"op": "pong", "request_id": None}


def test_the_pings_of_the_protocol_are_answered(socket: Socket) -> None:
    assert socket.connection.ping().wait(DEADLINE_S)


def test_messages_are_compact(api: Api, socket: Socket, topic: str) -> None:
    api.write(topic, "x")
    socket.send("subscribe", topic=topic)

    texts = [socket.connection.recv(timeout=DEADLINE_S) for _ in range(3)]

    joined = "".join(str(text) for text in texts)
    assert f'"topic":"{topic}"' in joined
    assert '"$seq":1' in joined


# Publishing.


def test_a_publication_is_acknowledged(api: Api, socket: Socket, topic: str) -> None:
    records = [{"data": 1, "tag": "t"}, {"data": 2, "node": "own"}]

    answer = socket.ask("publish", topic=topic, records=records, node="batch")

    assert answer["performance"]["server_total_ms"] >= 0
    for field, value in {
        "op": "ack",
        "topic": topic,
        "first_seq": 1,
        "last_seq": 2,
        "seqs": [1, 2],
        "head_seq": 2,
        "count": 2,
        "created": True,
        "deduped": False,
    }.items():
        assert answer[field] == value
    assert [r["$node"] for r in api.diff(topic)["records"]] == ["batch", "own"]


def test_the_single_seqs_can_be_left_out(socket: Socket, topic: str) -> None:
    answer = socket.ask("publish", topic=topic, records=[{"data": 1}], return_seqs=False)

    assert answer["seqs"] is None
    assert answer["last_seq"] == 1


def test_a_publication_has_a_key_and_a_config(api: Api, socket: Socket, topic: str) -> None:
    body: dict[str, Any] = {
        "topic": topic,
        "records": [{"data": 1}],
        "idempotency_key": "k",
        "config": {"cap_records": 3},
    }

    first, again = socket.ask("publish", **body), socket.ask("publish", **body)

    assert (first["deduped"], again["deduped"]) == (False, True)
    assert again["seqs"] == first["seqs"]
    assert api.state(topic)["config"]["cap_records"] == 3


@pytest.mark.parametrize("exists", [True, False])
def test_publications_of_one_socket_keep_their_order(
    api: Api, socket: Socket, topic: str, exists: bool
) -> None:
    """Each is acknowledged, and also the one that creates the topic is not overtaken."""
    if exists:
        api.create(topic)
    for n in range(200):
        socket.send("publish", request_id=n, topic=topic, records=[{"data": n}])

    answers = [socket.one("ack") for _ in range(200)]

    seqs = {answer["request_id"]: answer["last_seq"] for answer in answers}
    assert seqs == {n: n + 1 for n in range(200)}
    assert datas_of(api.diff(topic)) == list(range(200))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"records": []}, "invalid_request"),
        ({"topic": ".bad", "records": [{"data": 1}]}, "invalid_request"),
        ({"records": [{"data": 1, "tag": "x" * 257}]}, "invalid_request"),
        ({"records": [{"data": 1}], "create": False}, "topic_not_found"),
        ({"records": [{"data": "x" * (1 << 20)}]}, "record_too_large"),
        ({"records": [{"data": 0}] * 10_001}, "batch_too_large"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_publication_is_an_error_and_the_socket_goes_on(
    socket: Socket, topic: str, fields: dict[str, Any], code: str
) -> None:
    socket_error(socket.ask("publish", **({"topic": topic} | fields)), code)

    assert socket.ask("ping")["op"] == "pong"


def test_a_full_topic_is_an_error(api: Api, socket: Socket, topic: str) -> None:
    api.create(topic, discard="reject", cap_records=1)
    socket.ask("publish", topic=topic, records=[{"data": 1}])

    socket_error(socket.ask("publish", topic=topic, records=[{"data": 2}]), "topic_full")


# Subscribing.


def test_a_subscription_brings_the_backlog_and_then_what_comes(
    api: Api, socket: Socket, topic: str
) -> None:
    api.write(topic, "a", "b")

    answer = socket.ask("subscribe", topic=topic)
    record = socket.next()
    caught_up = socket.next()
    api.write(topic, "c")
    live = socket.one("record")

    assert answer["op"] == "subscribed"
    assert holds(answer["topics"], {topic: {"from_seq": 0, "head_seq": 2, "earliest_seq": 1}})
    assert set(record) >= {"op", "topic", "from_seq", "to_seq", "head_seq", "records"}
    assert (record["op"], record["from_seq"], record["to_seq"]) == ("record", 0, 2)
    assert datas_of(record) == ["a", "b"]
    assert caught_up == {"op": "caught_up", "topic": topic, "head_seq": 2}
    assert (datas_of(live), live["from_seq"], live["to_seq"]) == (["c"], 2, 3)


def test_a_subscription_has_the_settings_of_a_watch(api: Api, socket: Socket, topic: str) -> None:
    records = [{"data": n, "tag": f"t{n % 2}", "node": "me" if n == 2 else "you"} for n in range(6)]
    api.write(topic, records=[{**record, "meta": 1} for record in records])

    socket.ask(
        "subscribe",
        topic=topic,
        from_seq=1,
        node="me",
        tag="t0",
        include_tags=True,
        include_meta=False,
        include_data=False,
    )
    message = socket.one("record")

    assert [set(record) for record in message["records"]] == [{"$seq", "$ts", "$node", "$tag"}]
    assert [record["$seq"] for record in message["records"]] == [5]
    assert socket.one("caught_up")["head_seq"] == 6


def test_limits_and_bytes_bound_a_message(api: Api, socket: Socket, topic: str) -> None:
    api.write(topic, *range(5))

    socket.ask("subscribe", topic=topic, limit=2)
    sizes = [len(socket.one("record")["records"]) for _ in range(3)]
    other = new_name()
    api.write(other, *["x" * 100] * 3)
    socket.ask("subscribe", topic=other, max_batch_bytes=1)

    assert sizes == [2, 2, 1]
    assert [len(socket.one("record")["records"]) for _ in range(3)] == [1, 1, 1]


def test_several_topics_and_tails(api: Api, socket: Socket) -> None:
    one, two, three = new_name(), new_name(), new_name()
    for name in (one, two, three):
        api.write(name, 1, 2)

    answer = socket.ask(
        "subscribe", topic=one, topics={two: {"tail": True}, three: {"from_seq": 1}}
    )

    assert {name: at["from_seq"] for name, at in answer["topics"].items()} == {
        one: 0,
        two: 2,
        three: 1,
    }
    got = {}
    for _ in range(2):
        message = socket.one("record")
        got[message["topic"]] = [r["$seq"] for r in message["records"]]
    assert got == {one: [1, 2], three: [2]}
    api.write(two, 3)
    assert socket.one("record")["topic"] == two


def test_a_subscription_by_time_epoch_and_pattern(api: Api, socket: Socket) -> None:
    prefix = new_name("wild")
    old = api.write(f"{prefix}:a", 1, 2)
    api.drop(f"{prefix}:a")
    api.write(f"{prefix}:a", *"xyz")

    answer = socket.ask("subscribe", topics={f"{prefix}:a": {"from_ts": now_ms() + 3_600_000}})
    assert answer["topics"][f"{prefix}:a"]["from_seq"] == 3
    socket.ask("unsubscribe", topic=f"{prefix}:a")

    socket.ask("subscribe", topics={f"{prefix}:a": {"from_seq": 1, "epoch": old["epoch"]}})
    assert socket.one("tombstone")["reason"] == "recreated"
    assert datas_of(socket.one("record")) == ["x", "y", "z"]
    socket.ask("unsubscribe", topic=f"{prefix}:a")

    answer = socket.ask("subscribe", topics={f"{prefix}:*": {"tail": True}})
    assert set(answer["topics"]) == {f"{prefix}:a"}
    api.write(f"{prefix}:b", "new")
    message = socket.one("record")
    assert (message["topic"], datas_of(message)) == (f"{prefix}:b", ["new"])


def test_an_unknown_topic_is_an_error_unless_lenient(api: Api, socket: Socket, topic: str) -> None:
    missing = new_name("missing")
    api.create(topic)
    wanted = {topic: {}, missing: {}}

    socket_error(socket.ask("subscribe", topics=wanted), "topic_not_found")
    answer = socket.ask("subscribe", topics=wanted, lenient=True)

    assert set(answer["topics"]) == {topic}


def test_a_gap_is_told_with_its_reason(api: Api, socket: Socket, topic: str) -> None:
    """The real one, also at the start."""
    api.create(topic, cap_records=2)
    api.write(topic, *range(5))

    socket.ask("subscribe", topic=topic)
    gap = socket.next()

    assert {name: gap[name] for name in ("op", "topic", "reason", "gap_from", "gap_to")} == {
        "op": "tombstone",
        "topic": topic,
        "reason": "cap",
        "gap_from": 1,
        "gap_to": 3,
    }
    assert (gap["earliest_seq"], gap["head_seq"]) == (4, 5)
    assert socket.one("record")["from_seq"] == 3


def test_a_topic_that_goes_is_told(api: Api, socket: Socket, topic: str) -> None:
    other = new_name()
    api.write(topic, 1)
    api.write(other, 1)
    socket.ask("subscribe", topics={topic: {"tail": True}, other: {"tail": True}})

    api.drop(topic)
    gone = socket.one("topic_deleted")
    api.write(topic, "again")
    api.write(other, 2)

    assert gone["topic"] == topic
    assert socket.one("record")["topic"] == other


def test_after_unsubscribing_nothing_more_comes(api: Api, socket: Socket) -> None:
    one, two, three = new_name(), new_name(), new_name()
    for name in (one, two, three):
        api.create(name)
    socket.ask("subscribe", topics={one: {}, two: {}, three: {}})

    answer = socket.ask("unsubscribe", topic=one, topics=[two])
    for name in (one, two, three):
        api.write(name, "late")
    message = socket.one("record")

    assert answer["op"] == "unsubscribed"
    assert sorted(answer["topics"]) == sorted([one, two])
    assert message["topic"] == three
    assert socket.ask("ping")["op"] == "pong"


def test_a_publisher_hears_itself_unless_it_says_who_it_is(socket: Socket, topic: str) -> None:
    socket.ask("publish", topic=topic, records=[{"data": 0}])
    socket.ask("subscribe", topic=topic, tail=True, node="me")

    socket.ask("publish", topic=topic, records=[{"data": "mine"}], node="me")
    socket.ask("publish", topic=topic, records=[{"data": "anybody's"}])

    assert datas_of(socket.one("record")) == ["anybody's"]


def test_no_wake_up_of_a_socket_is_lost(api: Api, topic: str) -> None:
    api.create(topic)
    with api.socket() as reader, api.socket() as writer:
        reader.ask("subscribe", topic=topic)
        for n in range(300):
            writer.send("publish", topic=topic, records=[{"data": n}])
            assert datas_of(reader.one("record")) == [n]


def test_cursors_end_with_the_socket(api: Api, topic: str) -> None:
    api.write(topic, 1, 2)
    for _ in range(2):
        with api.socket() as socket:
            socket.ask("subscribe", topic=topic)
            assert len(socket.records(2)) == 2


def test_sockets_of_many_clients_each_get_everything(api: Api, topic: str) -> None:
    api.create(topic)

    def work(n: int) -> list[Any]:
        with api.socket() as socket:
            socket.ask("subscribe", topic=topic)
            socket.ask("publish", topic=topic, records=[{"data": n}])
            return [record["$seq"] for record in socket.records(6)]

    assert at_once(6, work) == [[1, 2, 3, 4, 5, 6]] * 6


# What is no message.


@pytest.mark.parametrize(
    "text", ["", "{", "nonsense", "[]", "5", '"ping"', "{}", '{"op":5}', '{"op":"fly"}']
)
def test_what_is_no_message_is_an_error_and_the_socket_goes_on(socket: Socket, text: str) -> None:
    socket.connection.send(text)

    socket_error(socket.next(), "invalid_json")
    assert socket.ask("ping")["op"] == "pong"


def test_binary_messages_are_not_supported(socket: Socket) -> None:
    socket.connection.send(b'{"op":"ping"}')

    socket_error(socket.next(), "unsupported_message")


@pytest.mark.parametrize(
    ("op", "fields"),
    [
        ("publish", {"records": [{}]}),
        ("publish", {"records": "x"}),
        ("publish", {}),
        ("subscribe", {"topic": 5}),
        ("subscribe", {"from_seq": "x"}),
        ("subscribe", {"topics": ["list"]}),
        ("unsubscribe", {"topic": 5}),
    ],
)
def test_a_message_of_wrong_types_is_an_error(
    socket: Socket, topic: str, op: str, fields: dict[str, Any]
) -> None:
    socket.send(op, **({"topic": topic} | fields))

    message = socket.next()
    assert message["op"] == "error"
    assert message["code"] in ("invalid_request", "invalid_json")
    assert socket.ask("ping")["op"] == "pong"


def test_a_subscription_to_nothing_is_an_error(socket: Socket) -> None:
    socket_error(socket.ask("subscribe"), "invalid_request")


def test_a_message_of_any_shape_does_not_hurt_the_server(api: Api) -> None:
    with api.socket() as socket:
        socket.connection.send("[" * 100_000)
        assert socket.next()["op"] == "error"
    with api.socket() as socket:
        for part in ("{" + '"a":' * 3, "\ufeff{}", json.dumps({"op": "ping\u0000"})):
            socket.connection.send(part)
            assert socket.next()["op"] == "error"
    assert api.get("/v0/health").status == 200


def test_a_plain_request_for_a_socket_is_refused(api: Api) -> None:
    assert api.get("/v0/ws").status in (400, 426)
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    assert api.get("/v0/ws", headers).status == 400


HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
NUMBERED = {"X-Penstock-Sender": "me", "X-Penstock-FSN": "0"}


@pytest.mark.parametrize("path", ["/v0/ws", "/v0/sender", "/api/v4/write"])
def test_whoever_sends_too_much_at_once_can_send_it_all_and_hears_why(
    tmp_path: Path, path: str
) -> None:
    """A connection that is reset in the middle tells nobody anything."""
    with (
        contextlib.closing(patiently(tmp_path, PENSTOCK_MAX_BODY_BYTES="1000000")) as server,
        Connection(server.start().connect_to, receive_bytes=4096) as connection,
    ):
        connection.send_request("GET", path, None, HANDSHAKE | NUMBERED)
        assert connection.read_head().status == 101
        message = Frame(Opcode.BINARY, bytes(30_000_000)).serialize(mask=True)

        connection.send(message)

        said = connection.read_rest()
    assert b"\x03\xf1frame with 30000000 bytes exceeds" in said  # 1009


def test_a_payload_with_newlines_comes_through(api: Api, socket: Socket, topic: str) -> None:
    api.post(f"/v0/topics/{topic}", b'{"records":[{"data":{\n"a" :\r\n 1}}]}', JSON)

    socket.ask("subscribe", topic=topic)

    assert datas_of(socket.one("record")) == [{"a": 1}]
