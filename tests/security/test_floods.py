"""S12 and S22 together: many small things at once, on one connection."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.security.support import MIB, Http2Peer, is_alive, say, small_growth, statuses
from tests.server.h2wire import Http2
from tests.server.support import Api, api_of
from tests.server.wire import Connection, head
from tests.support.serving import DEADLINE_S, Server, eventually

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BODY = b'{"max_batch_bytes":8388608}'
FIELDS = {
    "Host": "localhost",
    "Content-Type": "application/json",
    "Content-Length": str(len(BODY)),
}


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a topic whose reading gives eight megabytes."""
    server = Server(tmp_path_factory.mktemp("victim")).start()
    api = api_of(server)
    api.create("large")
    for _ in range(8):
        api.write("large", "x" * 900_000)
    api.diff("large", max_batch_bytes=8 * MIB)
    yield server
    server.close()


def test_answers_that_nobody_reads_do_not_pile_up(victim: Server) -> None:
    """S12: of two hundred pipelined requests the server answers as many as are read."""
    request = head("POST", "/v0/topics/large/diff", FIELDS) + BODY

    with small_growth(victim), Connection(victim.address, receive_bytes=4096) as wire:
        wire.send(request * 200)
        for _ in range(20):
            assert is_alive(victim.address)

    with Connection(victim.address) as wire:
        wire.send(request * 5)
        for _ in range(5):
            assert len(wire.read_reply().json["records"]) == 8


def test_answers_that_nobody_reads_do_not_pile_up_in_http2(victim: Server) -> None:
    """S12: the same with two hundred streams and a window that stays shut."""
    with small_growth(victim), Http2(victim.address) as wire:
        for _ in range(100):
            wire.start(
                "POST",
                "/v0/topics/large/diff",
                {"content-type": "application/json"},
                BODY,
            )
        for _ in range(20):
            assert is_alive(victim.address)


def test_requests_held_back_are_answered_when_their_peer_reads(victim: Server) -> None:
    """S12: held back, not lost, over HTTP/2 as well."""
    with Http2(victim.address) as wire:
        streams = [
            wire.start("POST", "/v0/topics/large/diff", {"content-type": "application/json"}, BODY)
            for _ in range(4)
        ]
        for stream in streams:
            assert len(wire.finish(stream).json["records"]) == 8


@pytest.mark.parametrize(
    "line",
    [b"a:\r\n", b"X-%d: y\r\n"],
    ids=["one name", "many names"],
)
def test_too_many_headers_are_refused_early(victim: Server, line: bytes) -> None:
    """S12: a header repeated is a header more."""
    lines = b"".join(line % n if b"%" in line else line for n in range(5_000))

    answer = say(
        victim.address, b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n"
    )

    assert statuses(answer) == [431]


def test_upgrades_that_nobody_offers_can_be_many(victim: Server) -> None:
    """S12: a thousand in one segment are a thousand plain requests."""
    one = b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
    last = b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answer = say(victim.address, one * 1_500 + last)

    assert statuses(answer) == [404] * 1_500 + [200]
    assert "Traceback" not in victim.said()


def test_a_peer_with_many_messages_waits_for_the_others(victim: Server) -> None:
    """S23: ten thousand at once on one socket, and everybody else is served in between."""
    count = 10_000
    api = api_of(victim)
    with small_growth(victim), api.socket() as flood:
        for _ in range(count):
            flood.send("subscribe", topic="large", tail=True, from_ts=1)
        for _ in range(20):
            assert is_alive(victim.address)
        answered = 0
        while answered < count:
            answered += flood.next()["op"] == "subscribed"


def test_a_peer_with_many_requests_waits_for_the_others(victim: Server) -> None:
    """S23: the same for requests in one segment; all of them are answered, in order."""
    count = 3_000
    one = head("GET", "/v0/topics/large", {"Host": "localhost"})
    last = head("GET", "/v0/nothing", {"Host": "localhost", "Connection": "close"})

    with Connection(victim.address) as wire, Connection(victim.address) as other:
        wire.send_what_it_takes(one * count + last)
        for _ in range(20):
            assert other.request("GET", "/v0/health").status == 200
        found = statuses(wire.read_rest())

    assert found == [200] * count + [404]


def test_patterns_of_a_socket_are_bounded(victim: Server) -> None:
    """S23: each costs something whenever a topic is made."""
    with api_of(victim).socket() as socket:
        many = {f"p{number}*": {} for number in range(200)}
        assert socket.ask("subscribe", topics=many)["op"] == "subscribed"
        assert socket.ask("subscribe", topics=many)["op"] == "subscribed"
        more = {f"q{number}*": {} for number in range(200)}
        assert socket.ask("subscribe", topics=more)["code"] == "throttled"
        assert socket.ask("subscribe", topics=many | more)["code"] == "throttled"


def test_large_answers_are_compressed_beside_the_others(victim: Server) -> None:
    """S23: and arrive whole and in their order."""
    fields = FIELDS | {"Accept-Encoding": "gzip"}
    large = head("POST", "/v0/topics/large/diff", fields) + BODY
    small = head("GET", "/v0/health", {"Host": "localhost"})

    with Connection(victim.address) as wire:
        wire.send(large + small + large + small)
        for _ in range(2):
            reply = wire.read_reply()
            assert reply.headers["content-encoding"] == "gzip"
            assert len(json.loads(gzip.decompress(reply.body))["records"]) == 8
            assert wire.read_reply().json["status"] == "ok"
    with Http2(victim.address) as wire2:
        headers = {"content-type": "application/json", "accept-encoding": "gzip"}
        reply = wire2.request("POST", "/v0/topics/large/diff", headers, BODY)
        assert len(json.loads(gzip.decompress(reply.body))["records"]) == 8


FRAMES = {
    "pings": b"\0\0\x08\x06\0\0\0\0\0" + bytes(8),
    "settings": b"\0\0\x06\x04\0\0\0\0\0" + b"\0\x03\0\0\0\x64",
    "windows": b"\0\0\x04\x08\0\0\0\0\0" + b"\0\0\0\x01",
    "priorities": b"\0\0\x05\x02\0\0\0\0\x01" + b"\0\0\0\0\x10",
    "unknown frames": b"\0\0\x01\xee\0\0\0\0\0x",
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_flood_of_frames_that_ask_for_nothing_ends_the_connection(
    victim: Server, kind: str
) -> None:
    """S12: such frames are answered or counted, and cost more to read than to send."""
    with small_growth(victim), socket.create_connection(victim.address, timeout=DEADLINE_S) as wire:
        wire.sendall(PREFACE + b"\0\0\0\x04\0\0\0\0\0")
        with contextlib.suppress(ConnectionError):
            wire.sendall(FRAMES[kind] * 20_000)
            while wire.recv(1 << 16):
                continue
    assert is_alive(victim.address)
    assert "Traceback" not in victim.said()


def test_streams_opened_and_reset_end_the_connection(victim: Server) -> None:
    """S12: rapid reset: the bound on streams counts only those that are open."""
    kind = ("content-type", "application/json")

    with (
        small_growth(victim),
        Http2Peer(victim.address) as peer,
        contextlib.suppress(ConnectionError),
    ):
        for _ in range(5_000):
            stream = peer.begin("POST", "/v0/topics/large/diff", kind)
            peer.h2.send_data(stream, b'{"wait_ms":30000,"from_seq":8}', end_stream=True)
            peer.h2.reset_stream(stream)
        peer.flush()
        while peer.socket.recv(1 << 16):
            continue
    assert is_alive(victim.address)


def test_a_normal_client_is_no_flood(victim: Server) -> None:
    """S12: hundreds of requests, pings and cancelled streams are fine."""
    with Http2(victim.address) as wire:
        for number in range(300):
            assert wire.request("GET", "/v0/health").status == 200
            wire.connection.ping(number.to_bytes(8, "big"))
            wire.flush()
        wid = api_of(victim).watch(["large"])["wid"]
        for _ in range(50):
            stream = wire.start("GET", f"/v0/watch/{wid}")
            wire.head(stream)
            wire.connection.reset_stream(stream)
            wire.flush()
        assert wire.request("GET", "/v0/health").status == 200


def test_bodies_of_strangers_are_not_held_in_http2(secured: Server) -> None:
    """S10: who may not write is told so on the head of the stream."""
    kind = ("content-type", "application/json")

    for headers in ((kind,), (kind, ("authorization", "Bearer reader"))):
        with Http2Peer(secured.address) as peer:
            stream = peer.begin("POST", "/v0/topics/t", *headers)
            peer.flush()
            assert peer.outcome(stream) in (401, 403)


def test_two_lengths_are_refused_in_http2(victim: Server) -> None:
    """S13: there too a length is said once."""
    with Http2Peer(victim.address) as peer:
        lengths = ("content-length", "2"), ("content-length", "20")
        stream = peer.begin(
            "POST", "/v0/topics/large", ("content-type", "application/json"), *lengths
        )
        peer.h2.send_data(stream, b"{}", end_stream=True)
        peer.flush()
        assert peer.outcome(stream) in (400, 0)
    assert "Traceback" not in victim.said()


def test_long_polls_whose_streams_are_gone_end(tmp_path: Path) -> None:
    """S23: a poll that nobody waits for any more is not counted for its key."""
    env = {"PENSTOCK_API_KEYS": "one", "PENSTOCK_MAX_INFLIGHT_PER_KEY": "20"}
    server = Server(tmp_path, env).start()
    try:
        api = api_of(server, "one")
        api.create("t")
        # By themselves polls end after half a minute. A busy machine may be that slow as well,
        # but not every time.
        assert any(seconds_to_the_end_of_polls(server, api) < 15 for _ in range(5))
    finally:
        server.close()


def seconds_to_the_end_of_polls(server: Server, api: Api) -> float:
    """From when their streams are reset until the key may ask again."""
    headers = ("content-type", "application/json"), ("authorization", "Bearer one")
    with Http2Peer(server.address) as peer:
        streams = [peer.begin("POST", "/v0/topics/t/diff", *headers) for _ in range(20)]
        for stream in streams:
            peer.h2.send_data(stream, b'{"wait_ms":30000}', end_stream=True)
        peer.flush()
        eventually(lambda: api.get("/v0/topics").status == 429, "the cap")
        begun = time.monotonic()
        for stream in streams:
            peer.h2.reset_stream(stream)
        peer.flush()
        eventually(lambda: api.get("/v0/topics").status == 200, "an end of the polls")
        return time.monotonic() - begun
