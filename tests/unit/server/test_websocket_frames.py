"""The frame reader against the library's own parser: the same messages, the same refusals."""

from __future__ import annotations

import itertools
from collections import deque

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, SERVER, Protocol

from penstock.server.websocket_frames import WebSocketFrameReader, WholeMessage

BYTES_MAX = 300


def frame_of(opcode: int, data: bytes, fin: bool = True) -> bytes:
    """Masked with zeros. The library would refuse to build some of these."""
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return bytes([fin << 7 | opcode]) + length + bytes(4) + data


frames = st.builds(
    frame_of,
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.PONG]),
    st.binary(max_size=125) | st.binary(min_size=120, max_size=BYTES_MAX + 20),
    st.booleans(),
)
legal = st.builds(
    frame_of,
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.PING]),
    st.binary(max_size=125),
)
closes = st.just(frame_of(Opcode.CLOSE, b"\x03\xe8"))
streams = st.lists(legal | frames | closes | st.binary(min_size=1, max_size=20), max_size=8)


def read_by_library(data: bytes) -> tuple[list[Frame], Protocol]:
    protocol = Protocol(SERVER, state=OPEN, max_size=BYTES_MAX)
    protocol.receive_data(data)
    return [one for one in protocol.events_received() if isinstance(one, Frame)], protocol


def read_by_us(pieces: list[bytes]) -> tuple[list[Frame], Protocol]:
    protocol = Protocol(SERVER, state=OPEN, max_size=BYTES_MAX)
    reader = WebSocketFrameReader(protocol, BYTES_MAX)
    found: deque[WholeMessage | Frame] = deque()
    for piece in pieces:
        reader.feed(piece, found)
    return [_frame(one) for one in found], protocol


def _frame(one: WholeMessage | Frame) -> Frame:
    if isinstance(one, Frame):
        return Frame(one.opcode, bytes(one.data), one.fin)
    data, is_text = one
    return Frame(Opcode.TEXT if is_text else Opcode.BINARY, data)


@given(stream=streams, cuts=st.lists(st.integers(0, 400), max_size=6))
def test_whatever_comes_is_read_as_the_library_reads_it(
    stream: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(stream)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(places)]

    theirs, their_protocol = read_by_library(data)
    ours, our_protocol = read_by_us(pieces)

    assert ours == [Frame(one.opcode, bytes(one.data), one.fin) for one in theirs]
    assert type(our_protocol.parser_exc) is type(their_protocol.parser_exc)
    assert our_protocol.close_rcvd == their_protocol.close_rcvd
    assert our_protocol.close_sent == their_protocol.close_sent


def test_a_message_that_is_too_long_is_refused_by_its_header_alone() -> None:
    header = bytes([0x81, 0xFE]) + (BYTES_MAX + 1).to_bytes(2, "big") + b"mask"

    _, protocol = read_by_us([header])

    assert protocol.close_sent is not None
    assert protocol.close_sent.code == 1009


def test_an_incomplete_message_is_not_read_twice() -> None:
    whole = bytes(Frame(Opcode.TEXT, b"a" * 200).serialize(mask=True))

    ours, _ = read_by_us([whole[n : n + 1] for n in range(len(whole))])

    assert [one.data for one in ours] == [b"a" * 200]
