"""Event-stream text: whatever is encoded is parsed back, in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument
from penstock.wire.sse import Event, Parser
from tests.support.wire_texts import event_text

ONE_LINE = st.text(
    st.characters(blacklist_characters="\r\n\0", blacklist_categories=["Cs"]), max_size=10
)
DATA = st.lists(st.binary(max_size=9).filter(lambda line: not set(b"\r\n") & set(line)), min_size=1)
EVENTS = st.tuples(ONE_LINE.filter(bool), DATA.map(b"\n".join), ONE_LINE)


def all_of(text: bytes, *, step: int) -> list[Event]:
    parser = Parser()
    return [
        event for at in range(0, len(text), step) for event in parser.feed(text[at : at + step])
    ]


@given(st.lists(EVENTS, max_size=6), st.integers(1, 7))
def test_what_is_encoded_is_parsed_back_in_pieces_of_any_size(
    events: list[tuple[str, bytes, str]], step: int
) -> None:
    text = b"".join(event_text(*event) for event in events)

    found = all_of(text, step=step)

    last_id = ""
    expected = []
    for name, data, id in events:
        last_id = id or last_id
        plain = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        expected.append(Event(plain, name, last_id))
    assert found == expected


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
