"""Slow clients: heads, bodies and idle connections that take too long (S12)."""

from __future__ import annotations

import time

import pytest

from tests.server.conftest import Start
from tests.server.support import JSON, api_of, compact, insist, refused
from tests.server.wire import Connection, Ended, head
from tests.support.serving import DEADLINE_S

BODY = compact({"records": [{"data": 1}]}).encode()


def trickled(wire: Connection, step: bytes, pause_s: float) -> bytes:
    """Send a little now and then until the server answers or closes, which it must."""
    wire.socket.settimeout(pause_s)
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        wire.send_what_it_takes(step)
        try:
            return wire.read_some()
        except TimeoutError:
            continue
    raise AssertionError("the server waits for ever")


def test_a_head_that_does_not_come_is_timed_out(start: Start) -> None:
    server = start(PENSTOCK_HEADER_TIMEOUT_MS="300")

    with Connection(server.address) as wire:
        wire.send(b"GET /v0/health HTTP/1.1\r\nHost: local")
        refused(wire.read_reply(), 408, "request_timeout")
        assert wire.read_rest() == b""
    with Connection(server.address) as wire:
        assert wire.request("GET", "/v0/health").status == 200


def test_a_head_that_trickles_is_timed_out_too(start: Start) -> None:
    """The deadline is for the whole head, so a byte now and then does not move it."""
    server = start(PENSTOCK_HEADER_TIMEOUT_MS="1000")

    with Connection(server.address) as wire:
        wire.send(b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        answer = trickled(wire, b"x", 0.05)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_does_not_come_is_timed_out(start: Start) -> None:
    server = start(PENSTOCK_BODY_TIMEOUT_MS="300")

    with Connection(server.address) as wire:
        start_ = {"Host": "localhost", "Content-Length": str(len(BODY))} | JSON
        wire.send(head("POST", "/v0/topics/t", start_) + BODY[:-1])
        refused(wire.read_reply(), 408, "request_timeout")
        assert wire.read_rest() == b""
    refused(api_of(server).get("/v0/topics/t"), 404, "topic_not_found")


@pytest.mark.parametrize("step", [b"", b"1\r\n \r\n"])
def test_a_body_below_the_minimum_rate_is_timed_out(start: Start, step: bytes) -> None:
    server = start(PENSTOCK_BODY_MIN_RATE="100000000")

    with Connection(server.address) as wire:
        start_ = {"Host": "localhost", "Transfer-Encoding": "chunked"} | JSON
        wire.send(head("POST", "/v0/topics/t", start_))
        answer = trickled(wire, step, 0.1)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 408 ")


def test_an_idle_connection_is_closed_without_a_word(start: Start) -> None:
    server = start(PENSTOCK_IDLE_TIMEOUT_MS="300")

    def served() -> Connection:
        wire = Connection(server.address)
        try:
            assert wire.request("GET", "/v0/health").status == 200
        except (Ended, OSError):
            wire.close()
            raise
        return wire

    with insist(served) as wire:
        assert wire.read_rest() == b""


def test_waiting_for_an_answer_is_not_idle(start: Start) -> None:
    """A long poll and a stream outlive the deadlines of requests."""
    server = start(
        PENSTOCK_IDLE_TIMEOUT_MS="200",
        PENSTOCK_HEADER_TIMEOUT_MS="200",
        PENSTOCK_BODY_TIMEOUT_MS="200",
        PENSTOCK_TEST_MIN_HEARTBEAT_MS="100",
    )
    api = api_of(server)
    insist(lambda: api.create("t"))

    with (
        insist(lambda: api.follow(["t"], heartbeat_ms=100)) as stream,
        insist(api.socket) as socket,
    ):
        answer = insist(lambda: api.diff("t", wait_ms=1500))
        assert answer["records"] == []
        insist(lambda: api.write("t", 1))
        assert stream.one("record").seqs == [1]
        assert socket.ask("ping")["op"] == "pong"


def test_connections_are_capped_in_all(start: Start) -> None:
    server = start(PENSTOCK_MAX_CONNECTIONS="4")
    held = [Connection(server.address) for _ in range(4)]
    try:
        for wire in held:
            assert wire.request("GET", "/v0/health").status == 200
        with Connection(server.address) as extra:
            extra.send_what_it_takes(head("GET", "/v0/health", {"Host": "localhost"}))
            answer = extra.read_rest()
        assert answer == b"" or answer.startswith((b"HTTP/1.1 503 ", b"HTTP/1.1 429 "))
    finally:
        for wire in held:
            wire.close()
