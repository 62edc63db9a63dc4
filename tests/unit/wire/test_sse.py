"""Event-stream text: whatever is encoded is parsed back, in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.wire import sse
from penstock.wire.sse import Event, Parser

ONE_LINE = st.text(
    st.characters(blacklist_characters="\r\n\0", blacklist_categories=["Cs"]), max_size=10
)
EVENTS = st.tuples(ONE_LINE.filter(bool), st.binary(min_size=1, max_size=40), ONE_LINE)


def all_of(text: bytes, *, step: int) -> list[Event]:
    parser = Parser()
    return [
        event for at in range(0, len(text), step) for event in parser.feed(text[at : at + step])
    ]


@given(st.lists(EVENTS, max_size=6), st.integers(1, 7))
def test_what_is_encoded_is_parsed_back_in_pieces_of_any_size(
    events: list[tuple[str, bytes, str]], step: int
) -> None:
    text = b"".join(sse.encode_event(*event) for event in events)

    found = all_of(text, step=step)

    last_id = ""
    expected = []
    for name, data, id in events:
        last_id = id or last_id
        plain = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        expected.append(Event(plain, name, last_id))
    assert found == expected


def test_an_event_has_one_space_after_each_colon_and_a_blank_line_behind_it() -> None:
    assert sse.encode_event("record", b'{"a":1}', "abc") == (
        b'id: abc\nevent: record\ndata: {"a":1}\n\n'
    )
    assert sse.encode_event("x", b"1") == b"event: x\ndata: 1\n\n"
    assert sse.encode_comment("hb") == b": hb\n\n"
    assert sse.encode_retry(2000) == b"retry: 2000\n\n"


STREAM = (
    b"\xef\xbb\xbf: hello\r\nretry: 10\r\n\r\nevent: a\rdata: 1\rdata:2\r\r"
    b"id: 7\ndata\ndata:  x\n\nevent: empty\n\nid: no\0pe\ndata: y\n\nretry: soon\ndata: last"
)


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_all_line_ends_fields_and_oddities_of_the_format_are_understood(step: int) -> None:
    assert all_of(STREAM, step=step) == [
        Event(b"1\n2", "a", ""),
        Event(b"\n x", "message", "7"),
        Event(b"y", "message", "7"),
    ]


def test_the_stream_s_retry_is_kept() -> None:
    parser = Parser()

    parser.feed(STREAM)

    assert parser.retry_ms == 10


def test_any_bytes_are_parsed_in_one_piece_as_in_many() -> None:
    @given(st.binary(max_size=60))
    def check(text: bytes) -> None:
        marked = text.replace(b"x", b"\n").replace(b"y", b"data:")
        assert all_of(marked, step=1) == all_of(marked, step=1000)

    check()


@pytest.mark.parametrize("text", [b"x" * 101, b"data: " + b"x" * 101, b"data: xxxxxxxx\n" * 12])
def test_an_event_without_an_end_does_not_grow_for_ever(text: bytes) -> None:
    parser = Parser(event_bytes_max=100)

    def feed_all() -> None:
        for byte in text:
            parser.feed(bytes([byte]))

    with pytest.raises(InvalidArgument, match="more than 100 bytes"):
        feed_all()


@pytest.mark.parametrize(("event", "id"), [("a\nb", ""), ("a", "x\r"), ("a", "\0")])
def test_a_name_or_id_that_would_be_two_lines_is_refused(event: str, id: str) -> None:
    with pytest.raises(InvalidArgument):
        sse.encode_event(event, b"1", id)


def test_a_comment_that_would_be_two_lines_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        sse.encode_comment("a\nb")
