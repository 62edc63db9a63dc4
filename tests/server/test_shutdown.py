"""SIGTERM: streams are told, waiting calls answered, what was taken on is finished."""

from __future__ import annotations

import contextlib

import pytest
from websockets.exceptions import ConnectionClosed

from tests.server.conftest import Start
from tests.server.h2wire import Http2
from tests.server.support import JSON, LONG_DRAIN, Later, api_of, compact, refused, socket_error
from tests.server.wire import Connection, Ended, head
from tests.support.serving import MANY_SYNCS_S, Server, eventually


def refuses_connections(server: Server) -> bool:
    try:
        with Connection(server.address):
            return False
    except OSError:
        return True


def test_an_idle_stream_is_told_and_does_not_hold_the_end_up(start: Start) -> None:
    server = start(**LONG_DRAIN)
    api = api_of(server)
    api.write("t", 1)
    with api.follow(["t"]) as stream:
        stream.until("caught-up")

        server.terminate()
        last = stream.rest()[-1]
        code = server.wait()

    assert code == 0
    assert last.event == "error"
    assert last.json["code"] == "server_shutting_down"
    assert last.json["message"]
    assert last.cursors == {"t": 1}
    assert '"code":"server_shutting_down"' in last.raw


def test_an_idle_socket_is_told_and_does_not_hold_the_end_up(start: Start) -> None:
    server = start(**LONG_DRAIN)
    with api_of(server).socket() as socket:
        socket.ask("ping")

        server.terminate()
        socket_error(socket.next(), "server_shutting_down")
        with pytest.raises(ConnectionClosed):
            socket.next()
        assert server.wait() == 0


def test_idle_connections_do_not_hold_the_end_up(start: Start) -> None:
    server = start(**LONG_DRAIN)
    with Connection(server.address) as kept, Http2(server.address) as other:
        kept.request("GET", "/v0/health")
        other.request("GET", "/v0/health")

        server.terminate()

        assert server.wait() == 0


def test_a_waiting_reader_is_answered(start: Start) -> None:
    server = start(**LONG_DRAIN)
    api = api_of(server)
    api.create("t")
    with Connection(server.address) as wire:
        body = compact({"wait_ms": 30_000}).encode()
        wire.send_request("POST", "/v0/topics/t/diff", body, JSON)
        api.get("/v0/health")  # the server has read what came before

        server.terminate()
        reply = wire.read_reply()

        assert server.wait() == 0
    if reply.status == 200:
        assert reply.json["records"] == []
    else:
        refused(reply, 503, "shutting_down")


def test_what_comes_after_the_signal_is_told_to_come_back(start: Start) -> None:
    """A request that was begun keeps its connection open, and then gets its answer."""
    server = start(**LONG_DRAIN)
    with Connection(server.address) as wire:
        assert wire.request("GET", "/v0/health").status == 200
        wire.send(b"GET /v0/topics HTTP/1.1\r\nHost: localhost\r\n")
        api_of(server).get("/v0/health")

        server.terminate()
        eventually(lambda: refuses_connections(server), "nobody new is let in")
        wire.send(b"\r\n")
        reply = wire.read_reply()

    refused(reply, 503, "shutting_down")
    assert int(reply.headers["retry-after"]) >= 1
    assert server.wait() == 0


def test_a_write_under_way_is_finished_or_refused_but_never_lost(start: Start) -> None:
    server = start(**LONG_DRAIN)
    body = compact({"records": [{"data": "half"}]}).encode()
    with Connection(server.address) as wire:
        start_ = {"Host": "localhost", "Content-Length": str(len(body))} | JSON
        wire.send(head("POST", "/v0/topics/t", start_) + body[:10])
        api_of(server).get("/v0/health")
        server.terminate()
        eventually(lambda: refuses_connections(server), "nobody new is let in")

        wire.send_what_it_takes(body[10:])
        status = 0
        with contextlib.suppress(Ended):
            status = wire.read_reply().status
    server.wait()
    server.start()

    assert status in (0, 201, 503)
    if status == 201:
        assert api_of(server).state("t")["count"] == 1
    if status == 503:
        assert api_of(server).get("/v0/topics/t").status == 404


def test_every_write_that_was_answered_before_the_end_is_there_after_it(start: Start) -> None:
    server = start(**LONG_DRAIN)
    api = api_of(server)
    api.create("t", durability="fsync")
    answered: list[int] = []

    def write_on() -> None:
        with contextlib.suppress(Ended, OSError), Connection(server.address) as wire:
            while True:
                number = len(answered)
                body = compact({"records": [{"data": number}]}).encode()
                reply = wire.request("POST", "/v0/topics/t", body, JSON)
                if reply.status != 200:
                    refused(reply, 503, "shutting_down")
                    return
                answered.append(number)

    with Later(write_on) as writer:
        eventually(lambda: len(answered) > 50, "some writes", MANY_SYNCS_S)
        server.terminate()
        assert server.wait() == 0
        writer.result()
    server.start()

    kept = [r["data"] for r in api_of(server).diff("t", limit=1000)["records"]]
    assert kept[:1000] == list(range(len(kept)))
    assert len(api_of(server).diff("t", limit=1000)["records"]) >= min(1000, len(answered))


def test_http2_connections_are_told_to_go_away(start: Start) -> None:
    server = start(**LONG_DRAIN)
    api = api_of(server)
    api.write("t", 1)
    wid = api.watch(["t"])["wid"]
    with Http2(server.address) as client:
        stream = client.start("GET", f"/v0/watch/{wid}", {"accept": "text/event-stream"})
        client.body_until(stream, b"event: caught-up")

        server.terminate()
        client.body_until(stream, b"server_shutting_down")
        assert client.finish(stream).status == 200

        assert server.wait() == 0
