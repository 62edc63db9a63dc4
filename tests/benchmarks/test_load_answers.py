"""Answers are counted the same however the stream is cut, and a refusal is never counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.load_answers import (
    Answers,
    FrameAnswers,
    HttpAnswers,
    LineAnswers,
    Refused,
    SizedAnswers,
)


def http(body: bytes, name: bytes = b"Content-Length") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%b: %d\r\nX: y\r\n\r\n%b" % (name, len(body), body)


def frame(text: bytes, opcode: int = 1) -> bytes:
    size = len(text)
    if size < 126:
        head = bytes([size])
    elif size < 1 << 16:
        head = b"\x7e" + size.to_bytes(2, "big")
    else:
        head = b"\x7f" + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + head + text


HTTP = http(b"{}") + http(b"") + http(b"x" * 300, b"content-length") + http(b"{}")
LINES = b"$3\r\n1-1\r\n$3\r\n1-2\r\n$4\r\n1-10\r\n$4\r\n1-11\r\n"
SIZED = b"0123456789" * 4
FRAMES = frame(b"{}") + frame(b"x" * 300) + frame(b"y" * 70_000) + frame(b"{}")
STREAMS: list[tuple[Callable[[], Answers], bytes]] = [
    (HttpAnswers, HTTP),
    (lambda: LineAnswers(2), LINES),
    (lambda: SizedAnswers(10), SIZED),
    (FrameAnswers, FRAMES),
]


@pytest.mark.parametrize(("make", "stream"), STREAMS)
@given(data=st.data())
def test_four_answers_are_four_wherever_the_stream_is_cut(
    make: Callable[[], Answers], stream: bytes, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    answers = make()

    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    counts = [answers.feed(piece) for piece in pieces if piece]

    assert sum(counts) == 4


@pytest.mark.parametrize(("make", "stream"), STREAMS)
def test_an_answer_counts_when_its_last_byte_has_come(
    make: Callable[[], Answers], stream: bytes
) -> None:
    answers = make()

    counted = answers.feed(stream[:-1])

    assert counted == 3
    assert answers.feed(stream[-1:]) == 1


def test_an_answer_that_repeats_is_counted_by_its_head_alone() -> None:
    answers = HttpAnswers()

    counts = [answers.feed(http(b"{}")) for _ in range(3)]

    assert counts == [1, 1, 1]


def test_a_head_seen_before_does_not_hide_a_second_answer() -> None:
    answers = HttpAnswers()

    answers.feed(http(b"{}"))

    assert answers.feed(http(b"{}") * 2) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_an_http_refusal_is_told_apart(answer: bytes) -> None:
    with pytest.raises(Refused):
        HttpAnswers().feed(answer)


@pytest.mark.parametrize("said", [b"-ERR no\r\n", b"$3\r\n1-1\r\n-ERR no\r\n"])
def test_a_line_with_a_minus_is_a_refusal(said: bytes) -> None:
    with pytest.raises(Refused, match="ERR no"):
        LineAnswers(2).feed(said)


def test_an_id_cut_at_its_minus_is_no_refusal() -> None:
    answers = LineAnswers(2)

    answers.feed(b"$3\r\n1")

    assert answers.feed(b"-1\r\n") == 1


def test_an_error_inside_an_acknowledgement_is_a_refusal() -> None:
    with pytest.raises(Refused):
        LineAnswers(2, b'"error"').feed(b'MSG a 1 2\r\n{"error":{"code":503}}\r\n')


def test_a_ping_is_answered_and_not_counted() -> None:
    answers = LineAnswers(2)

    counted = answers.feed(b"PING\r\nMSG a 1 2\r\n{}\r\n")

    assert counted == 1
    assert answers.reply == b"PONG\r\n"


def test_a_sized_answer_that_begins_with_a_minus_is_a_refusal() -> None:
    with pytest.raises(Refused):
        SizedAnswers(10).feed(b"-ERR no\r\n")


def test_a_websocket_ping_is_answered_with_a_masked_pong() -> None:
    answers = FrameAnswers()

    counted = answers.feed(frame(b"hi", opcode=9) + frame(b"{}"))

    assert counted == 1
    assert answers.reply == b"\x8a\x82\0\0\0\0hi"


@pytest.mark.parametrize("said", [frame(b'{"op":"error","code":"x"}'), frame(b"\x03\xe8", 8)])
def test_an_error_or_a_close_is_a_refusal(said: bytes) -> None:
    with pytest.raises(Refused):
        FrameAnswers().feed(said)
