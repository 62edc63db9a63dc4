"""QWP from the client's side: an encoder of messages, a reader of replies, a small client.

Written from the protocol's tables, and sharing nothing with the code under test.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from websockets.client import ClientProtocol
from websockets.protocol import OPEN
from websockets.sync.client import ClientConnection, connect
from websockets.uri import parse_uri

from tests.support.serving import DEADLINE_S, Address, eventually

BOOLEAN, BYTE, SHORT, INT, LONG, FLOAT, DOUBLE = range(1, 8)
SYMBOL, TIMESTAMP_US, DATE, UUID, LONG256, GEOHASH, VARCHAR = range(0x09, 0x10)
TIMESTAMP_NS, DOUBLES, LONGS, DECIMAL64, DECIMAL128, DECIMAL256, CHAR, BINARY, IPV4 = range(
    0x10, 0x19
)
DEFER, GORILLA, DELTA = 0x01, 0x04, 0x08
PLAIN = {
    BYTE: "b",
    SHORT: "h",
    INT: "i",
    LONG: "q",
    FLOAT: "f",
    DOUBLE: "d",
    TIMESTAMP_US: "q",
    TIMESTAMP_NS: "q",
    DATE: "q",
    CHAR: "H",
    IPV4: "I",
}
WIDE = {UUID: 16, LONG256: 32}
DECIMALS = {DECIMAL64: 8, DECIMAL128: 16, DECIMAL256: 32}


@dataclass
class Column:
    """Values as the wire has them: integers for most types, texts, bytes, (shape, elements).
    None is null and makes a bitmap; `detail` is the scale of decimals and the bits of
    geohashes; `own` are the symbols of a column that brings them."""

    name: str
    kind: int
    values: Sequence[Any]
    detail: int = 0
    own: Sequence[str] | None = None
    is_packed: bool = False  # timestamps: Gorilla
    has_encoding: bool = False  # timestamps: the message has the flag


@dataclass
class Block:
    """A table of a message."""

    name: str
    columns: Sequence[Column]
    rows: int | None = None
    count: int = field(init=False)

    def __post_init__(self) -> None:
        first = len(self.columns[0].values) if self.columns else 0
        self.count = first if self.rows is None else self.rows


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def text(value: str) -> bytes:
    data = value.encode()
    return varint(len(data)) + data


def bits(values: Sequence[bool]) -> bytes:
    packed = sum(1 << at for at, value in enumerate(values) if value)
    return packed.to_bytes((len(values) + 7) // 8, "little")


def column(one: Column) -> bytes:
    """The data of a column: its nulls and its values."""
    values = [value for value in one.values if value is not None]
    head = b"\0"
    if len(values) < len(one.values):
        head = b"\1" + bits([value is None for value in one.values])
    return head + _values(one, values)


def _values(one: Column, values: list[Any]) -> bytes:
    kind = one.kind
    if kind == BOOLEAN:
        return bits(values)
    if kind in PLAIN:
        plain = struct.pack(f"<{len(values)}{PLAIN[kind]}", *values)
        if one.is_packed:
            return b"\1" + gorilla(values)
        return b"\0" + plain if one.has_encoding else plain
    if kind in WIDE:
        return b"".join(value.to_bytes(WIDE[kind], "little") for value in values)
    if kind in DECIMALS:
        size = DECIMALS[kind]
        whole = [value.to_bytes(size, "little", signed=True) for value in values]
        return bytes([one.detail]) + b"".join(whole)
    if kind == GEOHASH:
        size = (one.detail + 7) // 8
        return varint(one.detail) + b"".join(value.to_bytes(size, "little") for value in values)
    if kind == SYMBOL:
        own = b"" if one.own is None else varint(len(one.own)) + b"".join(map(text, one.own))
        return own + b"".join(map(varint, values))
    if kind in (VARCHAR, BINARY):
        pieces = [value.encode() if kind == VARCHAR else value for value in values]
        ends = [0]
        for piece in pieces:
            ends.append(ends[-1] + len(piece))
        return struct.pack(f"<{len(ends)}I", *ends) + b"".join(pieces)
    code = "d" if kind == DOUBLES else "q"
    return b"".join(
        bytes([len(shape)])
        + struct.pack(f"<{len(shape)}i", *shape)
        + struct.pack(f"<{len(elements)}{code}", *elements)
        for shape, elements in values
    )


def gorilla(values: Sequence[int]) -> bytes:
    """Differences of differences, as a row of bits; the first bit is the lowest."""
    head = struct.pack(f"<{min(len(values), 2)}q", *values[:2])
    row: list[int] = []

    def put(number: int, width: int) -> None:
        row.extend(number >> at & 1 for at in range(width))

    for at in range(2, len(values)):
        change = values[at] - 2 * values[at - 1] + values[at - 2]
        if change == 0:
            row.append(0)
        elif -64 <= change <= 63:
            row += [1, 0]
            put(change, 7)
        elif -256 <= change <= 255:
            row += [1, 1, 0]
            put(change, 9)
        elif -2048 <= change <= 2047:
            row += [1, 1, 1, 0]
            put(change, 12)
        else:
            row += [1, 1, 1, 1]
            put(change, 32)
    return head + bits([bool(bit) for bit in row])


def block(one: Block) -> bytes:
    schema = b"".join(text(each.name) + bytes([each.kind]) for each in one.columns)
    data = b"".join(map(column, one.columns))
    return text(one.name) + varint(one.count) + varint(len(one.columns)) + schema + data


def message(
    *blocks: Block,
    flags: int = 0,
    symbols: tuple[int, Sequence[str]] | None = None,
    version: int = 1,
    magic: bytes = b"QWP1",
) -> bytes:
    payload = b""
    if symbols is not None:
        flags |= DELTA
        start, news = symbols
        payload = varint(start) + varint(len(news)) + b"".join(map(text, news))
    payload += b"".join(map(block, blocks))
    return struct.pack("<4sBBHI", magic, version, flags, len(blocks), len(payload)) + payload


def longs(table: str, *values: int, at: Sequence[int] | None = None) -> Block:
    """A table with one column `n`, with or without timestamps of its own."""
    timed = [] if at is None else [Column("", TIMESTAMP_NS, at)]
    return Block(table, [Column("n", LONG, values), *timed])


class Heard(NamedTuple):
    """A reply, whichever it is."""

    status: int
    seq: int
    tables: dict[str, int]
    reason: str


def heard(data: bytes) -> Heard:
    status = data[0]
    if status in (0, 2):
        at = 1
        seq = -1
        if status == 0:
            (seq,) = struct.unpack_from("<q", data, at)
            at += 8
        (count,) = struct.unpack_from("<H", data, at)
        at += 2
        tables = {}
        for _ in range(count):
            (size,) = struct.unpack_from("<H", data, at)
            name = data[at + 2 : at + 2 + size].decode()
            (tables[name],) = struct.unpack_from("<q", data, at + 2 + size)
            at += 10 + size
        assert at == len(data)
        return Heard(status, seq, tables, "")
    seq, size = struct.unpack_from("<qH", data, 1)
    assert len(data) == 11 + size
    return Heard(status, seq, {}, data[11:].decode())


class Client:
    """As small as it can be. A context manager."""

    def __init__(
        self,
        address: Address,
        path: str = "/api/v4/write",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        host, port = address
        self._opening = connect(
            f"ws://{host}:{port}{path}",
            additional_headers=dict(headers or {}),
            compression=None,
            proxy=None,
            max_size=None,
            user_agent_header=None,
            open_timeout=DEADLINE_S,
            ping_interval=None,  # a peer that was paused is not dead
        )
        self.connection: ClientConnection = self._opening.__enter__()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._opening.__exit__(None, None, None)

    def send(self, *blocks: Block, **options: Any) -> None:
        self.connection.send(message(*blocks, **options))

    def next(self, deadline_s: float = DEADLINE_S) -> Heard:
        data = self.connection.recv(timeout=deadline_s)
        assert isinstance(data, bytes), data
        return heard(data)

    def until(self, seq: int) -> Heard:
        """The OK that covers this message, with the tables of all OKs up to it."""
        tables: dict[str, int] = {}
        while True:
            found = self.next()
            if found.status == 2:
                continue
            assert found.status == 0, found
            tables |= found.tables
            if found.seq >= seq:
                return Heard(0, found.seq, tables, "")

    def ask(self, *blocks: Block, seq: int = 0, **options: Any) -> Heard:
        self.send(*blocks, **options)
        return self.until(seq)

    def is_silent(self, deadline_s: float = 0.3) -> bool:
        try:
            self.next(deadline_s)
        except TimeoutError:
            return True
        return False


class DeafClient:
    """Sends and never reads an answer, so that its machine resets the connection at the end, as
    when a client is killed. A context manager."""

    def __init__(self, address: Address, headers: Mapping[str, str] | None = None) -> None:
        host, port = address
        self._protocol = ClientProtocol(parse_uri(f"ws://{host}:{port}/api/v4/write"))
        request = self._protocol.connect()
        for name, value in (headers or {}).items():
            request.headers[name] = value
        self._link = socket.create_connection(address, DEADLINE_S)
        self._protocol.send_request(request)
        self._flush()
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self._link.recv(1)
        self._protocol.receive_data(answer)
        assert self._protocol.state is OPEN, answer

    def __enter__(self) -> DeafClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def send(self, *blocks: Block, **options: Any) -> None:
        self._protocol.send_binary(message(*blocks, **options))
        self._flush()

    def wait_for_ok(self, seq: int) -> None:
        """Until it is here, where nobody reads it."""
        wanted = struct.pack("<Bq", 0, seq)
        eventually(lambda: wanted in self._link.recv(1 << 16, socket.MSG_PEEK), f"the OK of {seq}")

    def _flush(self) -> None:
        for chunk in self._protocol.data_to_send():
            self._link.sendall(chunk)
