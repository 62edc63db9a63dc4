"""S13: bytes that two servers could read as different requests."""

from __future__ import annotations

import pytest

from tests.security.support import Http2Peer, say, statuses
from tests.server.support import Api
from tests.server.wire import Connection, head
from tests.support.serving import Server

HOST = b"Host: localhost\r\n"
GET = b"GET /v0/health HTTP/1.1\r\n" + HOST
POST = b"POST /v0/topics/smuggled HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
INNER = b"PUT /v0/topics/smuggled HTTP/1.1\r\n" + HOST + b"\r\n"  # what must never be run
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b'{"records":[{"data":1}]}'
CHUNK = b"%x\r\n%b\r\n" % (len(BODY), BODY)

LENGTHS = [
    b"5, 5",
    b"5,6",
    b"+5",
    b"-5",
    b"0x5",
    b"5e0",
    b"1_0",
    b"5 5",
    b"",
    b"five",
    b"99999999999999999999999999",
    b"5\x0b",
    b"\xb2",
]
CODINGS = [
    b"xchunked",
    b"chunked, identity",
    b"identity, chunked",
    b"chunked, chunked",
    b"gzip, chunked",
    b"gzip",
    b"identity",
    b'"chunked"',
    b"chunked;q=1",
    b"chunked\x0b",
    b"\x0bchunked",
    b"chunk",
    b"",
]
HEADS = {
    "a length and chunks": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": POST
    + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "the same length twice": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
    "two codings": POST
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a blank before the colon of a length": POST + b"Content-Length : 5\r\n\r\nabcde",
    "a blank before the colon of a coding": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n",
    "lines that end in a line feed": GET.replace(b"\r\n", b"\n") + b"\n",
    "one line that ends in a line feed": GET + b"X: y\nContent-Length: 5\r\n\r\nabcde",
    "one line that ends in a carriage return": GET + b"X: y\rContent-Length: 5\r\n\r\nabcde",
    "a carriage return in a value": GET + b"X: a\rb\r\n\r\n",
    "a zero byte in a value": GET + b"X: a\0b\r\n\r\n",
    "a zero byte in a name": GET + b"X\0Y: a\r\n\r\n",
    "a folded line": GET + b"X: a\r\n b\r\n\r\n",
    "a folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a folded length": POST + b"Content-Length:\r\n 5\r\n\r\nabcde",
    "a first line that is folded": b"GET /v0/health HTTP/1.1\r\n " + HOST + b"\r\n",
    "a line without a colon": GET + b"Content-Length\r\n\r\n",
    "a line without a name": GET + b": 5\r\n\r\n",
    "a tunnel": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel with a length": b"CONNECT localhost:80 HTTP/1.1\r\n"
    + HOST
    + b"Content-Length: %d\r\n\r\n" % len(INNER),
    "an upgrade with a length": GET
    + b"Connection: upgrade\r\nUpgrade: foo\r\nContent-Length: %d\r\n\r\n" % len(INNER),
    "an upgrade with chunks": POST
    + b"Connection: upgrade\r\nUpgrade: foo\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a WebSocket with a length": b"GET /v0/ws HTTP/1.1\r\n"
    + HOST
    + b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    + b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: %d\r\n\r\n" % len(INNER),
    "no version": b"GET /v0/health\r\n\r\n",
    "version 2.0 without its preface": b"GET /v0/health HTTP/2.0\r\n" + HOST + b"\r\n",
    "version 1.2": b"GET /v0/health HTTP/1.2\r\n" + HOST + b"\r\n",
    "a method in small letters": b"get /v0/health HTTP/1.1\r\n" + HOST + b"\r\n",
    "tabs in the first line": b"GET\t/v0/health\tHTTP/1.1\r\n" + HOST + b"\r\n",
    "a zero byte in the target": b"GET /v0/health\0 HTTP/1.1\r\n" + HOST + b"\r\n",
}
CHUNKS = {
    "a size that ends in a line feed": CHUNK.replace(b"\r\n", b"\n", 1) + b"0\r\n\r\n",
    "an extension that ends in a line feed": CHUNK.replace(b"\r\n", b";a=b\n", 1) + b"0\r\n\r\n",
    "data that end in a line feed": CHUNK[:-2] + b"\n0\r\n\r\n",
    "data without an end": CHUNK[:-2] + b"0\r\n\r\n",
    "a size too small": b"1\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a negative size": b"-1\r\nx\r\n0\r\n\r\n",
    "a size as in C": b"0x1\r\nx\r\n0\r\n\r\n",
    "a blank behind the size": b"1 \r\nx\r\n0\r\n\r\n",
    "a size that overflows": b"10000000000000001\r\nx\r\n0\r\n\r\n",
    "no size": b"\r\nx\r\n0\r\n\r\n",
    "a size that is no number": b"zz\r\nx\r\n0\r\n\r\n",
    "an extension of 300 KB": b"1;" + b"x" * 300_000,
    "a length as a trailer": CHUNK + b"0\r\nContent-Length: 5\r\n\r\n",
    "trailers without end": CHUNK + b"0\r\n" + b"X-Trailer: %b\r\n" % (b"x" * 1000) * 300,
}
CORPUS = (
    HEADS
    | {f"length {text!r}": POST + b"Content-Length: %b\r\n\r\nabcde" % text for text in LENGTHS}
    | {
        f"coding {text!r}": POST + b"Transfer-Encoding: %b\r\n\r\n0\r\n\r\n" % text
        for text in CODINGS
    }
    | {f"chunk: {name}": CHUNKED + chunks for name, chunks in CHUNKS.items()}
)


@pytest.mark.parametrize("attack", CORPUS.values(), ids=CORPUS.keys())
def test_what_can_be_read_in_two_ways_is_refused_and_ends_the_connection(
    shared: Server, api: Api, attack: bytes
) -> None:
    """S13: one refusal, the connection ends, and what came behind is never a request."""
    answer = say(shared.address, attack + INNER)

    assert len(statuses(answer)) <= 1
    assert set(statuses(answer)) <= {400, 431, 501}
    assert api.get("/v0/topics/smuggled").status == 404


# Its version is looked at in the first request of a connection only, and then it ends with that.
BEHIND = {name: attack for name, attack in CORPUS.items() if not name.startswith("version 2")}


@pytest.mark.parametrize("attack", BEHIND.values(), ids=BEHIND.keys())
def test_it_is_refused_behind_a_good_request_too(shared: Server, api: Api, attack: bytes) -> None:
    """S13: a connection is not trusted for having begun well."""
    answer = say(shared.address, GET + b"\r\n" + attack + INNER)

    assert statuses(answer)[0] == 200
    assert len(statuses(answer)) <= 2
    assert set(statuses(answer)[1:]) <= {400, 431, 501}
    assert api.get("/v0/topics/smuggled").status == 404


@pytest.mark.parametrize(
    "header", [("transfer-encoding", "chunked"), ("connection", "close"), ("upgrade", "h2c")]
)
def test_headers_of_one_connection_are_refused_in_http2(
    shared: Server, api: Api, header: tuple[str, str]
) -> None:
    """S13: they would mean something else to a server behind this one."""
    with Http2Peer(shared.address) as peer:
        peer.h2.config.normalize_outbound_headers = False  # which would leave them out
        kind = ("content-type", "application/json")
        stream = peer.begin("POST", "/v0/topics/smuggled", kind, header)
        peer.h2.send_data(stream, BODY, end_stream=True)
        peer.flush()
        assert peer.outcome(stream) in (400, 0)
    assert api.get("/v0/topics/smuggled").status == 404


LAST = b"GET /v0/nothing HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
ONE_REQUEST = {
    "a GET with a body": GET + b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER,
    "a GET with chunks": GET
    + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER),
    "an upgrade that nobody offers": GET + b"Connection: upgrade\r\nUpgrade: foo\r\n\r\n",
    "a coding in capitals": GET + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n",
    "a coding behind a tab": GET + b"Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
    "a length behind many blanks": GET + b"Content-Length:     0     \r\n\r\n",
    "a small extension": GET + b"Transfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\n\r\n",
    "a trailer that looks like a header": GET
    + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nHost: evil.test\r\n\r\n",
}


@pytest.mark.parametrize("request_", ONE_REQUEST.values(), ids=ONE_REQUEST.keys())
def test_what_has_one_meaning_is_one_request(shared: Server, api: Api, request_: bytes) -> None:
    """S13: a body is never a request, and the next request is found where it begins."""
    answer = say(shared.address, request_ + LAST)

    assert statuses(answer) == [200, 404]
    assert api.get("/v0/topics/smuggled").status == 404


def test_answers_leave_in_the_order_of_their_requests_also_before_a_stream(
    api: Api, topic: str
) -> None:
    """S13: a stream asked for behind a slow request says nothing before its turn."""
    api.create(topic)
    wid = api.watch([topic])["wid"]
    body = b'{"wait_ms":300}'

    with Connection(api.address) as wire:
        wire.send_request(
            "POST", f"/v0/topics/{topic}/diff", body, {"Content-Type": "application/json"}
        )
        wire.send_request("GET", f"/v0/watch/{wid}")

        assert wire.read_reply().json["topic"] == topic
        assert wire.read_head().headers["content-type"] == "text/event-stream"
        assert wire.read_chunk() == b"retry: 2000\n\n"


def test_a_socket_is_not_opened_before_the_answers_that_are_due(api: Api, topic: str) -> None:
    """S13: an upgrade that overtakes an answer would leave the peer with bytes of two protocols."""
    api.create(topic)
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    body = b'{"wait_ms":300}'

    with Connection(api.address) as wire:
        wire.send_request(
            "POST", f"/v0/topics/{topic}/diff", body, {"Content-Type": "application/json"}
        )
        wire.send_request("GET", "/v0/ws", headers=handshake)

        assert wire.read_reply().status == 200
        assert wire.read_reply().status == 400


def test_what_comes_with_a_stream_is_not_run(api: Api, topic: str) -> None:
    """S13: nothing behind an endless answer can be answered, so nothing of it is done."""
    api.create(topic)
    wid = api.watch([topic])["wid"]

    with Connection(api.address) as wire:
        wire.send(head("GET", f"/v0/watch/{wid}", {"Host": "localhost"}) + INNER)
        assert wire.read_head().status == 200
        assert wire.read_chunk()
        api.write(topic, 1)
        while b"event: record" not in wire.read_chunk():
            continue

    assert api.get("/v0/topics/smuggled").status == 404
