"""HTTP/1.1 without sockets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import http
from penstock.client.http import BadAnswer, HttpRequest, ResponseReader
from penstock.errors import InvalidArgument

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 201 Made\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
)
WITH_INTERIM = b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n" + PLAIN


def fed(*pieces: bytes, is_stream: bool = False) -> ResponseReader:
    reader = ResponseReader(1000, is_stream=is_stream)
    for piece in pieces:
        reader.feed(piece)
    return reader


def test_a_request_has_the_lines_that_the_protocol_asks_for() -> None:
    request = HttpRequest("POST", "/v0/x?y=1", {"A": "b"}, b"body")

    assert request.render("host:1") == (
        b"POST /v0/x?y=1 HTTP/1.1\r\nHost: host:1\r\nA: b\r\nContent-Length: 4\r\n\r\nbody"
    )
    assert b"Content-Length: 0" in HttpRequest("PUT", "/").render("h")
    assert b"Content-Length" not in HttpRequest("GET", "/").render("h")


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "ä", "\0"])
def test_a_header_that_would_be_more_than_one_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        HttpRequest("GET", "/", {"Authorization": value}).render("h")

    assert value not in str(caught.value)


def test_the_repr_of_a_request_has_no_headers() -> None:
    assert "secret" not in repr(HttpRequest("GET", "/", {"Authorization": "Bearer secret"}))


@pytest.mark.parametrize(("text", "status"), [(PLAIN, 200), (CHUNKED, 201), (WITH_INTERIM, 200)])
def test_an_answer_is_read_in_pieces_of_any_size(text: bytes, status: int) -> None:
    for step in (1, 2, 7, 1000):
        reader = fed(*(text[at : at + step] for at in range(0, len(text), step)))

        assert reader.is_done
        assert reader.is_reusable
        response = reader.response()
        assert (response.status, response.body) == (status, b"hello")
        assert ("x-a" in response.headers) == (text != CHUNKED)
        assert "x" not in response.headers


@pytest.mark.parametrize("text", [PLAIN, CHUNKED, WITH_INTERIM])
def test_an_answer_cut_anywhere_is_not_done(text: bytes) -> None:
    for size in range(len(text)):
        assert not fed(text[:size]).is_done


@given(st.integers(0, len(PLAIN) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(at: int, value: int) -> None:
    changed = bytes([*PLAIN[:at], value, *PLAIN[at + 1 :]])
    try:
        reader = fed(changed)
    except BadAnswer:
        return
    assert reader.status >= 0


def test_bytes_behind_an_answer_spoil_the_connection_and_not_the_answer() -> None:
    for extra in (b"garbage", PLAIN, b"HTTP/1.1 200"):
        reader = fed(PLAIN + extra)

        assert reader.is_done
        assert not reader.is_reusable
        assert reader.response().body == b"hello"


@pytest.mark.parametrize("line", [b"Connection: close\r\n", b""])
def test_a_connection_that_will_close_is_not_reusable(line: bytes) -> None:
    version = b"HTTP/1.1" if line else b"HTTP/1.0"

    reader = fed(version + b" 200 OK\r\n" + line + b"Content-Length: 0\r\n\r\n")

    assert reader.is_done
    assert not reader.is_reusable


def test_a_stream_is_taken_as_it_comes() -> None:
    reader = fed(b"HTTP/1.1 200 OK\r\n\r\nab", is_stream=True)

    assert reader.is_head_done
    assert not reader.is_done
    assert reader.pop_body() == b"ab"
    reader.feed(b"c")
    assert reader.pop_body() == b"c"
    assert reader.pop_body() == b""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"SSH-2.0-x\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nab", "neither a content-length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, "more than 1000"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000, "head of the answer"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000, "head of the answer"),
        (b"HTTP/1.1 100 C\r\n\r\n" * 5_000, "head of the answer"),
    ],
)
def test_what_no_server_should_send_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(BadAnswer, match=why):
        fed(*(text[at : at + 4096] for at in range(0, len(text), 4096)))


def test_an_answer_is_bounded_unless_told() -> None:
    assert http.BODY_BYTES_MAX == 64 * 1024 * 1024
