"""S22: bytes that would end an event or a message too early, and messages without an end."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.security.support import MIB, is_alive, post, small_growth
from tests.server.conftest import Start
from tests.server.sse import encode_cursors
from tests.server.support import BATCH, Api, api_of, new_name
from tests.server.wire import Connection
from tests.support.serving import Server

# JSON may have any of these between its tokens, and any escape in its strings.
PAYLOADS = [
    b"[1,\n\n2]",
    b"[1,\r\r2]",
    b"[1,\r\n\r\n2]",
    b'{\n"event"\n:\n"record"\n}',
    b'[\n\n"id: evil",\n\n"event: error",\n"data: {}"\n\n]',
    b"\n\n1\n\n",
    b'"\\n\\nevent: error\\ndata: {}\\n\\n"',
    b'"\\r\\n\\r\\nid: evil"',
    b'"\\u000a\\u000aevent: error"',
    '"\u2028\u2029\u0085 retry: 1"'.encode(),
    b'{"id: 1\\n\\n":"\\n"}',
]
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def binary(*datas: bytes) -> bytes:
    records = b"".join(struct.pack("<IIHH", len(data), 0, 0, 0) + data for data in datas)
    return b"PSB1" + struct.pack("<I", 2) + b"{}" + struct.pack("<I", len(datas)) + records


@pytest.mark.parametrize("is_binary", [False, True], ids=["json", "binary"])
def test_no_payload_ends_its_event(api: Api, topic: str, is_binary: bool) -> None:
    """S22: every record of the backlog and every live one arrives whole, in one event."""
    api.create(topic)
    texts = b",".join(b'{"data":%b}' % payload for payload in PAYLOADS)
    expected = [json.loads(payload) for payload in PAYLOADS]

    def publish() -> None:
        body = binary(*PAYLOADS) if is_binary else b'{"records":[%b]}' % texts
        kind = BATCH if is_binary else "application/json"
        assert post(api.address, f"/v0/topics/{topic}", body, kind=kind) == 200

    publish()
    with api.follow([topic]) as stream, api.socket() as socket:
        assert [one["data"] for one in stream.records(len(PAYLOADS))] == expected
        stream.one("caught-up")
        socket.ask("subscribe", topic=topic, tail=True)
        publish()
        assert [one["data"] for one in stream.records(len(PAYLOADS))] == expected
        assert [one["data"] for one in socket.records(len(PAYLOADS))] == expected


@pytest.mark.parametrize("payload", PAYLOADS, ids=repr)
def test_the_raw_bytes_of_an_event_are_one_event(api: Api, topic: str, payload: bytes) -> None:
    """S22: read as a browser reads: lines end in LF, CR or both, a blank line ends the event."""
    api.create(topic)
    assert post(api.address, f"/v0/topics/{topic}", b'{"records":[{"data":%b}]}' % payload) == 200
    wid = api.watch([topic])["wid"]

    with Connection(api.address) as wire:
        wire.send_request("GET", f"/v0/watch/{wid}")
        wire.read_head()
        text = b""
        while b"caught-up" not in text:
            text += wire.read_chunk()

    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    names = [line.partition(b":")[0] for line in lines if line]
    assert names == [b"retry", b"id", b"event", b"data", b"id", b"event", b"data"]


def test_tags_nodes_and_metas_do_not_end_an_event_either(api: Api, topic: str) -> None:
    """S22: labels are escaped where they are shown."""
    api.create(topic)
    evil = "a\n\nevent: error\r\rdata: x\u2028"
    api.write(topic, records=[{"data": 1, "tag": evil, "node": evil, "meta": {evil: evil}}])

    with api.follow([topic], include_tags=True) as stream:
        (record,) = stream.records(1)

    assert record["$tag"] == record["$node"] == evil
    assert record["meta"] == {evil: evil}


@pytest.mark.parametrize(
    "cursors",
    ["\\n", "x", "=" * 100, "e30", encode_cursors({"a\n\nevent: x": 1}), "A" * 60_000],
    ids=lambda text: str(text)[:20],
)
def test_an_id_that_is_sent_back_changes_no_event(api: Api, topic: str, cursors: str) -> None:
    """S22: what a client says it has seen is read, never repeated."""
    api.create(topic)
    api.write(topic, 1)
    wid = api.watch([topic])["wid"]

    with api.stream(wid, {"Last-Event-ID": cursors}) as stream:
        frame = stream.one("record")

    assert set(frame.cursors) == {topic}


# WebSocket frames, byte by byte.


def frame(
    opcode: int, data: bytes = b"", *, fin: bool = True, rsv: int = 0, size: int = -1
) -> bytes:
    """A masked frame whose mask is zero. `size` may lie."""
    size = len(data) if size < 0 else size
    first = (0x80 if fin else 0) | rsv | opcode
    if size < 126:
        start = bytes([first, 0x80 | size])
    elif size < 1 << 16:
        start = bytes([first, 0x80 | 126]) + struct.pack(">H", size)
    else:
        start = bytes([first, 0x80 | 127]) + struct.pack(">Q", size)
    return start + bytes(4) + data


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    env = {"PENSTOCK_MAX_BODY_BYTES": str(4 * MIB)}
    server = Server(tmp_path_factory.mktemp("victim"), env).start()
    api_of(server).create("t")
    yield server
    server.close()


@pytest.fixture
def wire(victim: Server) -> Iterator[Connection]:
    """A WebSocket after its handshake."""
    with Connection(victim.address) as wire:
        wire.send_request("GET", "/v0/ws", headers=HANDSHAKE)
        assert wire.read_reply().status == 101
        yield wire


def close_code(wire: Connection) -> int:
    """The code of the close frame with which the server ends."""
    data = wire.read_rest()
    at = data.rfind(b"\x88")
    assert at >= 0, data[-100:]
    return int.from_bytes(data[at + 2 : at + 4], "big")


def pour(wire: Connection, data: bytes, most: int) -> None:
    for _ in range(most // len(data)):
        try:
            wire.socket.sendall(data)
        except OSError:
            return
    raise AssertionError(f"{most} bytes were taken")


def test_a_message_without_end_is_too_big(victim: Server, wire: Connection) -> None:
    """S22: fragments count together."""
    with small_growth(victim):
        wire.send(frame(1, b"x", fin=False))
        pour(wire, frame(0, b"x" * 65_536, fin=False), 1 << 30)

        assert close_code(wire) == 1009


@pytest.mark.parametrize("size", [0, 2])
def test_fragments_of_nothing_take_no_memory(victim: Server, wire: Connection, size: int) -> None:
    """S22: a message of a million fragments is no larger than its bytes."""
    with small_growth(victim):
        wire.send(frame(1, b"x", fin=False))
        wire.send(frame(0, b"x" * size, fin=False) * 150_000)
        wire.send(frame(9))
        assert b"\x8a\x00" in wire.read_until(b"\x8a\x00")  # a pong: everything was read


def test_a_frame_that_says_it_is_huge_is_refused_at_once(victim: Server, wire: Connection) -> None:
    """S22: before a byte of it has come."""
    with small_growth(victim):
        wire.send(frame(1, size=1 << 40))

        assert close_code(wire) == 1009


def test_deflate_is_not_spoken(victim: Server) -> None:
    """S22: asked for, it is not granted; used all the same, it is a fault. No bomb is inflated."""
    asked = HANDSHAKE | {
        "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits, x-webkit-deflate"
    }
    with Connection(victim.address) as wire:
        wire.send_request("GET", "/v0/ws", headers=asked)
        reply = wire.read_reply()
        assert reply.status == 101
        assert "sec-websocket-extensions" not in reply.headers
        wire.send(frame(1, b"\x01\x02", rsv=0x40))
        assert close_code(wire) == 1002


FAULTS = {
    "reserved bits": frame(1, b"{}", rsv=0x30),
    "an unknown opcode": frame(3, b"{}"),
    "an unknown control opcode": frame(11),
    "no mask": b"\x81\x02{}",
    "a ping in fragments": frame(9, fin=False),
    "a long ping": frame(9, b"x" * 126),
    "a continuation of nothing": frame(0, b"{}"),
    "a message in a message": frame(1, b"{", fin=False) + frame(1, b"}"),
    "a close of one byte": frame(8, b"x"),
    "a close with a wrong code": frame(8, struct.pack(">H", 1005)),
    "a close that is not UTF-8": frame(8, struct.pack(">H", 1000) + b"\xff"),
}


@pytest.mark.parametrize("bytes_", FAULTS.values(), ids=FAULTS.keys())
def test_a_wrong_frame_ends_the_socket(victim: Server, wire: Connection, bytes_: bytes) -> None:
    """S22: in order, with a code, and nobody else notices."""
    wire.send_what_it_takes(bytes_)

    assert close_code(wire) in (1002, 1007)
    assert is_alive(victim.address)
    assert "Traceback" not in victim.said()


def test_large_messages_are_for_publications_only(start: Start) -> None:
    """S22: a subscription of many megabytes is refused unread."""
    server = start()
    api = api_of(server)
    api.create("t")
    many: dict[str, Any] = {f"topic-{n}": {} for n in range(200_000)}

    with small_growth(server), api.socket() as socket:
        answer = socket.ask("subscribe", topics=many, lenient=True)
        assert answer["code"] == "payload_too_large"
        records = [{"data": 1}] * 300_000
        answer = socket.ask("publish", topic="t", records=records)
        assert answer["code"] == "batch_too_large"
        assert socket.ask("ping")["op"] == "pong"


def test_a_request_id_is_given_back_as_it_was_and_inside_one_message(api: Api) -> None:
    """S22: whatever JSON it is."""
    with api.socket() as socket:
        for text in ('"a\\n\\"b"', "[1,\n2]", '{"op":"error"}', "null", "1e9", '"\\ud83d\\ude00"'):
            socket.connection.send(f'{{"op":"ping","request_id":{text}}}')
            message = socket.next()
            assert message == {"op": "pong", "request_id": json.loads(text)}


def test_names_in_events_need_no_escaping(api: Api) -> None:
    """S22: they go out as they are, so what would need it must not come in."""
    for name in ('a"b', "a\\b", "a\nb", "a\u2028b"):
        body = {"records": [{"data": 1}]}
        assert api.post("/v0/batch", {"writes": [{"topic": name, **body}]}).status == 400
    topic = new_name()
    api.create(topic)
    with api.follow([topic]) as stream:
        assert stream.one("caught-up").json["topic"] == topic
