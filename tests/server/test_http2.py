"""HTTP/2 in clear text with prior knowledge, on the port that speaks HTTP/1.1 too."""

from __future__ import annotations

import json

import pytest

from tests.server.h2wire import Http2
from tests.server.support import Api, compact, refused
from tests.support.serving import Server

JSON2 = {"content-type": "application/json"}


@pytest.fixture
def client(shared: Server) -> Http2:
    with Http2(shared.address) as opened:
        yield opened


def test_requests_are_answered(client: Http2, topic: str) -> None:
    body = compact({"records": [{"data": 1}, {"data": 2}]}).encode()

    wrote = client.request("POST", f"/v0/topics/{topic}", JSON2, body)
    read = client.request("POST", f"/v0/topics/{topic}/diff", JSON2, b"{}")
    health = client.request("GET", "/v0/health")

    assert (wrote.status, wrote.json["last_seq"]) == (201, 2)
    assert [record["data"] for record in read.json["records"]] == [1, 2]
    assert read.headers["content-type"].startswith("application/json")
    assert health.json["status"] == "ok"


def test_both_versions_see_the_same(api: Api, client: Http2, topic: str) -> None:
    api.write(topic, "one")

    client.request("POST", f"/v0/topics/{topic}", JSON2, b'{"records":[{"data":"two"}]}')

    assert [record["data"] for record in api.diff(topic)["records"]] == ["one", "two"]


def test_refusals_are_the_same(client: Http2, topic: str) -> None:
    refused(client.request("GET", f"/v0/topics/{topic}"), 404, "topic_not_found", {"topic": topic})
    refused(client.request("GET", "/v0/nothing"), 404, "not_found")
    refused(client.request("PATCH", f"/v0/topics/{topic}"), 405, "method_not_allowed")
    plain = {"content-type": "text/plain"}
    refused(
        client.request("POST", f"/v0/topics/{topic}", plain, b"{}"), 415, "unsupported_media_type"
    )
    refused(client.request("POST", f"/v0/topics/{topic}", JSON2, b"{"), 400, "invalid_request")


def test_names_and_origins_are_checked_too(shared: Server) -> None:
    with Http2(shared.address) as client:
        client.authority = "evil.test"
        refused(client.request("GET", "/v0/health"), 421, "misdirected_request")
    with Http2(shared.address) as client:
        origin = {"origin": "http://evil.test"}
        refused(client.request("GET", "/v0/topics", origin), 403, "forbidden")


def test_streams_do_not_wait_for_one_another(api: Api, client: Http2, topic: str) -> None:
    api.create(topic)
    waiting = client.start("POST", f"/v0/topics/{topic}/diff", JSON2, b'{"wait_ms":30000}')
    quick = [client.start("GET", "/v0/health") for _ in range(20)]

    assert [client.finish(stream).status for stream in quick] == [200] * 20
    api.write(topic, "late")

    assert client.finish(waiting).json["records"][0]["data"] == "late"


def test_many_streams_at_once(client: Http2, topic: str) -> None:
    bodies = [compact({"records": [{"data": n}]}).encode() for n in range(100)]

    streams = [client.start("POST", f"/v0/topics/{topic}", JSON2, body) for body in bodies]
    seqs = sorted(client.finish(stream).json["last_seq"] for stream in streams)

    assert seqs == list(range(1, 101))


def test_bodies_larger_than_every_window_go_both_ways(client: Http2, topic: str) -> None:
    texts = ["x" * 900_000, "y" * 900_000, "z" * 900_000, "é" * 400_000]
    body = compact({"records": [{"data": text} for text in texts]}).encode()

    wrote = client.request("POST", f"/v0/topics/{topic}", JSON2, body)
    asked = compact({"max_batch_bytes": 8 << 20}).encode()
    read = client.request("POST", f"/v0/topics/{topic}/diff", JSON2, asked)

    assert wrote.status == 201
    assert [record["data"] for record in read.json["records"]] == texts


def test_a_body_over_the_limit_is_refused(client: Http2, topic: str) -> None:
    headers = JSON2 | {"content-length": str(65 << 20)}
    stream = client.start("POST", f"/v0/topics/{topic}", headers)  # says much, sends nothing

    reply = client.head(stream)

    assert reply.status in (400, 413)


def test_events_are_streamed(api: Api, client: Http2, topic: str) -> None:
    api.write(topic, "old")
    wid = api.watch([topic])["wid"]

    stream = client.start("GET", f"/v0/watch/{wid}", {"accept": "text/event-stream"})
    client.body_until(stream, b"event: caught-up")
    api.write(topic, "new")
    text = client.body_until(stream, b'"data":"new"')

    assert client.head(stream).headers["content-type"].startswith("text/event-stream")
    assert text.startswith(b"retry: 2000\n\n")
    assert text.count(b"event: record") == 2


def test_a_stream_given_up_by_the_client_harms_no_other(
    api: Api, client: Http2, topic: str
) -> None:
    api.create(topic)
    given_up = client.start("POST", f"/v0/topics/{topic}/diff", JSON2, b'{"wait_ms":30000}')
    client.connection.reset_stream(given_up)
    client.flush()

    assert client.request("GET", "/v0/health").status == 200
    api.write(topic, 1)
    read = client.request("POST", f"/v0/topics/{topic}/diff", JSON2, b"{}")
    assert len(read.json["records"]) == 1


def test_pings_are_answered(client: Http2) -> None:
    client.connection.ping(b"12345678")
    client.flush()

    assert client.request("GET", "/v0/health").status == 200


def test_headers_without_end_are_refused(shared: Server, api: Api) -> None:
    with Http2(shared.address) as client:
        huge = {f"x-{n}": "v" * 4000 for n in range(100)}
        try:
            status = client.request("GET", "/v0/health", huge).status
        except (AssertionError, ConnectionError):
            status = 431
    assert status == 431
    assert api.get("/v0/health").status == 200


def test_an_answer_is_compressed_for_who_wants_it(api: Api, client: Http2, topic: str) -> None:
    api.write(topic, *["word " * 100] * 20)

    headers = JSON2 | {"accept-encoding": "gzip"}
    reply = client.request("POST", f"/v0/topics/{topic}/diff", headers, b"{}")

    assert reply.headers["content-encoding"] == "gzip"
    assert len(reply.body) < 5000


@pytest.mark.parametrize(
    "frame",
    [
        b"\0\0\4" + b"\0\0" + b"\0\0\0\0" + b"data",  # of no stream
        b"\0\0\1" + b"\6\0" + b"\0\0\0\0" + b"p",  # a ping of one byte
        b"\0\0\4" + b"\1\4" + b"\0\0\0\5" + b"\xff" * 4,  # headers that cannot be decoded
    ],
)
def test_a_wrong_frame_ends_its_connection_only(shared: Server, api: Api, frame: bytes) -> None:
    with Http2(shared.address) as client:
        client.request("GET", "/v0/health")
        client.socket.sendall(frame)
        with pytest.raises((AssertionError, ConnectionError)):
            client.finish(1001)  # a stream that there is not: until the end
    assert api.get("/v0/health").status == 200
    with Http2(shared.address) as client:
        assert json.loads(client.request("GET", "/healthz").body)["status"] == "ok"
