"""Calls over sockets, for threads and for asyncio alike: one suite, both sides."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from penstock.client import address
from penstock.client.attempt_failed import AttemptFailed, Failure
from penstock.client.http import HttpRequest, ResponseReader
from penstock.client.transport import SocketTransport
from penstock.clock import SystemClock
from penstock.errors import Closed
from tests.unit.client.support import (
    DEADLINE_S,
    PASSING_S,
    SIDES,
    Asked,
    Hold,
    Side,
    answer,
    hang_up,
    no_one_listens,
    pair,
    peer_of,
    reset,
    say,
    say_and_close,
)

GET = HttpRequest("GET", "/x")
HELLO = answer(200, b"hello")


def failure(side: Side, request: HttpRequest = GET, seconds: float = DEADLINE_S) -> AttemptFailed:
    with pytest.raises(AttemptFailed) as caught:
        side.exchange(request, seconds)
    return caught.value


def late_failure(side: Side, request: HttpRequest = GET) -> AttemptFailed:
    """What a deadline comes to that passes after there was a connection."""
    for seconds in PASSING_S:
        found = failure(side, request, seconds)
        if found.failure is not Failure.NOT_SENT:
            break
    return found


def test_an_answer_comes_back_whole(kind: type[Side]) -> None:
    with pair(kind, say(answer(201, b"x" * 300_000, x_a="b"))) as (side, peer):
        response = side.exchange(HttpRequest("POST", "/p", {"A": "1"}, b"y" * 300_000))

        assert (response.status, len(response.body)) == (201, 300_000)
        assert response.headers["x-a"] == "b"
        (asked,) = peer.asked
        assert (asked.method, asked.target, len(asked.body)) == ("POST", "/p", 300_000)
        assert asked.headers["a"] == "1"
        assert peer.url.endswith(asked.headers["host"])


def test_a_connection_is_used_again(kind: type[Side]) -> None:
    with pair(kind, say(HELLO)) as (side, peer):
        for _ in range(3):
            side.exchange(GET)

        assert [asked.connection for asked in peer.asked] == [1, 1, 1]


def test_a_connection_that_was_closed_meanwhile_is_not_used_again(kind: type[Side]) -> None:
    with pair(kind, say_and_close(HELLO)) as (side, peer):
        for _ in range(20):
            assert side.exchange(GET).body == b"hello"
            peer.wait_for_closed()

        assert len(peer.asked) == 20


@pytest.mark.parametrize("extra", [b"HTTP/1.1 408 Late\r\ncontent-length: 0\r\n\r\n", b"x"])
def test_bytes_that_nobody_asked_for_are_never_taken_for_an_answer(
    kind: type[Side], extra: bytes
) -> None:
    with pair(kind, say(HELLO + extra), say(HELLO)) as (side, peer):
        assert [side.exchange(GET).body for _ in range(2)] == [b"hello", b"hello"]
        assert [asked.connection for asked in peer.asked] == [1, 2]


def test_an_answer_that_trickles_in_is_read(kind: type[Side]) -> None:
    def trickle(asked: Asked, sock: socket.socket) -> None:
        for byte in HELLO:
            sock.sendall(bytes([byte]))

    with pair(kind, trickle) as (side, _):
        assert side.exchange(GET).body == b"hello"


def test_a_connection_closed_at_any_byte_of_the_answer_is_a_lost_attempt(kind: type[Side]) -> None:
    acts = [say_and_close(HELLO[:size]) for size in range(len(HELLO))]
    with pair(kind, *acts, hang_up) as (side, peer):
        for _ in acts:
            assert failure(side).failure is Failure.LOST

        assert len(peer.asked) == len(acts)


def test_a_reset_is_a_lost_attempt(kind: type[Side]) -> None:
    with pair(kind, reset) as (side, _):
        assert failure(side).failure is Failure.LOST


def test_where_nobody_listens_nothing_was_sent(kind: type[Side]) -> None:
    with no_one_listens() as url, contextlib.closing(kind(url)) as side:
        found = failure(side)

    assert found.failure is Failure.NOT_SENT
    assert not found.is_late
    assert "refused" in str(found).lower()


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nno length",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 30_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\0" * 100,
    ],
)
def test_garbage_is_a_lost_attempt_and_the_connection_is_given_up(
    kind: type[Side], garbage: bytes
) -> None:
    with pair(kind, say(garbage), say(HELLO)) as (side, peer):
        assert failure(side).failure is Failure.LOST
        assert side.exchange(GET).body == b"hello"
        assert [asked.connection for asked in peer.asked] == [1, 2]


def test_an_answer_beyond_all_bounds_is_given_up(
    kind: type[Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("transport", "async_transport"):
        monkeypatch.setattr(f"penstock.client.{module}.ResponseReader", _small_reader)

    with pair(kind, say(answer(200, b"x" * 100_000))) as (side, _):
        assert "more than" in str(failure(side))


def _small_reader() -> ResponseReader:
    return ResponseReader(50_000)


@pytest.mark.parametrize("part", [b"", HELLO[:20], HELLO[:-1]])
def test_the_deadline_holds_whatever_the_other_side_does(kind: type[Side], part: bytes) -> None:
    hold = Hold()

    def start(asked: Asked, sock: socket.socket) -> bool:
        sock.sendall(part)
        return hold(asked, sock)

    with pair(kind, start) as (side, _):
        found = late_failure(side)
        hold.go.set()

    assert found.failure is Failure.LOST
    assert found.is_late


def test_the_deadline_holds_while_an_answer_trickles_for_ever(kind: type[Side]) -> None:
    def trickle(asked: Asked, sock: socket.socket) -> bool:
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
        pause = threading.Event()
        with contextlib.suppress(OSError):
            while True:
                sock.sendall(b"x")
                pause.wait(0.001)
        return False

    with pair(kind, trickle) as (side, _):
        assert late_failure(side).is_late


def test_the_deadline_holds_when_the_other_side_does_not_read(kind: type[Side]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, and reads nothing
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with contextlib.closing(kind(url)) as side:
            found = late_failure(side, HttpRequest("POST", "/", {}, b"x" * 30_000_000))

    assert found.is_late
    assert found.failure is Failure.LOST


def test_a_deadline_that_has_passed_sends_nothing(kind: type[Side]) -> None:
    with pair(kind, say(HELLO)) as (side, peer):
        found = failure(side, seconds=-1.0)

        assert found.is_late
        assert found.failure is Failure.NOT_SENT
        assert not peer.asked


# Closing.


def test_a_closed_transport_sends_nothing(kind: type[Side]) -> None:
    with peer_of(say(HELLO)) as peer:
        side = kind(peer.url)
        side.exchange(GET)
        if isinstance(side, SIDES[0]):
            side.close()
            with pytest.raises(Closed):
                side.exchange(GET)
        else:
            side._runner.run(side._transport.close())
            with pytest.raises(Closed):
                side.exchange(GET)
            side.close()

        assert len(peer.asked) == 1


def test_closing_ends_a_call_under_way_in_another_thread() -> None:
    hold = Hold()
    with peer_of(hold) as peer:
        transport = SocketTransport(address.parse(peer.url), SystemClock(), None)
        caught: list[Exception] = []

        def call() -> None:
            try:
                transport.exchange(GET, SystemClock().monotonic() + DEADLINE_S)
            except Closed as error:
                caught.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        assert hold.reached.wait(DEADLINE_S)
        transport.close()
        thread.join(DEADLINE_S)

    assert len(caught) == 1


def test_several_threads_have_a_connection_each() -> None:
    holds = [Hold(HELLO) for _ in range(4)]
    with peer_of(*holds, say(HELLO)) as peer:
        transport = SocketTransport(address.parse(peer.url), SystemClock(), None)
        bodies: list[bytes] = []

        def call() -> None:
            bodies.append(transport.exchange(GET, SystemClock().monotonic() + DEADLINE_S).body)

        threads = [threading.Thread(target=call) for _ in holds]
        for thread in threads:
            thread.start()
        assert all(hold.reached.wait(DEADLINE_S) for hold in holds)
        for hold in holds:
            hold.go.set()
        for thread in threads:
            thread.join(DEADLINE_S)
        transport.close()

        assert bodies == [b"hello"] * 4
        assert peer.connections == 4
