"""S12: clients that are slow on purpose."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.server.settings import ServerSettings
from tests.security.support import (
    Crowd,
    Http2Peer,
    is_alive,
)
from tests.server.conftest import Start
from tests.server.support import Api, Later, api_of, insist
from tests.server.wire import Connection, Ended, head
from tests.support.rig import say
from tests.support.serving import DEADLINE_S, Server, eventually

MANY = 500
LARGE_RECORDS, LARGE_BYTES = 8, 900_000
HOST = b"Host: localhost\r\n"
BODY = b'{"max_batch_bytes":8388608}'
DIFF = (
    head(
        "POST",
        "/v0/topics/large/diff",
        {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(BODY))},
    )
    + BODY
)
KINDS = {
    "head": (b"GET /v0/health HTTP/1.1\r\n" + HOST + b"X-Slow: ", b"x"),
    "body": (
        b"POST /v0/topics/t HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n",
        b" ",
    ),
    "chunks": (
        b"POST /v0/topics/t HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\n \r\n",
    ),
    "nothing": (b"", b""),
    "a preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b""),
    "blank lines": (b"\r\n", b"\r\n"),
}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose deadlines are short, so that these tests are, with a topic whose reading
    gives seven megabytes. It is filled before, when nobody has to hurry."""
    server = Server(tmp_path_factory.mktemp("impatient")).start()
    api_of(server).create("t")
    fill(server)
    assert server.stop() == 0
    server.env |= {
        "PENSTOCK_HEADER_TIMEOUT_MS": "1000",
        "PENSTOCK_BODY_TIMEOUT_MS": "1000",
        "PENSTOCK_IDLE_TIMEOUT_MS": "1000",
        "PENSTOCK_STREAM_STALL_MS": "1000",
        "PENSTOCK_STREAM_BUFFER_BYTES": "65536",
    }
    server.start()
    yield server
    server.close()


def fill(server: Server) -> None:
    api_of(server).create("large")
    for _ in range(LARGE_RECORDS):
        api_of(server).write("large", "x" * LARGE_BYTES)


def work(api: Api, seconds: float) -> int:
    """A normal client: how many of its requests were served, as all are."""
    until = time.monotonic() + seconds
    served = 0
    while not served or time.monotonic() < until:
        insist(lambda: api.write("t", 1))
        insist(lambda: api.state("t"))
        served += 1
    return served


@pytest.mark.parametrize("kind", KINDS)
def test_five_hundred_slow_sockets_are_closed_and_nobody_notices(
    impatient: Server, kind: str
) -> None:
    """S12: a byte now and then moves no deadline, and a normal client is served meanwhile."""
    first, more = KINDS[kind]

    with Crowd(impatient.address, MANY) as crowd, Later(lambda: work(api_of(impatient), 2)) as busy:
        crowd.send(first)
        until = time.monotonic() + DEADLINE_S
        while len(crowd) and time.monotonic() < until:
            crowd.listen(0.1)
            if more:
                crowd.send(more)

        assert len(crowd) == 0
        assert busy.result() > 0
    assert all(said == b"" or b" 408 " in said or b" 200 " not in said for said in crowd.said)
    eventually(lambda: is_alive(impatient.address), "an answer")


@pytest.mark.parametrize("kind", ["head", "body", "nothing"])
def test_a_normal_client_is_served_beside_five_hundred_slow_sockets(
    shared: Server, kind: str
) -> None:
    """S12: every request is answered. How long they took is told, not judged: machines have
    other work."""
    first, more = KINDS[kind]
    with Connection(shared.address) as wire:
        alone = p99_s(wire, 1)
        with Crowd(shared.address, MANY) as crowd:
            crowd.send(first)
            beside = p99_s(wire, 1, crowd, more)
            assert len(crowd) == MANY  # they were there all the time

    say(f"S12 {kind}: p99 {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside")


def p99_s(wire: Connection, span_s: float, crowd: Crowd | None = None, more: bytes = b"") -> float:
    """Of requests one after the other, while the crowd sends a byte now and then."""
    took = []
    now = time.monotonic()
    until, again = now + span_s, now
    while not took or now < until:
        if crowd is not None and now >= again:
            crowd.send(more)
            again = now + 0.25
        begun = time.perf_counter()
        assert wire.request("GET", "/v0/topics").status == 200
        took.append(time.perf_counter() - begun)
        now = time.monotonic()
    return sorted(took)[len(took) * 99 // 100]


def test_the_deadlines_and_bounds_are_there_without_being_asked_for() -> None:
    """S12: ten seconds for a head; for the rest some bound, except on connections of one peer."""
    settings = ServerSettings()

    assert settings.header_timeout_ms == 10_000
    for name in (
        "body_timeout_ms",
        "body_min_rate",
        "idle_timeout_ms",
        "stream_stall_ms",
        "stream_buffer_bytes",
        "max_connections",
        "max_sse_connections",
    ):
        assert getattr(settings, name) > 0, name


def test_connections_of_one_peer_can_be_bounded(start: Start) -> None:
    """S12: those over the bound are closed, those within it are served."""
    server = start(PENSTOCK_MAX_CONNECTIONS_PER_PEER="5")
    held = [Connection(server.address) for _ in range(5)]
    try:
        for wire in held:
            assert wire.request("GET", "/v0/health").status == 200
        with Connection(server.address) as extra:
            extra.send_what_it_takes(head("GET", "/v0/health", {"Host": "localhost"}))
            assert extra.read_rest() == b""
        assert held[0].request("GET", "/v0/health").status == 200
    finally:
        for wire in held:
            wire.close()


def test_who_reads_nothing_of_an_answer_is_given_up(impatient: Server) -> None:
    """S12: asking for more than one reads holds memory for as long as the deadline, no longer."""
    with begun(impatient, DIFF) as wire:
        gives_up(impatient, wire)
    eventually(lambda: is_alive(impatient.address), "an answer")


def test_who_reads_nothing_of_a_stream_is_given_up(impatient: Server) -> None:
    """S12: the same for event streams."""
    wid = insist(lambda: api_of(impatient).watch(["large"]))["wid"]

    with begun(impatient, head("GET", f"/v0/watch/{wid}", {"Host": "localhost"})) as wire:
        gives_up(impatient, wire)


def test_who_reads_nothing_of_a_socket_is_given_up(impatient: Server) -> None:
    """S12: the same for WebSockets."""
    handshake = {
        "Host": "localhost",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    text = b'{"op":"subscribe","topic":"large"}'

    with begun(impatient, head("GET", "/v0/ws", handshake), status=101) as wire:
        wire.send(bytes([0x81, 0x80 | len(text)]) + bytes(4) + text)  # under a mask of zeros
        wire.read_until(b'"records":')
        gives_up(impatient, wire)


def test_who_opens_no_window_for_a_stream_is_given_up(impatient: Server) -> None:
    """S12: over HTTP/2 a reader can read everything and still take nothing."""
    wid = insist(lambda: api_of(impatient).watch(["large"]))["wid"]

    def is_given_up() -> bool:
        with Http2Peer(impatient.address) as peer:
            stream = peer.begin("GET", f"/v0/watch/{wid}", end=True)
            peer.flush()
            has_begun = peer.outcome(stream) == 200
            with contextlib.suppress(ConnectionError):
                while peer.socket.recv(1 << 16):
                    continue
            return has_begun

    eventually(lambda: insist(is_given_up), "a stream, and its end")
    eventually(lambda: others(impatient) == 0, "an end to it")


@pytest.mark.parametrize("body", [b"", b" "], ids=["nothing", "a byte"])
def test_a_body_that_does_not_come_is_given_up_in_http2(impatient: Server, body: bytes) -> None:
    """S12: a stream has the deadline of a request, whatever else its connection does."""
    kind = ("content-type", "application/json")

    def outcome() -> int:
        with Http2Peer(impatient.address) as peer:
            stream = peer.begin("POST", "/v0/topics/t", kind)
            peer.h2.send_data(stream, body)
            peer.flush()
            return peer.outcome(stream)

    # 0 is a connection that was idle before its first request: the machine was paused then.
    assert eventually(lambda: insist(outcome), "a status") == 408


def others(server: Server) -> int:
    """Connections besides the one that asks."""
    reply = insist(lambda: api_of(server).get("/v0/metrics", {"Accept": "application/json"}))
    return int(reply.json["connections"]) - 1


def begun(server: Server, request: bytes, status: int = 200) -> Connection:
    """A reader that has read the head of its answer, and has little room for the rest."""

    def attempt() -> Connection:
        wire = Connection(server.address, receive_bytes=4096)
        try:
            wire.send(request)
            assert wire.read_head().status == status
        except (Ended, OSError):
            wire.close()
            raise
        return wire

    return insist(attempt)


def gives_up(server: Server, wire: Connection) -> None:
    """The server ends a connection of which nothing is read; what was on its way is all."""
    eventually(lambda: others(server) == 0, "an end to it")
    assert len(wire.read_rest()) < LARGE_RECORDS * LARGE_BYTES


def test_who_reads_slowly_is_served_to_the_end(start: Start) -> None:
    """S12: slow is not stalled: as long as something is taken the connection lives. When the
    machine itself paused for about as long as the deadline, it is tried with a longer one."""
    for stall_s in (1, 4, 16, 60):
        server = start(
            PENSTOCK_STREAM_STALL_MS=str(1000 * stall_s), PENSTOCK_STREAM_BUFFER_BYTES="65536"
        )
        fill(server)
        longest_s = read_slowly(server, 4 * stall_s)
        if longest_s is None:
            return
        assert longest_s > stall_s / 4, f"cut though the longest pause was {longest_s:.2f} s"
    raise AssertionError("it was cut every time")


def read_slowly(server: Server, seconds: float) -> float | None:
    """Read a whole answer in so many seconds, bit by bit. None when it came; else the longest
    pause there was before the connection was cut."""
    size = LARGE_RECORDS * LARGE_BYTES
    pause = threading.Event()
    with Connection(server.address, receive_bytes=65_536) as wire:
        wire.send(DIFF)
        got, longest_s = 0, 0.0
        first_s = last_s = time.monotonic()
        while got < size:
            part = wire.read_some()
            now = time.monotonic()
            longest_s, last_s = max(longest_s, now - last_s), now
            if not part:
                return longest_s
            got += len(part)
            pause.wait(max(0.0, first_s + seconds * got / size - now))
    return None
