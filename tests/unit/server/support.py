"""A server without sockets: its log in memory, its peers scripted, its loop real.

Everything is put together as `penstock serve` does it, but for the listener. Requests come in
through a stand-in for an exchange, or as bytes through a stand-in for a transport.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec

from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.handle import Handle
from penstock.server.app import Server
from penstock.server.auth import ANYONE, ApiKey
from penstock.server.delivery_scheduler import DeliveryScheduler
from penstock.server.feeds import Feeds
from penstock.server.http.h1 import Http1Connection
from penstock.server.http.message import Request, Response
from penstock.server.loop_bridge import Bridge
from penstock.server.service import Service
from penstock.server.settings import ServerSettings
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import open_memory_log

P = ParamSpec("P")
PATIENCE_S = 120.0  # what must happen has happened by then, on however busy a machine
JSON_TYPE = {b"content-type": b"application/json"}


def on_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that runs on an event loop of its own, and not for ever."""

    @functools.wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE_S * 2):
                await test(*args, **named)

        asyncio.run(bounded())

    return run


async def until(is_so: Callable[[], object]) -> None:
    """Let the loop turn until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - what is waited for has no event to set
            await asyncio.sleep(0.0005)


async def settled(turns: int = 25) -> None:
    """Let everything run that is ready, and what that makes ready. Many turns: on a slow machine
    one turn serves one topic only."""
    for _ in range(turns):
        await asyncio.sleep(0)


# Requests without a connection.


class FakeStream:
    """An endless answer whose peer the test plays."""

    framing = 9

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.on_drain: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None
        self.is_full = False
        self.is_closed = False
        self.is_aborted = False

    def framed(self, data: bytes) -> bytes:
        return data

    def write(self, data: bytes) -> None:
        assert not self.is_closed, "written after its end"
        self.written.append(data)

    def buffered(self) -> int:
        return 0

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    @property
    def text(self) -> bytes:
        return b"".join(self.written)

    def drain(self) -> None:
        self.is_full = False
        assert self.on_drain is not None
        self.on_drain()


class FakeExchange:
    """Keeps what a handler answers."""

    def __init__(self) -> None:
        self.responses: list[Response] = []
        self.stream: FakeStream | None = None
        self.stream_headers: dict[bytes, bytes] = {}
        self.on_close: Callable[[], None] | None = None
        self.extra: tuple[tuple[bytes, bytes], ...] = ()

    def respond(self, response: Response) -> None:
        self.responses.append(response)

    def start_stream(self, headers: tuple[tuple[bytes, bytes], ...]) -> FakeStream:
        self.stream_headers = dict(headers)
        self.stream = FakeStream()
        return self.stream

    @property
    def is_answered(self) -> bool:
        return bool(self.responses) or self.stream is not None


class Answer:
    """A response, read."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.body = response.body
        self.content_type = response.content_type
        self.headers = dict(response.headers)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def detail(self) -> Any:
        return self.json["error"].get("detail")

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:200]!r}"


def request_of(
    method: str,
    target: str,
    body: object = None,
    *,
    token: str | None = None,
    headers: dict[bytes, bytes] | None = None,
    key: ApiKey = ANYONE,
    exchange: Any = None,
) -> Request:
    """A request as a connection would make it. A body that is no bytes is sent as JSON."""
    path, _, query = target.partition("?")
    found = {b"host": b"localhost"}
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        found |= JSON_TYPE
    if token is not None:
        found[b"authorization"] = b"Bearer " + token.encode()
    request = Request(method, path, query, found | (headers or {}), exchange or FakeExchange(), 0.0)
    request.body = body or b""
    request.key = key
    return request


class Site:
    """A whole server but for its listener."""

    def __init__(
        self, *, log: dict[str, Any] | None = None, is_recovered: bool = True, **settings: Any
    ) -> None:
        self.clock = FakeClock()
        self.fs = MemoryFilesystem()
        self.settings = ServerSettings(**settings)
        self.server = Server(
            "/nowhere", self.settings, Settings(), version="1.2.3", clock=self.clock
        )
        self.server.connection_limits.date = b"Thu, 01 Jan 1970 00:00:00 GMT"
        self.log = open_memory_log(self.fs, self.clock, **(log or {}))
        self.service.adopt(self.log.core)
        if is_recovered:
            self.server.readiness.finish_recovery()

    @property
    def service(self) -> Service:
        return self.server.service

    def handle(self, topic: str) -> Handle:
        found = self.log.core.catalogue.find(topic)
        assert found is not None
        return found

    def send(self, method: str, target: str, body: object = None, **given: Any) -> FakeExchange:
        exchange = FakeExchange()
        self.server.handle(request_of(method, target, body, exchange=exchange, **given))
        return exchange

    async def call(self, method: str, target: str, body: object = None, **given: Any) -> Answer:
        exchange = self.send(method, target, body, **given)
        await until(lambda: exchange.is_answered)
        assert len(exchange.responses) == 1
        return Answer(exchange.responses[0])

    async def stream(self, body: object, **given: Any) -> FakeStream:
        """Watch, and open the stream."""
        created = await self.call("POST", "/v0/watch", body, **given)
        assert created.status == 200, created
        return self.reopen(created.json["wid"], **given)

    def reopen(self, wid: str, **given: Any) -> FakeStream:
        exchange = self.send("GET", f"/v0/watch/{wid}", **given)
        assert exchange.stream is not None, exchange.responses
        return exchange.stream

    def connect(self, peer: str = "127.0.0.1") -> Wire:
        return Wire(Http1Connection(self.server), peer)

    async def close(self) -> None:
        await asyncio.to_thread(self.service.close)


@contextmanager
def watching(log: Log, topic: str) -> Iterator[list[int]]:
    """The heads that a listener of the topic sees."""
    handle = log.core.catalogue.find(topic)
    assert handle is not None
    heads: list[int] = []

    def listen() -> None:
        heads.append(handle.topic.head)

    handle.listen(listen)
    yield heads
    handle.unlisten(listen)


# Connections without sockets.


class FakeTransport(asyncio.Transport):
    """Keeps what is written. `stuck` bytes are those that the peer does not take."""

    def __init__(self, protocol: asyncio.Protocol, peer: str = "127.0.0.1") -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.stuck = 0
        self.is_reading_ = True
        self.is_aborted = False
        self.protocol: asyncio.BaseProtocol = protocol
        self._peer = peer
        self._is_closing = False
        self.limit = 0
        self.is_half_closed = False
        self.leaves = True  # the peer closes when it has read our end

    # What a protocol calls.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert type(data) is bytes
        if not self._is_closing:
            self.written.append(data)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._lost)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.is_half_closed = True
        if self.leaves:
            self.close()

    def abort(self) -> None:
        self.is_aborted = True
        self.close()

    def _lost(self) -> None:
        assert isinstance(self.protocol, asyncio.Protocol)
        self.protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._peer, 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limit = high or 0

    def get_write_buffer_size(self) -> int:
        return self.stuck

    def pause_reading(self) -> None:
        assert self.is_reading_
        self.is_reading_ = False

    def resume_reading(self) -> None:
        assert not self.is_reading_
        self.is_reading_ = True

    def is_reading(self) -> bool:
        return self.is_reading_


class Wire:
    """A peer at the other end of a protocol. Whoever is in charge gets the bytes."""

    def __init__(self, protocol: asyncio.Protocol, peer: str = "127.0.0.1") -> None:
        self.first = protocol
        self.transport = FakeTransport(protocol, peer)
        protocol.connection_made(self.transport)

    @property
    def protocol(self) -> Any:
        return self.transport.protocol

    def feed(self, data: bytes, size: int | None = None) -> None:
        """Send everything at once, or in pieces of `size` bytes."""
        for at in range(0, len(data), size or len(data) or 1):
            if self.transport.is_closing():
                return
            self.protocol.data_received(data[at : at + (size or len(data))])

    @property
    def sent(self) -> bytes:
        """All that the server has written."""
        return b"".join(self.transport.written)

    def take(self) -> bytes:
        """What the server wrote since the last look."""
        found = self.sent
        self.transport.written.clear()
        return found

    async def hears(self, text: bytes) -> None:
        await until(lambda: text in self.sent)

    async def ends(self) -> None:
        await until(lambda: self.transport.is_closing())


def post(path: str, body: object, **headers: str) -> bytes:
    """A POST as bytes."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(text)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + text


def get(path: str, *lines: str, version: str = "1.1", method: str = "GET") -> bytes:
    head = [f"{method} {path} HTTP/{version}", "Host: localhost", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n"


def answers_in(data: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """Whole HTTP/1.1 answers, in order: status, headers, body."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in rest)}
        status = int(first.split(" ")[1])
        size = int(headers.get("content-length", "0"))
        found.append((status, headers, data[:size]))
        data = data[size:]
    return found


async def finished(*works: Awaitable[Any]) -> list[Any]:
    return list(await asyncio.gather(*works))


def feeds_of(loop: asyncio.AbstractEventLoop) -> Feeds:
    """Feeds without a server around them."""
    delivery = DeliveryScheduler(loop, FakeClock(), lambda: (0, 0.0), lambda ladder: None)
    return Feeds(Bridge(loop), delivery, lambda handle: 0)
